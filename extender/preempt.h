/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/extender.h"
#include "common/buf.h"
#include "common/json_scan.h"

/** Which nodes of a preemption request are answered. */
struct ext_preempt_gate {
    /** @param pod the one that is to be placed. @param node key of the map, as received. @param
     * any_victims its list of victims is not empty. */
    bool (*keeps)(void *user, const struct kw_extender_pod *pod, const struct kw_json_token *node,
                  bool any_victims);
    void *user;
};

/**
 * Answers a preemption request (ExtenderPreemptionArgs): every node that the gate keeps, and every
 * victim that the request names there, none else and none less, in the form with UIDs. kwatt has no
 * opinion on victims; victim lists may be empty (since Kubernetes 1.38 they are).
 * @param gate NULL: every node. @param ret_why static text for the caller, set on failure.
 * @return 0; -EBADMSG malformed or of wrong types; -ENOMEM. After a failure `out` holds nothing of
 * use.
 */
int ext_preempt_answer(const char *body, size_t len, const struct ext_preempt_gate *gate,
                       struct kw_buf *out, const char **ret_why);
