/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers are few and live in a list; instances may be many (a Deployment of thousands of pods,
 * all feeding one histogram) and live in a balanced tree by id (tsearch), whose cost no choice of
 * ids can spoil. An instance remembers which container it fed: the agent may learn a container's
 * name only after its first record, and a peak must be taken out of the histogram that it was put
 * into.
 */
#include "vpa-recommender/scope.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/** A pod's containers (api/pod_record.h); and a Deployment's pods, ten times over for those that
 * were replaced within a day. Bounds what a node that makes up names can cost. */
#define CONTAINERS_MAX 1024
#define INSTANCES_MAX  50000

struct instance {
    char *id;
    struct rec_container *container;
    struct rec_instance state;
    int64_t seen_unix_ms;
    int64_t oom_unix_ms; /**< of the newest kill entered */
    struct instance *next;
};

struct rec_scope {
    struct rec_container *containers;
    void *tree; /**< struct instance by id */
    struct instance *instances;
    size_t n_containers, n_instances;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct instance *)a)->id, ((const struct instance *)b)->id);
}

struct rec_scope *rec_scope_new(void)
{
    return calloc(1, sizeof(struct rec_scope));
}

static void free_instance(struct rec_scope *scope, struct instance *instance)
{
    (void)tdelete(instance, &scope->tree, compare);
    free(instance->id);
    free(instance);
    scope->n_instances--;
}

void rec_scope_free(struct rec_scope **scope)
{
    struct rec_scope *old = *scope;

    *scope = NULL;
    if (old == NULL)
        return;
    while (old->instances != NULL) {
        struct instance *next = old->instances->next;
        free_instance(old, old->instances);
        old->instances = next;
    }
    while (old->containers != NULL) {
        struct rec_container *next = old->containers->next;
        free(old->containers->name);
        free(old->containers);
        old->containers = next;
    }
    free(old);
}

struct rec_container *rec_scope_find(const struct rec_scope *scope, const char *name)
{
    struct rec_container *container = scope->containers;

    while (container != NULL && strcmp(container->name, name) != 0)
        container = container->next;
    return container;
}

static struct rec_container *get_container(struct rec_scope *scope, const char *name)
{
    struct rec_container *container = rec_scope_find(scope, name);

    if (container != NULL)
        return container;
    container = calloc(1, sizeof(*container));
    if (container == NULL)
        return NULL;
    container->name = strdup(name);
    if (container->name == NULL) {
        free(container);
        return NULL;
    }
    rec_usage_init(&container->usage);
    container->next = scope->containers;
    scope->containers = container;
    scope->n_containers++;
    return container;
}

static struct instance *get_instance(struct rec_scope *scope, const char *container, const char *id)
{
    struct instance key = {.id = (char *)id};
    struct instance *const *found = tfind(&key, &scope->tree, compare);
    struct instance *instance = found == NULL ? NULL : *found;

    if (instance == NULL) {
        instance = calloc(1, sizeof(*instance));
        char *copy = strdup(id);
        if (instance == NULL || copy == NULL) {
            free(instance);
            free(copy);
            return NULL;
        }
        instance->id = copy;
        if (tsearch(instance, &scope->tree, compare) == NULL) {
            free(copy);
            free(instance);
            return NULL;
        }
        instance->next = scope->instances;
        scope->instances = instance;
        scope->n_instances++;
    }
    if (instance->container == NULL || strcmp(instance->container->name, container) != 0) {
        memset(&instance->state, 0, sizeof(instance->state));
        instance->container = get_container(scope, container);
        if (instance->container == NULL)
            return NULL;
    }
    return instance;
}

/** Whether a name or id is new and there is no room for it. */
static bool full(const struct rec_scope *scope, const char *container, const char *id)
{
    struct instance key = {.id = (char *)id};

    return (scope->n_containers >= CONTAINERS_MAX && rec_scope_find(scope, container) == NULL) ||
           (scope->n_instances >= INSTANCES_MAX && tfind(&key, &scope->tree, compare) == NULL);
}

int rec_scope_feed(struct rec_scope *scope, const char *container, const char *instance,
                   const struct rec_reading *reading, uint64_t interval_ms, int64_t now_unix_ms)
{
    if (full(scope, container, instance))
        return REC_FEED_IMPLAUSIBLE;
    struct instance *of = get_instance(scope, container, instance);
    if (of == NULL)
        return -ENOMEM;
    of->seen_unix_ms = now_unix_ms;
    return (int)rec_feed(&of->container->usage, &of->state, reading, interval_ms, now_unix_ms);
}

int rec_scope_oom(struct rec_scope *scope, const char *container, const char *instance,
                  uint64_t request_bytes, int64_t killed_unix_ms, int64_t now_unix_ms)
{
    if (killed_unix_ms <= 0 || killed_unix_ms > now_unix_ms + REC_MEMORY_WINDOW_MS ||
        full(scope, container, instance))
        return 0;
    struct instance *of = get_instance(scope, container, instance);
    if (of == NULL)
        return -ENOMEM;
    of->seen_unix_ms = now_unix_ms;
    if (killed_unix_ms <= of->oom_unix_ms)
        return 0;
    of->oom_unix_ms = killed_unix_ms;
    of->container->oom_killed = true;
    return rec_memory_peaks_oom(&of->state.memory, &of->container->usage.memory, request_bytes,
                                killed_unix_ms);
}

const struct rec_container *rec_scope_containers(const struct rec_scope *scope)
{
    return scope->containers;
}

void rec_scope_sweep(struct rec_scope *scope, int64_t now_unix_ms, int64_t age_ms)
{
    struct instance **link = &scope->instances;

    while (*link != NULL) {
        struct instance *instance = *link;
        if (now_unix_ms - instance->seen_unix_ms <= age_ms) {
            link = &instance->next;
            continue;
        }
        *link = instance->next;
        free_instance(scope, instance);
    }
}

size_t rec_scope_instances(const struct rec_scope *scope)
{
    return scope->n_instances;
}
