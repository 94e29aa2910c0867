/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/stats.h"

#include <errno.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/version.h"

const char *const ext_verb_names[EXT_VERB__MAX] = {
    [EXT_VERB_FILTER] = "filter",
    [EXT_VERB_PRIORITIZE] = "prioritize",
    [EXT_VERB_PREEMPT] = "preempt",
};
_Static_assert(sizeof(ext_verb_names) / sizeof(*ext_verb_names) == EXT_VERB__MAX,
               "every verb has a name");

const char *const ext_outcome_names[EXT_OUTCOME__MAX] = {
    [EXT_OUTCOME_OK] = "ok",
    [EXT_OUTCOME_REFUSED] = "refused",
    [EXT_OUTCOME_FAILED] = "failed",
};
_Static_assert(sizeof(ext_outcome_names) / sizeof(*ext_outcome_names) == EXT_OUTCOME__MAX,
               "every outcome has a name");

/** Around the figures to hold: 100 us at 500 names, 6 ms at 15000; up to the scheduler's patience.
 */
static const uint64_t bounds_ns[] = {
    10000,   25000,   50000,    100000,   200000,    500000,     1000000,
    2000000, 5000000, 10000000, 50000000, 200000000, 1000000000,
};

int ext_stats_init(struct ext_stats *stats)
{
    for (unsigned i = 0; i < EXT_VERB__MAX; i++) {
        stats->latency[i] = kw_histogram_new(bounds_ns, KW_ARRAY_SIZE(bounds_ns));
        if (stats->latency[i] == NULL)
            return -ENOMEM;
    }
    return 0;
}

void ext_stats_clear(struct ext_stats *stats)
{
    for (unsigned i = 0; i < EXT_VERB__MAX; i++)
        kw_histogram_free(&stats->latency[i]);
}

/** A family of one series without labels: a number or a truth of the stats. */
struct row {
    const char *name;
    enum kw_metric_type type;
    bool is_truth;
    size_t offset;
    const char *help;
};

#define NUMBER(field) false, offsetof(struct ext_stats, field)
#define TRUTH(field)  true, offsetof(struct ext_stats, field)

