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

#include "tests/bench/attribution_run.h"

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

/** How much of the truth lies within two sigma, and how large errors are of the sigma stated. */
static void tell_sigma(const struct result *results, const char *method)
{
    double inside[N_SCENARIOS], spread[N_SCENARIOS];
    char name[128];
    size_t n = 0;

    for (size_t i = 0; i < N_SCENARIOS; i++) {
        if (scenarios[i].outlier)
            continue;
        inside[n] = results[i].inside;
        spread[n++] = results[i].spread;
    }
    double median = run_median(inside, n); /* sorts */
    (void)snprintf(name, sizeof(name), "truth inside 2 sigma, lowest scenario: %s", method);
    print(&(struct figure){
        .name = name, .value = PERCENT(inside[0]), .unit = "%", .bound = 90, .higher = true});
    (void)snprintf(name, sizeof(name), "truth inside 2 sigma, median scenario: %s", method);
    show(name, PERCENT(median), "%", NAN);
    median = run_median(spread, n);
    (void)snprintf(name, sizeof(name), "error of the sigma stated, median scenario: %s", method);
    show(name, median, "x", NAN);
    (void)snprintf(name, sizeof(name), "error of the sigma stated, highest scenario: %s", method);
    show(name, spread[n - 1], "x", NAN);
}

/** All methods on all scenarios. */
static void tell_truth(void)
{
    static struct result results[METHODS][N_SCENARIOS];
    double medians[METHODS], squares[N_SCENARIOS], squares_idle[N_SCENARIOS];
    uint64_t unbalanced_uj = 0;
    char name[128];

    for (size_t i = 0; i < N_SCENARIOS; i++) {
        for (size_t m = 0; m < METHODS; m++) {
            results[m][i] = run_seeds(&scenarios[i], &run_methods[m], 100 * KW_NS_PER_MS);
            unbalanced_uj += results[m][i].unbalanced_uj;
        }
        for (size_t m = KWATT; m <= KWATT_TIME; m++) {
            (void)snprintf(name, sizeof(name), "%s: %s", scenarios[i].name, run_methods[m].name);
            print(&(struct figure){.name = name,
                                   .value = PERCENT(results[m][i].misattributed),
                                   .unit = "% misattributed",
                                   .reference = run_methods[RATIO].name,
                                   .reference_value = PERCENT(results[RATIO][i].misattributed),
                                   .bound = NAN});
        }
        squares[i] = results[KWATT][i].squares / results[TOTAL][i].squares;
        squares_idle[i] = results[KWATT][i].squares / results[RATIO][i].squares;
    }
    for (size_t m = 0; m < METHODS; m++) {
        double values[N_SCENARIOS];
        size_t n = 0;
        for (size_t i = 0; i < N_SCENARIOS; i++) {
            if (!scenarios[i].outlier)
                values[n++] = results[m][i].misattributed;
        }
        medians[m] = run_median(values, n);
    }
    for (size_t m = 0; m < METHODS; m++) {
        (void)snprintf(name, sizeof(name), "median of scenarios: %s", run_methods[m].name);
        show(name, PERCENT(medians[m]), "% misattributed",
             m == KWATT        ? 5
             : m == KWATT_TIME ? 9
                               : NAN);
    }
    show("square error of watts, of that of CPU time of all energy",
         run_median(squares, N_SCENARIOS), "x", 1.0 / 45);
    show("square error of watts, of that of CPU time above a true idle",
         run_median(squares_idle, N_SCENARIOS), "x", NAN);
    for (size_t m = KWATT; m <= KWATT_TIME; m++)
        tell_sigma(results[m], run_methods[m].name);
    show("energy out of balance, all runs", (double)unbalanced_uj, "uJ", 0);
}

/** The same scenarios with seeds that nothing was tuned on. */
static void tell_held_out(void)
{
    char name[128];

    for (size_t m = KWATT; m <= KWATT_TIME; m++) {
        double values[N_SCENARIOS];
        size_t n = 0;
        for (size_t i = 0; i < N_SCENARIOS; i++) {
            if (!scenarios[i].outlier)
                values[n++] =
                    run_held_out(&scenarios[i], &run_methods[m], 100 * KW_NS_PER_MS).misattributed;
        }
        (void)snprintf(name, sizeof(name), "median of scenarios, other seeds: %s",
                       run_methods[m].name);
        show(name, PERCENT(run_median(values, n)), "% misattributed", m == KWATT ? 5 : 9);
    }
}

