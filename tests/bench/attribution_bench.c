/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How true each method attributes a simulated node's energy (tests/sim/node), and what it costs.
 * The agent's own methods run on windows of 100 ms, as the agent would feed them, and are compared
 * with the truth over seconds: the sum of what each workload was given too much or too little, of
 * all active energy. The first 30 s are not counted. Every scenario is run with several seeds, the
 * same for all methods; figures are medians. docs/accuracy.md says what the simulator assumes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "node-agent/attribution.h"
#include "tests/sim/node/node_sim.h"

#define SEEDS     3
#define RUN_S     150
#define WARM_UP_S 30
#define WORKLOADS 4096 /* most in a second, storms included */
#define NUMBERS   65536

#define TIME     (AGENT_HAS_SMT | AGENT_HAS_FREQUENCY)
#define COUNTERS (TIME | AGENT_HAS_COUNTERS)

struct scenario {
    const char *name;
    struct sim_node_conf conf;
    double idle_factor; /* prior of idle power, of the truth */
    bool outlier;       /* not in the median: reported alone */
};

struct method {
    const char *name;
    const struct agent_attribution_ops *ops;
    unsigned has;
    bool no_idle; /* told that idle power is 0 */
};

struct result {
    double misattributed; /* part of the active energy */
    double squares;       /* mean square error of a workload's watts */
    double inside;        /* part of the workload-seconds whose truth is within 2 sigma */
    double idle_error;    /* part of idle power, at the end */
    uint64_t unbalanced_uj;
    double first_s_below; /* after a phase change: seconds until the error is below a tenth */
};

static const struct method methods[] = {
    {"CPU time of all energy (Scaphandre)", &agent_attribution_ratio_cpu, TIME, true},
    {"Kepler >= 0.10", &agent_attribution_kepler, TIME, false},
    {"CPU time above a true idle", &agent_attribution_ratio_cpu, TIME, false},
    {"instructions above a true idle", &agent_attribution_ratio_instructions, COUNTERS, false},
    {"counter regression, rescaled", &agent_attribution_regression, COUNTERS, false},
    {"kwatt, counters", &agent_attribution_kalman, COUNTERS, false},
    {"kwatt, no counters", &agent_attribution_kalman, TIME, false},
    {"kwatt, CPU time alone", &agent_attribution_kalman, 0, false},
};

enum { TOTAL, KEPLER, RATIO, INSTRUCTIONS, REGRESSION, KWATT, KWATT_TIME, KWATT_ALONE, METHODS };

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
    double error, due, squares;
    size_t inside, count;
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
        sums->inside += off <= 2 * second.sigma[i];
        sums->count++;
    }
    second.n = 0;
    if (count) {
        sums->error += error;
        sums->due += due;
    }
    return due > 0 ? error / due : 0;
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
        if (conf.phase_s > 0 && s >= conf.phase_s && ret.first_s_below < 0 && error < 0.1)
            ret.first_s_below = s - conf.phase_s + 1;
    }
    method->ops->close(&self);
    sim_node_free(&node);
    ret.misattributed = sums.error / sums.due;
    ret.squares = sums.squares / (double)sums.count;
    ret.inside = (double)sums.inside / (double)sums.count;
    return ret;
}

/* ---- medians ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static struct result run_seeds(const struct scenario *scenario, const struct method *method,
                               uint64_t window_ns)
{
    double misattributed[SEEDS], squares[SEEDS], inside[SEEDS], idle[SEEDS], seconds[SEEDS];
    struct result ret = {0};

    for (unsigned i = 0; i < SEEDS; i++) {
        struct result one = run(scenario, method, window_ns, i);
        misattributed[i] = one.misattributed;
        squares[i] = one.squares;
        inside[i] = one.inside;
        idle[i] = one.idle_error;
        seconds[i] = one.first_s_below < 0 ? HUGE_VAL : one.first_s_below;
        ret.unbalanced_uj += one.unbalanced_uj;
    }
    ret.misattributed = median(misattributed, SEEDS);
    ret.squares = median(squares, SEEDS);
    ret.inside = median(inside, SEEDS);
    ret.idle_error = median(idle, SEEDS);
    ret.first_s_below = median(seconds, SEEDS);
    return ret;
}

/* ---- rows ---- */

struct figure {
    const char *name;
    double value;
    const char *unit;
    const char *reference;
    double reference_value;
    double bound; /* NAN: none */
    bool on_ratio, higher;
};

