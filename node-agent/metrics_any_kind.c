/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/metrics_labels.h"

void agent_labels_put(struct agent_labels *labels, const char *name, const char *value)
{
    if (labels->n < AGENT_LABELS_MAX - 1)
        labels->items[labels->n++] = (struct kw_label){name, value};
}

const struct kw_label *agent_labels_seal(struct agent_labels *labels,
                                         const struct agent_metrics_input *input)
{
    agent_labels_put(labels, "node_name", input->info->node);
    labels->items[labels->n] = (struct kw_label){NULL, NULL};
    return labels->items;
}

void agent_labels_put_id(struct agent_labels *labels, const struct agent_row *row)
{
    enum kw_workload_kind kind = agent_names_kind(row->names, row->label->kind);

    agent_labels_put(labels, "kind", kw_workload_kind_names[kind]);
    agent_labels_put(labels, "id", row->label->id);
    agent_labels_put(labels, "name", row->names != NULL ? row->names->name : row->label->name);
    agent_labels_put(labels, "namespace", row->names != NULL ? row->names->namespace_ : "");
}

static void write_responses(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    static const char *const classes[AGENT_REQUESTS_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
    bool started = false;

    for (size_t i = 0; i < input->snapshot->n_rows; i++) {
        const struct agent_row *row = &input->snapshot->rows[i];
        for (unsigned k = 0; k < AGENT_REQUESTS_CLASSES; k++) {
            struct agent_labels labels = {0};
            if (row->responses[k] == 0)
                continue;
            if (!started)
                kw_metrics_family(page, "kwatt_workload_responses_total", KW_METRIC_COUNTER,
                                  "HTTP/1 answers of the workload, by class of status.");
            started = true;
            agent_labels_put_id(&labels, row);
            agent_labels_put(&labels, "class", classes[k]);
            kw_metrics_u64(page, agent_labels_seal(&labels, input), row->responses[k]);
        }
    }
}

/** Requests, of workloads that answered any: most never do. */
static void write_requests(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    bool started = false;

    for (size_t i = 0; i < input->snapshot->n_rows; i++) {
        const struct agent_row *row = &input->snapshot->rows[i];
        struct agent_labels labels = {0};
        if (row->requests == 0)
            continue;
        if (!started)
            kw_metrics_family(page, "kwatt_workload_requests_total", KW_METRIC_COUNTER,
                              "Requests that the workload answered, in the unit given.");
        started = true;
        agent_labels_put_id(&labels, row);
        agent_labels_put(&labels, "unit", AGENT_REQUESTS_UNIT);
        kw_metrics_u64(page, agent_labels_seal(&labels, input), row->requests);
    }
}

/** Idle energy by the policy. */
static void write_idle(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    bool started = false;

    for (size_t i = 0; i < input->snapshot->n_rows; i++) {
        const struct agent_row *row = &input->snapshot->rows[i];
        struct agent_labels labels = {0};
        if (row->idle_uj == 0)
            continue;
        if (!started)
            kw_metrics_family(page, "kwatt_workload_idle_joules_total", KW_METRIC_COUNTER,
                              "Idle energy of the node that the policy gives the workload, in "
                              "joules; not part of what it drew.");
        started = true;
        agent_labels_put_id(&labels, row);
        agent_labels_put(&labels, "policy", input->snapshot->sample.idle_policy);
        kw_metrics_scaled(page, agent_labels_seal(&labels, input), row->idle_uj, 6);
    }
}

/** Images of containers that are known by name, beside Kepler's families, whose labels stay as they
 * are. */
static void write_containers(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    bool started = false;

    for (size_t i = 0; i < input->snapshot->n_rows; i++) {
        const struct agent_row *row = &input->snapshot->rows[i];
        struct agent_labels labels = {0};
        if (row->label->kind != KW_WORKLOAD_CONTAINER || row->names == NULL)
            continue;
        if (!started)
            kw_metrics_family(page, "kwatt_container_info", KW_METRIC_GAUGE,
                              "Containers outside of Kubernetes whose name is known.");
        started = true;
        agent_labels_put(&labels, "container_id", row->label->id);
        agent_labels_put(&labels, "container_name", row->names->name);
        agent_labels_put(&labels, "image", row->names->image);
        agent_labels_put(&labels, "runtime", row->label->runtime);
        kw_metrics_u64(page, agent_labels_seal(&labels, input), 1);
    }
}

void agent_metrics_any_kind(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    write_requests(page, input);
    write_responses(page, input);
    write_idle(page, input);
    write_containers(page, input);
}
