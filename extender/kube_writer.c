/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/kube_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "api/extender.h"
#include "api/node.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/worker.h"
#include "extender/snapshot.h"

/** Writes that wait; a cluster that cannot take them gets the latest again later. */
#define QUEUE       256
#define TIMEOUT_MS  5000
/** A second's writes of this program are at most this many: the API server has better to do. */
#define PACE_NS     (20 * KW_NS_PER_MS)
/** Different Events that are counted. */
#define EVENTS      128
#define AGAIN_NS    (60 * (int64_t)KW_NS_PER_S)
#define MESSAGE_MAX 512

/** One thing to write. */
struct job {
    bool is_event;
    struct ext_headroom_write headroom;
    struct {
        bool warning, about_pod;
        char ns[KW_NAMESPACE_MAX];
        char name[KW_NODE_NAME_MAX + 1];
        char uid[KW_POD_UID_MAX];
        char reason[32];
        char message[MESSAGE_MAX];
    } event;
};

/** An Event that was sent. */
struct sent {
    uint64_t key;
    uint64_t count;
    int64_t sent_ns; /**< 0: not yet */
    int64_t first_unix_ms;
    bool dirty; /**< it has happened since */
    struct job job;
};

struct ext_kube_writer {
    struct kw_kube *kube;
    struct ext_stats *stats;
    struct kw_log *log;
    int cancel_fd;
    bool started;
    bool failing_said;
    struct kw_worker worker;
    /* under worker.mutex */
    struct job *queue;
    size_t first, n;
    bool failed_to_wake;
    /* of the thread */
    struct sent *sent;
};

