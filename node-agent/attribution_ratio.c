/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ratios: what others do, for comparison and where a plain rule is wanted.
 *
 *   ratio-cpu           idle off first, the rest by CPU time. Most meters do it (Scaphandre, Kepler
 *                       >= 0.10) without the idle; puts about a fifth on the wrong workload
 *   ratio-instructions  idle off first, the rest by instructions (Kepler before 0.10 on machines
 *                       with counters); by CPU time where there are none
 *   kepler              Kepler >= 0.10: active is the energy times the share of CPU time that was
 *                       used, by CPU time
 *
 * A window without any CPU time on the package is idle altogether. Only a window whose features are
 * unknown (n == 0: the accounting failed) leaves energy unattributed.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "node-agent/attribution.h"
#include "node-agent/topology.h"

/* One CPU and one DRAM domain per package. */
#define DOMAINS_MAX (2 * AGENT_PACKAGES_MAX)

struct ratio {
    size_t max_workloads;
    struct agent_owed owed[DOMAINS_MAX];
    uint64_t *weights; /* max_workloads */
    uint64_t *given;
    uint64_t *scratch;
};

static void ratio_close(void **self)
{
    struct ratio *ratio = KW_TAKE_PTR(*(struct ratio **)self);

    if (ratio == NULL)
        return;
    free(ratio->weights);
    free(ratio->given);
    free(ratio->scratch);
    free(ratio);
}

static int ratio_open(size_t max_workloads, void **ret)
{
    struct ratio *ratio = calloc(1, sizeof(*ratio));
    void *owned = ratio;

    if (ratio == NULL)
        return -ENOMEM;
    ratio->max_workloads = max_workloads;
    ratio->weights = calloc(max_workloads, sizeof(uint64_t));
    ratio->given = calloc(max_workloads, sizeof(uint64_t));
    ratio->scratch = calloc(max_workloads, sizeof(uint64_t));
    if (ratio->weights == NULL || ratio->given == NULL || ratio->scratch == NULL) {
        ratio_close(&owned);
        return -ENOMEM;
    }
    *ret = ratio;
    return 0;
}

/** Fills the weights. @return entries. */
static size_t weigh(struct ratio *ratio, const struct agent_window *window, bool instructions)
{
    size_t n = window->n < ratio->max_workloads ? window->n : ratio->max_workloads;

    for (size_t i = 0; i < n; i++)
        ratio->weights[i] =
            instructions ? window->features[i].instructions : window->features[i].cpu_ns;
    return n;
}

static void split_above_idle(struct ratio *ratio, const struct agent_window *window,
                             bool instructions, struct agent_split *ret)
{
    struct agent_owed elsewhere = {0};
    struct agent_owed *owed =
        window->domain < DOMAINS_MAX ? &ratio->owed[window->domain] : &elsewhere;
    size_t n = weigh(ratio, window, instructions);
    uint64_t idle_uj = agent_pay_idle(owed, window->idle_prior_mw, window);

    agent_split_active(window, idle_uj, n, ratio->weights, ratio->given, ratio->scratch, ret);
    ret->idle_mw = window->idle_prior_mw;
    ret->idle_sigma_mw = 0;
}

static void cpu_split(void *self, const struct agent_window *window, struct agent_split *ret)
{
    split_above_idle(self, window, false, ret);
}

static void instructions_split(void *self, const struct agent_window *window,
                               struct agent_split *ret)
{
    split_above_idle(self, window, (window->has & AGENT_HAS_COUNTERS) != 0, ret);
}

static void kepler_split(void *self, const struct agent_window *window, struct agent_split *ret)
{
    struct ratio *ratio = self;
    size_t n = weigh(ratio, window, false);
    unsigned __int128 used_ns = 0;
    unsigned __int128 all_ns = (unsigned __int128)window->n_cpus * window->interval_ns;
    uint64_t idle_uj = 0;

    for (size_t i = 0; i < n; i++)
        used_ns += ratio->weights[i];
    if (used_ns < all_ns) /* measured x unused / all, in steps of a millionth so that it fits */
        idle_uj = (uint64_t)((unsigned __int128)window->measured_uj *
                             (uint64_t)((all_ns - used_ns) * 1000000 / all_ns) / 1000000);
    agent_split_active(window, idle_uj, n, ratio->weights, ratio->given, ratio->scratch, ret);
    ret->idle_mw = window->interval_ns == 0
                       ? 0
                       : (uint64_t)((unsigned __int128)idle_uj * 1000000 / window->interval_ns);
    ret->idle_sigma_mw = 0;
}

static void ratio_forget(void *self, uint64_t workload)
{
    (void)self; /* keeps nothing about workloads */
    (void)workload;
}

const struct agent_attribution_ops agent_attribution_ratio_cpu = {
    .name = "ratio-cpu",
    .open = ratio_open,
    .split = cpu_split,
    .forget = ratio_forget,
    .close = ratio_close,
};

const struct agent_attribution_ops agent_attribution_ratio_instructions = {
    .name = "ratio-instructions",
    .open = ratio_open,
    .split = instructions_split,
    .forget = ratio_forget,
    .close = ratio_close,
};

const struct agent_attribution_ops agent_attribution_kepler = {
    .name = "kepler",
    .open = ratio_open,
    .split = kepler_split,
    .forget = ratio_forget,
    .close = ratio_close,
};
