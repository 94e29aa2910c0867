/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * A day of a small cluster under caps of nodes, power domains and the whole, against the extender's
 * own code: requests are JSON, answers are parsed, pods come through its watch and samples through
 * its decoder. What a node draws is known here and nowhere else. Pods come in bursts. Where
 * messages are lost, samples come late, some nodes are silent for minutes, agents start anew, their
 * clocks are off and jump, Redis is away for minutes; news of pods come late, stop silently for a
 * minute and a half and come late then or never, or stop with a word for ten; and where there are
 * two replicas, each has troubles of its own, and the scheduler turns from one to the other a dozen
 * times.
 */
struct kwt_caps_options {
    uint64_t seed;     /**< not 0 */
    uint64_t seconds;  /**< of simulated time */
    bool losses;       /**< messages are late and lost; else all come within a second */
    bool scattered;    /**< of two replicas each is asked about every other pod */
    unsigned replicas; /**< 1 or 2 */
    double restless;   /**< pods' use wanders by this part of what they asked for; 0: it stays */
    double greedy;     /**< part of the pods that use twice what they asked for */
    double unasked;    /**< part of the pods that ask for nothing, and use 100 mcpu on the mean */
    double use;        /**< what all pods use, of what they asked for; 0: 0.6 to 1 */
    double spread;     /**< and from pod to pod by a lognormal factor of this sigma, median 1 */
    uint64_t ramp_s;   /**< a pod begins at a tenth of its use and comes to it in so long */
    double phases;  /**< pods that run have phases of five minutes, at their use and at this part of
                         it less; the use above is the mean of both */
    double steeper; /**< above idle all nodes draw by this part more than their curves say */
    uint64_t lag_s; /**< meters show what was drawn so long ago; up to KWT_LAG_MAX_S */
    bool hush;      /**< agents of a third of the nodes are silent for an hour, three times */
    bool restarts;  /**< replicas start anew, six times each, and know nothing */
    const char *trace; /**< requests and lives (up to four hours) are drawn from this CSV
                          (tests/sim/cluster/pods.csv); NULL: made up */
    double sigmas;     /**< policy */
    bool no_caps;      /**< the same without caps, for what they hold back */
};

#define KWT_LAG_MAX_S 127
/** What draws watts later than this after it was let in, the caps were not asked about. */
#define KWT_YOUNG_S   600

struct kwt_caps_result {
    uint64_t pods;          /**< that were created */
    uint64_t let_in;        /**< that were bound */
    uint64_t refusals;      /**< candidates that were not passed */
    uint64_t waiting;       /**< pods that were never placed in their time */
    uint64_t over_seconds;  /**< seconds in which any cap was passed */
    double over_mw;         /**< the furthest that any cap was passed by */
    double over_part;       /**< the furthest, as a part of the cap */
    uint64_t young_seconds; /**< of those in which one was passed by what was let in less than
                               KWT_YOUNG_S ago */
    double young_mw;        /**< the furthest that any was passed by that */
    double nearest;         /**< the least that was left under any cap, as a part of it; negative:
                               it was passed */
    double fill;            /**< mean of what the cluster draws / its cap, over the busy hours */
    double node_fill;       /**< the same of the nodes that have caps of their own */
    double peak;            /**< the most, of the cluster's */
    uint64_t requests;
    double request_ns; /**< mean time of a /filter, inside the program */
};

/** @return 0, or -1 where something could not be made or read. */
int kwt_caps_run(const struct kwt_caps_options *options, struct kwt_caps_result *ret);
