/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread sleeps until a snapshot is there, writes the newest one (those it missed are contained
 * in it), and sleeps again. A batch that fails is not repeated: the next snapshot holds all of it
 * and more.
 *
 * Records of workloads that left are removed by comparing with the ids of the last batch. After a
 * start, a failure or on another connection that memory is not enough (another agent of this name
 * wrote before, the removal was lost, or a replica took over that had not heard of it), so the next
 * batch asks Redis which fields there are.
 *
 * A batch may arrive at Redis and its answer not: writing it again changes nothing.
 */
#include "node-agent/publisher.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/batch.h"

struct agent_publisher {
    const struct kw_node_info *info;
    struct kw_snapshot *snapshots;
    struct agent_memory *memory;
    struct kw_log *log;
    struct kw_redis *redis;
    struct agent_batch_keys keys;
    struct agent_batch_ids ids, last_ids;
    bool reconcile;       /* ask Redis which records there are */
    uint64_t connections; /* at the last time that it was asked */
    bool reachable, said;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool pending, stopping; /* under lock */
    atomic_uint_fast64_t written, failed;
};

/** Queues removals of what Redis has and we do not. @return 0 or -errno of the question. */
static int queue_reconciliation(struct agent_publisher *publisher, struct kw_err *err)
{
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    int rc = kw_redis_queue_texts(publisher->redis, "HKEYS", publisher->keys.pods, NULL);

    if (rc == 0)
        rc = kw_redis_exec(publisher->redis, &replies, err);
    if (rc < 0)
        return rc;
    if (replies.n != 1 || replies.items[0].type != KW_REDIS_ARRAY)
        return kw_err_set(err, -EREMOTEIO, "HKEYS: %s",
                          replies.n == 1 && replies.items[0].type == KW_REDIS_ERROR
                              ? replies.items[0].str
                              : "not a list");
    for (size_t i = 0; i < replies.items[0].n_elements && rc == 0; i++) {
        const struct kw_redis_reply *field = &replies.items[0].elements[i];
        if (field->type == KW_REDIS_STRING && !agent_batch_ids_have(&publisher->ids, field->str))
            rc = agent_batch_queue_removal(publisher->redis, &publisher->keys, field->str);
    }
    return rc;
}

static int queue_removals(struct agent_publisher *publisher)
{
    int rc = 0;

    for (size_t i = 0; i < publisher->last_ids.n && rc == 0; i++) {
        const char *id = publisher->last_ids.ids[i];
        if (!agent_batch_ids_have(&publisher->ids, id))
            rc = agent_batch_queue_removal(publisher->redis, &publisher->keys, id);
    }
    return rc;
}

/** Queues the newest snapshot. @return 1 queued; 0 nothing is published; -errno. */
static int queue_newest(struct agent_publisher *publisher)
{
    size_t slot = 0;
    const struct agent_snapshot *snapshot = kw_snapshot_acquire(publisher->snapshots, &slot);
    int rc = 0;

    if (snapshot != NULL) {
        rc = agent_batch_ids_fill(&publisher->ids, snapshot);
        if (rc == 0)
            rc = agent_batch_queue(publisher->redis, &publisher->keys, publisher->info, snapshot);
        if (rc == 0)
            rc = 1;
    }
    kw_snapshot_release(publisher->snapshots, slot);
    return rc;
}

/** Says once that Redis is lost, and once that it is back. */
static void say(struct agent_publisher *publisher, int rc, const struct kw_err *err)
{
    bool reachable = rc == 0;

    if (rc == -EAGAIN || (publisher->said && reachable == publisher->reachable))
        return;
    if (reachable)
        kw_log_info(publisher->log, "publishing to redis",
                    kw_str("redis", kw_redis_name(publisher->redis)),
                    kw_str("node", publisher->info->node));
    else
        kw_log_warn(publisher->log, "redis is out of reach; sampling goes on and nothing is lost",
                    kw_str("redis", kw_redis_name(publisher->redis)),
                    kw_str("cause", err->text[0] != '\0' ? err->text : kw_errno_text(rc)));
    publisher->said = true;
    publisher->reachable = reachable;
}

