/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/advice.h"
#include "api/node_view.h"

/*
 * The JSON document that `kwatt up --json` and `kwatt top --json` print:
 *   version, duration_s, node, meter, estimated, method, accounting, quality[],
 *   totals {measured_uj, idle_uj, pods_uj, system_uj, unattributed_uj}, conservation_error_uj,
 * departed_uj, workloads [{kind, id, name, namespace, cgroup, running, cpu_s, active_uj, watts,
 * memory_bytes, containers, advice}] Workloads are sorted by active_uj, the largest first; `system`
 * is in the totals, not among them. watts is the mean over the duration (top: the present EWMA).
 * quality and estimated are of all windows since the epoch began, as the energies are.
 */
struct kw_report {
    const char *version;
    double
        duration_s; /**< length of the observation; <= 0: not given, watts are the present ones */
    const struct kw_node_view *view;
    const struct kw_advice *advices; /**< in any order; matched by workload id */
    size_t n_advices;
};

/** @param ret JSON text with a final newline, indented for people; caller frees. @return 0;
 * -ENOMEM; -EINVAL where the view breaks the rules of its encoders. */
int kw_report_encode(const struct kw_report *report, char **ret, size_t *ret_len);
