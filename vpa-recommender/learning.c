/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent says what a pod uses, and may say anything. Whose pod it is and where it runs says the
 * API server: so a bad node misstates the workloads of the pods that run there, by their number,
 * and no others.
 *
 * How long pods live says the API server alone.
 *
 * The past of a workload is in its profile, which is read again before it is written; a replica
 * that begins to lead goes on from there.
 */
#include "vpa-recommender/learning.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "common/cleanup.h"
#include "common/clock.h"

/** One pass over all nodes. */
#define PASS_NS (600 * KW_NS_PER_S)

/** Read in each loop at least; a cluster of a few nodes is done in one. */
#define NODES_MIN 8

/** Profiles of one pipeline. */
#define BATCH 128

#define EXPIRE_S "691200" /* KW_PROFILE_AGE_MAX_MS */
_Static_assert(KW_PROFILE_AGE_MAX_MS == INT64_C(691200) * 1000, "EXPIRE_S is the same");

const char *const rec_passed_names[REC_PASSED__MAX] = {
    [REC_PASSED_USED] = "used",       [REC_PASSED_UNKNOWN] = "unknown",
    [REC_PASSED_UNOWNED] = "unowned", [REC_PASSED_UNFIT] = "unfit",
    [REC_PASSED_LIMIT] = "limit",
};
_Static_assert(REC_PASSED__MAX == 5, "a fate without a name");

void rec_learning_clear(struct rec_learning *learning)
{
    rec_nodes_clear(&learning->nodes);
    rec_profiles_free(&learning->profiles);
    learning->at = 0;
}

static enum rec_passed pass(struct rec_learning *learning, const char *node,
                            const struct kw_pod_record *record)
{
    struct kw_top_owner owner;

    if (record->kind != KW_WORKLOAD_POD)
        return REC_PASSED_UNOWNED;
    const struct kw_pod *pod = rec_cluster_pod(learning->cluster, record->id);
    if (pod == NULL || strcmp(pod->node, node) != 0)
        return REC_PASSED_UNKNOWN;
    kw_top_owner_of(pod, &owner);
    if (owner.kind[0] == '\0')
        return REC_PASSED_UNOWNED;
    int rc = rec_profiles_add(learning->profiles, pod->namespace_, &owner, record,
                              learning->now_unix_ms);
    if (rc == -ENOMEM)
        learning->rc = rc;
    return rc == 1 ? REC_PASSED_USED : rc == -ENOSPC ? REC_PASSED_LIMIT : REC_PASSED_UNFIT;
}

static void on_record(void *user, const char *node, const struct kw_pod_record *record)
{
    struct rec_learning *learning = user;

    learning->passed[pass(learning, node, record)]++;
}

static int begin(struct rec_learning *learning, struct kw_err *err)
{
    rec_learning_clear(learning);
    int rc = rec_source_nodes(&learning->source, &learning->nodes, err);
    if (rc == 0)
        learning->profiles = rec_profiles_new();
    return rc == 0 && learning->profiles == NULL ? -ENOMEM : rc;
}

/** Queues the reading of up to BATCH profiles. @return how many, or -ENOMEM; *pods moves on. */
static int ask(struct rec_learning *learning, const struct rec_profile_pods **pods)
{
    int n = 0;

    for (; *pods != NULL && n < BATCH; *pods = rec_profiles_next(*pods), n++) {
        if (kw_redis_queue_texts(learning->source.redis, "HMGET", rec_profile_key(*pods),
                                 KW_FIELD_PROFILE, (const char *)NULL) < 0)
            return -ENOMEM;
    }
    return n;
}

/** The profile in a reply. @return NULL: there is none, or it is of no use. */
static const struct kw_profile *decode(const struct kw_redis_reply *reply, const char *key,
                                       struct kw_profile *ret)
{
    char its_key[KW_KEY_MAX];
    const struct kw_redis_reply *text =
        reply->type == KW_REDIS_ARRAY && reply->n_elements == 1 ? reply->elements : NULL;

    if (text == NULL || text->type != KW_REDIS_STRING ||
        kw_profile_decode(text->str, text->len, ret, NULL) < 0 ||
        kw_key_profile(its_key, ret->ns, ret->owner.kind, ret->owner.name) < 0 ||
        strcmp(its_key, key) != 0)
        return NULL;
    return ret;
}

