/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One batch: ZADD of the node, HSET of its sample, curve and info, XADD of the same in short to its
 * feed, HSET of all workloads (in groups, so that no command grows without bound), and EXPIRE on
 * all but the set: the keys of a node that died vanish after an hour. Records of idle workloads are
 * written too: that a workload used nothing is news for a reader that differences times.
 */
#include "node-agent/batch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/view.h"

#define EXPIRE_S "3600"

/* Members of the set of nodes have no expiry of their own; a day is beyond any clock's error. */
#define NODE_FORGOTTEN_MS (INT64_C(24) * 3600 * 1000)

/* Workloads per HSET: about 64 KiB. */
#define GROUP 64

void agent_batch_ids_free(struct agent_batch_ids *ids)
{
    kw_buf_free(&ids->text);
    free(ids->ids);
    *ids = (struct agent_batch_ids){0};
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int agent_batch_ids_fill(struct agent_batch_ids *ids, const struct agent_snapshot *snapshot)
{
    kw_buf_reset(&ids->text);
    ids->n = 0;
    if (snapshot->n_rows > ids->cap) {
        const char **grown = reallocarray(ids->ids, snapshot->n_rows, sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        ids->ids = grown;
        ids->cap = snapshot->n_rows;
    }
    for (size_t i = 0; i < snapshot->n_rows; i++) {
        const char *id = snapshot->rows[i].label->id;
        if (kw_buf_add(&ids->text, id, strlen(id) + 1) < 0)
            return -ENOMEM;
    }
    /* only now does the text stand still */
    const char *at = ids->text.data;
    for (size_t i = 0; i < snapshot->n_rows; i++) {
        ids->ids[ids->n++] = at;
        at += strlen(at) + 1;
    }
    if (ids->n > 0)
        qsort(ids->ids, ids->n, sizeof(*ids->ids), compare_ids);
    return 0;
}

bool agent_batch_ids_have(const struct agent_batch_ids *ids, const char *id)
{
    return ids->n > 0 && bsearch(&id, ids->ids, ids->n, sizeof(*ids->ids), compare_ids) != NULL;
}

static int queue_node(struct kw_redis *redis, const struct agent_batch_keys *keys,
                      const struct kw_node_info *info, const struct agent_snapshot *snapshot)
{
    kw_cleanup_free char *sample = NULL;
    kw_cleanup_free char *curve = NULL;
    kw_cleanup_free char *info_json = NULL;
    kw_cleanup_free char *digest = NULL;
    struct kw_curve known = snapshot->curve;
    size_t unused_len = 0;
    char score[32], forgotten[32];
    int rc = kw_sample_encode(&snapshot->sample, &sample, &unused_len);

    (void)snprintf(known.machine, sizeof(known.machine), "%s", info->cpu_model);
    if (rc == 0)
        rc = kw_curve_encode(&known, &curve, &unused_len);
    if (rc == 0)
        rc = kw_node_info_encode(info, &info_json, &unused_len);
    if (rc == 0)
        rc = kw_sample_encode_digest(&snapshot->sample, &digest, &unused_len);
    if (rc < 0)
        return rc;
    (void)snprintf(score, sizeof(score), "%lld", (long long)snapshot->sample.t_unix_ms);
    (void)snprintf(forgotten, sizeof(forgotten), "(%lld",
                   (long long)(snapshot->sample.t_unix_ms - NODE_FORGOTTEN_MS));
    rc = kw_redis_queue_texts(redis, "ZADD", KW_KEY_NODES, score, info->node, NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "ZREMRANGEBYSCORE", KW_KEY_NODES, "-inf", forgotten, NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "HSET", keys->node, KW_FIELD_SAMPLE, sample,
                                  KW_FIELD_CURVE, curve, KW_FIELD_INFO, info_json, NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "EXPIRE", keys->node, EXPIRE_S, NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "XADD", keys->feed, "MAXLEN", "~", KW_FEED_LENGTH, "*",
                                  KW_FIELD_SAMPLE, digest, KW_FIELD_CURVE, curve, NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "EXPIRE", keys->feed, EXPIRE_S, NULL);
    return rc;
}

/** Queues one HSET of the rows [from, to). */
static int queue_group(struct kw_redis *redis, const struct agent_batch_keys *keys,
                       const struct agent_snapshot *snapshot,
                       struct kw_container_record *containers, size_t from, size_t to)
{
    const char *argv[2 + 2 * GROUP] = {"HSET", keys->pods};
    size_t argc = 2;
    int rc = 0;

    for (size_t i = from; i < to && rc == 0; i++) {
        struct kw_pod_record record;
        char *json = NULL;
        size_t len = 0;
        agent_view_record(snapshot, &snapshot->rows[i], containers, &record);
        rc = kw_pod_record_encode(&record, &json, &len);
        if (rc == -EINVAL) { /* a text that is no UTF-8 harms its own record only */
            rc = 0;
            continue;
        }
        if (rc < 0)
            break;
        argv[argc++] = record.id;
        argv[argc++] = json;
    }
    if (rc == 0 && argc > 2)
        rc = kw_redis_queue(redis, argc, argv, NULL);
    for (size_t i = 3; i < argc; i += 2)
        free((char *)argv[i]);
    return rc;
}

int agent_batch_queue(struct kw_redis *redis, const struct agent_batch_keys *keys,
                      const struct kw_node_info *info, const struct agent_snapshot *snapshot)
{
    kw_cleanup_free struct kw_container_record *containers =
        calloc(snapshot->n_containers + 1, sizeof(*containers));

    if (containers == NULL)
        return -ENOMEM;
    int rc = queue_node(redis, keys, info, snapshot);
    for (size_t from = 0; from < snapshot->n_rows && rc == 0; from += GROUP) {
        size_t to = from + GROUP < snapshot->n_rows ? from + GROUP : snapshot->n_rows;
        rc = queue_group(redis, keys, snapshot, containers, from, to);
    }
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "EXPIRE", keys->pods, EXPIRE_S, NULL);
    return rc;
}

int agent_batch_queue_removal(struct kw_redis *redis, const struct agent_batch_keys *keys,
                              const char *id)
{
    return kw_redis_queue_texts(redis, "HDEL", keys->pods, id, NULL);
}