static const struct row rows[] = {
    {"kwatt_extender_bad_pod_values_total", KW_METRIC_COUNTER, NUMBER(bad_pod_values),
     "Requests and annotations of pods that were replaced by their default."},
    {"kwatt_extender_profiles", KW_METRIC_GAUGE, NUMBER(profiles),
     "Workloads of which the use of their pods was learnt."},
    {"kwatt_extender_profile_failures_total", KW_METRIC_COUNTER, NUMBER(profile_failures),
     "Readings of profiles from Redis that failed."},
    {"kwatt_extender_watching_pods", KW_METRIC_GAUGE, TRUTH(watching),
     "1 while the API server tells of the pods that start."},
    {"kwatt_extender_pods_in_flight", KW_METRIC_GAUGE, NUMBER(flights),
     "Pods that were placed and are not in what the agents measure yet."},
    {"kwatt_extender_redis_up", KW_METRIC_GAUGE, TRUTH(redis_up),
     "1 while the last reading of Redis succeeded."},
    {"kwatt_extender_refreshes_total", KW_METRIC_COUNTER, NUMBER(refreshes),
     "Readings of Redis that succeeded."},
    {"kwatt_extender_whole_refreshes_total", KW_METRIC_COUNTER, NUMBER(whole_refreshes),
     "Of them, those that read the index of all nodes, and not the feeds alone."},
    {"kwatt_extender_redis_failures_total", KW_METRIC_COUNTER, NUMBER(redis_failures),
     "Readings of Redis that failed."},
    {"kwatt_extender_watching_nodes", KW_METRIC_GAUGE, TRUTH(watching_nodes),
     "1 while the API server tells of nodes, their caps and domains."},
    {"kwatt_extender_nodes_skipped_total", KW_METRIC_COUNTER, NUMBER(nodes_bad),
     "Nodes that the API server told of and that were not understood."},
    {"kwatt_extender_bad_node_values_total", KW_METRIC_COUNTER, NUMBER(bad_node_values),
     "Labels and annotations of nodes that were replaced by their default."},
    {"kwatt_extender_config_refused", KW_METRIC_GAUGE, TRUTH(config_refused),
     "Whether the configuration that SIGHUP had read last cannot be taken."},
    {"kwatt_extender_caps_file_bad", KW_METRIC_GAUGE, TRUTH(caps_file_bad),
     "1 while the file of caps cannot be taken and its last good content holds."},
    {"kwatt_extender_caps_closed", KW_METRIC_GAUGE, NUMBER(caps_closed),
     "Caps of nodes and domains that are passed by what runs already."},
    {"kwatt_extender_kube_writes_total", KW_METRIC_COUNTER, NUMBER(kube_writes),
     "Annotations and Events that were sent to the API server."},
    {"kwatt_extender_kube_write_failures_total", KW_METRIC_COUNTER, NUMBER(kube_write_failures),
     "Of these, the ones that failed."},
    {"kwatt_extender_wakes_total", KW_METRIC_COUNTER, NUMBER(wakes),
     "Annotations that were written at once since a pod that caps had rejected "
     "has room."},
    {"kwatt_extender_events_dropped_total", KW_METRIC_COUNTER, NUMBER(events_dropped),
     "Events for which there was no room."},
    {"kwatt_extender_zones", KW_METRIC_GAUGE, NUMBER(zones),
     "Zones whose price of energy is known."},
    {"kwatt_extender_zones_file_bad", KW_METRIC_GAUGE, TRUTH(zones_file_bad),
     "1 while the file of zones cannot be taken and its last good content holds."},
    {"kwatt_extender_tiers_leader", KW_METRIC_GAUGE, TRUTH(tiers_leader),
     "1 while this replica writes the tiers of nodes to their labels."},
    {"kwatt_extender_tier_writes_total", KW_METRIC_COUNTER, NUMBER(tier_writes),
     "Tiers of nodes that were sent to the API server."},
    {"kwatt_extender_tier_write_failures_total", KW_METRIC_COUNTER, NUMBER(tier_write_failures),
     "Of these, the ones that failed."},
    {"kwatt_extender_tiers_due", KW_METRIC_GAUGE, NUMBER(tiers_due),
     "Nodes whose tier was to be written when they were last looked at."},
    {"kwatt_extender_dry_run_pods_total", KW_METRIC_COUNTER, NUMBER(dry_compared),
     "Pods of a dry run that were seen bound to a node."},
};

static void page_rows(struct kw_metrics_page *page, const struct ext_stats *stats)
{
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        const void *at = (const char *)stats + rows[i].offset;
        kw_metrics_family(page, rows[i].name, rows[i].type, rows[i].help);
        kw_metrics_u64(page, NULL,
                       rows[i].is_truth ? *(const _Atomic bool *)at
                                        : *(const _Atomic uint64_t *)at);
    }
}

static void page_requests(struct kw_metrics_page *page, const struct ext_stats *stats)
{
    kw_metrics_family(page, "kwatt_extender_requests_total", KW_METRIC_COUNTER,
                      "Requests of the scheduler by verb and outcome.");
    for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++) {
        for (unsigned outcome = 0; outcome < EXT_OUTCOME__MAX; outcome++) {
            const struct kw_label labels[] = {
                {"verb", ext_verb_names[verb]}, {"outcome", ext_outcome_names[outcome]}, {0}};
            kw_metrics_u64(page, labels, stats->requests[verb][outcome]);
        }
    }
    struct kw_label sets[EXT_VERB__MAX][2];
    const struct kw_label *labels[EXT_VERB__MAX];
    for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++) {
        sets[verb][0] = (struct kw_label){"verb", ext_verb_names[verb]};
        sets[verb][1] = (struct kw_label){0};
        labels[verb] = sets[verb];
    }
    kw_metrics_histograms(page, "kwatt_extender_request_duration_seconds",
                          "Time from a request read to its answer made, without the network.",
                          labels, stats->latency, EXT_VERB__MAX);
    kw_metrics_family(page, "kwatt_extender_candidates_total", KW_METRIC_COUNTER,
                      "Nodes scored, by what the score rests on.");
    kw_metrics_u64(page, (const struct kw_label[]){{"by", "curve"}, {0}}, stats->scored);
    kw_metrics_u64(page, (const struct kw_label[]){{"by", "neutral"}, {0}}, stats->neutral);
}

