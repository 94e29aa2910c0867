/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/node_snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

struct agent_snapshot_pool {
    struct agent_snapshot *free;
};

int agent_snapshot_pool_new(struct agent_snapshot_pool **ret)
{
    struct agent_snapshot_pool *pool = calloc(1, sizeof(*pool));

    if (pool == NULL)
        return -ENOMEM;
    *ret = pool;
    return 0;
}

void agent_snapshot_pool_free(struct agent_snapshot_pool **pool)
{
    struct agent_snapshot_pool *owned = KW_TAKE_PTR(*pool);

    if (owned == NULL)
        return;
    while (owned->free != NULL) {
        struct agent_snapshot *snapshot = owned->free;
        owned->free = snapshot->next;
        free(snapshot->rows);
        free(snapshot->containers);
        free(snapshot->processes);
        free(snapshot);
    }
    free(owned);
}

int agent_snapshot_take(struct agent_snapshot_pool *pool, struct agent_snapshot **ret)
{
    struct agent_snapshot *snapshot = pool->free;

    if (snapshot != NULL) {
        pool->free = snapshot->next;
    } else {
        snapshot = calloc(1, sizeof(*snapshot));
        if (snapshot == NULL)
            return -ENOMEM;
        snapshot->pool = pool;
    }
    snapshot->next = NULL;
    *ret = snapshot;
    return 0;
}

void agent_snapshot_recycle(void *value)
{
    struct agent_snapshot *snapshot = value;

    for (size_t i = 0; i < snapshot->n_rows; i++) {
        agent_label_unref(&snapshot->rows[i].label);
        agent_names_unref(&snapshot->rows[i].names);
    }
    for (size_t i = 0; i < snapshot->n_containers; i++) {
        agent_label_unref(&snapshot->containers[i].label);
        agent_names_unref(&snapshot->containers[i].names);
    }
    for (size_t i = 0; i < snapshot->n_processes; i++) {
        agent_process_text_unref(&snapshot->processes[i].text);
        agent_label_unref(&snapshot->processes[i].owner);
        agent_label_unref(&snapshot->processes[i].container);
        agent_names_unref(&snapshot->processes[i].names);
    }
    snapshot->n_rows = 0;
    snapshot->n_containers = 0;
    snapshot->n_processes = 0;
    snapshot->has_processes = false;
    snapshot->next = snapshot->pool->free;
    snapshot->pool->free = snapshot;
}

static int reserve(void **items, size_t *cap, size_t needed, size_t size)
{
    if (needed <= *cap)
        return 0;
    /* a little more than needed: pods come one by one */
    size_t room = needed + needed / 4 + 16;
    void *grown = reallocarray(*items, room, size);
    if (grown == NULL)
        return -ENOMEM;
    *items = grown;
    *cap = room;
    return 0;
}

static void copy_containers(struct agent_snapshot *snapshot, const struct agent_workload *workload)
{
    for (size_t i = 0; i < workload->n_containers; i++) {
        const struct agent_container *container = &workload->containers[i];
        snapshot->containers[snapshot->n_containers++] = (struct agent_container_row){
            .label = agent_label_ref(container->label),
            .names = agent_names_ref(container->names),
            .ended = container->cgroups == 0,
            .cpu_ns = container->cpu_ns,
            .active_uj = container->active_uj,
            .dram_uj = container->dram_uj,
            .cpu_mw = (uint64_t)llround(container->cpu_mw),
            .dram_mw = (uint64_t)llround(container->dram_mw),
            .memory_bytes = container->memory_bytes,
            .requests = container->requests,
        };
    }
}

int agent_snapshot_fill(struct agent_snapshot *snapshot, const struct agent_ledger *ledger)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads);
    size_t n_containers = 0;

    for (size_t i = 0; i < n; i++)
        n_containers += workloads[i]->n_containers;
    int rc = reserve((void **)&snapshot->rows, &snapshot->cap_rows, n, sizeof(struct agent_row));
    if (rc == 0)
        rc = reserve((void **)&snapshot->containers, &snapshot->cap_containers, n_containers,
                     sizeof(struct agent_container_row));
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        const struct agent_workload *workload = workloads[i];
        snapshot->rows[snapshot->n_rows++] = (struct agent_row){
            .label = agent_label_ref(workload->label),
            .names = agent_names_ref(workload->names),
            .ended_unix_ms = workload->ended_unix_ms,
            .cpu_ns = workload->cpu_ns,
            .cpu_uj = workload->cpu_uj,
            .dram_uj = workload->dram_uj,
            .idle_uj = workload->idle_uj,
            .sigma_uj = workload->sigma_uj,
            .cpu_mw = (uint64_t)llround(workload->cpu_mw),
            .dram_mw = (uint64_t)llround(workload->dram_mw),
            .sigma_mw = (uint64_t)llround(workload->sigma_mw),
            .counts = workload->counts,
            .memory_bytes = workload->memory_bytes,
            .requests = workload->requests,
            .first_container = snapshot->n_containers,
            .n_containers = workload->n_containers,
        };
        memcpy(snapshot->rows[snapshot->n_rows - 1].responses, workload->responses,
               sizeof(workload->responses));
        copy_containers(snapshot, workload);
    }
    snapshot->departed_uj = agent_ledger_departed_uj(ledger);
    snapshot->departed_idle_uj = agent_ledger_departed_idle_uj(ledger);
    return 0;
}

static struct agent_label *label_of(struct agent_label *label)
{
    return label != NULL ? agent_label_ref(label) : NULL;
}

int agent_snapshot_fill_processes(struct agent_snapshot *snapshot,
                                  const struct agent_process *const *processes, size_t n,
                                  size_t n_listed, const uint64_t drawn_uj[2])
{
    uint64_t unlisted_uj[2] = {0}, all_uj[2] = {0};
    int rc = reserve((void **)&snapshot->processes, &snapshot->cap_processes,
                     n < n_listed ? n : n_listed, sizeof(struct agent_process_row));

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        const struct agent_process *process = processes[i];
        all_uj[0] += process->cpu_uj;
        all_uj[1] += process->dram_uj;
        if (i >= n_listed) {
            unlisted_uj[0] += process->cpu_uj;
            unlisted_uj[1] += process->dram_uj;
            continue;
        }
        snapshot->processes[snapshot->n_processes++] = (struct agent_process_row){
            .pid = process->pid,
            .text = agent_process_text_ref(process->text),
            .owner = label_of(process->owner),
            .container = label_of(process->container),
            .names = agent_names_ref(process->names),
            .cpu_ns = process->cpu_ns,
            .cpu_uj = process->cpu_uj,
            .dram_uj = process->dram_uj,
            .cpu_mw = process->cpu_mw,
            .dram_mw = process->dram_mw,
        };
    }
    for (unsigned zone = 0; zone < 2; zone++) {
        snapshot->unlisted_uj[zone] = unlisted_uj[zone];
        snapshot->ended_uj[zone] =
            drawn_uj[zone] > all_uj[zone] ? drawn_uj[zone] - all_uj[zone] : 0;
    }
    snapshot->processes_seen = n;
    snapshot->has_processes = true;
    return 0;
}
