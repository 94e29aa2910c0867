/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpa-recommender/feed.h"

/*
 * What is known about one thing that gets advice (a VPA, or a workload of a machine without
 * Kubernetes): the usage of its containers by name, fed by any number of instances (the containers
 * of all its pods).
 */

struct rec_scope;

/** Usage of one container name. Owned by its scope. */
struct rec_container {
    char *name;
    struct rec_usage usage;
    bool oom_killed; /**< an out-of-memory kill was entered */
    bool published;  /**< its estimate has been given out: recommend.c */
    struct rec_container *next;
};

/** @return NULL on ENOMEM. */
struct rec_scope *rec_scope_new(void);
void rec_scope_free(struct rec_scope **scope);

/**
 * Feeds a reading of an instance. The first one of a container or instance makes it.
 * @param instance id that no other instance of the scope has (a container's id).
 * @return enum rec_feed_result (IMPLAUSIBLE also beyond 1024 containers or 50 000 instances);
 * -ENOMEM.
 */
int rec_scope_feed(struct rec_scope *scope, const char *container, const char *instance,
                   const struct rec_reading *reading, uint64_t interval_ms, int64_t now_unix_ms);

/**
 * Enters an out-of-memory kill of an instance, once for each time of death.
 * @param killed_unix_ms when; 0 (unknown) is ignored, since it could not be told from a repetition.
 * @return 1 where it was new and entered, 0 where not; -ENOMEM.
 */
int rec_scope_oom(struct rec_scope *scope, const char *container, const char *instance,
                  uint64_t request_bytes, int64_t killed_unix_ms, int64_t now_unix_ms);

/** Container of a name, NULL where nothing was fed. */
struct rec_container *rec_scope_find(const struct rec_scope *scope, const char *name);

/** First container, or NULL; the others follow by `next`. */
const struct rec_container *rec_scope_containers(const struct rec_scope *scope);

/** Forgets instances that were not fed for `age_ms`; their samples stay. */
void rec_scope_sweep(struct rec_scope *scope, int64_t now_unix_ms, int64_t age_ms);

/** For metrics. */
size_t rec_scope_instances(const struct rec_scope *scope);
