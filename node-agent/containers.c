/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers get parts of their pod's energy by CPU time in the window, by largest remainder, with
 * the pod's own processes (outside containers) as one more party that is not shown.
 */
#include "node-agent/containers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/attribution.h"

/* A pod that restarts its containers all the time keeps so many of them listed. */
#define CONTAINERS_MAX 64

void agent_containers_clear(struct agent_workload *workload)
{
    for (size_t i = 0; i < workload->n_containers; i++) {
        agent_label_unref(&workload->containers[i].label);
        agent_names_unref(&workload->containers[i].names);
    }
    free(workload->containers);
    workload->containers = NULL;
    workload->n_containers = 0;
}

struct agent_container *agent_containers_find(struct agent_workload *workload, const char *id)
{
    for (size_t i = 0; i < workload->n_containers; i++) {
        if (strcmp(workload->containers[i].label->id, id) == 0)
            return &workload->containers[i];
    }
    return NULL;
}

struct agent_container *agent_containers_of(struct agent_workload *workload,
                                            const struct agent_label *label)
{
    for (size_t i = 0; label != NULL && i < workload->n_containers; i++) {
        if (workload->containers[i].label == label)
            return &workload->containers[i];
    }
    return NULL;
}

static void drop_container(struct agent_workload *workload, size_t index)
{
    agent_label_unref(&workload->containers[index].label);
    agent_names_unref(&workload->containers[index].names);
    workload->n_containers--;
    memmove(&workload->containers[index], &workload->containers[index + 1],
            (workload->n_containers - index) * sizeof(workload->containers[0]));
}

/** Of the containers that ended, the one that did so first; SIZE_MAX: none ended. */
static size_t first_ended(const struct agent_workload *workload)
{
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < workload->n_containers; i++) {
        const struct agent_container *container = &workload->containers[i];
        if (container->cgroups == 0 &&
            (found == SIZE_MAX || container->ended_ns < workload->containers[found].ended_ns))
            found = i;
    }
    return found;
}

int agent_containers_add(struct agent_workload *workload, const struct agent_identity *identity,
                         const char *path, int64_t now_unix_ms)
{
    struct agent_label texts = {.kind = KW_WORKLOAD_CONTAINER,
                                .id = (char *)identity->container_id,
                                .name = (char *)"",
                                .runtime = (char *)identity->runtime,
                                .cgroup = (char *)path,
                                .started_unix_ms = now_unix_ms};
    struct agent_container container = {.cgroups = 1};

    if (workload->n_containers >= CONTAINERS_MAX) {
        size_t oldest = first_ended(workload);
        if (oldest == SIZE_MAX)
            return 0;
        drop_container(workload, oldest);
    }
    struct agent_container *containers =
        reallocarray(workload->containers, workload->n_containers + 1, sizeof(*containers));
    if (containers == NULL)
        return -ENOMEM;
    workload->containers = containers;
    if (agent_label_new(&texts, &container.label) < 0)
        return -ENOMEM;
    size_t at = workload->n_containers;
    while (at > 0 && strcmp(containers[at - 1].label->id, container.label->id) > 0) {
        containers[at] = containers[at - 1];
        at--;
    }
    containers[at] = container;
    workload->n_containers++;
    return 0;
}

void agent_containers_smooth(double *mw, uint64_t gained_uj, uint64_t interval_ns, double keep)
{
    double now_mw = (double)gained_uj * 1e6 / (double)interval_ns;

    *mw = *mw * keep + now_mw * (1.0 - keep);
}

/* What each container gets of an energy. @param given one place more than there are containers. */
static void divide(const struct agent_workload *workload, uint64_t uj, uint64_t *given)
{
    uint64_t weights[CONTAINERS_MAX + 1], scratch[CONTAINERS_MAX + 1];
    size_t n = workload->n_containers;

    memset(given, 0, (n + 1) * sizeof(*given));
    if (uj == 0)
        return;
    for (size_t i = 0; i < n; i++)
        weights[i] = workload->containers[i].window_ns;
    weights[n] = workload->window_own_ns;
    (void)agent_apportion(uj, weights, n + 1, given, scratch);
}

void agent_containers_share(struct agent_workload *workload, uint64_t interval_ns, double keep)
{
    uint64_t cpu_uj[CONTAINERS_MAX + 1], dram_uj[CONTAINERS_MAX + 1];

    if (workload->n_containers == 0)
        return;
    divide(workload, workload->window_cpu_uj, cpu_uj);
    divide(workload, workload->window_dram_uj, dram_uj);
    for (size_t i = 0; i < workload->n_containers; i++) {
        struct agent_container *container = &workload->containers[i];
        container->active_uj += cpu_uj[i] + dram_uj[i];
        container->dram_uj += dram_uj[i];
        if (container->cgroups == 0) {
            container->cpu_mw = 0;
            container->dram_mw = 0;
        } else if (interval_ns > 0) {
            agent_containers_smooth(&container->cpu_mw, cpu_uj[i], interval_ns, keep);
            agent_containers_smooth(&container->dram_mw, dram_uj[i], interval_ns, keep);
        }
    }
}

void agent_containers_expire(struct agent_workload *workload, uint64_t now_ns)
{
    for (size_t i = workload->n_containers; i-- > 0;) {
        const struct agent_container *container = &workload->containers[i];
        if (container->cgroups == 0 && now_ns - container->ended_ns >= AGENT_DEPART_NS)
            drop_container(workload, i);
    }
}
