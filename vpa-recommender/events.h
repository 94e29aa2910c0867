/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/pod.h"
#include "api/vpa.h"
#include "common/kube.h"

/*
 * From the watch threads to the loop thread: decoded objects in a bounded queue. A full queue makes
 * the watch wait, which makes the API server wait: nothing is lost and memory stays bounded.
 */

enum rec_collection { REC_VPAS, REC_PODS, REC_COLLECTION__MAX };

/** "vpas", "pods". Index is enum rec_collection. */
extern const char *const rec_collection_names[REC_COLLECTION__MAX];

struct rec_event {
    enum rec_collection collection;
    enum kw_kube_event type;
    struct kw_vpa *vpa; /**< of ADDED, MODIFIED, DELETED of VPAs */
    struct kw_pod *pod; /**< the same of pods */
    char *cause;        /**< of DOWN; may be NULL */
};

/** Frees what the event owns. */
void rec_event_clear(struct rec_event *event);

struct rec_events;

/**
 * @param wake called from a watch thread when there is something to take.
 * @return NULL on ENOMEM.
 */
struct rec_events *rec_events_new(void (*wake)(void *user), void *user);
void rec_events_free(struct rec_events **events);

/** From a watch thread: decodes and queues. An object that cannot be decoded is counted and
 * dropped. */
void rec_events_push(struct rec_events *events, enum rec_collection collection,
                     enum kw_kube_event type, const char *json, size_t len);

/** Loop thread: takes the oldest. @return false where there is none. */
bool rec_events_take(struct rec_events *events, struct rec_event *ret);

/** Lets watch threads that wait go on for ever, dropping what they bring: before they are stopped.
 */
void rec_events_close(struct rec_events *events);

/** Objects that could not be decoded, since start. */
uint64_t rec_events_undecodable(struct rec_events *events, enum rec_collection collection);
