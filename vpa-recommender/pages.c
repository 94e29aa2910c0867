/* SPDX-License-Identifier: Apache-2.0 */
#include "vpa-recommender/pages.h"

#include "common/clock.h"
#include "common/version.h"

#define MISSED_LOOPS    5
#define HEALTH_LEAST_NS (60 * KW_NS_PER_S)

#define LABELS(...) ((const struct kw_label[]){__VA_ARGS__, {0}})

static void family(struct kw_metrics_page *page, const char *name, enum kw_metric_type type,
                   const char *help, uint64_t value)
{
    kw_metrics_family(page, name, type, help);
    kw_metrics_u64(page, NULL, value);
}

static void by_name(struct kw_metrics_page *page, const char *name, const char *help,
                    const char *label, const char *const *names, const uint64_t *values, size_t n)
{
    kw_metrics_family(page, name, KW_METRIC_COUNTER, help);
    for (size_t i = 0; i < n; i++)
        kw_metrics_u64(page, LABELS({label, names[i]}), values[i]);
}

static void vpas(struct kw_metrics_page *page, const struct rec_stats *stats)
{
    static const char *const truth[2] = {"false", "true"};

    kw_metrics_family(page, "kwatt_recommender_vpa_objects", KW_METRIC_GAUGE,
                      "VPAs that name this recommender.");
    for (unsigned i = 0; i < KW_VPA_MODE__MAX * 8; i++) {
        unsigned mode = i / 8, has = i / 4 % 2, matches = i / 2 % 2, unsupported = i % 2;
        uint64_t count = stats->vpas[mode][has][matches][unsupported];
        if (count > 0)
            kw_metrics_u64(page,
                           LABELS({"update_mode", kw_vpa_mode_names[mode]},
                                  {"has_recommendation", truth[has]},
                                  {"matches_pods", truth[matches]},
                                  {"unsupported_config", truth[unsupported]}),
                           count);
    }
}

static void cluster(struct kw_metrics_page *page, const struct rec_stats *stats)
{
    vpas(page, stats);
    family(page, "kwatt_recommender_leader", KW_METRIC_GAUGE,
           "Whether this replica writes: of several the one that holds the Lease.", stats->leader);
    kw_metrics_family(page, "kwatt_recommender_watch_up", KW_METRIC_GAUGE,
                      "Whether the watch of a collection stands.");
    for (size_t i = 0; i < REC_COLLECTION__MAX; i++)
        kw_metrics_u64(page, LABELS({"collection", rec_collection_names[i]}), stats->up[i]);
    by_name(page, "kwatt_recommender_undecodable_objects_total",
            "Objects of the API server that could not be read.", "collection", rec_collection_names,
            stats->undecodable, REC_COLLECTION__MAX);
    by_name(page, "kwatt_recommender_status_patches_total",
            "VPA statuses made, by what became of them.", "result", rec_patch_fate_names,
            stats->patches, REC_PATCH__MAX);
    family(page, "kwatt_recommender_api_calls_total", KW_METRIC_COUNTER,
           "Calls to the API server, watches left out.", stats->api_calls);
    family(page, "kwatt_recommender_api_errors_total", KW_METRIC_COUNTER,
           "Calls to the API server that failed.", stats->api_errors);
    family(page, "kwatt_recommender_pods", KW_METRIC_GAUGE, "Pods in view.", stats->pods);
    family(page, "kwatt_recommender_covered_pods", KW_METRIC_GAUGE, "Pods under a VPA.",
           stats->covered);
    family(page, "kwatt_recommender_profiles", KW_METRIC_GAUGE,
           "Workloads whose pods' use was learnt in the last pass over all nodes.",
           stats->profiles);
    family(page, "kwatt_recommender_profiles_written_total", KW_METRIC_COUNTER,
           "Profiles of workloads written to Redis.", stats->profiles_written);
    by_name(page, "kwatt_recommender_profile_records_total",
            "Records looked at for profiles, by what became of them.", "result", rec_passed_names,
            stats->profile_pods, REC_PASSED__MAX);
    family(page, "kwatt_recommender_aggregate_containers", KW_METRIC_GAUGE,
           "Containers by VPA and name of whose use something is known.", stats->containers);
    family(page, "kwatt_recommender_container_instances", KW_METRIC_GAUGE,
           "Container instances that feed them.", stats->instances);
}

int rec_pages_metrics(const struct rec_stats *stats, enum kw_metrics_format format,
                      struct kw_buf *out)
{
    struct kw_metrics_page page = {0};

    kw_metrics_begin(&page, format, out);
    kw_metrics_family(&page, "kwatt_build_info", KW_METRIC_GAUGE, "Version of this program.");
    kw_metrics_u64(&page, LABELS({"version", kw_version()}, {"commit", kw_version_commit()}), 1);
    if (stats != NULL) {
        family(&page, "kwatt_recommender_loops_total", KW_METRIC_COUNTER, "Loops finished.",
               stats->loops);
        kw_metrics_family(&page, "kwatt_recommender_last_loop_seconds", KW_METRIC_GAUGE,
                          "How long the last loop took.");
        kw_metrics_scaled(&page, NULL, stats->loop_ns, 9);
        family(&page, "kwatt_recommender_redis_up", KW_METRIC_GAUGE,
               "Whether the last loop could read from Redis.", stats->redis_up);
        family(&page, "kwatt_recommender_redis_errors_total", KW_METRIC_COUNTER,
               "Loops that could not read from, or write to, Redis.", stats->redis_errors);
        by_name(&page, "kwatt_recommender_records_total",
                "Records of agents, by what became of them.", "result", rec_record_fate_names,
                stats->fates, REC_RECORD__MAX);
        by_name(&page, "kwatt_recommender_readings_total",
                "Readings of containers in those records, by what was made of them.", "result",
                rec_feed_result_names, stats->feeds, REC_FEED__MAX);
        if (stats->cluster) {
            cluster(&page, stats);
        } else {
            family(&page, "kwatt_recommender_workloads", KW_METRIC_GAUGE,
                   "Workloads of whose use something is known.", stats->workloads);
            family(&page, "kwatt_recommender_advices", KW_METRIC_GAUGE,
                   "Advices written in the last loop.", stats->advices);
        }
    }
    return kw_metrics_end(&page);
}

bool rec_pages_healthy(const struct rec_stats *stats, uint64_t interval_ns, uint64_t started_ns,
                       uint64_t now_ns, const char **ret_why)
{
    uint64_t patience_ns = MISSED_LOOPS * interval_ns;
    uint64_t since_ns = stats != NULL ? stats->loop_end_ns : started_ns;

    if (patience_ns < HEALTH_LEAST_NS)
        patience_ns = HEALTH_LEAST_NS;
    bool healthy = now_ns < since_ns + patience_ns;
    *ret_why = healthy ? "ok\n" : "no loop has ended for five intervals\n";
    return healthy;
}

bool rec_pages_ready(const struct rec_stats *stats, const char **ret_why)
{
    *ret_why = stats != NULL && stats->cluster && !stats->leader ? "ok, standing by\n" : "ok\n";
    if (stats == NULL)
        *ret_why = "the first loop has not ended yet\n";
    else if (!stats->redis_up)
        *ret_why = "Redis does not answer\n";
    else if (stats->cluster && !stats->synced)
        *ret_why = "VPAs and pods are not listed completely yet\n";
    else if (stats->cluster && !stats->elected)
        *ret_why = "the Lease of the leader cannot be read\n";
    else
        return true;
    return false;
}