static void format_time(int64_t unix_ms, char out[32])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm utc;

    out[0] = '\0';
    if (gmtime_r(&seconds, &utc) != NULL)
        (void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static void said(struct ext_kube_writer *writer, int rc, const char *what, const struct kw_err *err)
{
    writer->stats->kube_writes++;
    if (rc == 0) {
        writer->failing_said = false;
        return;
    }
    writer->stats->kube_write_failures++;
    if (!writer->failing_said && rc != -ECANCELED)
        kw_log_warn(writer->log, "cannot write to the API server", kw_str("what", what),
                    kw_str("error", err->text));
    writer->failing_said = true;
}

static void write_headroom(struct ext_kube_writer *writer, const struct ext_headroom_write *write)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    kw_cleanup(kw_buf_free) struct kw_buf reply = {0};
    struct kw_err err = {0};
    char path[sizeof("/api/v1/nodes/") + KW_NODE_NAME_MAX];
    char when[32];

    format_time(kw_now_unix_ms(), when);
    (void)kw_buf_adds(&body,
                      "{\"metadata\":{\"annotations\":{\"" KW_ANNOTATION_HEADROOM_WATTS "\":");
    if (write->remove)
        (void)kw_buf_adds(&body, "null");
    else
        (void)kw_buf_addf(&body, "\"%llu\"", (unsigned long long)write->room_w);
    (void)kw_buf_adds(&body, ",\"" KW_ANNOTATION_HEADROOM_TIME "\":");
    (void)kw_buf_addf(&body, write->remove && !write->wakes ? "null}}}" : "\"%s\"}}}", when);
    (void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", write->node);
    int rc = body.failed ? -ENOMEM
                         : kw_kube_send(writer->kube, "PATCH", path, "application/merge-patch+json",
                                        body.data, body.len, &reply, &err);
    said(writer, rc == -ENOENT ? 0 : rc, path, &err);
    writer->stats->wakes += rc == 0 && write->wakes;
    if (rc < 0 && write->wakes) {
        (void)pthread_mutex_lock(&writer->worker.mutex);
        writer->failed_to_wake = true;
        (void)pthread_mutex_unlock(&writer->worker.mutex);
    }
}

/* ---- Events ---- */

static uint64_t key_of(const struct job *job)
{
    uint64_t key = ext_hash(job->event.ns, strlen(job->event.ns), 3);

    key = ext_hash(job->event.name, strlen(job->event.name), key);
    key = ext_hash(job->event.reason, strlen(job->event.reason), key);
    key = ext_hash(job->event.message, strlen(job->event.message), key);
    return key == 0 ? 1 : key;
}

static void put_event(const struct sent *sent, struct kw_buf *body)
{
    const struct job *job = &sent->job;
    const char *ns = job->event.about_pod ? job->event.ns : "default";
    char first[32];
    char last[32];

    format_time(sent->first_unix_ms, first);
    format_time(kw_now_unix_ms(), last);
    (void)kw_buf_addf(
        body,
        "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"namespace\":\"%s\","
        "\"name\":\"kwatt.%016llx\"},\"type\":\"%s\",\"count\":%llu,"
        "\"firstTimestamp\":\"%s\",\"lastTimestamp\":\"%s\","
        "\"source\":{\"component\":\"kwatt-extender\"},\"reportingComponent\":"
        "\"kwatt-extender\",\"reason\":\"%s\",\"message\":",
        ns, (unsigned long long)sent->key, job->event.warning ? "Warning" : "Normal",
        (unsigned long long)sent->count, first, last, job->event.reason);
    (void)kw_buf_add_json(body, job->event.message, strlen(job->event.message));
    (void)kw_buf_addf(body, ",\"involvedObject\":{\"apiVersion\":\"v1\",\"kind\":\"%s\",",
                      job->event.about_pod ? "Pod" : "Node");
    if (job->event.about_pod)
        (void)kw_buf_addf(body, "\"namespace\":\"%s\",", ns);
    (void)kw_buf_adds(body, "\"name\":");
    (void)kw_buf_add_json(body, job->event.name, strlen(job->event.name));
    (void)kw_buf_adds(body, ",\"uid\":");
    (void)kw_buf_add_json(body, job->event.uid, strlen(job->event.uid));
    (void)kw_buf_adds(body, "}}");
}

/** Sends an Event, as a new one or as another count of the one that is there. */
static void send_event(struct ext_kube_writer *writer, struct sent *sent)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    kw_cleanup(kw_buf_free) struct kw_buf reply = {0};
    const struct job *job = &sent->job;
    struct kw_err err = {0};
    char path[256];
    const char *ns = job->event.about_pod ? job->event.ns : "default";
    int rc = -ENOENT;

    put_event(sent, &body);
    if (body.failed)
        return;
    if (sent->sent_ns != 0) {
        (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events/kwatt.%016llx", ns,
                       (unsigned long long)sent->key);
        rc = kw_kube_send(writer->kube, "PATCH", path, "application/merge-patch+json", body.data,
                          body.len, &reply, &err);
    }
    if (rc == -ENOENT) { /* the first of its kind, or it has expired */
        kw_buf_reset(&reply);
        (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events", ns);
        rc = kw_kube_send(writer->kube, "POST", path, "application/json", body.data, body.len,
                          &reply, &err);
    }
    /* EEXIST: another replica, or this program before its restart, has said it */
    said(writer, rc == -EEXIST ? 0 : rc, path, &err);
    sent->sent_ns = (int64_t)kw_now_ns();
    sent->dirty = false;
}

/** The place of an Event: its own, a free one, or that of the one sent longest ago. */
static struct sent *place_of(struct ext_kube_writer *writer, uint64_t key)
{
    struct sent *oldest = &writer->sent[0];

    for (size_t i = 0; i < EVENTS; i++) {
        struct sent *sent = &writer->sent[i];
        if (sent->key == key)
            return sent;
        if (sent->sent_ns < oldest->sent_ns)
            oldest = sent;
    }
    *oldest = (struct sent){.key = key, .first_unix_ms = kw_now_unix_ms()};
    return oldest;
}

static void take_event(struct ext_kube_writer *writer, const struct job *job)
{
    struct sent *sent = place_of(writer, key_of(job));

    sent->job = *job;
    sent->count++;
    sent->dirty = true;
    if (sent->sent_ns == 0)
        send_event(writer, sent);
}

/** Sends the counts that have grown. */
static void send_counts(struct ext_kube_writer *writer)
{
    int64_t now_ns = (int64_t)kw_now_ns();

    for (size_t i = 0; i < EVENTS; i++) {
        struct sent *sent = &writer->sent[i];
        if (sent->dirty && now_ns - sent->sent_ns >= AGAIN_NS) {
            send_event(writer, sent);
            return; /* the others in their turn */
        }
    }
}

/* ---- the thread ---- */

/** Waits a second at most. @return whether there is a job. */
static bool next_job(struct ext_kube_writer *writer, struct job *ret)
{
    struct kw_worker *worker = &writer->worker;
    uint64_t until = kw_now_ns() + KW_NS_PER_S;
    const struct timespec ts = {.tv_sec = (time_t)(until / KW_NS_PER_S),
                                .tv_nsec = (long)(until % KW_NS_PER_S)};

    (void)pthread_mutex_lock(&worker->mutex);
    while (writer->n == 0 && !kw_worker_stopped(worker) && kw_now_ns() < until)
        (void)pthread_cond_timedwait(&worker->wake, &worker->mutex, &ts);
    bool any = writer->n > 0;
    if (any) {
        *ret = writer->queue[writer->first];
        writer->first = (writer->first + 1) % QUEUE;
        writer->n--;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return any;
}

static void *run(void *user)
{
    struct ext_kube_writer *writer = user;
    struct job job;

    while (!kw_worker_stopped(&writer->worker)) {
        if (!next_job(writer, &job))
            send_counts(writer);
        else if (job.is_event)
            take_event(writer, &job);
        else
            write_headroom(writer, &job.headroom);
        kw_worker_wait_ns(&writer->worker, PACE_NS);
    }
    return NULL;
}

int ext_kube_writer_new(const struct kw_kube_conf *kube, struct ext_stats *stats,
                        struct kw_log *log, struct ext_kube_writer **ret, struct kw_err *err)
{
    struct ext_kube_writer *writer = calloc(1, sizeof(*writer));
    struct kw_kube_conf conf = *kube;

    if (writer == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    writer->stats = stats;
    writer->log = log;
    kw_worker_init(&writer->worker);
    writer->queue = calloc(QUEUE, sizeof(*writer->queue));
    writer->sent = calloc(EVENTS, sizeof(*writer->sent));
    writer->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = writer->cancel_fd < 0 ? kw_err_set(err, -errno, "cannot start") : 0;
    if (rc == 0 && (writer->queue == NULL || writer->sent == NULL))
        rc = kw_err_set(err, -ENOMEM, "out of memory");
    conf.cancel_fd = writer->cancel_fd;
    conf.timeout_ms = TIMEOUT_MS;
    if (rc == 0)
        rc = kw_kube_new(&conf, &writer->kube, err);
    if (rc == 0) {
        rc = kw_worker_start(&writer->worker, "kube-writer", run, writer);
        writer->started = rc == 0;
        if (rc < 0)
            (void)kw_err_set(err, rc, "cannot start a thread");
    }
    if (rc < 0)
        ext_kube_writer_free(&writer);
    else
        *ret = writer;
    return rc;
}

void ext_kube_writer_free(struct ext_kube_writer **writer)
{
    struct ext_kube_writer *w = *writer;

    if (w == NULL)
        return;
    if (w->started) {
        kw_worker_stop(&w->worker);
        (void)eventfd_write(w->cancel_fd, 1);
        kw_worker_join(&w->worker);
    }
    kw_kube_free(&w->kube);
    kw_worker_destroy(&w->worker);
    if (w->cancel_fd >= 0)
        (void)close(w->cancel_fd);
    free(w->queue);
    free(w->sent);
    free(w);
    *writer = NULL;
}

/** @return whether there was room. */
static bool push(struct ext_kube_writer *writer, const struct job *job)
{
    struct kw_worker *worker = &writer->worker;

    (void)pthread_mutex_lock(&worker->mutex);
    bool room = writer->n < QUEUE;
    if (room)
        writer->queue[(writer->first + writer->n++) % QUEUE] = *job;
    else if (!job->is_event && job->headroom.wakes)
        writer->failed_to_wake = true;
    (void)pthread_cond_broadcast(&worker->wake);
    (void)pthread_mutex_unlock(&worker->mutex);
    return room;
}

void ext_kube_writer_headroom(struct ext_kube_writer *writer,
                              const struct ext_headroom_write *write)
{
    const struct job job = {.headroom = *write};

    (void)push(writer, &job);
}

bool ext_kube_writer_failed_to_wake(struct ext_kube_writer *writer)
{
    (void)pthread_mutex_lock(&writer->worker.mutex);
    bool failed = writer->failed_to_wake;
    writer->failed_to_wake = false;
    (void)pthread_mutex_unlock(&writer->worker.mutex);
    return failed;
}

/** What a client says becomes part of a path. */
static bool is_namespace(const char *ns)
{
    return ns[0] != '\0' && strspn(ns, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(ns);
}

void ext_kube_writer_event(struct ext_kube_writer *writer, const struct ext_event *event)
{
    struct job job = {.is_event = true};

    if (event->about_pod && !is_namespace(event->ns))
        return;
    job.event.warning = event->warning;
    job.event.about_pod = event->about_pod;
    (void)snprintf(job.event.ns, sizeof(job.event.ns), "%s", event->about_pod ? event->ns : "");
    (void)snprintf(job.event.name, sizeof(job.event.name), "%s", event->name);
    (void)snprintf(job.event.uid, sizeof(job.event.uid), "%s", event->uid);
    (void)snprintf(job.event.reason, sizeof(job.event.reason), "%s", event->reason);
    (void)snprintf(job.event.message, sizeof(job.event.message), "%s", event->message);
    if (!push(writer, &job))
        writer->stats->events_dropped++;
}

void ext_kube_writer_bad_value(struct ext_kube_writer *writer, const char *node, const char *uid,
                               const char *key, const char *wanted)
{
    char message[MESSAGE_MAX];
    const struct ext_event event = {
        .warning = true, .name = node, .uid = uid, .reason = "KwattBadValue", .message = message};

    (void)snprintf(message, sizeof(message), "%s is not %s; its default is used", key, wanted);
    ext_kube_writer_event(writer, &event);
}
