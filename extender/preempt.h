/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "common/buf.h"

/**
 * Answers a preemption request (ExtenderPreemptionArgs): every node and victim that it names, none
 * else and none less, in the form with UIDs. kwatt has no opinion on victims; victim lists may be
 * empty (since Kubernetes 1.38 they are).
 * @param ret_why static text for the caller, set on failure.
 * @return 0; -EBADMSG malformed or of wrong types; -ENOMEM. After a failure `out` holds nothing of
 * use.
 */
int ext_preempt_answer(const char *body, size_t len, struct kw_buf *out, const char **ret_why);
