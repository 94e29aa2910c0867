/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated days of a cluster under power caps (tests/sim/caps): how far caps are passed, and by
 * what the extender let in less than ten minutes before, over many seeds, beside days without caps;
 * how much of the caps is used, and how many pods wait for an hour and give up. The deviations that
 * predictions are raised by are those of the extender's default, but where a row says otherwise,
 * which is what they cost and bring.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/caps/caps_sim.h"

#define DAY_S  86400
#define SIGMAS 2.5 /* --cap-sigma-permille, its default */

/** Some days, from different seeds. */
struct days {
    unsigned n;
    struct kwt_caps_result worst; /**< over_mw, young_mw and nearest of the worst, seconds of all;
                                     the rest are means */
    double let_in_part, waiting_part;
};

static struct days live(unsigned n, struct kwt_caps_options options)
{
    struct days days = {.n = n, .worst = {.nearest = 1}};
    struct kwt_caps_result *worst = &days.worst;

    options.seconds = DAY_S;
    options.losses = true;
    for (unsigned i = 0; i < n; i++) {
        struct kwt_caps_result day;
        options.seed = 20261130 + i * UINT64_C(2654435761);
        if (kwt_caps_run(&options, &day) < 0)
            exit(EXIT_FAILURE);
        worst->over_mw = day.over_mw > worst->over_mw ? day.over_mw : worst->over_mw;
        worst->young_mw = day.young_mw > worst->young_mw ? day.young_mw : worst->young_mw;
        worst->over_seconds += day.over_seconds;
        worst->young_seconds += day.young_seconds;
        worst->nearest = day.nearest < worst->nearest ? day.nearest : worst->nearest;
        worst->fill += day.fill / n;
        worst->node_fill += day.node_fill / n;
        days.let_in_part += (double)day.let_in / (double)day.pods / n;
        days.waiting_part += (double)day.waiting / (double)day.pods / n;
    }
    return days;
}

/** Rows of some days beside those without caps. @param bound whether no cap may be passed. */
static void print(const char *what, const struct days *days, const struct days *without, bool bound)
{
    static const char zero[] = ", \"bound\": 0, \"bound_on\": \"value\", \"better\": \"lower\"";
    const struct {
        const char *name, *unit;
        double value, reference;
        bool bound;
    } rows[] = {
        {"furthest above any cap", "W", days->worst.over_mw / 1000, without->worst.over_mw / 1000,
         true},
        {"time above any cap", "s", (double)days->worst.over_seconds,
         (double)without->worst.over_seconds, true},
        {"furthest above any cap by what was let in lately", "W", days->worst.young_mw / 1000,
         without->worst.young_mw / 1000, true},
        {"time above any cap by that", "s", (double)days->worst.young_seconds,
         (double)without->worst.young_seconds, true},
        {"least that was left under a cap", "% of it", days->worst.nearest * 100,
         without->worst.nearest * 100, false},
        {"draw by day, of the cluster's cap", "%", days->worst.fill * 100,
         without->worst.fill * 100, false},
        {"draw by day, of nodes' own caps", "%", days->worst.node_fill * 100,
         without->worst.node_fill * 100, false},
        {"pods that gave up", "%", days->waiting_part * 100, without->waiting_part * 100, false},
        {"pods let in", "%", days->let_in_part * 100, without->let_in_part * 100, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        printf("{\"name\": \"caps.%s, %u days: %s\", \"value\": %.4g, \"unit\": \"%s\", "
               "\"reference\": {\"name\": \"without caps\", \"value\": %.4g}%s}\n",
               what, days->n, rows[i].name, rows[i].value, rows[i].unit, rows[i].reference,
               bound && rows[i].bound ? zero : "");
    (void)fflush(stdout);
}

/** Kinds of days. */
struct kind {
    const char *name;
    unsigned days;
    bool bound; /**< no cap may be passed */
    struct kwt_caps_options options;
};

int main(void)
{
    const char *root = getenv("KWATT_SOURCE_DIR");
    char trace[4096];
    const struct kind kinds[] = {
        {"steady pods", 8, true, {.replicas = 1}},
        {"restless pods, two replicas", 12, true, {.replicas = 2, .restless = 0.1}},
        {"restless pods, two replicas asked by turns",
         3,
         true,
         {.replicas = 2, .restless = 0.1, .scattered = true}},
        {"restless pods, no deviations", 3, false, {.replicas = 2, .restless = 0.1}},
        {"a tenth of the pods uses twice its request", 3, true, {.replicas = 2, .greedy = 0.1}},
        {"all pods use twice their requests", 3, true, {.replicas = 2, .greedy = 1}},
        {"all pods use four times their requests", 3, true, {.replicas = 2, .use = 4}},
        {"all pods use 0.4 of their requests", 3, true, {.replicas = 2, .use = 0.4}},
        {"pods use a lognormal part of their requests, sigma 0.7",
         3,
         false,
         {.replicas = 2, .use = 1, .spread = 0.7}},
        {"pods come to their use in ten minutes", 3, true, {.replicas = 2, .ramp_s = 600}},
        {"and to twice their requests", 3, false, {.replicas = 2, .ramp_s = 600, .greedy = 1}},
        {"pods have phases", 3, true, {.replicas = 2, .phases = 2.0 / 3}},
        {"curves learnt 15 % too flat", 3, true, {.replicas = 2, .steeper = 0.15}},
        {"meters that lag 60 s", 3, true, {.replicas = 2, .lag_s = 60}},
        {"a third of the agents silent for an hour, thrice",
         3,
         true,
         {.replicas = 2, .hush = true}},
        {"two replicas asked by turns, that start anew",
         3,
         true,
         {.replicas = 2, .scattered = true, .restarts = true}},
        {"and all pods use twice their requests",
         3,
         true,
         {.replicas = 2, .scattered = true, .restarts = true, .greedy = 1}},
        {"replicas that start anew, all pods use four times their requests",
         3,
         false,
         {.replicas = 2, .restarts = true, .use = 4}},
        {"replicas that start anew, pods come to twice their requests in ten minutes",
         3,
         false,
         {.replicas = 2, .restarts = true, .ramp_s = 600, .greedy = 1}},
        {"requests and lives of a recorded trace, lognormal use",
         3,
         false,
         {.replicas = 2, .use = 0.6, .spread = 0.7, .trace = trace}},
        {"lognormal, ten minutes, restless, flat curves, lagging meters",
         3,
         false,
         {.replicas = 2,
          .use = 1,
          .spread = 0.7,
          .ramp_s = 600,
          .steeper = 0.15,
          .lag_s = 60,
          .restless = 0.1}},
    };

    (void)snprintf(trace, sizeof(trace), "%s/tests/sim/cluster/pods.csv",
                   root == NULL ? "." : root);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct kwt_caps_options options = kinds[i].options;
        options.no_caps = true;
        struct days without = live(1, options);
        options.no_caps = false;
        options.sigmas = strstr(kinds[i].name, "no deviations") == NULL ? SIGMAS : 0;
        struct days days = live(kinds[i].days, options);
        print(kinds[i].name, &days, &without, kinds[i].bound);
    }
    return 0;
}
