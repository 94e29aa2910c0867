/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: of 15000 nodes, some thousand publish in a second. To find out which, by the set of
 * nodes, is to read all of it; and to fetch what they published is a second round.
 *
 * Approach: agents append what they publish to one of a few streams, which keep some seconds of it.
 * A range from the entry read last, that one included, needs no memory in Redis and no connection
 * of its own (a consumer group or a blocking read would), and tells by itself whether anything was
 * lost: entries go away from the old end, when a stream is trimmed, and all at once when Redis
 * starts empty, its key expires, or a replica takes over that had not heard of the latest. In each
 * case the entry read last is gone. A feed that was empty has no entry to tell by: its first one
 * counts as a gap.
 *
 * Invariants: a reply holds a bounded number of entries; a feed that grows faster than it is read
 * ends in a gap and not in a loop; an entry that is none is passed over.
 */
#include "extender/feed.h"

#include <errno.h>
#include <string.h>

/** Entries of a feed in one reply, of all feeds together about a megabyte. */
#define PAGE      128
#define PAGE_TEXT "128"

/** Twice what a feed keeps: so many, and somebody floods it. */
#define PAGES_MAX 32

/** An entry of a range: its id and its fields. @return NULL where it is none. */
static const struct kw_redis_reply *fields_of(const struct kw_redis_reply *entry)
{
    if (entry->type != KW_REDIS_ARRAY || entry->n_elements != 2 ||
        entry->elements[0].type != KW_REDIS_STRING || entry->elements[0].len == 0 ||
        entry->elements[0].len >= EXT_FEED_ID_MAX || entry->elements[1].type != KW_REDIS_ARRAY)
        return NULL;
    return &entry->elements[1];
}

static void note_last(char last[EXT_FEED_ID_MAX], const struct kw_redis_reply *entry)
{
    memcpy(last, entry->elements[0].str, entry->elements[0].len);
    last[entry->elements[0].len] = '\0';
}

/** Whether every reply is a list; where not, `err` has what Redis said instead. */
static bool are_lists(const struct kw_redis_replies *replies, size_t n, struct kw_err *err)
{
    bool lists = replies->n == n;

    for (size_t i = 0; i < replies->n; i++) {
        const struct kw_redis_reply *reply = &replies->items[i];
        if (reply->type == KW_REDIS_ERROR && lists)
            (void)kw_err_set(err, -EREMOTEIO, "%s", reply->str);
        lists = lists && reply->type == KW_REDIS_ARRAY;
    }
    return lists;
}

int ext_feed_mark(struct ext_feed *feed, struct kw_redis *redis, struct kw_err *err)
{
    struct kw_redis_replies replies;
    char key[KW_KEY_MAX];
    int rc = 0;

    *feed = (struct ext_feed){0};
    for (unsigned i = 0; i < KW_FEED_SHARDS && rc == 0; i++) {
        kw_key_feed(key, i);
        rc = kw_redis_queue_texts(redis, "XREVRANGE", key, "+", "-", "COUNT", "1",
                                  (const char *)NULL);
    }
    if (rc < 0) {
        kw_redis_discard(redis);
        return rc;
    }
    rc = kw_redis_exec(redis, &replies, err);
    if (rc < 0)
        return rc;
    feed->marked = are_lists(&replies, KW_FEED_SHARDS, err);
    for (unsigned i = 0; i < KW_FEED_SHARDS && feed->marked; i++) {
        const struct kw_redis_reply *list = &replies.items[i];
        if (list->n_elements == 0)
            continue;
        feed->marked = fields_of(&list->elements[0]) != NULL;
        if (feed->marked)
            note_last(feed->last[i], &list->elements[0]);
    }
    kw_redis_replies_free(&replies);
    return feed->marked ? EXT_FEED_FOLLOWED : EXT_FEED_REFUSED;
}

static int give(const struct kw_redis_reply *fields, ext_feed_take take, void *user)
{
    struct ext_feed_entry entry = {0};

    for (size_t i = 0; i + 1 < fields->n_elements; i += 2) {
        const struct kw_redis_reply *name = &fields->elements[i];
        const struct kw_redis_reply *value = &fields->elements[i + 1];
        if (name->type != KW_REDIS_STRING || value->type != KW_REDIS_STRING)
            continue;
        if (strcmp(name->str, KW_FIELD_SAMPLE) == 0) {
            entry.sample = value->str;
            entry.sample_len = value->len;
        } else if (strcmp(name->str, KW_FIELD_CURVE) == 0) {
            entry.curve = value->str;
            entry.curve_len = value->len;
        }
    }
    return take(user, &entry);
}

/** Takes one feed's page. @param ret_more set where it was full. @return enum ext_feed_state or
 * -errno of `take`. */
static int take_page(char last[EXT_FEED_ID_MAX], const struct kw_redis_reply *list,
                     ext_feed_take take, void *user, bool *ret_more)
{
    if (last[0] == '\0')
        return list->n_elements == 0 ? EXT_FEED_FOLLOWED : EXT_FEED_GAP;
    if (list->n_elements == 0 || fields_of(&list->elements[0]) == NULL ||
        strcmp(list->elements[0].elements[0].str, last) != 0)
        return EXT_FEED_GAP;
    for (size_t i = 1; i < list->n_elements; i++) {
        const struct kw_redis_reply *fields = fields_of(&list->elements[i]);
        if (fields == NULL)
            continue;
        int rc = give(fields, take, user);
        if (rc < 0)
            return rc;
        note_last(last, &list->elements[i]);
    }
    *ret_more = *ret_more || list->n_elements == PAGE;
    return EXT_FEED_FOLLOWED;
}

/** One page of every feed. @return as take_page, or as kw_redis_exec. */
static int read_pages(struct ext_feed *feed, struct kw_redis *redis, ext_feed_take take, void *user,
                      bool *ret_more, struct kw_err *err)
{
    struct kw_redis_replies replies;
    char key[KW_KEY_MAX];
    int rc = 0;

    *ret_more = false;
    for (unsigned i = 0; i < KW_FEED_SHARDS && rc == 0; i++) {
        kw_key_feed(key, i);
        rc = kw_redis_queue_texts(redis, "XRANGE", key,
                                  feed->last[i][0] == '\0' ? "-" : feed->last[i], "+", "COUNT",
                                  feed->last[i][0] == '\0' ? "1" : PAGE_TEXT, (const char *)NULL);
    }
    if (rc < 0) {
        kw_redis_discard(redis);
        return rc;
    }
    rc = kw_redis_exec(redis, &replies, err);
    if (rc < 0)
        return rc;
    rc = are_lists(&replies, KW_FEED_SHARDS, err) ? EXT_FEED_FOLLOWED : EXT_FEED_REFUSED;
    for (unsigned i = 0; i < KW_FEED_SHARDS && rc == EXT_FEED_FOLLOWED; i++)
        rc = take_page(feed->last[i], &replies.items[i], take, user, ret_more);
    kw_redis_replies_free(&replies);
    return rc;
}

int ext_feed_read(struct ext_feed *feed, struct kw_redis *redis, ext_feed_take take, void *user,
                  struct kw_err *err)
{
    bool more = true;
    int rc = EXT_FEED_FOLLOWED;

    for (unsigned i = 0; i < PAGES_MAX && more && rc == EXT_FEED_FOLLOWED; i++)
        rc = read_pages(feed, redis, take, user, &more, err);
    if (rc == EXT_FEED_FOLLOWED && more)
        rc = EXT_FEED_GAP;
    feed->marked = rc == EXT_FEED_FOLLOWED;
    return rc;
}
