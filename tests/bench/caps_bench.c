/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated day of a cluster under power caps (tests/sim/caps): how far caps are passed by what
 * the extender let in, beside the same day without caps; and how much of the cap is used. Restless
 * pods, whose use wanders by a tenth of their request, are what no extender can hold: the figure
 * says by how much.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/caps/caps_sim.h"

#define DAY_S 86400

static struct kwt_caps_result day(bool no_caps, double restless)
{
    const struct kwt_caps_options options = {.seed = 20261130,
                                             .seconds = DAY_S,
                                             .losses = true,
                                             .restless = restless,
                                             .sigmas = 2,
                                             .no_caps = no_caps};
    struct kwt_caps_result result;

    if (kwt_caps_run(&options, &result) < 0)
        exit(EXIT_FAILURE);
    return result;
}

static void print(const char *name, double value, const char *unit, double without,
                  const char *bound)
{
    printf("{\"name\": \"caps.%s\", \"value\": %.4g, \"unit\": \"%s\", \"reference\": {\"name\": "
           "\"without caps\", \"value\": %.4g}%s}\n",
           name, value, unit, without, bound);
}

int main(void)
{
    struct kwt_caps_result held = day(false, 0);
    struct kwt_caps_result without = day(true, 0);
    struct kwt_caps_result restless = day(false, 0.1);
    struct kwt_caps_result restless_without = day(true, 0.1);

    print("furthest above any cap", held.over_mw / 1000, "W", without.over_mw / 1000,
          ", \"bound\": 0, \"bound_on\": \"value\", \"better\": \"lower\"");
    print("time above any cap", (double)held.over_seconds, "s of a day",
          (double)without.over_seconds,
          ", \"bound\": 0, \"bound_on\": \"value\", \"better\": \"lower\"");
    print("draw by day, of the cluster's cap", held.fill * 100, "%", without.fill * 100, "");
    print("pods let in", (double)held.let_in, "pods", (double)without.let_in, "");
    print("time above any cap, restless pods", (double)restless.over_seconds, "s of a day",
          (double)restless_without.over_seconds, "");
    print("furthest above any cap, restless pods", restless.over_mw / 1000, "W",
          restless_without.over_mw / 1000, "");
    return 0;
}
