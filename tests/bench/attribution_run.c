/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/attribution_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double run_sigmas[WITHINS] = {0.25, 0.5, 1, 1.5, 2, 3};

const struct method run_methods[METHODS] = {
    {"CPU time of all energy (Scaphandre)", &agent_attribution_ratio_cpu, TIME, true},
    {"Kepler >= 0.10", &agent_attribution_kepler, TIME, false},
    {"CPU time above a true idle", &agent_attribution_ratio_cpu, TIME, false},
    {"instructions above a true idle", &agent_attribution_ratio_instructions, COUNTERS, false},
    {"counter regression, rescaled", &agent_attribution_regression, COUNTERS, false},
    {"counter regression, not rescaled", &agent_attribution_regression_raw, COUNTERS, false},
    {"polynomial by frequency (SmartWatts), rescaled", &agent_attribution_polynomial, COUNTERS,
     false},
    {"kwatt, counters", &agent_attribution_kalman, COUNTERS, false},
    {"kwatt, no counters", &agent_attribution_kalman, TIME, false},
    {"kwatt, CPU time alone", &agent_attribution_kalman, 0, false},
};

/* ---- one run ---- */

/** What each workload got and was due within a second. */
struct second {
    size_t n;
    uint64_t numbers[WORKLOADS];
    uint32_t at[NUMBERS]; /* place + 1, by number modulo NUMBERS */
    double got[WORKLOADS], due[WORKLOADS], sigma[WORKLOADS];
};

static struct second second;
static struct agent_share shares[WORKLOADS];

static size_t place_of(uint64_t number)
{
    uint32_t *at = &second.at[number % NUMBERS];

    if (*at == 0) {
        if (second.n == WORKLOADS)
            abort();
        second.numbers[second.n] = number;
        second.got[second.n] = second.due[second.n] = second.sigma[second.n] = 0;
        *at = (uint32_t)++second.n;
    }
    return *at - 1;
}

struct sums {
    double error, due, squares, sigma_squares;
    size_t inside, count, within[WITHINS];
};

static double end_second(struct sums *sums, bool count)
{
    double error = 0, due = 0;

    for (size_t i = 0; i < second.n; i++) {
        double off = fabs(second.got[i] - second.due[i]);
        second.at[second.numbers[i] % NUMBERS] = 0;
        error += off;
        due += second.due[i];
        if (!count)
            continue;
        sums->squares += off * off * 1e-12;
        sums->sigma_squares += second.sigma[i] * second.sigma[i] * 1e-12;
        sums->inside += off <= 2 * second.sigma[i];
        for (size_t k = 0; k < WITHINS; k++)
            sums->within[k] += off <= run_sigmas[k] * second.sigma[i];
        sums->count++;
    }
    second.n = 0;
    if (count) {
        sums->error += error;
        sums->due += due;
    }
    return due > 0 ? error / due : 0;
}

/** Gives every workload a feature of the one behind it. */
static void exchange(const struct scenario *scenario, const struct sim_window *seen,
                     struct agent_features *ret)
{
    memcpy(ret, seen->features, seen->n * sizeof(*ret));
    for (size_t i = 1; i < seen->n; i++) {
        const struct agent_features *other = &seen->features[i + 1 < seen->n ? i + 1 : 1];
        if (scenario->wrong == WRONG_INSTRUCTIONS)
            ret[i].instructions = other->instructions;
        else
            ret[i].llc_misses = other->llc_misses;
    }
}

static void take_window(const struct method *method, void *self, struct sim_node *node,
                        const struct scenario *scenario, const struct sim_window *seen,
                        struct result *ret)
{
    uint64_t idle_mw = sim_node_idle_mw(node, false);
    struct agent_window window = {
        .interval_ns = seen->interval_ns,
        .has = method->has,
        .n_cpus = sim_node_cpus(node),
        .mhz = seen->mhz,
        .measured_uj = seen->cpu_uj,
        .idle_prior_mw = method->no_idle ? 0 : (uint64_t)((double)idle_mw * scenario->idle_factor),
        .n = seen->n,
        .features = seen->features,
    };
    struct agent_split split = {.shares = shares};
    static struct agent_features exchanged[WORKLOADS];
    static uint64_t windows;

