/* SPDX-License-Identifier: Apache-2.0 */
#include "vpa-recommender/events.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/** Enough to keep both sides busy; some hundred kilobytes of decoded pods. */
#define QUEUE_MAX 512

const char *const rec_collection_names[REC_COLLECTION__MAX] = {
    [REC_VPAS] = "vpas",
    [REC_PODS] = "pods",
};
_Static_assert(REC_COLLECTION__MAX == 2, "a collection without a name");

struct rec_events {
    void (*wake)(void *user);
    void *user;
    pthread_mutex_t mutex;
    pthread_cond_t room;
    bool closed;
    size_t head, n; /**< ring */
    uint64_t undecodable[REC_COLLECTION__MAX];
    struct rec_event ring[QUEUE_MAX];
};

void rec_event_clear(struct rec_event *event)
{
    if (event->vpa != NULL)
        kw_vpa_clear(event->vpa);
    if (event->pod != NULL)
        kw_pod_clear(event->pod);
    free(event->vpa);
    free(event->pod);
    free(event->cause);
    memset(event, 0, sizeof(*event));
}

struct rec_events *rec_events_new(void (*wake)(void *user), void *user)
{
    struct rec_events *events = calloc(1, sizeof(*events));

    if (events == NULL)
        return NULL;
    events->wake = wake;
    events->user = user;
    (void)pthread_mutex_init(&events->mutex, NULL);
    (void)pthread_cond_init(&events->room, NULL);
    return events;
}

void rec_events_free(struct rec_events **events)
{
    struct rec_events *old = *events;

    *events = NULL;
    if (old == NULL)
        return;
    for (size_t i = 0; i < old->n; i++)
        rec_event_clear(&old->ring[(old->head + i) % QUEUE_MAX]);
    (void)pthread_cond_destroy(&old->room);
    (void)pthread_mutex_destroy(&old->mutex);
    free(old);
}

/** @return 0 with the event filled; negative where the object is dropped. */
static int decode(struct rec_event *event, const char *json, size_t len)
{
    if (event->type == KW_KUBE_DOWN) {
        event->cause = json == NULL ? NULL : strndup(json, len);
        return 0;
    }
    if (event->type != KW_KUBE_ADDED && event->type != KW_KUBE_MODIFIED &&
        event->type != KW_KUBE_DELETED)
        return 0;
    if (event->collection == REC_VPAS) {
        event->vpa = calloc(1, sizeof(*event->vpa));
        return event->vpa == NULL ? -1 : kw_vpa_decode(json, len, event->vpa, NULL);
    }
    event->pod = calloc(1, sizeof(*event->pod));
    return event->pod == NULL ? -1 : kw_pod_decode(json, len, event->pod, NULL);
}

void rec_events_push(struct rec_events *events, enum rec_collection collection,
                     enum kw_kube_event type, const char *json, size_t len)
{
    struct rec_event event = {.collection = collection, .type = type};
    bool dropped = decode(&event, json, len) < 0;

    (void)pthread_mutex_lock(&events->mutex);
    events->undecodable[collection] += dropped;
    while (!dropped && !events->closed && events->n == QUEUE_MAX)
        (void)pthread_cond_wait(&events->room, &events->mutex);
    bool queued = !dropped && !events->closed;
    if (queued)
        events->ring[(events->head + events->n++) % QUEUE_MAX] = event;
    (void)pthread_mutex_unlock(&events->mutex);
    if (queued)
        events->wake(events->user);
    else
        rec_event_clear(&event);
}

bool rec_events_take(struct rec_events *events, struct rec_event *ret)
{
    bool taken = false;

    (void)pthread_mutex_lock(&events->mutex);
    if (events->n > 0) {
        *ret = events->ring[events->head];
        memset(&events->ring[events->head], 0, sizeof(events->ring[0]));
        events->head = (events->head + 1) % QUEUE_MAX;
        events->n--;
        taken = true;
        (void)pthread_cond_signal(&events->room);
    }
    (void)pthread_mutex_unlock(&events->mutex);
    return taken;
}

void rec_events_close(struct rec_events *events)
{
    (void)pthread_mutex_lock(&events->mutex);
    events->closed = true;
    (void)pthread_cond_broadcast(&events->room);
    (void)pthread_mutex_unlock(&events->mutex);
}

uint64_t rec_events_undecodable(struct rec_events *events, enum rec_collection collection)
{
    (void)pthread_mutex_lock(&events->mutex);
    uint64_t count = events->undecodable[collection];
    (void)pthread_mutex_unlock(&events->mutex);
    return count;
}