#define MACHINES 10

/** Machines unlike the one that most scenarios have: the method knows nothing of them. */
static void set_machines(struct scenario ret[MACHINES])
{
    static const char *const names[MACHINES] = {
        "notebook, 4 cores",           "64 cores",
        "8 efficient cores of 14",     "32 cores without SMT",
        "2 packages behind one meter", "throttled at 95 W",
        "voltage hardly moves",        "idle 60 W, hungry cores",
        "320 pods on 14 threads",      "12 pods"};
    static const size_t pods[MACHINES] = {8, 60, 16, 20, 30, 24, 20, 20, 320, 12};
    static const double threads[MACHINES] = {4, 50, 10, 12, 24, 26, 14, 14, 14, 8};
    static const unsigned cores[MACHINES] = {4, 64, 14, 32, 32, 16, 16, 16, 16, 16};
    struct sim_machine *machines[MACHINES];

    for (size_t i = 0; i < MACHINES; i++) {
        ret[i] = (struct scenario){.name = names[i], .idle_factor = 1};
        ret[i].conf = sim_node_defaults(101 + i, pods[i], threads[i]);
        ret[i].conf.cores = cores[i];
        machines[i] = &ret[i].conf.machine;
    }
    *machines[0] = (struct sim_machine){3,    2,   0.2,  1.15, 0.25, 4.2, 0.8, 0.15,
                                        0.45, 0.6, 1.15, 1,    0,    1,   0,   false};
    *machines[1] = (struct sim_machine){90,   25,   0.35, 0.7, 0.25, 3.4, 0.8, 0.014,
                                        0.45, 0.72, 1.08, 0.7, 0,    1,   0,   false};
    machines[2]->efficient = 8;
    machines[2]->idle_w = 6;
    machines[2]->wake_w = 4;
    machines[2]->max_ghz = 4.8;
    *machines[3] = (struct sim_machine){45,   12,   0.35, 0.5, 0.25, 2.8, 0.8, 0,
                                        0.45, 0.72, 1.08, 0.6, 0,    1,   0,   true};
    machines[4]->packages = 2;
    machines[5]->cap_w = 95;
    machines[6]->low_v = 0.95;
    machines[6]->high_v = 1;
    machines[7]->idle_w = 60;
    machines[7]->base_w = 3;
    machines[7]->work = 2.5;
}

static void tell_machines(void)
{
    struct scenario machines[MACHINES];
    double medians[METHODS][MACHINES];
    char name[160];

    set_machines(machines);
    for (size_t i = 0; i < MACHINES; i++) {
        double ratio =
            run_held_out(&machines[i], &run_methods[RATIO], 100 * KW_NS_PER_MS).misattributed;
        for (size_t m = KWATT; m <= KWATT_ALONE; m++) {
            struct result result = run_held_out(&machines[i], &run_methods[m], 100 * KW_NS_PER_MS);
            medians[m][i] = result.misattributed;
            (void)snprintf(name, sizeof(name), "%s: %s", machines[i].name, run_methods[m].name);
            print(&(struct figure){.name = name,
                                   .value = PERCENT(result.misattributed),
                                   .unit = "% misattributed",
                                   .reference = run_methods[RATIO].name,
                                   .reference_value = PERCENT(ratio),
                                   .bound = m == KWATT_ALONE ? NAN : 1,
                                   .on_ratio = true});
        }
    }
    for (size_t m = KWATT; m <= KWATT_ALONE; m++) {
        (void)snprintf(name, sizeof(name), "median of other machines: %s", run_methods[m].name);
        show(name, PERCENT(run_median(medians[m], MACHINES)), "% misattributed", NAN);
    }
}

/** What is misattributed in a scenario, beside CPU time. @param bound of the ratio; NAN: none. */
static void tell_beside_ratio(const struct scenario *scenario, const char *what, double bound)
{
    double ratio = run_seeds(scenario, &run_methods[RATIO], 100 * KW_NS_PER_MS).misattributed;
    char name[96];

    for (size_t m = KWATT; m <= KWATT_TIME; m++) {
        (void)snprintf(name, sizeof(name), "%s: %s", what, run_methods[m].name);
        print(&(struct figure){
            .name = name,
            .value =
                PERCENT(run_seeds(scenario, &run_methods[m], 100 * KW_NS_PER_MS).misattributed),
            .unit = "% misattributed",
            .reference = run_methods[RATIO].name,
            .reference_value = PERCENT(ratio),
            .bound = bound,
            .on_ratio = !isnan(bound)});
    }
}

