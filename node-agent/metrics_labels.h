/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/metrics.h"
#include "node-agent/metrics_page.h"

/*
 * Parts of the page of node-agent/metrics_page.c, for that file and the one beside it only.
 */

#define AGENT_LABELS_MAX 12

/** Labels of one sample, node_name always last. Zeros: none yet. */
struct agent_labels {
    struct kw_label items[AGENT_LABELS_MAX];
    unsigned n;
};

/** Adds a label; what does not fit is left out. Texts stay the caller's. */
void agent_labels_put(struct agent_labels *labels, const char *name, const char *value);

/** Adds the labels of families that hold workloads of every kind. */
void agent_labels_put_id(struct agent_labels *labels, const struct agent_row *row);

/** Adds node_name and ends the list. @return it, within `labels`. */
const struct kw_label *agent_labels_seal(struct agent_labels *labels,
                                         const struct agent_metrics_input *input);

/** Names of an energy's two zones: "package", "dram". */
extern const char *const agent_zone_names[2];

/** Processes, where they were looked at. */
void agent_metrics_processes(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                             bool has_dram);

/** Families that hold workloads of every kind: requests, responses, idle energy by the policy; and
 * the images of containers. Of each, workloads that have any. */
void agent_metrics_any_kind(struct kw_metrics_page *page, const struct agent_metrics_input *input);

/** What kwatt explain --pod tells of a workload, of all of them. */
void agent_metrics_explain(struct kw_metrics_page *page, const struct agent_metrics_input *input);