static void page_profiles(struct kw_metrics_page *page, const struct ext_stats *stats)
{
    kw_metrics_family(page, "kwatt_extender_pods_expected_total", KW_METRIC_COUNTER,
                      "Pods scored, by where their expected CPU was taken from.");
    for (unsigned i = 0; i < EXT_CPU_FROM__MAX; i++)
        kw_metrics_u64(page, (const struct kw_label[]){{"from", ext_cpu_from_names[i]}, {0}},
                       stats->outlooks[i]);
    kw_metrics_family(page, "kwatt_extender_profiles_skipped_total", KW_METRIC_COUNTER,
                      "Profiles of workloads that were left out, by reason.");
    for (unsigned i = 0; i < EXT_PROFILE_SKIP__MAX; i++)
        kw_metrics_u64(page, (const struct kw_label[]){{"reason", ext_profile_skip_names[i]}, {0}},
                       stats->profiles_skipped[i]);
}

static void page_nodes(struct kw_metrics_page *page, const struct ext_stats *stats,
                       const struct ext_census *census, int64_t now_ns)
{
    int64_t refreshed_ns = stats->refreshed_ns;

    kw_metrics_family(page, "kwatt_extender_nodes", KW_METRIC_GAUGE, "Nodes known from Redis.");
    kw_metrics_u64(page, NULL, census->known);
    kw_metrics_family(page, "kwatt_extender_nodes_stale", KW_METRIC_GAUGE,
                      "Nodes known whose last sample is too old: they score neutrally.");
    kw_metrics_u64(page, NULL, census->stale);
    kw_metrics_family(page, "kwatt_extender_nodes_unpriced", KW_METRIC_GAUGE,
                      "Nodes known without a power curve: they score neutrally.");
    kw_metrics_u64(page, NULL, census->unpriced);
    if (refreshed_ns > 0) {
        kw_metrics_family(page, "kwatt_extender_snapshot_age_seconds", KW_METRIC_GAUGE,
                          "Time since the nodes were last read from Redis.");
        kw_metrics_double(page, NULL, (double)(now_ns - refreshed_ns) / 1e9);
    }
    kw_metrics_family(page, "kwatt_extender_records_skipped_total", KW_METRIC_COUNTER,
                      "Records in Redis, or parts of them, that were left out, by reason.");
    for (unsigned i = 0; i < EXT_SKIP__MAX; i++)
        kw_metrics_u64(page, (const struct kw_label[]){{"reason", ext_skip_names[i]}, {0}},
                       stats->skipped[i]);
    kw_metrics_family(page, "kwatt_extender_pods_skipped_total", KW_METRIC_COUNTER,
                      "Pods that start and were not reckoned with, by reason.");
    kw_metrics_u64(page, (const struct kw_label[]){{"reason", "bad"}, {0}}, stats->flights_bad);
    kw_metrics_u64(page, (const struct kw_label[]){{"reason", "room"}, {0}}, stats->flights_missed);
}

