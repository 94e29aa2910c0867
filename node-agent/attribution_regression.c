/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counter-based meters do: weights for the features of the machine, fitted to the sum of all
 * workloads, and each workload gets what its own features weigh. Here it is a ridge regression with
 * an intercept, updated with every window, idle off first, and rescaled so that it adds up to what
 * was measured; the published ones do not, and are far worse for it. For comparison: workloads
 * whose instructions cost more than others' look the same to it.
 *
 * "regression": one weight a feature (Kepler before 0.10). "regression-raw": the same as it was
 * published, not rescaled: what the weights do not explain is nobody's, and only where they explain
 * more than there is, all get less. "polynomial": squares, too, and weights
 * of their own for each 100 MHz of frequency, as SmartWatts has them (Fieni, Rouvoy, Seinturier,
 * "SmartWatts: Self-Calibrating Software-Defined Power Meter for Containers", CCGRID 2020). The
 * square of a sum is not the sum of squares, so that what a workload gets of it is less than its
 * part; SmartWatts has that, too.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "node-agent/attribution.h"
#include "node-agent/kalman_filter.h"
#include "node-agent/topology.h"

#define DOMAINS_MAX (2 * AGENT_PACKAGES_MAX)

/* Intercept, thread seconds, 1e9 cycles, 1e9 instructions, 1e8 misses: numbers near 1. Then the
 * squares of all but the first, a second. */
#define LINEAR      5
#define WEIGHTS_MAX (2 * LINEAR - 1)

#define LAYER_MHZ 100
#define LAYERS    64

/* Ridge: prior of every weight, zero with this standard deviation, in watts and joules. */
#define RIDGE 30.0

/* Noise of a window: a few percent, as the fit is. */
#define NOISE_PART 0.03
#define NOISE_W    0.2

struct regression {
    size_t max_workloads;
    size_t n_weights; /* LINEAR or WEIGHTS_MAX */
    size_t n_layers;  /* of frequency */
    bool raw;         /* not rescaled */
    struct agent_filter *filters[DOMAINS_MAX][LAYERS];
    struct agent_owed owed[DOMAINS_MAX];
    uint64_t *weights, *given, *scratch;
};

static void regression_close(void **self)
{
    struct regression *regression = KW_TAKE_PTR(*(struct regression **)self);

    if (regression == NULL)
        return;
    for (size_t i = 0; i < DOMAINS_MAX; i++) {
        for (size_t k = 0; k < LAYERS; k++)
            agent_filter_free(&regression->filters[i][k]);
    }
    free(regression->weights);
    free(regression->given);
    free(regression->scratch);
    free(regression);
}

