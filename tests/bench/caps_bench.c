/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated days of a cluster under power caps (tests/sim/caps): how far caps are passed by what
 * the extender let in, over many seeds, beside days without caps; and how much of the cap is used.
 * The deviations that predictions are raised by are those of the extender's default, but where a
 * row says otherwise, which is what they cost and bring.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/caps/caps_sim.h"

#define DAY_S  86400
#define SIGMAS 2.5 /* --cap-sigma-permille, its default */

/** Some days, from different seeds. */
struct days {
    unsigned n;
    struct kwt_caps_result worst; /**< over_mw, over_seconds and nearest of the worst; request_ns
                                     and the rest are means */
    double let_in_part;
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
        worst->over_seconds += day.over_seconds;
        worst->nearest = day.nearest < worst->nearest ? day.nearest : worst->nearest;
        worst->fill += day.fill / n;
        days.let_in_part += (double)day.let_in / (double)day.pods / n;
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
        {"least that was left under a cap", "% of it", days->worst.nearest * 100,
         without->worst.nearest * 100, false},
        {"draw by day, of the cluster's cap", "%", days->worst.fill * 100,
         without->worst.fill * 100, false},
        {"pods let in", "%", days->let_in_part * 100, without->let_in_part * 100, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        printf("{\"name\": \"caps.%s, %u days: %s\", \"value\": %.4g, \"unit\": \"%s\", "
               "\"reference\": {\"name\": \"without caps\", \"value\": %.4g}%s}\n",
               what, days->n, rows[i].name, rows[i].value, rows[i].unit, rows[i].reference,
               bound && rows[i].bound ? zero : "");
    (void)fflush(stdout);
}

int main(void)
{
    const struct kwt_caps_options steady = {.replicas = 1, .sigmas = SIGMAS};
    struct kwt_caps_options restless = {.replicas = 2, .sigmas = SIGMAS, .restless = 0.1};
    struct kwt_caps_options free_options = {.replicas = 1, .no_caps = true};
    struct days without = live(2, free_options);
    struct days days = live(8, steady);

    print("steady pods", &days, &without, true);
    free_options.restless = restless.restless;
    without = live(2, free_options);
    days = live(12, restless);
    print("restless pods, two replicas", &days, &without, true);
    restless.scattered = true;
    days = live(3, restless);
    print("restless pods, two replicas asked by turns", &days, &without, false);
    restless.scattered = false;
    restless.sigmas = 0;
    days = live(3, restless);
    print("restless pods, no deviations", &days, &without, false);
    const struct kwt_caps_options greedy = {.replicas = 2, .sigmas = SIGMAS, .greedy = 0.1};
    days = live(3, greedy);
    print("a tenth of the pods uses twice its request", &days, &without, false);
    const struct kwt_caps_options all_greedy = {.replicas = 2, .sigmas = SIGMAS, .greedy = 1};
    days = live(3, all_greedy);
    print("all pods use twice their requests", &days, &without, false);
    return 0;
}
