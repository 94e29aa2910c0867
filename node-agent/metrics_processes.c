/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As many series as were asked for, whatever runs: the processes that draw most. What the others
 * drew is in one number, and what ended ones did in another, so that all of them together are what
 * workloads and the system drew.
 */
#include <stdio.h>

#include "node-agent/metrics_labels.h"

enum figure { JOULES, WATTS, SECONDS };

/** @param zone NULL: the family has none. */
static const struct kw_label *labels_of(struct agent_labels *labels,
                                        const struct agent_metrics_input *input,
                                        const struct agent_process_row *process, char pid[16],
                                        const char *zone)
{
    bool vm = process->owner != NULL &&
              agent_names_kind(process->names, process->owner->kind) == KW_WORKLOAD_VM;
    const char *uuid = process->names != NULL ? process->names->uuid : "";
    const char *type = process->container != NULL ? "container" : "regular";

    *labels = (struct agent_labels){0};
    (void)snprintf(pid, 16, "%d", (int)process->pid);
    agent_labels_put(labels, "pid", pid);
    agent_labels_put(labels, "comm", process->text != NULL ? process->text->comm : "");
    agent_labels_put(labels, "exe", process->text != NULL ? process->text->exe : "");
    agent_labels_put(labels, "type", vm ? "vm" : type);
    if (zone != NULL)
        agent_labels_put(labels, "state", "running");
    agent_labels_put(labels, "container_id",
                     process->container != NULL ? process->container->id : "");
    agent_labels_put(labels, "vm_id", vm ? (uuid[0] != '\0' ? uuid : process->owner->id) : "");
    /* Kepler has none; what has none here is the system's */
    agent_labels_put(labels, "cgroup", process->owner != NULL ? process->owner->cgroup : "");
    if (zone != NULL)
        agent_labels_put(labels, "zone", zone);
    return agent_labels_seal(labels, input);
}

static void write_figure(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                         enum figure figure, bool has_dram)
{
    for (size_t i = 0; i < input->snapshot->n_processes; i++) {
        const struct agent_process_row *process = &input->snapshot->processes[i];
        struct agent_labels labels;
        char pid[16];
        for (unsigned zone = 0; figure != SECONDS && zone < (has_dram ? 2U : 1U); zone++) {
            const struct kw_label *items =
                labels_of(&labels, input, process, pid, agent_zone_names[zone]);
            if (figure == JOULES)
                kw_metrics_scaled(page, items, zone == 0 ? process->cpu_uj : process->dram_uj, 6);
            else
                kw_metrics_scaled(page, items, zone == 0 ? process->cpu_mw : process->dram_mw, 3);
        }
        if (figure == SECONDS)
            kw_metrics_scaled(page, labels_of(&labels, input, process, pid, NULL), process->cpu_ns,
                              9);
    }
}

static void write_rest(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                       const uint64_t uj[2], bool has_dram)
{
    for (unsigned zone = 0; zone < (has_dram ? 2U : 1U); zone++) {
        struct agent_labels labels = {0};
        agent_labels_put(&labels, "zone", agent_zone_names[zone]);
        kw_metrics_scaled(page, agent_labels_seal(&labels, input), uj[zone], 6);
    }
}

void agent_metrics_processes(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                             bool has_dram)
{
    const struct agent_snapshot *snapshot = input->snapshot;
    struct agent_labels labels = {0};

    if (!snapshot->has_processes)
        return;
    kw_metrics_family(page, "kepler_process_cpu_joules_total", KW_METRIC_COUNTER,
                      "Energy above idle that the process drew from a zone, in joules.");
    write_figure(page, input, JOULES, has_dram);
    kw_metrics_family(page, "kepler_process_cpu_watts", KW_METRIC_GAUGE,
                      "Mean power above idle of the process in a zone since the sample before, in "
                      "watts.");
    write_figure(page, input, WATTS, has_dram);
    kw_metrics_family(page, "kepler_process_cpu_seconds_total", KW_METRIC_COUNTER,
                      "CPU time of the process since it was first seen, in seconds.");
    write_figure(page, input, SECONDS, has_dram);
    kw_metrics_family(page, "kwatt_processes_unlisted_joules", KW_METRIC_GAUGE,
                      "Energy above idle that processes drew which run and are not listed, in "
                      "joules.");
    write_rest(page, input, snapshot->unlisted_uj, has_dram);
    kw_metrics_family(page, "kwatt_processes_ended_joules_total", KW_METRIC_COUNTER,
                      "Energy above idle that processes drew which ended or were not seen, in "
                      "joules.");
    write_rest(page, input, snapshot->ended_uj, has_dram);
    kw_metrics_family(page, "kwatt_processes", KW_METRIC_GAUGE, "Processes that run.");
    kw_metrics_u64(page, agent_labels_seal(&labels, input), snapshot->processes_seen);
}