/** Pods that are replicas of few owners, each a little off in speed and in energy; or far off, as a
 * leader and its followers. */
static void tell_replicas(void)
{
    static const struct {
        const char *which;
        double churn_per_s, unlike;
    } kinds[] = {{"", 0, 0.05}, {", churn", 0.2, 0.05}, {", 40 % unlike", 0, 0.4}};
    struct scenario scenario = {.conf = sim_node_defaults(301, 20, 14), .idle_factor = 1};
    char what[64];

    scenario.conf.owners = 5;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        scenario.conf.churn_per_s = kinds[k].churn_per_s;
        scenario.conf.unlike = kinds[k].unlike;
        (void)snprintf(what, sizeof(what), "20 replicas of 5 owners%s", kinds[k].which);
        tell_beside_ratio(&scenario, what, NAN);
    }
}

/** Programs whose instructions cost more at some times than at others, 40 % more or less, which no
 * feature shows; the last ones always run, on all threads. */
static void tell_swings(void)
{
    static const double lengths_s[] = {2, 20, 20};
    char what[64];

    for (size_t k = 0; k < sizeof(lengths_s) / sizeof(lengths_s[0]); k++) {
        bool steady = k == 2;
        struct scenario scenario = {
            .conf = sim_node_defaults(401 + k, steady ? 8 : 20, steady ? 32 : 14),
            .idle_factor = 1};
        scenario.conf.swing_s = lengths_s[k];
        scenario.conf.load = steady ? SIM_LOAD_STEADY : SIM_LOAD_BURSTS;
        (void)snprintf(what, sizeof(what), "phases of %g s%s", lengths_s[k],
                       steady ? ", 8 pods on all threads" : "");
        tell_beside_ratio(&scenario, what, 1);
    }
}

/** Idle power that nobody knows, on a node that is never quiet. */
static void tell_unknown_idle(void)
{
    struct scenario scenario = {
        .name = "idle unknown", .conf = sim_node_defaults(21, 20, 14), .idle_factor = 0};
    struct result kwatt = run_seeds(&scenario, &run_methods[KWATT], 100 * KW_NS_PER_MS);
    struct result kepler = run_seeds(&scenario, &run_methods[KEPLER], 100 * KW_NS_PER_MS);

    print(&(struct figure){.name = "idle unknown, never quiet: kwatt, counters",
                           .value = PERCENT(kwatt.misattributed),
                           .unit = "% misattributed",
                           .reference = run_methods[KEPLER].name,
                           .reference_value = PERCENT(kepler.misattributed),
                           .bound = 9});
    show("idle unknown, never quiet: error of idle power", PERCENT(kwatt.idle_error), "%", NAN);
}

/** A point of a plot, which scripts/bench --write draws into docs/plots. */
static void plot(const char *file, const char *x_label, const char *series, double x, double y,
                 const char *unit)
{
    printf("{\"name\": \"attribution.%s\", \"value\": %.4g, \"unit\": \"%s\", \"plot\": {\"file\": "
           "\"attribution-%s\", \"x\": %g, \"x_label\": \"%s\", \"series\": \"%s\"}}\n",
           file, y, unit, file, x, x_label, series);
}

/** One setting of what an error is shown against: by each method of the plots, and in the table by
 * the best. */
static void tell_setting(const char *file, const char *x_label, double x, const char *name,
                         const struct scenario *scenario, uint64_t window_ns)
{
    static const unsigned shown[] = {RATIO, POLYNOMIAL, KWATT_TIME, KWATT};

    for (size_t m = 0; m < sizeof(shown) / sizeof(shown[0]); m++) {
        double percent =
            PERCENT(run_seeds(scenario, &run_methods[shown[m]], window_ns).misattributed);
        plot(file, x_label, run_methods[shown[m]].name, x, percent, "% misattributed");
        if (shown[m] == KWATT)
            show(name, percent, "% misattributed", NAN);
    }
}