static int open_with(size_t max_workloads, size_t n_weights, size_t n_layers, bool raw, void **ret)
{
    struct regression *regression = calloc(1, sizeof(*regression));
    void *owned = regression;

    if (regression == NULL)
        return -ENOMEM;
    regression->max_workloads = max_workloads;
    regression->n_weights = n_weights;
    regression->n_layers = n_layers;
    regression->raw = raw;
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

static int regression_open(size_t max_workloads, void **ret)
{
    return open_with(max_workloads, LINEAR, 1, false, ret);
}

static int raw_open(size_t max_workloads, void **ret)
{
    return open_with(max_workloads, LINEAR, 1, true, ret);
}

static int polynomial_open(size_t max_workloads, void **ret)
{
    return open_with(max_workloads, WEIGHTS_MAX, LAYERS, false, ret);
}

static void add_features(const struct agent_window *window, const struct agent_features *features,
                         double x[WEIGHTS_MAX])
{
    x[1] += (double)features->cpu_ns * 1e-9;
    if ((window->has & AGENT_HAS_COUNTERS) == 0)
        return;
    x[2] += (double)features->cycles * 1e-9;
    x[3] += (double)features->instructions * 1e-9;
    x[4] += (double)features->llc_misses * 1e-8;
}

/** Squares of the rates, as long as the window is: energy, as the others. */
static void add_squares(const struct agent_window *window, double x[WEIGHTS_MAX])
{
    for (size_t i = 1; i < LINEAR && window->interval_ns > 0; i++)
        x[LINEAR - 1 + i] = x[i] * x[i] / ((double)window->interval_ns * 1e-9);
}

/** Mean frequency of the window: as it says, or by cycles. */
static size_t layer_of(const struct regression *regression, const struct agent_window *window,
                       size_t n)
{
    double cycles = 0, cpu_ns = 0, mhz = window->mhz;

    for (size_t i = 0; i < n && window->mhz == 0; i++) {
        cycles += (double)window->features[i].cycles;
        cpu_ns += (double)window->features[i].cpu_ns;
    }
    if (window->mhz == 0 && cpu_ns > 0)
        mhz = cycles / cpu_ns * 1e3;
    return (size_t)fmin(mhz / LAYER_MHZ, (double)regression->n_layers - 1);
}

static struct agent_filter *filter_of(struct regression *regression,
                                      const struct agent_window *window, size_t n)
{
    if (window->domain >= DOMAINS_MAX)
        return NULL;
    struct agent_filter **place =
        &regression->filters[window->domain][layer_of(regression, window, n)];
    if (*place == NULL) {
        if (agent_filter_new(regression->n_weights, place) < 0)
            return NULL;
        for (size_t i = 0; i < regression->n_weights; i++)
            (void)agent_filter_add(*place, 0, RIDGE * RIDGE);
    }
    return *place;
}

/** Moves weights that came out below 0 there, and the others by what they are tied to them: what
 * they say of the sum stays. (Tried: without the others, weights of features that are much alike
 * chase each other up to no end.) A feature and its square are so much alike that one may make up
 * for the other below 0: those are left. */
static void keep_positive(struct agent_filter *filter)
{
    for (size_t i = 0; i < LINEAR && agent_filter_count(filter) == LINEAR; i++) {
        double below = agent_filter_mean(filter, i);
        if (below >= 0)
            continue;
        for (size_t j = 0; j < LINEAR; j++) {
            double moved =
                agent_filter_mean(filter, j) -
                below * agent_filter_covariance(filter, i, j) / agent_filter_variance(filter, i);
            agent_filter_clamp(filter, j, moved, moved);
        }
    }
}

static void fit(struct agent_filter *filter, const struct agent_window *window, size_t n)
{
    double x[WEIGHTS_MAX] = {(double)window->interval_ns * 1e-9};
    double measured = (double)window->measured_uj * 1e-6, expected = 0;

    if (n == 0 || window->measured_uj == 0 || window->interval_ns == 0)
        return;
    for (size_t i = 0; i < n; i++)
        add_features(window, &window->features[i], x);
    add_squares(window, x);
    for (size_t i = 0; i < agent_filter_count(filter); i++)
        expected += agent_filter_mean(filter, i) * x[i];
    double noise = pow(NOISE_PART * measured, 2) + pow(NOISE_W * x[0], 2);
    (void)agent_filter_update(filter, x, measured - expected, noise);
    keep_positive(filter);
}

/** What each workload weighs, of all of them. @return the sum, J. */
static double weigh(struct regression *regression, const struct agent_filter *filter,
                    const struct agent_window *window, size_t n)
{
    double all = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            double x[WEIGHTS_MAX] = {0}, joules = 0;
            add_features(window, &window->features[i], x);
            add_squares(window, x);
            for (size_t j = 1; filter != NULL && j < agent_filter_count(filter); j++)
                joules += agent_filter_mean(filter, j) * x[j];
            joules = fmax(joules, 0);
            if (pass == 0)
                all += joules;
            else
                regression->weights[i] =
                    all > 0 ? (uint64_t)(joules / all * 0x1p40) : window->features[i].cpu_ns;
        }
    }
    return all;
}

static void regression_split(void *self, const struct agent_window *window, struct agent_split *ret)
{
    struct regression *regression = self;
    struct agent_owed elsewhere = {0};
    size_t n = window->n < regression->max_workloads ? window->n : regression->max_workloads;
    struct agent_filter *filter = filter_of(regression, window, n);
    struct agent_window explained = *window;

    if (filter != NULL)
        fit(filter, window, n);
    double all = weigh(regression, filter, window, n);
    uint64_t idle_uj = agent_pay_idle(
        window->domain < DOMAINS_MAX ? &regression->owed[window->domain] : &elsewhere,
        window->idle_prior_mw, window);
    if (regression->raw && all * 1e6 < (double)(window->measured_uj - idle_uj))
        explained.measured_uj = idle_uj + (uint64_t)(all * 1e6);
    agent_split_active(&explained, idle_uj, n, regression->weights, regression->given,
                       regression->scratch, ret);
    ret->unattributed_uj += window->measured_uj - explained.measured_uj;
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

const struct agent_attribution_ops agent_attribution_regression_raw = {
    .name = "regression-raw",
    .open = raw_open,
    .split = regression_split,
    .forget = regression_forget,
    .close = regression_close,
};

const struct agent_attribution_ops agent_attribution_polynomial = {
    .name = "polynomial",
    .open = polynomial_open,
    .split = regression_split,
    .forget = regression_forget,
    .close = regression_close,
};
