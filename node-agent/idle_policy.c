/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/idle_policy.h"

#include <stdlib.h>

#include "common/cleanup.h"

/* Weights, shares and scratch of each workload, and of the node itself. */
#define COLUMNS 3

const char *const agent_idle_policy_names[] = {"none", "equal", "requests", NULL};
_Static_assert(KW_ARRAY_SIZE(agent_idle_policy_names) == AGENT_IDLE__MAX + 1, "a name each");

/** CPU that the containers which run request. */
static uint64_t request_mcpu(const struct agent_workload *workload)
{
    uint64_t mcpu = 0;

    for (size_t i = 0; i < workload->n_containers; i++) {
        const struct agent_container *container = &workload->containers[i];
        if (container->cgroups > 0 && container->names != NULL)
            mcpu += container->names->request_mcpu;
    }
    return mcpu;
}

static uint64_t weight_of(enum agent_idle_policy policy, const struct agent_workload *workload)
{
    if (workload->cgroups == 0)
        return 0;
    return policy == AGENT_IDLE_EQUAL ? 1 : request_mcpu(workload);
}

static bool reserve(struct agent_idle_shares *shares, size_t n)
{
    if (n <= shares->cap)
        return true;
    size_t cap = n + n / 4 + 16; /* pods come one by one */
    uint64_t *memory = reallocarray(shares->memory, cap, COLUMNS * sizeof(uint64_t));
    if (memory == NULL)
        return false;
    shares->memory = memory;
    shares->cap = cap;
    return true;
}

const uint64_t *agent_idle_portions(struct agent_idle_shares *shares, enum agent_idle_policy policy,
                                    struct agent_workload *const *workloads, size_t n,
                                    uint64_t idle, uint64_t capacity_mcpu)
{
    uint64_t requested = 0;

    if (policy == AGENT_IDLE_NONE || !reserve(shares, n + 1))
        return NULL;
    uint64_t *weights = shares->memory, *given = weights + n + 1, *scratch = given + n + 1;
    for (size_t i = 0; i < n; i++) {
        weights[i] = weight_of(policy, workloads[i]);
        requested += weights[i];
    }
    weights[n] =
        policy == AGENT_IDLE_REQUESTS && capacity_mcpu > requested ? capacity_mcpu - requested : 0;
    /* less than all: nobody runs */
    return agent_apportion(idle, weights, n + 1, given, scratch) == idle ? given : NULL;
}

void agent_idle_share(struct agent_idle_shares *shares, struct agent_workload *const *workloads,
                      size_t n, uint64_t idle_uj, uint64_t capacity_mcpu)
{
    const uint64_t *given =
        agent_idle_portions(shares, shares->policy, workloads, n, idle_uj, capacity_mcpu);

    if (given == NULL) {
        shares->unshared_uj += idle_uj;
        return;
    }
    for (size_t i = 0; i < n; i++)
        workloads[i]->idle_uj += given[i];
    shares->unshared_uj += given[n];
}

void agent_idle_shares_free(struct agent_idle_shares *shares)
{
    free(shares->memory);
    shares->memory = NULL;
    shares->cap = 0;
}
