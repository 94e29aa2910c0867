/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/metrics.h"
#include "extender/caps.h"
#include "extender/ingest.h"
#include "extender/learnt.h"
#include "extender/outlook.h"

/** What the scheduler asks for. */
enum ext_verb { EXT_VERB_FILTER, EXT_VERB_PRIORITIZE, EXT_VERB_PREEMPT, EXT_VERB__MAX };

/** "filter", "prioritize", "preempt"; index is enum ext_verb. Also the last component of the path.
 */
extern const char *const ext_verb_names[EXT_VERB__MAX];

enum ext_outcome {
    EXT_OUTCOME_OK,
    EXT_OUTCOME_REFUSED, /**< not understood: an `Error`, or status 400 */
    EXT_OUTCOME_FAILED,  /**< out of memory */
    EXT_OUTCOME__MAX
};

/** "ok", "refused", "failed"; index is enum ext_outcome. */
extern const char *const ext_outcome_names[EXT_OUTCOME__MAX];

/** Counted from all threads, read by /metrics. Monotone but for redis_up, refreshed_ns,
 * watching and flights. */
struct ext_stats {
    _Atomic uint64_t requests[EXT_VERB__MAX][EXT_OUTCOME__MAX];
    struct kw_histogram *latency[EXT_VERB__MAX]; /**< inside the program, without the network */
    _Atomic uint64_t scored;                     /**< candidates scored from a curve */
    _Atomic uint64_t neutral;                    /**< candidates scored neutrally */
    _Atomic uint64_t bad_pod_values;
    _Atomic uint64_t outlooks[EXT_CPU_FROM__MAX]; /**< pods scored, by what is expected of them */
    _Atomic uint64_t profiles;                    /**< workloads of which something was learnt */
    _Atomic uint64_t profiles_skipped[EXT_PROFILE_SKIP__MAX];
    _Atomic uint64_t profile_failures; /**< readings of them that failed */
    _Atomic uint64_t skipped[EXT_SKIP__MAX];
    _Atomic uint64_t refreshes;
    _Atomic uint64_t whole_refreshes; /**< that read the index of all nodes */
    _Atomic uint64_t redis_failures;
    _Atomic bool redis_up;
    _Atomic bool watching;    /**< the API server tells of all pods that start */
    _Atomic bool watch_lost;  /**< it was to, and does not */
    _Atomic uint64_t flights; /**< pods placed and not measured yet */
    _Atomic uint64_t
        flights_bad; /**< pods that the API server told of and that were not understood */
    _Atomic uint64_t flights_missed; /**< pods for which there was no room or memory */
    _Atomic bool watching_nodes;     /**< the API server tells of nodes */
    _Atomic bool config_refused;     /**< the configuration that was read last cannot be taken */
    _Atomic bool caps_file_bad;      /**< the file of caps has changed and cannot be taken */
    _Atomic uint64_t rejected[EXT_CAP__MAX]; /**< candidates that were not passed */
    _Atomic uint64_t caps_closed;            /**< caps that are passed by what runs already */
    _Atomic uint64_t caps_stale;   /**< nodes that count for domains by their last figures */
    _Atomic uint64_t caps_unknown; /**< nodes that count for domains by the mean of others */
    _Atomic uint64_t caps_unseen;  /**< nodes that count as full, since this has just started */
    /* what a pod counts as under caps, of what was expected of it; 0: there are no caps */
    _Atomic uint64_t caps_flight_permille, caps_fresh_permille, caps_settling_permille;
    _Atomic bool zones_file_bad; /**< the file of zones cannot be taken as it is */
    _Atomic uint64_t zones;      /**< that are in force */
    _Atomic uint64_t zone_nodes_listed, zone_nodes_unlisted, zone_nodes_unlabelled;
    _Atomic uint64_t bad_node_values;
    _Atomic uint64_t nodes_bad; /**< nodes that the API server told of and were not understood */
    _Atomic uint64_t kube_writes, kube_write_failures; /**< annotations and Events */
    _Atomic uint64_t wakes;          /**< writes that woke pods which caps had rejected */
    _Atomic uint64_t dry_compared;   /**< pods of a dry run whose binding was seen */
    _Atomic int64_t dry_saved_mw;    /**< what kwatt's best nodes would have saved with them */
    _Atomic uint64_t events_dropped; /**< Events for which there was no room */
    _Atomic uint64_t tier_writes, tier_write_failures; /**< labels */
    _Atomic bool tiers_leader;                         /**< this replica writes them */
    _Atomic uint64_t tiers_due;                        /**< that are to be written */
    _Atomic uint64_t tiers_mcpu;  /**< of the pod that they are made for; 0: no tiers */
    _Atomic int64_t refreshed_ns; /**< CLOCK_MONOTONIC of the last good refresh; 0: none yet */
};

/** Makes the histograms. @return 0 or -ENOMEM. */
int ext_stats_init(struct ext_stats *stats);
void ext_stats_clear(struct ext_stats *stats);

/** What /metrics says of the snapshot. */
struct ext_census {
    uint64_t known;    /**< nodes in the snapshot */
    uint64_t stale;    /**< of them, silent for too long */
    uint64_t unpriced; /**< of them, without a curve */
};

/** Writes the whole /metrics page. @return 0 or -ENOMEM. */
int ext_stats_page(const struct ext_stats *stats, const struct ext_census *census, int64_t now_ns,
                   enum kw_metrics_format format, struct kw_buf *out);
