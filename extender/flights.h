/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/kube.h"
#include "common/log.h"
#include "common/snapshot.h"
#include "extender/capping.h"
#include "extender/decisions.h"
#include "extender/outlook.h"
#include "extender/snapshot.h"
#include "extender/stats.h"
#include "extender/typical.h"

/*
 * Keeps the pods that start in view, and with them what is in flight on each node. Two threads meet
 * here: that of the watch, which enters pods, and the reader of Redis, which publishes snapshots.
 * Requests take no part in it.
 */

struct ext_flights;

struct ext_flights_conf {
    struct ext_assumptions assumptions;
    struct kw_snapshot *profiles;    /**< of struct ext_profiles; NULL: none */
    struct ext_capping *capping;     /**< builds the caps of what is published; NULL: none */
    struct kw_snapshot *out;         /**< of struct ext_snapshot; this publishes to it */
    struct ext_decisions *decisions; /**< that learn where their pods went; NULL: none */
    struct ext_typical *typical;     /**< that learns of each pod placed; NULL: none */
    struct ext_stats *stats;
    struct kw_log *log;
};

/** Does not watch yet: there is nothing in flight. @return 0; -ENOMEM; -errno of the random source.
 */
int ext_flights_new(const struct ext_flights_conf *conf, struct ext_flights **ret);

/** Begins to watch. @return as kw_kube_watch_start. */
int ext_flights_watch(struct ext_flights *flights, const struct kw_kube_conf *kube,
                      struct kw_err *err);

/** Ends the watch. The snapshots are those of conf.out. */
void ext_flights_free(struct ext_flights **flights);

/** From any thread: what pods that start from now on are taken to use. */
void ext_flights_assume(struct ext_flights *flights, const struct ext_assumptions *assumptions);

/** The snapshot published last, or NULL. For the thread that calls ext_flights_publish, the only
 * one to replace it. */
const struct ext_snapshot *ext_flights_last(const struct ext_flights *flights);

/**
 * Publishes a snapshot with what is in flight by now. Called after each reading of Redis.
 * @param fresh its ownership passes; NULL: nothing changed there, and a copy of the last one is
 * published only where what is in flight has changed.
 */
void ext_flights_publish(struct ext_flights *flights, struct ext_snapshot *fresh, int64_t now_ns);

/** What the watch calls for each event; apart from the time that `now_ns` says, the same. */
void ext_flights_event(struct ext_flights *flights, enum kw_kube_event event, const char *json,
                       size_t len, int64_t now_ns);
