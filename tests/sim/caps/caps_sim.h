/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * A day of a small cluster under caps of nodes, power domains and the whole, against the extender's
 * own code: requests are JSON, answers are parsed, pods come through its watch and samples through
 * its decoder. What a node draws is known here and nowhere else. Pods come in bursts; samples come
 * late, some nodes are silent for minutes, Redis is away for minutes; news of pods come late, stop
 * silently for a minute and a half, or stop with a word for ten.
 */
struct kwt_caps_options {
    uint64_t seed;    /**< not 0 */
    uint64_t seconds; /**< of simulated time */
    bool losses;      /**< messages are late and lost; else all come within a second */
    double restless;  /**< pods' use wanders by this part of what they asked for; 0: it stays */
    double sigmas;    /**< policy */
    bool no_caps;     /**< the same without caps, for what they hold back */
};

struct kwt_caps_result {
    uint64_t pods;          /**< that were created */
    uint64_t let_in;        /**< that were bound */
    uint64_t refusals;      /**< candidates that were not passed */
    uint64_t waiting;       /**< pods that were never placed in their time */
    uint64_t over_seconds;  /**< seconds in which any cap was passed */
    double over_mw;         /**< the furthest that any cap was passed by */
    double over_part;       /**< the furthest, as a part of the cap */
    double fill;            /**< mean of what the cluster draws / its cap, over the busy hours */
    double peak;            /**< the most */
    uint64_t stale_seconds; /**< seconds in which a node's own cap was passed that was silent: those
                               let everybody pass, and count in none of the above */
    uint64_t requests;
    double request_ns; /**< mean time of a /filter, inside the program */
};

/** @return 0, or -1 where something could not be made. */
int kwt_caps_run(const struct kwt_caps_options *options, struct kwt_caps_result *ret);