static void print(const struct figure *figure)
{
    printf("{\"name\": \"attribution.%s\", \"value\": %.4g, \"unit\": \"%s\"", figure->name,
           figure->value, figure->unit);
    if (figure->reference != NULL)
        printf(", \"reference\": {\"name\": \"%s\", \"value\": %.4g}, \"ratio\": %.4g",
               figure->reference, figure->reference_value, figure->value / figure->reference_value);
    if (!isnan(figure->bound))
        printf(", \"bound\": %g, \"better\": \"%s\"%s", figure->bound,
               figure->higher ? "higher" : "lower",
               figure->reference != NULL && !figure->on_ratio ? ", \"bound_on\": \"value\"" : "");
    printf("}\n");
    (void)fflush(stdout);
}

static void show(const char *name, double value, const char *unit, double bound)
{
    print(&(struct figure){.name = name, .value = value, .unit = unit, .bound = bound});
}

#define PERCENT(part) (100 * (part))

static struct scenario scenarios[] = {
    {.name = "10 pods", .idle_factor = 1},
    {.name = "20 pods", .idle_factor = 1},
    {.name = "6 pods, light", .idle_factor = 1},
    {.name = "40 pods, all threads busy", .idle_factor = 1},
    {.name = "110 pods", .idle_factor = 1},
    {.name = "idle taken 20 % too high", .idle_factor = 1.2},
    {.name = "steady load", .idle_factor = 1},
    {.name = "churn, a pod in 5 s", .idle_factor = 1},
    {.name = "20 pods, other truth", .idle_factor = 1},
    {.name = "40 pods, other truth", .idle_factor = 1},
    {.name = "storm, 50 short pods a second", .idle_factor = 1, .outlier = true},
};

#define N_SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

static void set_up(void)
{
    static const size_t pods[] = {10, 20, 6, 40, 110, 20, 20, 20, 20, 40, 20};
    static const double threads[] = {10, 14, 2, 40, 20, 14, 14, 14, 14, 40, 14};

    for (size_t i = 0; i < N_SCENARIOS; i++)
        scenarios[i].conf = sim_node_defaults(i + 1, pods[i], threads[i]);
    scenarios[6].conf.load = SIM_LOAD_STEADY;
    scenarios[7].conf.churn_per_s = 0.2;
    scenarios[8].conf.truth = scenarios[9].conf.truth = SIM_TRUTH_WORK;
    scenarios[10].conf.storm = 50;
}

/** All methods on all scenarios. */
static void tell_truth(void)
{
    static struct result results[METHODS][N_SCENARIOS];
    double medians[METHODS], squares[N_SCENARIOS], squares_idle[N_SCENARIOS], inside_low = 1,
                                                                              inside_high = 0;
    uint64_t unbalanced_uj = 0;
    char name[128];

    for (size_t i = 0; i < N_SCENARIOS; i++) {
        for (size_t m = 0; m < METHODS; m++) {
            results[m][i] = run_seeds(&scenarios[i], &methods[m], 100 * KW_NS_PER_MS);
            unbalanced_uj += results[m][i].unbalanced_uj;
        }
        for (size_t m = KWATT; m <= KWATT_TIME; m++) {
            (void)snprintf(name, sizeof(name), "%s: %s", scenarios[i].name, methods[m].name);
            print(&(struct figure){.name = name,
                                   .value = PERCENT(results[m][i].misattributed),
                                   .unit = "% misattributed",
                                   .reference = methods[RATIO].name,
                                   .reference_value = PERCENT(results[RATIO][i].misattributed),
                                   .bound = NAN});
        }
        squares[i] = results[KWATT][i].squares / results[TOTAL][i].squares;
        squares_idle[i] = results[KWATT][i].squares / results[RATIO][i].squares;
        if (!scenarios[i].outlier) {
            inside_low = fmin(inside_low, results[KWATT][i].inside);
            inside_high = fmax(inside_high, results[KWATT][i].inside);
        }
    }
    for (size_t m = 0; m < METHODS; m++) {
        double values[N_SCENARIOS];
        size_t n = 0;
        for (size_t i = 0; i < N_SCENARIOS; i++) {
            if (!scenarios[i].outlier)
                values[n++] = results[m][i].misattributed;
        }
        medians[m] = median(values, n);
    }
    for (size_t m = 0; m < METHODS; m++) {
        (void)snprintf(name, sizeof(name), "median of scenarios: %s", methods[m].name);
        show(name, PERCENT(medians[m]), "% misattributed",
             m == KWATT        ? 5
             : m == KWATT_TIME ? 9
                               : NAN);
    }
    show("square error of watts, of that of CPU time of all energy", median(squares, N_SCENARIOS),
         "x", 1.0 / 45);
    show("square error of watts, of that of CPU time above a true idle",
         median(squares_idle, N_SCENARIOS), "x", NAN);
    show("truth inside 2 sigma, lowest scenario", PERCENT(inside_low), "%", NAN);
    show("truth inside 2 sigma, highest scenario", PERCENT(inside_high), "%", NAN);
    show("energy out of balance, all runs", (double)unbalanced_uj, "uJ", 0);
}

