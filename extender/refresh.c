/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: 15000 nodes publish every few seconds, and a request must find the latest of each
 * without waiting.
 *
 * Approach: the feeds (extender/feed.h) bring what was published since the last refresh. The index
 * of all nodes (names and times of publishing, newest first) is read where a feed may have a gap,
 * where it speaks of a node that is not known yet, and every tenth time: nodes leave by the index,
 * and agents that do not write feeds are heard by it. A node whose time in the index is that of the
 * last snapshot is carried over, the others are read in pipelines of a few hundred, so that Redis
 * is never blocked by one large command and a reply never grows beyond some megabytes. All decoding
 * happens here, in the background thread; a curve that did not change is not decoded again.
 *
 * Invariants: a refresh either yields a whole snapshot or leaves the last one in force; what is
 * known of a node is kept until it is stale, whatever becomes of Redis; a record that cannot be
 * read never hides another; the number of nodes and the size of each value are bounded; where nodes
 * neither come nor go, one copy of the last snapshot is all it takes.
 */
#include "extender/refresh.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/names.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/num.h"
#include "extender/feed.h"
#include "extender/pool.h"

/** Several times the largest cluster that Kubernetes supports; the newest are taken. */
#define NODES_MAX      100000
#define NODES_MAX_LAST "99999"

/** Records in one pipeline: some hundred kilobytes to a few megabytes of replies. */
#define BATCH 256

/** Unix milliseconds as a sorted set holds them: a double, exact up to 2^53. */
#define SCORE_MAX 9007199254740992.0

/** Curves change slowly, and settling 15000 nodes takes 14 ms. */
#define SETTLE_EVERY_NS (10 * (int64_t)KW_NS_PER_S)

/** Refreshes from one reading of the index to the next. */
#define FOLLOWED_MAX 10

struct ext_refresh {
    struct kw_redis *redis;
    uint64_t stale_after_ns;
    uint64_t seed;
    struct kw_sample *scratch;
    struct ext_feed feed;
    unsigned followed;  /**< refreshes since the index was read */
    bool unsettled;     /**< curves have changed since nodes were settled last, */
    int64_t settled_ns; /**< at that time */
    bool lost;          /**< the last refresh failed */
    int64_t back_ns;    /**< when one succeeded again */
    _Atomic bool cancelled;
};

