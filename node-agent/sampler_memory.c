/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/learnt.h"
#include "node-agent/sampler_impl.h"

static struct agent_learnt_machine machine_of(const struct agent_sampler *sampler)
{
    const struct agent_topology *topology = sampler->conf.topology;
    uint64_t idle_mw = 0, full_mw = 0;

    agent_idle_prior_node(&sampler->conf.prior, &idle_mw, &full_mw);
    return (struct agent_learnt_machine){.cpu_model = topology->cpu_model,
                                         .meter = agent_metering_ops(sampler->conf.metering)->name,
                                         .n_packages = topology->n_packages,
                                         .n_cores = topology->n_cores,
                                         .n_online = topology->n_online,
                                         .has = agent_counts_has(sampler->usage.features),
                                         .idle_mw = idle_mw};
}

int agent_sampler_remember(struct agent_sampler *sampler, struct kw_buf *out)
{
    const struct agent_learnt_machine machine = machine_of(sampler);

    return agent_learnt_save(sampler->conf.method, sampler->method, &sampler->curve, &machine,
                             kw_now_unix_ms(), out);
}

/** Numbers of all workloads, sorted. */
struct numbers {
    size_t n;
    uint64_t *items;
};

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static bool is_there(void *user, uint64_t workload)
{
    const struct numbers *numbers = user;

    return numbers->n > 0 &&
           bsearch(&workload, numbers->items, numbers->n, sizeof(workload), compare) != NULL;
}

int agent_sampler_recall(struct agent_sampler *sampler, const void *bytes, size_t len,
                         int64_t *ret_age_ms, struct kw_err *err)
{
    const struct agent_learnt_machine machine = machine_of(sampler);
    struct agent_workload *const *workloads = NULL;
    struct numbers numbers = {.n = agent_ledger_workloads(sampler->ledger, &workloads)};
    void *state = NULL;

    if (sampler->conf.recorder != NULL)
        return -ENOTSUP;
    kw_cleanup_free uint64_t *items = calloc(numbers.n + 1, sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < numbers.n; i++)
        items[i] = workloads[i]->number;
    numbers.items = items;
    if (numbers.n > 1)
        qsort(items, numbers.n, sizeof(*items), compare);
    int rc =
        agent_learnt_load(sampler->conf.method, AGENT_WORKLOADS_MAX + 1, &machine, kw_now_unix_ms(),
                          bytes, len, is_there, &numbers, &state, &sampler->curve, ret_age_ms, err);
    if (rc < 0)
        return rc;
    sampler->conf.method->close(&sampler->method);
    sampler->method = state;
    agent_sampler_choose_splitter(sampler);
    return 0;
}