/** Idle power that nobody knows, on a node that is never quiet. */
static void tell_unknown_idle(void)
{
    struct scenario scenario = {
        .name = "idle unknown", .conf = sim_node_defaults(21, 20, 14), .idle_factor = 0};
    struct result kwatt = run_seeds(&scenario, &methods[KWATT], 100 * KW_NS_PER_MS);
    struct result kepler = run_seeds(&scenario, &methods[KEPLER], 100 * KW_NS_PER_MS);

    print(&(struct figure){.name = "idle unknown, never quiet: kwatt, counters",
                           .value = PERCENT(kwatt.misattributed),
                           .unit = "% misattributed",
                           .reference = methods[KEPLER].name,
                           .reference_value = PERCENT(kepler.misattributed),
                           .bound = 9});
    show("idle unknown, never quiet: error of idle power", PERCENT(kwatt.idle_error), "%", NAN);
}

/** How it depends on the window, the number of pods and the noise. */
static void tell_dependence(void)
{
    static const unsigned windows_ms[] = {50, 100, 250, 500, 1000};
    static const unsigned pods[] = {5, 20, 80, 320};
    static const double noises[] = {0, 0.01, 0.03};
    struct scenario scenario = {.conf = sim_node_defaults(31, 20, 14), .idle_factor = 1};
    char name[96];

    for (size_t i = 0; i < sizeof(windows_ms) / sizeof(windows_ms[0]); i++) {
        (void)snprintf(name, sizeof(name), "20 pods, windows of %u ms", windows_ms[i]);
        show(name,
             PERCENT(
                 run_seeds(&scenario, &methods[KWATT], windows_ms[i] * KW_NS_PER_MS).misattributed),
             "% misattributed", NAN);
    }
    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
        scenario.conf = sim_node_defaults(41, pods[i], 14);
        (void)snprintf(name, sizeof(name), "%u pods, 14 threads busy", pods[i]);
        show(name, PERCENT(run_seeds(&scenario, &methods[KWATT], 100 * KW_NS_PER_MS).misattributed),
             "% misattributed", NAN);
    }
    for (size_t i = 0; i < sizeof(noises) / sizeof(noises[0]); i++) {
        scenario.conf = sim_node_defaults(51, 20, 14);
        scenario.conf.counter_noise = noises[i];
        (void)snprintf(name, sizeof(name), "20 pods, counter noise of %g %%", PERCENT(noises[i]));
        show(name, PERCENT(run_seeds(&scenario, &methods[KWATT], 100 * KW_NS_PER_MS).misattributed),
             "% misattributed", NAN);
    }
    scenario.conf = sim_node_defaults(61, 20, 14);
    scenario.conf.phase_s = 90;
    show("every pod changes its mix: below 10 % again after",
         run_seeds(&scenario, &methods[KWATT], 100 * KW_NS_PER_MS).first_s_below, "s", NAN);
}

static double now_cpu_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

/** CPU of a split with K workloads that all run. */
static void tell_cost(void)
{
    static const size_t counts[] = {10, 110, 1000};
    static const double bounds_ms[] = {NAN, 1, 50};
    static struct agent_features features[1001];
    char name[96];

    for (size_t c = 0; c < 3; c++) {
        double times[31];
        void *self = NULL;
        size_t n = counts[c] + 1;
        if (agent_attribution_kalman.open(WORKLOADS, &self) < 0)
            abort();
        for (size_t i = 0; i < n; i++)
            features[i] = (struct agent_features){.workload = i,
                                                  .cpu_ns = 1000000 + i * 1000,
                                                  .cycles = 3000000,
                                                  .instructions = 4000000,
                                                  .llc_misses = 1000};
        for (size_t k = 0; k < 31; k++) {
            struct agent_window window = {.interval_ns = 100 * KW_NS_PER_MS,
                                          .has = COUNTERS,
                                          .measured_uj = 9000000,
                                          .idle_prior_mw = 28000,
                                          .n = n,
                                          .features = features};
            struct agent_split split = {.shares = shares};
            double begin = now_cpu_ms();
            agent_attribution_kalman.split(self, &window, &split);
            times[k] = now_cpu_ms() - begin;
        }
        agent_attribution_kalman.close(&self);
        (void)snprintf(name, sizeof(name), "CPU of a window, %zu workloads", counts[c]);
        show(name, median(times, 31), "ms", bounds_ms[c]);
    }
}

int main(void)
{
    set_up();
    tell_truth();
    tell_unknown_idle();
    tell_dependence();
    tell_cost();
    return 0;
}