static void page_caps(struct kw_metrics_page *page, const struct ext_stats *stats)
{
    kw_metrics_family(page, "kwatt_extender_capped_candidates_total", KW_METRIC_COUNTER,
                      "Candidates that /filter did not pass, by the cap that was in the way.");
    for (unsigned i = EXT_CAP_PASSES + 1; i < EXT_CAP__MAX; i++)
        kw_metrics_u64(page, (const struct kw_label[]){{"cap", ext_cap_names[i]}, {0}},
                       stats->rejected[i]);
    kw_metrics_family(page, "kwatt_extender_caps_guessed_nodes", KW_METRIC_GAUGE,
                      "Nodes that count for domains by their last figures (stale), by the mean of "
                      "the others (unknown), or as full after a start (start).");
    kw_metrics_u64(page, (const struct kw_label[]){{"reason", "stale"}, {0}}, stats->caps_stale);
    kw_metrics_u64(page, (const struct kw_label[]){{"reason", "unknown"}, {0}},
                   stats->caps_unknown);
    kw_metrics_u64(page, (const struct kw_label[]){{"reason", "start"}, {0}}, stats->caps_unseen);
    kw_metrics_family(page, "kwatt_extender_caps_counted_permille", KW_METRIC_GAUGE,
                      "What is counted under caps of a pod's expected CPU: in flight, and what is "
                      "kept free for its growth afterwards.");
    kw_metrics_u64(page, (const struct kw_label[]){{"of", "in_flight"}, {0}},
                   stats->caps_flight_permille);
    kw_metrics_u64(page, (const struct kw_label[]){{"of", "growth_first_minute"}, {0}},
                   stats->caps_fresh_permille);
    kw_metrics_u64(page, (const struct kw_label[]){{"of", "growth_later"}, {0}},
                   stats->caps_settling_permille);
}

static void page_zones(struct kw_metrics_page *page, const struct ext_stats *stats)
{
    kw_metrics_family(page, "kwatt_extender_zone_nodes", KW_METRIC_GAUGE,
                      "Nodes by whether their zone has a price; where not, they are priced as the "
                      "median: the file does not name it (unlisted), or no zone of theirs is known "
                      "(unlabelled).");
    kw_metrics_u64(page, (const struct kw_label[]){{"zone", "listed"}, {0}},
                   stats->zone_nodes_listed);
    kw_metrics_u64(page, (const struct kw_label[]){{"zone", "unlisted"}, {0}},
                   stats->zone_nodes_unlisted);
    kw_metrics_u64(page, (const struct kw_label[]){{"zone", "unlabelled"}, {0}},
                   stats->zone_nodes_unlabelled);
}

static void page_tiers(struct kw_metrics_page *page, const struct ext_stats *stats)
{
    kw_metrics_family(page, "kwatt_extender_tiers_pod_cores", KW_METRIC_GAUGE,
                      "CPU of the typical pod that tiers are made for; 0 without tiers.");
    kw_metrics_double(page, NULL, (double)stats->tiers_mcpu / 1000);
}

static void page_dry_run(struct kw_metrics_page *page, const struct ext_stats *stats)
{
    kw_metrics_family(page, "kwatt_extender_dry_run_saved_watts", KW_METRIC_GAUGE,
                      "Watts that these would have added less on the nodes kwatt found best, all "
                      "together.");
    kw_metrics_double(page, NULL, (double)stats->dry_saved_mw / 1000);
}

int ext_stats_page(const struct ext_stats *stats, const struct ext_census *census, int64_t now_ns,
                   enum kw_metrics_format format, struct kw_buf *out)
{
    struct kw_metrics_page page = {0};
    const struct kw_label build[] = {
        {"version", kw_version()}, {"commit", kw_version_commit()}, {0}};

    kw_metrics_begin(&page, format, out);
    kw_metrics_family(&page, "kwatt_extender_build_info", KW_METRIC_GAUGE,
                      "Version of the program; always 1.");
    kw_metrics_u64(&page, build, 1);
    page_rows(&page, stats);
    page_requests(&page, stats);
    page_profiles(&page, stats);
    page_nodes(&page, stats, census, now_ns);
    page_caps(&page, stats);
    page_zones(&page, stats);
    page_tiers(&page, stats);
    page_dry_run(&page, stats);
    return kw_metrics_end(&page);
}
