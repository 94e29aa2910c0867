/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: 15000 nodes publish every few seconds, and a request must find the latest of each
 * without waiting.
 *
 * Approach: one round trip brings the index (names and times of publishing, newest first); a node
 * whose time is that of the last snapshot is carried over, the others are read in pipelines of a
 * few hundred, so that Redis is never blocked by one large command and a reply never grows beyond
 * some megabytes. Decoding happens here, in the background thread; a curve that did not change is
 * not decoded again.
 *
 * Invariants: a refresh either yields a whole snapshot or leaves the last one in force; a record
 * that cannot be read never hides another; the number of nodes and the size of each value are
 * bounded.
 */
#include "extender/refresh.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/names.h"
#include "common/num.h"

/** Several times the largest cluster that Kubernetes supports; the newest are taken. */
#define NODES_MAX      100000
#define NODES_MAX_LAST "99999"

/** Records in one pipeline: some hundred kilobytes to a few megabytes of replies. */
#define BATCH 256

/** Unix milliseconds as a sorted set holds them: a double, exact up to 2^53. */
#define SCORE_MAX 9007199254740992.0

struct ext_refresh {
    struct kw_redis *redis;
    uint64_t stale_after_ns;
    uint64_t seed;
    struct kw_sample *scratch;
    _Atomic bool cancelled;
};

/** State of one refresh. */
struct work {
    struct ext_refresh *refresh;
    const struct ext_snapshot *before;
    const struct ext_instant *now;
    struct ext_refresh_result *result;
    struct ext_node *nodes; /**< those known before in their places, then the new ones; a node that
                               is gone leaves its place empty */
    size_t n_new;
    size_t n_carried; /**< of those known before, still there */
    struct ext_record batch[BATCH];
    size_t n_batch;
    char key[KW_KEY_MAX];
};

int ext_refresh_new(const struct kw_redis_conf *conf, uint64_t stale_after_ns,
                    struct ext_refresh **ret, struct kw_err *err)
{
    struct ext_refresh *refresh = calloc(1, sizeof(*refresh));
    int rc = -ENOMEM;

    if (refresh != NULL) {
        refresh->stale_after_ns = stale_after_ns;
        refresh->scratch = calloc(1, sizeof(*refresh->scratch));
        if (refresh->scratch != NULL)
            rc = kw_redis_new(conf, &refresh->redis, err);
    }
    if (rc == 0 &&
        getrandom(&refresh->seed, sizeof(refresh->seed), 0) != (ssize_t)sizeof(refresh->seed))
        rc = kw_err_set(err, -errno, "the system gives no random numbers");
    if (rc < 0) {
        ext_refresh_free(&refresh);
        return rc;
    }
    *ret = refresh;
    return 0;
}

void ext_refresh_free(struct ext_refresh **refresh)
{
    if (*refresh == NULL)
        return;
    kw_redis_free(&(*refresh)->redis);
    free((*refresh)->scratch);
    free(*refresh);
    *refresh = NULL;
}

const char *ext_refresh_name(const struct ext_refresh *refresh)
{
    return kw_redis_name(refresh->redis);
}

void ext_refresh_cancel(struct ext_refresh *refresh)
{
    refresh->cancelled = true;
}

/** Where a node goes: nodes keep their order, so that what requests have learnt of it stays right.
 * @param before the node in the last snapshot, or NULL. */
static struct ext_node *place_of(struct work *work, const struct ext_node *before)
{
    const struct ext_snapshot *last = work->before;

    if (last == NULL || before == NULL)
        return &work->nodes[(last == NULL ? 0 : last->n) + work->n_new++];
    work->n_carried++;
    return &work->nodes[before - last->nodes];
}

/** Closes the gaps. @return how many nodes there are. */
static size_t close_ranks(struct work *work)
{
    size_t n_before = work->before == NULL ? 0 : work->before->n;
    size_t n = 0;

    for (size_t i = 0; i < n_before + work->n_new; i++) {
        if (work->nodes[i].name != NULL)
            work->nodes[n++] = work->nodes[i];
    }
    return n;
}

/** Takes one record's reply: an array of sample and curve. @return 0 or -ENOMEM. */
static int take_reply(struct work *work, struct ext_record *record,
                      const struct kw_redis_reply *reply)
{
    uint64_t *skipped = work->result->skipped;
    const struct ext_node *before =
        ext_snapshot_find(work->before, record->name, strlen(record->name));

    if (reply->type == KW_REDIS_ARRAY && reply->n_elements == 2) {
        const struct kw_redis_reply *sample = &reply->elements[0];
        const struct kw_redis_reply *curve = &reply->elements[1];
        if (sample->type == KW_REDIS_STRING) {
            record->sample = sample->str;
            record->sample_len = sample->len;
        }
        if (curve->type == KW_REDIS_STRING) {
            record->curve = curve->str;
            record->curve_len = curve->len;
        }
    } else {
        skipped[EXT_SKIP_REPLY]++;
    }
    struct ext_node node;
    int rc = ext_ingest(record, before, work->now, work->refresh->scratch, skipped, &node);
    if (rc == 0)
        *place_of(work, before) = node;
    return rc == -ENOENT ? 0 : rc;
}