    if (scenario->wrong != RIGHT && (double)(windows++ % 10) < 10 * scenario->wrong_part) {
        exchange(scenario, seen, exchanged);
        window.features = exchanged;
    }
    for (size_t i = 0; i < seen->n_departed; i++)
        method->ops->forget(self, seen->departed[i]);
    method->ops->split(self, &window, &split);
    uint64_t sum = split.idle_uj + split.unattributed_uj;
    for (size_t i = 0; i < seen->n; i++) {
        size_t at = place_of(seen->features[i].workload);
        sum += shares[i].active_uj;
        second.got[at] += (double)shares[i].active_uj;
        second.due[at] += seen->truth[i].cpu_uj;
        second.sigma[at] += (double)shares[i].sigma_uj;
    }
    ret->unbalanced_uj += sum > seen->cpu_uj ? sum - seen->cpu_uj : seen->cpu_uj - sum;
    ret->idle_error = fabs((double)split.idle_mw - (double)idle_mw) / (double)idle_mw;
}

static struct result run(const struct scenario *scenario, const struct method *method,
                         uint64_t window_ns, uint64_t seed)
{
    struct sim_node_conf conf = scenario->conf;
    struct result ret = {.first_s_below = -1};
    struct sums sums = {0};
    void *self = NULL;

    conf.seed += 1000 * seed;
    struct sim_node *node = sim_node_new(&conf);
    if (node == NULL || method->ops->open(WORKLOADS, &self) < 0)
        abort();
    for (unsigned s = 0; s < RUN_S; s++) {
        for (uint64_t passed = 0; passed < KW_NS_PER_S; passed += window_ns) {
            const struct sim_window *seen = sim_node_run(node, window_ns);
            if (seen == NULL)
                abort();
            take_window(method, self, node, scenario, seen, &ret);
        }
        double error = end_second(&sums, s >= WARM_UP_S);
        ret.errors[s] = error;
        if (conf.phase_s > 0 && s >= conf.phase_s && ret.first_s_below < 0 && error < 0.1)
            ret.first_s_below = s - conf.phase_s + 1;
    }
    method->ops->close(&self);
    sim_node_free(&node);
    ret.misattributed = sums.error / sums.due;
    ret.squares = sums.squares / (double)sums.count;
    ret.spread = sums.sigma_squares > 0 ? sqrt(sums.squares / sums.sigma_squares) : 0;
    ret.inside = (double)sums.inside / (double)sums.count;
    for (size_t k = 0; k < WITHINS; k++)
        ret.within[k] = (double)sums.within[k] / (double)sums.count;
    return ret;
}

/* ---- medians ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double run_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static struct result run_from(const struct scenario *scenario, const struct method *method,
                              uint64_t window_ns, uint64_t first_seed)
{
    double misattributed[SEEDS], squares[SEEDS], inside[SEEDS], idle[SEEDS], seconds[SEEDS];
    double spread[SEEDS];
    struct result ret = {0};

    for (unsigned i = 0; i < SEEDS; i++) {
        struct result one = run(scenario, method, window_ns, first_seed + i);
        misattributed[i] = one.misattributed;
        spread[i] = one.spread;
        squares[i] = one.squares;
        inside[i] = one.inside;
        idle[i] = one.idle_error;
        seconds[i] = one.first_s_below < 0 ? HUGE_VAL : one.first_s_below;
        ret.unbalanced_uj += one.unbalanced_uj;
        for (size_t k = 0; k < WITHINS; k++)
            ret.within[k] += one.within[k] / SEEDS;
        for (size_t s = 0; s < RUN_S; s++)
            ret.errors[s] += one.errors[s] / SEEDS;
    }
    ret.misattributed = run_median(misattributed, SEEDS);
    ret.squares = run_median(squares, SEEDS);
    ret.inside = run_median(inside, SEEDS);
    ret.spread = run_median(spread, SEEDS);
    ret.idle_error = run_median(idle, SEEDS);
    ret.first_s_below = run_median(seconds, SEEDS);
    return ret;
}

struct result run_seeds(const struct scenario *scenario, const struct method *method,
                        uint64_t window_ns)
{
    return run_from(scenario, method, window_ns, 0);
}

/* Far from those that were ever looked at while methods were made. */
#define HELD_OUT 20

struct result run_held_out(const struct scenario *scenario, const struct method *method,
                           uint64_t window_ns)
{
    return run_from(scenario, method, window_ns, HELD_OUT);
}
