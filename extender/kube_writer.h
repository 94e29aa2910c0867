/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/kube.h"
#include "common/log.h"
#include "extender/headroom.h"
#include "extender/stats.h"

/*
 * What the extender writes to the API server: annotations of nodes, and Events. On a thread of its
 * own with a bounded queue; whoever asks never waits. Equal Events are one that counts, sent again
 * once a minute at most.
 */

struct ext_kube_writer;

/** Starts the thread; does not wait for an answer. @return as kw_kube_new; -errno. */
int ext_kube_writer_new(const struct kw_kube_conf *kube, struct ext_stats *stats,
                        struct kw_log *log, struct ext_kube_writer **ret, struct kw_err *err);
/** Ends the thread; what is in the queue is dropped. */
void ext_kube_writer_free(struct ext_kube_writer **writer);

/** Asks for an annotation to be written. One that was to wake pods and finds no room fails. */
void ext_kube_writer_headroom(struct ext_kube_writer *writer,
                              const struct ext_headroom_write *write);

/** Whether a write that was to wake pods has failed since this was asked last. */
bool ext_kube_writer_failed_to_wake(struct ext_kube_writer *writer);

/** What an Event says. Texts are copied, and cut where they are too long. */
struct ext_event {
    bool warning;
    bool about_pod;      /**< else about a node */
    const char *ns;      /**< of the pod */
    const char *name;    /**< of the object */
    const char *uid;     /**< of the object; "": none */
    const char *reason;  /**< one word */
    const char *message; /**< for people */
};
void ext_kube_writer_event(struct ext_kube_writer *writer, const struct ext_event *event);

/** A label or annotation of a node that is replaced by its default. */
void ext_kube_writer_bad_value(struct ext_kube_writer *writer, const char *node, const char *uid,
                               const char *key, const char *wanted);