/** Reads the records of the batch and empties it. */
static int read_batch(struct work *work, struct kw_err *err)
{
    struct kw_redis *redis = work->refresh->redis;
    struct kw_redis_replies replies;
    int rc = 0;

    if (work->n_batch == 0)
        return 0;
    if (work->refresh->cancelled)
        return -ECANCELED;
    for (size_t i = 0; i < work->n_batch && rc == 0; i++) {
        (void)kw_key_node(work->key, work->batch[i].name);
        rc = kw_redis_queue_texts(redis, "HMGET", work->key, KW_FIELD_SAMPLE, KW_FIELD_CURVE,
                                  (const char *)NULL);
    }
    if (rc < 0) {
        kw_redis_discard(redis);
        return rc;
    }
    rc = kw_redis_exec(redis, &replies, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < work->n_batch && i < replies.n && rc == 0; i++)
        rc = take_reply(work, &work->batch[i], &replies.items[i]);
    kw_redis_replies_free(&replies);
    work->result->read += work->n_batch;
    work->n_batch = 0;
    return rc;
}

/** Takes one entry of the index: carries the node over, or puts it into the batch. */
static int take_entry(struct work *work, const struct kw_redis_reply *name,
                      const struct kw_redis_reply *score, struct kw_err *err)
{
    double value;

    if (name->type != KW_REDIS_STRING || score->type != KW_REDIS_STRING ||
        kw_parse_double(score->str, 0, SCORE_MAX, &value) < 0) {
        work->result->skipped[EXT_SKIP_REPLY]++;
        return 0;
    }
    if (strlen(name->str) != name->len || kw_key_node(work->key, name->str) < 0) {
        work->result->skipped[EXT_SKIP_NAME]++;
        return 0;
    }
    const struct ext_node *before = ext_snapshot_find(work->before, name->str, name->len);
    if (before != NULL && before->score == value) {
        *place_of(work, before) = *before;
        return 0;
    }
    work->batch[work->n_batch++] = (struct ext_record){.name = name->str, .score = value};
    return work->n_batch == BATCH ? read_batch(work, err) : 0;
}

/** Reads the index. @param ret_total how many nodes Redis holds. */
static int read_index(struct kw_redis *redis, struct kw_redis_replies *ret, uint64_t *ret_total,
                      struct kw_err *err)
{
    int rc = kw_redis_queue_texts(redis, "ZREVRANGE", KW_KEY_NODES, "0", NODES_MAX_LAST,
                                  "WITHSCORES", (const char *)NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "ZCARD", KW_KEY_NODES, (const char *)NULL);
    if (rc < 0) {
        kw_redis_discard(redis);
        return rc;
    }
    rc = kw_redis_exec(redis, ret, err);
    if (rc < 0)
        return rc;
    if (ret->n == 2 && ret->items[0].type == KW_REDIS_ARRAY &&
        ret->items[1].type == KW_REDIS_INTEGER) {
        *ret_total = ret->items[1].integer < 0 ? 0 : (uint64_t)ret->items[1].integer;
        return 0;
    }
    const char *text = "an unexpected reply";
    for (size_t i = 0; i < ret->n; i++) {
        if (ret->items[i].type == KW_REDIS_ERROR)
            text = ret->items[i].str;
    }
    rc = kw_err_set(err, -EREMOTEIO, "reading %s: %.200s", KW_KEY_NODES, text);
    kw_redis_replies_free(ret);
    return rc;
}

static int run(struct work *work, struct kw_err *err)
{
    struct kw_redis_replies index;
    uint64_t total = 0;
    int rc = work->refresh->cancelled ? -ECANCELED
                                      : read_index(work->refresh->redis, &index, &total, err);

    if (rc < 0)
        return rc;
    const struct kw_redis_reply *list = &index.items[0];
    size_t n = list->n_elements / 2;
    if (total > NODES_MAX)
        work->result->skipped[EXT_SKIP_LIMIT] += total - NODES_MAX;
    size_t n_before = work->before == NULL ? 0 : work->before->n;
    work->nodes = calloc(n_before + n + 1, sizeof(*work->nodes));
    if (work->nodes == NULL)
        rc = -ENOMEM;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = take_entry(work, &list->elements[2 * i], &list->elements[2 * i + 1], err);
    if (rc == 0)
        rc = read_batch(work, err);
    bool changed = work->result->read > 0 || work->before == NULL || work->n_carried != n_before;
    if (rc == 0 && changed) {
        work->result->snapshot = ext_snapshot_new(
            work->nodes, close_ranks(work), work->refresh->seed, work->refresh->stale_after_ns);
        if (work->result->snapshot == NULL)
            rc = -ENOMEM;
    }
    free(work->nodes);
    kw_redis_replies_free(&index);
    return rc;
}

int ext_refresh_once(struct ext_refresh *refresh, const struct ext_snapshot *before,
                     const struct ext_instant *now, struct ext_refresh_result *ret,
                     struct kw_err *err)
{
    struct ext_refresh_result result = {0};
    struct work work = {.refresh = refresh, .before = before, .now = now, .result = &result};
    int rc = run(&work, err);

    if (rc == -ENOMEM)
        (void)kw_err_set(err, rc, "out of memory");
    if (rc == 0)
        *ret = result;
    return rc;
}
