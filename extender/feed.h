/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/names.h"
#include "common/err.h"
#include "common/redis.h"

/*
 * The feeds of what nodes publish, followed from where they were read last. A reader of a feed asks
 * for the entry that it saw last, too: where that is no longer there, others may have gone with it,
 * and everything is to be read again.
 */

/** "1526919030474-55": two numbers of 64 bits. */
#define EXT_FEED_ID_MAX 42

/** Where each feed was read up to. Zero-initialised: nowhere, it has to be marked. */
struct ext_feed {
    bool marked;
    char last[KW_FEED_SHARDS][EXT_FEED_ID_MAX]; /**< ""; the feed was empty */
};

/** One entry; texts are valid during the call. */
struct ext_feed_entry {
    const char *sample; /**< NULL: it has none */
    size_t sample_len;
    const char *curve; /**< NULL: it has none */
    size_t curve_len;
};

/** @return 0, or -errno, which ends the reading. */
typedef int (*ext_feed_take)(void *user, const struct ext_feed_entry *entry);

enum ext_feed_state {
    EXT_FEED_FOLLOWED, /**< all that came was given */
    EXT_FEED_GAP,      /**< some may be missing: read all nodes, after ext_feed_mark */
    EXT_FEED_REFUSED, /**< Redis gives no feeds (an access rule, a key of another type): likewise */
};

/**
 * Goes to where all feeds end now. Whoever then reads the nodes has missed nothing.
 * @return enum ext_feed_state, never a gap; -errno as kw_redis_exec.
 */
int ext_feed_mark(struct ext_feed *feed, struct kw_redis *redis, struct kw_err *err);

/**
 * Gives all entries that came since. @param feed marked. @return enum ext_feed_state; -errno as
 * kw_redis_exec, or of `take`. But for EXT_FEED_FOLLOWED it is no longer marked.
 */
int ext_feed_read(struct ext_feed *feed, struct kw_redis *redis, ext_feed_take take, void *user,
                  struct kw_err *err);