static void publish(struct agent_publisher *publisher)
{
    struct kw_err err = {0};
    bool reconcile = publisher->reconcile;
    uint64_t connections = 0;
    int rc = 0;

    if (reconcile) {
        /* asked for before the batch is queued: the queue is one */
        size_t slot = 0;
        const struct agent_snapshot *snapshot = kw_snapshot_acquire(publisher->snapshots, &slot);
        if (snapshot != NULL)
            rc = agent_batch_ids_fill(&publisher->ids, snapshot);
        kw_snapshot_release(publisher->snapshots, slot);
        if (snapshot == NULL)
            return;
        if (rc == 0)
            rc = queue_reconciliation(publisher, &err);
        connections = kw_redis_connections(publisher->redis);
    }
    if (rc == 0)
        rc = queue_newest(publisher);
    if (rc == 0)
        return;
    if (rc > 0)
        rc = reconcile ? 0 : queue_removals(publisher);
    if (rc == 0)
        rc = kw_redis_exec(publisher->redis, NULL, &err);
    else
        kw_redis_discard(publisher->redis);
    if (rc == 0 && reconcile)
        publisher->connections = connections;
    publisher->reconcile =
        rc < 0 || publisher->connections != kw_redis_connections(publisher->redis);
    if (rc == 0) {
        struct agent_batch_ids ids = publisher->last_ids;
        publisher->last_ids = publisher->ids;
        publisher->ids = ids;
    }
    atomic_fetch_add(rc == 0 ? &publisher->written : &publisher->failed, 1);
    say(publisher, rc, &err);
}

static void *run(void *user)
{
    struct agent_publisher *publisher = user;
    bool stopping = false;

    if (publisher->memory != NULL)
        agent_memory_fetch(publisher->memory, publisher->redis);
    while (!stopping) {
        (void)pthread_mutex_lock(&publisher->lock);
        while (!publisher->pending && !publisher->stopping)
            (void)pthread_cond_wait(&publisher->woken, &publisher->lock);
        bool pending = publisher->pending;
        stopping = publisher->stopping;
        publisher->pending = false;
        (void)pthread_mutex_unlock(&publisher->lock);
        if (!pending)
            continue;
        publish(publisher);
        if (!publisher->reachable || publisher->memory == NULL)
            continue;
        agent_memory_fetch(publisher->memory, publisher->redis);
        agent_memory_write(publisher->memory, publisher->redis);
    }
    return NULL;
}

int agent_publisher_start(const struct agent_publisher_conf *conf, struct agent_publisher **ret,
                          struct kw_err *err)
{
    struct agent_publisher *publisher = calloc(1, sizeof(*publisher));

    if (publisher == NULL)
        return kw_err_set(err, -ENOMEM, "redis: out of memory");
    publisher->info = conf->info;
    publisher->snapshots = conf->snapshots;
    publisher->memory = conf->memory;
    publisher->log = conf->log;
    publisher->reconcile = true;
    (void)pthread_mutex_init(&publisher->lock, NULL);
    (void)pthread_cond_init(&publisher->woken, NULL);
    int rc = kw_redis_new(&conf->redis, &publisher->redis, err);
    if (rc == 0 && (kw_key_node(publisher->keys.node, conf->info->node) < 0 ||
                    kw_key_pods(publisher->keys.pods, conf->info->node) < 0))
        rc = kw_err_set(err, -EINVAL, "node name \"%s\" cannot be part of a Redis key",
                        conf->info->node);
    if (rc == 0) {
        kw_key_feed(publisher->keys.feed, kw_feed_shard(conf->info->node));
        rc = -pthread_create(&publisher->thread, NULL, run, publisher);
        if (rc < 0)
            (void)kw_err_set(err, rc, "redis: no thread: %s", kw_errno_text(rc));
    }
    if (rc < 0) {
        kw_redis_free(&publisher->redis);
        free(publisher);
        return rc;
    }
    *ret = publisher;
    return 0;
}

void agent_publisher_wake(struct agent_publisher *publisher)
{
    (void)pthread_mutex_lock(&publisher->lock);
    publisher->pending = true;
    (void)pthread_mutex_unlock(&publisher->lock);
    (void)pthread_cond_signal(&publisher->woken); /* with the lock held it would wake to wait */
}

void agent_publisher_counts(const struct agent_publisher *publisher, uint64_t *ret_written,
                            uint64_t *ret_failed)
{
    *ret_written = atomic_load(&publisher->written);
    *ret_failed = atomic_load(&publisher->failed);
}

void agent_publisher_stop(struct agent_publisher **publisher)
{
    struct agent_publisher *owned = KW_TAKE_PTR(*publisher);

    if (owned == NULL)
        return;
    (void)pthread_mutex_lock(&owned->lock);
    owned->stopping = true;
    (void)pthread_cond_signal(&owned->woken);
    (void)pthread_mutex_unlock(&owned->lock);
    (void)pthread_join(owned->thread, NULL);
    kw_redis_free(&owned->redis);
    agent_batch_ids_free(&owned->ids);
    agent_batch_ids_free(&owned->last_ids);
    (void)pthread_mutex_destroy(&owned->lock);
    (void)pthread_cond_destroy(&owned->woken);
    free(owned);
}
