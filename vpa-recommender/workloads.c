/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload is known by node and id. A unit or cgroup keeps its id over restarts, so what is known
 * of it outlives its end by a day; an advice does not: it is for what runs now. Redis may come back
 * empty after a crash, with the agent's next records a moment later, so that absence from one
 * reading means nothing.
 *
 * Containers of a workload are its own `containers`; where it has none (a unit, a cgroup) the
 * workload is its one container, and named by its id.
 */
#include "vpa-recommender/workloads.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "vpa-recommender/scope.h"

/** Five nodes' worth of the largest node: a machine without an API server is one. */
#define WORKLOADS_MAX 100000

#define FORGET_MS INT64_C(86400000)

struct workload {
    char *node;
    char *id;
    struct rec_scope *scope;
    bool running;
    int64_t seen_unix_ms;
    size_t n_names;
    char **names; /**< containers of the newest record, in its order */
    struct workload *next;
};

struct rec_workloads {
    void *tree; /**< struct workload by node and id */
    struct workload *list;
    size_t n;
};

static int compare(const void *a, const void *b)
{
    const struct workload *x = a, *y = b;
    int order = strcmp(x->id, y->id);

    return order != 0 ? order : strcmp(x->node, y->node);
}

struct rec_workloads *rec_workloads_new(void)
{
    return calloc(1, sizeof(struct rec_workloads));
}

static void clear_names(struct workload *workload)
{
    for (size_t i = 0; i < workload->n_names; i++)
        free(workload->names[i]);
    free(workload->names);
    workload->names = NULL;
    workload->n_names = 0;
}

static void free_workload(struct workload *workload)
{
    clear_names(workload);
    rec_scope_free(&workload->scope);
    free(workload->node);
    free(workload->id);
    free(workload);
}

void rec_workloads_free(struct rec_workloads **workloads)
{
    struct rec_workloads *old = *workloads;

    *workloads = NULL;
    if (old == NULL)
        return;
    while (old->list != NULL) {
        struct workload *next = old->list->next;
        (void)tdelete(old->list, &old->tree, compare);
        free_workload(old->list);
        old->list = next;
    }
    free(old);
}

static struct workload *find(const struct rec_workloads *workloads, const char *node,
                             const char *id)
{
    struct workload key = {.node = (char *)node, .id = (char *)id};
    struct workload *const *found = tfind(&key, &workloads->tree, compare);

    return found == NULL ? NULL : *found;
}

static struct workload *add(struct rec_workloads *workloads, const char *node, const char *id)
{
    struct workload *workload = calloc(1, sizeof(*workload));

    if (workload == NULL)
        return NULL;
    workload->node = strdup(node);
    workload->id = strdup(id);
    workload->scope = rec_scope_new();
    if (workload->node == NULL || workload->id == NULL || workload->scope == NULL ||
        tsearch(workload, &workloads->tree, compare) == NULL) {
        free_workload(workload);
        return NULL;
    }
    workload->next = workloads->list;
    workloads->list = workload;
    workloads->n++;
    return workload;
}

/** What the containers of a record are called: name, else id; the workload's id where it has none.
 */
static const char *container_name(const struct kw_pod_record *record, size_t i)
{
    if (record->n_containers == 0)
        return record->id;
    const struct kw_container_record *container = &record->containers[i];
    return *container->name != '\0' ? container->name : container->id;
}

static size_t container_count(const struct kw_pod_record *record)
{
    return record->n_containers > 0 ? record->n_containers : 1;
}

static int set_names(struct workload *workload, const struct kw_pod_record *record)
{
    size_t n = container_count(record);

    clear_names(workload);
    workload->names = calloc(n, sizeof(*workload->names));
    for (size_t i = 0; workload->names != NULL && i < n; i++) {
        workload->names[i] = strdup(container_name(record, i));
        if (workload->names[i] == NULL)
            return -ENOMEM;
        workload->n_names++;
    }
    return workload->names == NULL ? -ENOMEM : 0;
}

static int feed_containers(struct workload *workload, const struct kw_pod_record *record,
                           uint64_t interval_ms, int64_t now_unix_ms, uint64_t tally[REC_FEED__MAX])
{
    for (size_t i = 0; i < container_count(record); i++) {
        struct rec_reading reading = {
            .epoch = record->epoch,
            .t_unix_ms = record->t_unix_ms,
            .cpu_ns = record->cpu_ns,
            .memory_bytes = record->memory_bytes,
        };
        const char *instance = "";
        if (record->n_containers > 0) {
            reading.cpu_ns = record->containers[i].cpu_ns;
            reading.memory_bytes = record->containers[i].memory_bytes;
            instance = record->containers[i].id;
        }
        int rc = rec_scope_feed(workload->scope, container_name(record, i), instance, &reading,
                                interval_ms, now_unix_ms);
        if (rc < 0)
            return rc;
        tally[rc]++;
    }
    return 0;
}