/** Queues the writing of one profile. */
static int put(struct rec_learning *learning, const char *key, const struct kw_profile *profile)
{
    struct kw_redis *redis = learning->source.redis;
    kw_cleanup_free char *text = NULL;
    char score[24];
    size_t len = 0;

    (void)snprintf(score, sizeof(score), "%" PRId64, profile->t_unix_ms);
    int rc = kw_profile_encode(profile, &text, &len);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "HSET", key, KW_FIELD_PROFILE, text, (const char *)NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "EXPIRE", key, EXPIRE_S, (const char *)NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "ZADD", KW_KEY_PROFILES, score, KW_KEY_PROFILE_MEMBER(key),
                                  (const char *)NULL);
    learning->written += rc == 0;
    return rc;
}

/** Reads, learns and writes up to BATCH workloads from `*pods` on. */
static int write_batch(struct rec_learning *learning, const struct rec_profile_pods **pods,
                       struct kw_err *err)
{
    struct kw_redis_replies replies = {0};
    const struct rec_profile_pods *at = *pods;
    int rc = ask(learning, pods);

    if (rc < 0) {
        kw_redis_discard(learning->source.redis);
        return rc;
    }
    size_t n = (size_t)rc;
    rc = kw_redis_exec(learning->source.redis, &replies, err);
    for (size_t i = 0; rc == 0 && i < n && i < replies.n; i++, at = rec_profiles_next(at)) {
        struct kw_profile known, profile;
        const struct kw_profile *before = decode(&replies.items[i], rec_profile_key(at), &known);
        rec_profile_learn(at, before, learning->ends_since_unix_ms, learning->now_unix_ms,
                          &profile);
        if (rec_profile_differs(before, &profile))
            rc = put(learning, rec_profile_key(at), &profile);
        rc = rc == -EINVAL ? 0 : rc; /* numbers that cannot be written */
    }
    kw_redis_replies_free(&replies);
    if (rc < 0) {
        kw_redis_discard(learning->source.redis);
        return rc;
    }
    return rec_source_flush(&learning->source, err);
}

/** Forgets in the index what has expired. */
static int sweep(struct rec_learning *learning, struct kw_err *err)
{
    char oldest[24];

    (void)snprintf(oldest, sizeof(oldest), "%" PRId64,
                   learning->now_unix_ms - KW_PROFILE_AGE_MAX_MS);
    int rc = kw_redis_queue_texts(learning->source.redis, "ZREMRANGEBYSCORE", KW_KEY_PROFILES, "0",
                                  oldest, (const char *)NULL);
    return rc < 0 ? rc : rec_source_flush(&learning->source, err);
}

static void on_life(void *user, const char *key, const struct rec_life *life)
{
    struct rec_learning *learning = user;
    int rc = rec_profiles_add_life(learning->profiles, key, life);

    learning->rc = rc < 0 ? rc : learning->rc;
}

static int end(struct rec_learning *learning, struct kw_err *err)
{
    const struct rec_profile_pods *pods = rec_profiles_first(learning->profiles);

    rec_profiles_forget_lives(learning->profiles); /* of an end that failed */
    learning->ends_since_unix_ms = rec_cluster_lives(learning->cluster, on_life, learning);
    int rc = learning->rc;
    while (rc == 0 && pods != NULL)
        rc = write_batch(learning, &pods, err);
    if (rc == 0)
        rc = sweep(learning, err);
    if (rc == 0)
        learning->learnt = rec_profiles_count(learning->profiles);
    rec_learning_clear(learning);
    return rc;
}

int rec_learning_loop(struct rec_learning *learning, const struct rec_cluster *cluster,
                      uint64_t interval_ns, int64_t now_unix_ms, struct kw_err *err)
{
    int rc = 0;

    learning->cluster = cluster;
    learning->now_unix_ms = now_unix_ms;
    learning->rc = 0;
    if (learning->profiles == NULL)
        rc = begin(learning, err);
    uint64_t share = (uint64_t)learning->nodes.n * interval_ns / PASS_NS + 1;
    size_t n = share > NODES_MIN ? (size_t)share : NODES_MIN;
    for (; rc == 0 && n > 0 && learning->at < learning->nodes.n; n--) {
        const char *node = learning->nodes.names[learning->at];
        rc = rec_source_read_all(&learning->source, node, on_record, learning, err);
        learning->at += rc == 0;
        rc = rc == 0 ? learning->rc : rc;
    }
    if (rc == 0 && learning->at == learning->nodes.n)
        rc = end(learning, err);
    if (rc == -ENOMEM) {
        rec_learning_clear(learning);
        return kw_err_set(err, rc, "out of memory");
    }
    return rc;
}

void rec_learning_stats(const struct rec_learning *learning, struct rec_stats *stats)
{
    stats->profiles = learning->learnt;
    stats->profiles_written = learning->written;
    memcpy(stats->profile_pods, learning->passed, sizeof(stats->profile_pods));
}
