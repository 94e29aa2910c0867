/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "regression": what counter-based meters do (Kepler before 0.10, SmartWatts): one weight for each
 * feature of the machine, fitted to the sum of all workloads, and each workload gets what its
 * features weigh. Here it is a ridge regression with an intercept, updated with every window, idle
 * off first, and rescaled so that it adds up to what was measured; the published ones do not, and
 * are far worse for it. For comparison: workloads whose instructions cost more than others' look
 * the same to it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "node-agent/attribution.h"
#include "node-agent/kalman_filter.h"
#include "node-agent/topology.h"

#define DOMAINS_MAX (2 * AGENT_PACKAGES_MAX)

/* Intercept, thread seconds, 1e9 cycles, 1e9 instructions, 1e8 misses: numbers near 1. */
#define WEIGHTS 5

/* Ridge: prior of every weight, zero with this standard deviation, in watts and joules. */
#define RIDGE 30.0

/* Noise of a window: a few percent, as the fit is. */
#define NOISE_PART 0.03
#define NOISE_W    0.2

struct regression {
    size_t max_workloads;
    struct agent_filter *filters[DOMAINS_MAX];
    struct agent_owed owed[DOMAINS_MAX];
    uint64_t *weights, *given, *scratch;
};

static void regression_close(void **self)
{
    struct regression *regression = KW_TAKE_PTR(*(struct regression **)self);

    if (regression == NULL)
        return;
    for (size_t i = 0; i < DOMAINS_MAX; i++)
        agent_filter_free(&regression->filters[i]);
    free(regression->weights);
    free(regression->given);
    free(regression->scratch);
    free(regression);
}

static int regression_open(size_t max_workloads, void **ret)
{
    struct regression *regression = calloc(1, sizeof(*regression));
    void *owned = regression;

    if (regression == NULL)
        return -ENOMEM;
    regression->max_workloads = max_workloads;
    regression->weights = calloc(max_workloads, sizeof(uint64_t));
    regression->given = calloc(max_workloads, sizeof(uint64_t));
    regression->scratch = calloc(max_workloads, sizeof(uint64_t));
    if (regression->weights == NULL || regression->given == NULL || regression->scratch == NULL) {
        regression_close(&owned);
        return -ENOMEM;
    }
    *ret = regression;
    return 0;
}

static void add_features(const struct agent_window *window, const struct agent_features *features,
                         double x[WEIGHTS])
{
    x[1] += (double)features->cpu_ns * 1e-9;
    if ((window->has & AGENT_HAS_COUNTERS) == 0)
        return;
    x[2] += (double)features->cycles * 1e-9;
    x[3] += (double)features->instructions * 1e-9;
    x[4] += (double)features->llc_misses * 1e-8;
}

static struct agent_filter *filter_of(struct regression *regression, unsigned domain)
{
    if (domain >= DOMAINS_MAX)
        return NULL;
    struct agent_filter *filter = regression->filters[domain];
    if (filter == NULL) {
        if (agent_filter_new(WEIGHTS, &filter) < 0)
            return NULL;
        for (size_t i = 0; i < WEIGHTS; i++)
            (void)agent_filter_add(filter, 0, RIDGE * RIDGE);
        regression->filters[domain] = filter;
    }
    return filter;
}

static void fit(struct agent_filter *filter, const struct agent_window *window, size_t n)
{
    double x[WEIGHTS] = {(double)window->interval_ns * 1e-9};
    double measured = (double)window->measured_uj * 1e-6, expected = 0;

    if (n == 0 || window->measured_uj == 0 || window->interval_ns == 0)
        return;
    for (size_t i = 0; i < n; i++)
        add_features(window, &window->features[i], x);
    for (size_t i = 0; i < WEIGHTS; i++)
        expected += agent_filter_mean(filter, i) * x[i];
    double noise = pow(NOISE_PART * measured, 2) + pow(NOISE_W * x[0], 2);
    (void)agent_filter_update(filter, x, measured - expected, noise);
    for (size_t i = 0; i < WEIGHTS; i++)
        agent_filter_clamp(filter, i, 0, 1e9);
}

static void regression_split(void *self, const struct agent_window *window, struct agent_split *ret)
{
    struct regression *regression = self;
    struct agent_owed elsewhere = {0};
    struct agent_filter *filter = filter_of(regression, window->domain);
    size_t n = window->n < regression->max_workloads ? window->n : regression->max_workloads;
    double all = 0;

    if (filter != NULL)
        fit(filter, window, n);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            double x[WEIGHTS] = {0}, joules = 0;
            add_features(window, &window->features[i], x);
            for (size_t j = 1; j < WEIGHTS && filter != NULL; j++)
                joules += agent_filter_mean(filter, j) * x[j];
            if (pass == 0)
                all += joules;
            else
                regression->weights[i] =
                    all > 0 ? (uint64_t)(joules / all * 0x1p40) : window->features[i].cpu_ns;
        }
    }
    uint64_t idle_uj = agent_pay_idle(
        window->domain < DOMAINS_MAX ? &regression->owed[window->domain] : &elsewhere,
        window->idle_prior_mw, window);
    agent_split_active(window, idle_uj, n, regression->weights, regression->given,
                       regression->scratch, ret);
    ret->idle_mw = window->idle_prior_mw;
    ret->idle_sigma_mw = 0;
}

static void regression_forget(void *self, uint64_t workload)
{
    (void)self; /* keeps nothing about workloads */
    (void)workload;
}

const struct agent_attribution_ops agent_attribution_regression = {
    .name = "regression",
    .open = regression_open,
    .split = regression_split,
    .forget = regression_forget,
    .close = regression_close,
};
