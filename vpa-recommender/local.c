/* SPDX-License-Identifier: Apache-2.0 */
#include "vpa-recommender/local.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"

static void on_record(void *user, const char *node, const struct kw_pod_record *record)
{
    struct rec_local *local = user;
    int rc = rec_workloads_feed(local->workloads, node, record, local->sample_interval_ms,
                                local->now_unix_ms, local->feeds);

    if (rc == -ENOSPC)
        local->source->fates[REC_RECORD_REFUSED]++;
    else if (rc < 0)
        local->rc = rc;
}

static int on_advice(void *user, const char *node, const struct kw_advice *advice)
{
    struct rec_local *local = user;
    int rc = rec_source_put_advice(local->source, node, advice);

    if (rc == -EINVAL) /* a name that is no UTF-8: nobody could read it */
        return 0;
    local->advices += rc == 0;
    return rc;
}

static void on_advised(void *user, const char *id)
{
    struct rec_local *local = user;

    if (!rec_workloads_running(local->workloads, local->node, id, local->now_unix_ms) &&
        local->rc == 0)
        local->rc = rec_source_drop_advice(local->source, local->node, id);
}

int rec_local_loop(struct rec_local *local, int64_t now_unix_ms, struct kw_err *err)
{
    kw_cleanup(rec_nodes_clear) struct rec_nodes nodes = {0};

    local->now_unix_ms = now_unix_ms;
    local->rc = 0;
    local->advices = 0;
    int rc = rec_source_nodes(local->source, &nodes, err);
    for (size_t i = 0; rc == 0 && i < nodes.n; i++)
        rc = rec_source_read_all(local->source, nodes.names[i], on_record, local, err);
    for (size_t i = 0; rc == 0 && i < nodes.n; i++) {
        local->node = nodes.names[i];
        rc = rec_source_advised(local->source, nodes.names[i], on_advised, local, err);
        /* removals go out before the next question, which would flush them under its own reply */
        if (rc == 0)
            rc = rec_source_flush(local->source, err);
    }
    if (rc < 0)
        return rc;
    rec_workloads_sweep(local->workloads, now_unix_ms);
    rc = rec_workloads_advise(local->workloads, now_unix_ms, on_advice, local);
    if (rc == 0)
        rc = local->rc;
    if (rc < 0) {
        kw_redis_discard(local->source->redis);
        return kw_err_set(err, rc, "out of memory");
    }
    return rec_source_flush(local->source, err);
}

void rec_local_stats(const struct rec_local *local, struct rec_stats *stats)
{
    memcpy(stats->feeds, local->feeds, sizeof(stats->feeds));
    stats->workloads = rec_workloads_count(local->workloads);
    stats->advices = local->advices;
}