int rec_workloads_feed(struct rec_workloads *workloads, const char *node,
                       const struct kw_pod_record *record, uint64_t interval_ms,
                       int64_t now_unix_ms, uint64_t tally[REC_FEED__MAX])
{
    struct workload *workload = find(workloads, node, record->id);

    if (workload == NULL) {
        if (record->ended_unix_ms != 0)
            return 0;
        if (workloads->n >= WORKLOADS_MAX)
            return -ENOSPC;
        workload = add(workloads, node, record->id);
        if (workload == NULL)
            return -ENOMEM;
    }
    workload->seen_unix_ms = now_unix_ms;
    workload->running = record->ended_unix_ms == 0;
    int rc = set_names(workload, record);
    if (rc < 0)
        return rc;
    return feed_containers(workload, record, interval_ms, now_unix_ms, tally);
}

static bool runs(const struct workload *workload, int64_t now_unix_ms)
{
    return workload->running && workload->seen_unix_ms == now_unix_ms;
}

bool rec_workloads_running(const struct rec_workloads *workloads, const char *node, const char *id,
                           int64_t now_unix_ms)
{
    const struct workload *workload = find(workloads, node, id);

    return workload != NULL && runs(workload, now_unix_ms);
}

/** Copies a name as far as it fits, never through the middle of a UTF-8 sequence. */
static void copy_name(char *out, size_t size, const char *name)
{
    size_t len = strnlen(name, size - 1);

    while (len > 0 && name[len] != '\0' && ((unsigned char)name[len] & 0xc0) == 0x80)
        len--;
    memcpy(out, name, len);
    out[len] = '\0';
}

/** Adds one container to an advice, unless nothing is known of it. */
static void advise_container(const struct rec_container *container, const char *name,
                             size_t containers, struct kw_advice *advice)
{
    if (container == NULL || container->usage.samples == 0)
        return;
    const struct rec_usage *usage = &container->usage;
    bool has_memory = !rec_histogram_empty(&usage->memory);
    struct rec_estimate estimate = rec_estimate(usage, rec_floor(containers));
    rec_estimate_publishable(&estimate);
    struct kw_container_advice *to = &advice->containers[advice->n_containers];
    copy_name(to->name, sizeof(to->name), name);
    to->target_mcpu = estimate.target.mcpu;
    to->lower_mcpu = estimate.lower.mcpu;
    to->upper_mcpu = estimate.upper.mcpu;
    to->target_bytes = has_memory ? estimate.target.bytes : 0;
    to->lower_bytes = has_memory ? estimate.lower.bytes : 0;
    to->upper_bytes = has_memory ? estimate.upper.bytes : 0;
    /* the container known least speaks for all */
    if (advice->n_containers == 0 || usage->samples < advice->samples) {
        advice->samples = usage->samples;
        advice->history_s = (uint64_t)(usage->last_ms - usage->first_ms) / 1000;
    }
    advice->n_containers++;
}

static int advise(const struct workload *workload, int64_t now_unix_ms, rec_advice_fn fn,
                  void *user)
{
    kw_cleanup_free struct kw_advice *advice = calloc(1, sizeof(*advice));
    kw_cleanup_free struct kw_container_advice *containers =
        calloc(workload->n_names, sizeof(*containers));

    if (advice == NULL || containers == NULL)
        return -ENOMEM;
    if (strlen(workload->id) >= sizeof(advice->workload))
        return 0; /* api/pod_record.h bounds ids; nothing longer can be named in an advice */
    memcpy(advice->workload, workload->id, strlen(workload->id));
    advice->t_unix_ms = now_unix_ms;
    advice->containers = containers;
    for (size_t i = 0; i < workload->n_names; i++)
        advise_container(rec_scope_find(workload->scope, workload->names[i]), workload->names[i],
                         workload->n_names, advice);
    return advice->n_containers > 0 ? fn(user, workload->node, advice) : 0;
}

int rec_workloads_advise(const struct rec_workloads *workloads, int64_t now_unix_ms,
                         rec_advice_fn fn, void *user)
{
    const struct workload *workload = workloads->list;

    for (; workload != NULL; workload = workload->next) {
        if (!runs(workload, now_unix_ms) || workload->n_names == 0)
            continue;
        int rc = advise(workload, now_unix_ms, fn, user);
        if (rc != 0)
            return rc;
    }
    return 0;
}

void rec_workloads_sweep(struct rec_workloads *workloads, int64_t now_unix_ms)
{
    struct workload **link = &workloads->list;

    while (*link != NULL) {
        struct workload *workload = *link;
        rec_scope_sweep(workload->scope, now_unix_ms, FORGET_MS);
        if (now_unix_ms - workload->seen_unix_ms <= FORGET_MS) {
            link = &workload->next;
            continue;
        }
        *link = workload->next;
        (void)tdelete(workload, &workloads->tree, compare);
        free_workload(workload);
        workloads->n--;
    }
}

size_t rec_workloads_count(const struct rec_workloads *workloads)
{
    return workloads->n;
}