/** How it depends on the window, the number of pods, the noise, and features that are wrong. */
static void tell_dependence(void)
{
    static const unsigned windows_ms[] = {50, 100, 250, 500, 1000};
    static const unsigned pods[] = {5, 20, 80, 320};
    static const double noises[] = {0, 0.01, 0.03, 0.1};
    static const double wrongs[] = {0, 0.1, 0.5, 1};
    const uint64_t window_ns = 100 * KW_NS_PER_MS;
    struct scenario scenario = {.conf = sim_node_defaults(31, 20, 14), .idle_factor = 1};
    char name[96];

    for (size_t i = 0; i < sizeof(windows_ms) / sizeof(windows_ms[0]); i++) {
        (void)snprintf(name, sizeof(name), "20 pods, windows of %u ms", windows_ms[i]);
        tell_setting("interval", "window, ms", windows_ms[i], name, &scenario,
                     windows_ms[i] * KW_NS_PER_MS);
    }
    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
        scenario.conf = sim_node_defaults(41, pods[i], 14);
        (void)snprintf(name, sizeof(name), "%u pods, 14 threads busy", pods[i]);
        tell_setting("pods", "pods", pods[i], name, &scenario, window_ns);
    }
    for (size_t i = 0; i < sizeof(noises) / sizeof(noises[0]); i++) {
        scenario.conf = sim_node_defaults(51, 20, 14);
        scenario.conf.counter_noise = noises[i];
        (void)snprintf(name, sizeof(name), "20 pods, counter noise of %g %%", PERCENT(noises[i]));
        tell_setting("noise", "noise of counters, %", PERCENT(noises[i]), name, &scenario,
                     window_ns);
    }
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        scenario.conf = sim_node_defaults(71, 20, 14);
        scenario.wrong_part = wrongs[i];
        scenario.wrong = WRONG_MISSES;
        (void)snprintf(name, sizeof(name), "20 pods, misses of another pod in %g %% of windows",
                       PERCENT(wrongs[i]));
        tell_setting("wrong-misses", "windows with another pod's cache misses, %",
                     PERCENT(wrongs[i]), name, &scenario, window_ns);
        scenario.wrong = WRONG_INSTRUCTIONS;
        (void)snprintf(name, sizeof(name),
                       "20 pods, instructions of another pod in %g %% of windows",
                       PERCENT(wrongs[i]));
        tell_setting("wrong-instructions", "windows with another pod's instructions, %",
                     PERCENT(wrongs[i]), name, &scenario, window_ns);
    }
}

/** How soon it follows, and how much of the truth lies within its sigma. */
static void tell_reaction(void)
{
    struct scenario scenario = {.conf = sim_node_defaults(61, 20, 14), .idle_factor = 1};
    static struct result results[METHODS];
    struct result sure;

    for (size_t k = 0; k < WITHINS; k++) /* of a normal distribution, for comparison */
        plot("sigma", "sigmas", "normal distribution", run_sigmas[k],
             PERCENT(erf(run_sigmas[k] / sqrt(2))), "% of truth within");
    for (size_t m = KWATT; m <= KWATT_TIME; m++) {
        sure = run_seeds(&scenario, &run_methods[m], 100 * KW_NS_PER_MS);
        for (size_t k = 0; k < WITHINS; k++)
            plot("sigma", "sigmas", run_methods[m].name, run_sigmas[k], PERCENT(sure.within[k]),
                 "% of truth within");
    }
    scenario.conf.phase_s = 90;
    for (size_t m = KWATT; m <= KWATT_TIME; m++) {
        results[m] = run_seeds(&scenario, &run_methods[m], 100 * KW_NS_PER_MS);
        for (size_t s = (size_t)scenario.conf.phase_s - 10; s < RUN_S; s++)
            plot("reaction", "seconds after every pod changed its mix", run_methods[m].name,
                 (double)s - scenario.conf.phase_s, PERCENT(results[m].errors[s]),
                 "% misattributed");
    }
    show("every pod changes its mix: below 10 % again after", results[KWATT].first_s_below, "s",
         NAN);
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
    static struct agent_share shares[1001];
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
        show(name, run_median(times, 31), "ms", bounds_ms[c]);
    }
}

int main(void)
{
    set_up();
    tell_truth();
    tell_held_out();
    tell_machines();
    tell_replicas();
    tell_swings();
    tell_unknown_idle();
    tell_dependence();
    tell_reaction();
    tell_cost();
    return 0;
}
