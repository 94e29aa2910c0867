/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/node_view.h"
#include "cli/origin.h"
#include "common/buf.h"

/** What is asked for. */
struct cli_explain_pod {
    const char *pod;  /**< NAMESPACE/NAME, a name, or the id of any workload */
    const char *node; /**< with Redis, where it runs; NULL: all are looked through */
    bool json;
};

/**
 * Looks a workload up by its id, its name, or its namespace and name. One that runs goes before
 * those that ended, and of these the last.
 * @return NULL: there is none. @param ret_others how many more that run have the name.
 */
const struct kw_pod_record *cli_explain_pod_find(const struct kw_node_view *view, const char *pod,
                                                 size_t *ret_others);

/** What was found in the views of several nodes. Zeros: nothing. */
struct cli_explain_found {
    struct kw_node_view view;        /**< of its node; owned */
    const struct kw_pod_record *pod; /**< one of the view's; NULL: none yet */
    size_t running;                  /**< how many that run have the name */
};

/** Takes over another node's view, where what it has goes before what was found so far, by the
 * order of cli_explain_pod_find. @param view left zeroed where it was taken. */
void cli_explain_pod_merge(struct cli_explain_found *found, struct kw_node_view *view,
                           const char *pod);
void cli_explain_found_clear(struct cli_explain_found *found);

/** Writes for people where a workload's watts come from. @param pod one of the view's. */
void cli_explain_pod_text(struct kw_buf *out, const struct kw_node_view *view,
                          const struct kw_pod_record *pod);

/** Reads, finds, and appends the answer. @return 0 or -errno with the cause. */
int cli_explain_pod(const struct cli_io *io, const struct cli_origin_choice *choice,
                    const struct cli_explain_pod *asked, struct kw_buf *answer, struct kw_err *err);
