/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/advice.h"
#include "api/node_view.h"

/*
 * What the tables show, worked out of node views. Pure. Rates are differences of the cumulative
 * counters of two views of one epoch, so that the parts of a line add up; without an earlier view
 * they are means since the counters began.
 */

enum cli_sort {
    CLI_SORT_WATTS,
    CLI_SORT_CPU,
    CLI_SORT_MEMORY,
    CLI_SORT_JOULES,
    CLI_SORT_NAME,
    CLI_SORT__MAX
};

/** "watts", "cpu", "memory", "joules", "name", NULL: choices of --sort; index is enum cli_sort. */
extern const char *const cli_sort_names[CLI_SORT__MAX + 1];

/** One workload. Texts are borrowed from the view. */
struct cli_row {
    const char *name;
    const char *namespace_;
    const char *image; /**< of a container outside Kubernetes; "" or NULL: unknown */
    const char *kind;
    const char *id;
    bool running;
    bool has_advice;
    uint64_t used_mcpu;
    uint64_t active_mw;
    uint64_t active_uj;
    uint64_t memory_bytes;
    uint64_t advice_mcpu;  /**< sum over containers of the recommended CPU */
    uint64_t advice_bytes; /**< and memory */
};

/** The node's line. Texts are borrowed from the view. */
struct cli_summary {
    const char *node, *meter, *method, *accounting;
    bool estimated;
    uint64_t measured_mw, idle_mw, pods_mw, system_mw, unattributed_mw;
    uint64_t used_mcpu, allocatable_mcpu;
    uint64_t measured_uj; /**< since the epoch began */
};

/** Whether `before` can be subtracted from `view`: same node and epoch, and earlier. `before` may
 * be NULL. */
bool cli_rows_comparable(const struct kw_node_view *view, const struct kw_node_view *before);

/** @param before an earlier view or NULL. */
struct cli_summary cli_summary_make(const struct kw_node_view *view,
                                    const struct kw_node_view *before);

/**
 * Rows in the view's order. An ended workload that drew less than a joule is left out;
 * the system is added, a row for each of its parts where the agent tells them.
 * @param ret caller frees. @return 0 or -ENOMEM.
 */
int cli_rows_make(const struct kw_node_view *view, const struct kw_node_view *before,
                  const struct kw_advice *advices, size_t n_advices, struct cli_row **ret,
                  size_t *ret_n);

/** Largest first (names: ascending); equal ones by name and id. */
void cli_rows_sort(struct cli_row *rows, size_t n, enum cli_sort sort);