/** State of one refresh. */
struct work {
    struct ext_refresh *refresh;
    const struct ext_snapshot *before;
    const struct ext_instant *now;
    struct ext_refresh_result *result;
    struct ext_snapshot *fresh; /**< a copy of the last one, made at the first change */
    struct ext_node *added;     /**< that were not in it; their names are the index's */
    size_t n_added;
    bool *listed; /**< of those in it, which the index has */
    bool curves;  /**< some have changed: what they share is to be settled, some time */
    bool kinds;   /**< nodes come or go, or are other machines: at once */
    bool unknown; /**< a feed spoke of a node that is not in it */
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
        refresh->back_ns = INT64_MIN;
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

void ext_refresh_set_stale_after(struct ext_refresh *refresh, uint64_t stale_after_ns)
{
    refresh->stale_after_ns = stale_after_ns;
}

const char *ext_refresh_name(const struct ext_refresh *refresh)
{
    return kw_redis_name(refresh->redis);
}

void ext_refresh_cancel(struct ext_refresh *refresh)
{
    refresh->cancelled = true;
}

/** What is known of a node by now. @return NULL where nothing is. */
static const struct ext_node *known(const struct work *work, const char *name, size_t len)
{
    return ext_snapshot_find(work->fresh != NULL ? work->fresh : work->before, name, len);
}

/** Puts a node in its place: nodes keep their order, so that what requests have learnt of it stays
 * right. @param before the node as it was known, or NULL. @return 0 or -ENOMEM. */
static int put_node(struct work *work, const struct ext_node *before, const struct ext_node *node)
{
    const struct ext_snapshot *last = work->fresh != NULL ? work->fresh : work->before;

    if (before == NULL) {
        work->added[work->n_added++] = *node;
        return 0;
    }
    work->curves |= before->curve_hash != node->curve_hash;
    work->kinds |= before->machine != node->machine || before->has_curve != node->has_curve;
    size_t index = (size_t)(before - last->nodes);
    if (work->fresh == NULL)
        work->fresh = ext_snapshot_copy(work->before);
    if (work->fresh == NULL)
        return -ENOMEM;
    ext_snapshot_set(work->fresh, index, node);
    return 0;
}

/** Keeps the first that Redis said in place of what it was asked for, for whoever is told. */
static void note_said(struct work *work, const char *text)
{
    char *said = work->result->said;

    if (said[0] == '\0')
        (void)snprintf(said, EXT_SAID_MAX, "%.*s", EXT_SAID_MAX - 1, text);
}

/** Takes one record's reply: an array of sample and curve. @return 0 or -ENOMEM. */
static int take_reply(struct work *work, struct ext_record *record,
                      const struct kw_redis_reply *reply)
{
    uint64_t *skipped = work->result->skipped;
    const struct ext_node *before = known(work, record->name, strlen(record->name));

    if (reply->type != KW_REDIS_ARRAY || reply->n_elements != 2) {
        /* it says nothing of the node, which stays as it is known and is asked for again */
        skipped[EXT_SKIP_REPLY]++;
        note_said(work, reply->type == KW_REDIS_ERROR ? reply->str : "");
        return 0;
    }
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
    struct ext_node node;
    int rc = ext_ingest(record, before, work->now, work->refresh->scratch, skipped, &node);
    if (rc == 0)
        return put_node(work, before, &node);
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
    const struct ext_node *before = known(work, name->str, name->len);
    if (before != NULL) {
        const struct ext_snapshot *last = work->fresh != NULL ? work->fresh : work->before;
        work->listed[before - last->nodes] = true;
    }
    if (before != NULL && before->score == value)
        return 0;
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

/** Whether a node stays: the index has it, it sleeps, or what is known of it is still good. A Redis
 * that comes back empty, or a replica that takes over, hears of each node only when that publishes;
 * if it was lost for long all are stale by then, and each is given the time that it would have had
 * if it had been heard when Redis came back: caps go by its last figures. */
static bool stays(const struct work *work, const struct ext_snapshot *last, size_t index)
{
    const struct ext_node *node = &last->nodes[index];
    int64_t back_ns = work->refresh->back_ns;
    int64_t heard_ns = node->fresh_ns > back_ns ? node->fresh_ns : back_ns;

    return work->listed[index] || node->pricing.asleep ||
           !ext_is_stale(heard_ns, node->interval_ns, work->now->now_ns, last->stale_after_ns);
}

/** Makes the snapshot where nodes come or go, or others are stale: those that stay, then the new
 * ones. Else does nothing. */
static int rebuild(struct work *work)
{
    const struct ext_snapshot *last = work->fresh != NULL ? work->fresh : work->before;
    size_t n_last = last == NULL ? 0 : last->n;
    size_t n_staying = 0;
    size_t n = 0;

    for (size_t i = 0; i < n_last; i++)
        n_staying += stays(work, last, i);
    if (last != NULL && n_staying == n_last && work->n_added == 0 &&
        last->stale_after_ns == work->refresh->stale_after_ns)
        return 0;
    kw_cleanup_free struct ext_node *nodes =
        reallocarray(NULL, n_staying + work->n_added + 1, sizeof(*nodes));

    if (nodes == NULL)
        return -ENOMEM;
    work->kinds = true;
    for (size_t i = 0; i < n_last; i++) {
        if (stays(work, last, i))
            nodes[n++] = last->nodes[i];
    }
    for (size_t i = 0; i < work->n_added; i++)
        nodes[n++] = work->added[i];
    work->result->snapshot =
        ext_snapshot_new(nodes, n, work->refresh->seed, work->refresh->stale_after_ns);
    return work->result->snapshot == NULL ? -ENOMEM : 0;
}

/** Takes every entry of the index. @param n of them, name and time by turns in `list`. */
static int take_index(struct work *work, const struct kw_redis_reply *list, size_t n,
                      struct kw_err *err)
{
    size_t n_before = work->before == NULL ? 0 : work->before->n;
    int rc = 0;

    work->listed = calloc(n_before + 1, sizeof(*work->listed));
    work->added = reallocarray(NULL, n + 1, sizeof(*work->added));
    if (work->listed == NULL || work->added == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = take_entry(work, &list->elements[2 * i], &list->elements[2 * i + 1], err);
    if (rc == 0)
        rc = read_batch(work, err);
    return rc == 0 ? rebuild(work) : rc;
}

/** Redis does not give the feeds. */
static void note_refused(struct work *work, const struct kw_err *err)
{
    work->result->refused = true;
    note_said(work, err->text);
}

/** Reads all nodes: those that published since they were read last, by the index. */
static int read_all(struct work *work, struct kw_err *err)
{
    struct ext_refresh *refresh = work->refresh;
    struct kw_redis_replies index;
    uint64_t total = 0;
    /* before the index, so that nothing is published between the two and missed */
    int rc = refresh->feed.marked ? 0 : ext_feed_mark(&refresh->feed, refresh->redis, err);

    if (rc < 0)
        return rc;
    if (rc == EXT_FEED_REFUSED)
        note_refused(work, err);
    rc = refresh->cancelled ? -ECANCELED : read_index(refresh->redis, &index, &total, err);
    if (rc < 0)
        return rc;
    if (total > NODES_MAX)
        work->result->skipped[EXT_SKIP_LIMIT] += total - NODES_MAX;
    rc = take_index(work, &index.items[0], index.items[0].n_elements / 2, err);
    kw_redis_replies_free(&index); /* names that were added are copied by now */
    work->result->whole = true;
    refresh->followed = rc == 0 ? 0 : FOLLOWED_MAX;
    return rc;
}

/** Whether a sample is older than what is known: a full reading may have been ahead of the feed. */
static bool is_repeated(const struct kw_sample *sample, const struct ext_node *before)
{
    return sample->epoch == before->epoch && sample->seq <= before->seq;
}

static int take_published(void *user, const struct ext_feed_entry *entry)
{
    struct work *work = user;
    struct kw_sample *scratch = work->refresh->scratch;
    struct ext_record record = {.sample = entry->sample,
                                .sample_len = entry->sample_len,
                                .curve = entry->curve,
                                .curve_len = entry->curve_len};
    struct ext_node node;
    int rc = ext_ingest_named(&record, scratch, work->result->skipped);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    const struct ext_node *before = known(work, scratch->node, strlen(scratch->node));
    if (before == NULL) {
        work->unknown = true;
        return 0;
    }
    if (is_repeated(scratch, before))
        return 0;
    rc = ext_ingest_sample(&record, before, work->now, scratch, work->result->skipped, &node);
    work->result->read++;
    return rc < 0 ? rc : put_node(work, before, &node);
}

/** Follows the feeds. @return enum ext_feed_state, or -errno. */
static int follow(struct work *work, struct kw_err *err)
{
    struct ext_refresh *refresh = work->refresh;

    if (work->before == NULL || !refresh->feed.marked)
        return EXT_FEED_GAP;
    if (refresh->cancelled)
        return -ECANCELED;
    return ext_feed_read(&refresh->feed, refresh->redis, take_published, work, err);
}

/** Lets machines of one kind share what they have learnt, where it is time. @return 0 or -ENOMEM.
 */
static int settle(struct work *work, struct ext_snapshot *snapshot)
{
    struct ext_refresh *refresh = work->refresh;
    int64_t now_ns = work->now->now_ns;

    refresh->unsettled |= work->curves;
    if (!work->kinds && !(refresh->unsettled && now_ns - refresh->settled_ns >= SETTLE_EVERY_NS))
        return 0;
    int rc = ext_pool_settle(snapshot->nodes, snapshot->n);
    if (rc < 0)
        return rc;
    ext_snapshot_restand(snapshot);
    refresh->unsettled = false;
    refresh->settled_ns = now_ns;
    return 0;
}

static int run(struct work *work, struct kw_err *err)
{
    int rc = follow(work, err);

    if (rc == EXT_FEED_REFUSED)
        note_refused(work, err);
    if (rc >= 0) {
        bool followed = rc == EXT_FEED_FOLLOWED && !work->unknown;
        rc = followed && ++work->refresh->followed < FOLLOWED_MAX ? 0 : read_all(work, err);
    }
    if (rc >= 0 && work->result->snapshot == NULL)
        work->result->snapshot = KW_TAKE_PTR(work->fresh);
    if (rc >= 0 && work->result->snapshot != NULL)
        rc = settle(work, work->result->snapshot);
    if (rc < 0)
        work->refresh->feed.marked = false; /* what it gave is lost with this refresh */
    free(work->added);
    free(work->listed);
    ext_snapshot_free(&work->fresh);
    return rc;
}

int ext_refresh_once(struct ext_refresh *refresh, const struct ext_snapshot *before,
                     const struct ext_instant *now, struct ext_refresh_result *ret,
                     struct kw_err *err)
{
    struct ext_refresh_result result = {0};
    struct work work = {.refresh = refresh, .before = before, .now = now, .result = &result};

    if (refresh->lost)
        refresh->back_ns = now->now_ns;
    int rc = run(&work, err);
    refresh->lost = rc < 0;
    if (rc == -ENOMEM)
        (void)kw_err_set(err, rc, "out of memory");
    if (rc == 0)
        *ret = result;
    else
        ext_snapshot_free(&result.snapshot);
    return rc;
}
