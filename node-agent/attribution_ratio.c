/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "ratio-cpu": a fixed idle power is taken off first, and what is above it is split by CPU time. It
 * is what most meters do (Scaphandre, Kepler >= 0.10) but for the fixed idle, and puts about a
 * fifth of the active energy on the wrong workload; its successor learns what each workload draws
 * per unit of work.
 *
 * Idle is owed as time passes and paid from what is measured. A counter may move in steps (1 J on
 * some machines) or a reading may fall between two updates: a window then shows less than idle, and
 * the next one more. What stays owed is carried over, but not further than OWED_MAX_NS of idle
 * power: where the idle power is set higher than what the machine really draws, the debt must not
 * eat the first load that comes.
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

/* Two seconds: longer than the coarsest counter (1 J) stands still at any idle power above half a
 * watt. */
#define OWED_MAX_NS UINT64_C(2000000000)

/* Idle of a longer window is not claimed: the domain was out of sight for most of it. */
#define WINDOW_MAX_NS UINT64_C(300000000000)

#define PJ_PER_UJ UINT64_C(1000000)

struct ratio {
    size_t max_workloads;
    uint64_t owed_pj[DOMAINS_MAX]; /* idle energy that passed and was not measured yet */
    uint64_t *weights;             /* max_workloads */
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

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/** Idle energy of the window in uJ, at most what was measured; the rest stays owed. */
static uint64_t pay_idle(uint64_t *owed_pj, const struct agent_window *window)
{
    /* mW x ns = pJ; the products are bounded so that they fit: 10 kW, 5 minutes */
    uint64_t mw = min_u64(window->idle_prior_mw, UINT64_C(10000000));
    uint64_t ns = min_u64(window->interval_ns, WINDOW_MAX_NS);
    uint64_t owed = *owed_pj + mw * ns;
    uint64_t idle_uj = min_u64(owed / PJ_PER_UJ, window->measured_uj);

    *owed_pj = min_u64(owed - idle_uj * PJ_PER_UJ, mw * OWED_MAX_NS);
    return idle_uj;
}

static void ratio_split(void *self, const struct agent_window *window, struct agent_split *ret)
{
    struct ratio *ratio = self;
    uint64_t unused_owed_pj = 0;
    uint64_t *owed_pj =
        window->domain < DOMAINS_MAX ? &ratio->owed_pj[window->domain] : &unused_owed_pj;
    size_t n = window->n < ratio->max_workloads ? window->n : ratio->max_workloads;
    uint64_t idle_uj = pay_idle(owed_pj, window);
    uint64_t active_uj = window->measured_uj - idle_uj;

    for (size_t i = 0; i < n; i++)
        ratio->weights[i] = window->features[i].cpu_ns;
    uint64_t given = agent_apportion(active_uj, ratio->weights, n, ratio->given, ratio->scratch);

    for (size_t i = 0; i < n; i++)
        ret->shares[i] = (struct agent_share){.active_uj = ratio->given[i]};
    for (size_t i = n; i < window->n; i++)
        ret->shares[i] = (struct agent_share){0};
    ret->idle_uj = idle_uj;
    ret->unattributed_uj = 0;
    if (given < active_uj) { /* nobody ran */
        if (window->n == 0)
            ret->unattributed_uj = active_uj;
        else
            ret->idle_uj += active_uj;
    }
    ret->idle_mw = window->idle_prior_mw;
    ret->idle_sigma_mw = 0;
}

static void ratio_forget(void *self, uint64_t workload)
{
    (void)self; /* keeps nothing about workloads */
    (void)workload;
}

static const struct agent_attribution_ops ratio_cpu = {
    .name = "ratio-cpu",
    .open = ratio_open,
    .split = ratio_split,
    .forget = ratio_forget,
    .close = ratio_close,
};

const struct agent_attribution_ops *const agent_attributions[] = {&ratio_cpu, NULL};
