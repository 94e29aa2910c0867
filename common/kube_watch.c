/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a collection in view: list, watch from the list's version, and again when that ends.
 *
 * Problem: a watch is a stream that the server ends every few minutes, that a proxy or a dead peer
 * may leave open and silent, and whose starting point is forgotten by the server after about five
 * minutes. The consumer must see each change once, in order, across all of that.
 *
 * Approach: `version` is the resource version up to which the consumer knows everything; each
 * delivered event and each bookmark moves it on. A stream that ends, breaks, or is silent for
 * longer than the interval of bookmarks (one minute) is opened again from there. Only where the
 * server says that it no longer knows the version (410, as a status or as an ERROR event under
 * 200), or cannot be made to take it (a server restored from an older backup), it is dropped and
 * the list is read anew between SYNC_BEGIN and SYNC_END.
 *
 * Invariants: version is NULL exactly when a list must be read; it is set only after SYNC_END.
 * Events between lists are delivered once: an event moves the version in the same step. Between two
 * failures without an event in between the wait grows (back-off with jitter), also where a server
 * accepts and closes at once, so that no server state makes a busy loop. A server that asks for
 * patience (429: busy, or the storage of a new kind is not ready) is not down at once. After a
 * failure a list of one object tells whether the server answers again (UP): a watch itself says
 * nothing while nothing changes.
 *
 * One thread per watch; the owner's free interrupts the request in progress and any wait.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/backoff.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/http_client.h"
#include "common/kube_impl.h"
#include "common/worker.h"

/* The server sends a bookmark each minute; half as much again for a busy one. */
#define IDLE_MS          90000
/* client-go asks for 5..10 minutes, so that watches spread over the servers of a cluster. */
#define SERVER_TIMEOUT_S 300
#define BACKOFF_MIN_MS   200
#define BACKOFF_MAX_MS   30000
/* A stream that lived so long was a good one, even if nothing happened on it. */
#define GOOD_STREAM_NS   (5 * KW_NS_PER_S)
/* A refused version is tried again, as the server may lag behind; then the list is read anew. So is
 * a server that asks for patience; then it is down. */
#define MAX_REFUSALS     3

/* Beyond that it is no Status object. */
#define MAX_REFUSAL_BYTES 65536

#define HTTP_GONE 410

struct kw_kube_watch {
    struct kw_kube *kube;
    char *path;
    char *query; /* "" for none */
    struct kw_kube_watch_times times;
    kw_kube_watch_fn fn;
    void *user;

    struct kw_worker worker;

    /* of the thread */
    char *version;
    struct kw_backoff backoff;
    unsigned refusals;
    unsigned busy; /* times in a row that the server asked for patience */
    bool down;
    struct kw_kube_lines lines;
    struct kw_buf refusal; /* body of a status that is not 200 */
    unsigned events;       /* of the stream in progress, bookmarks included */
    int line_result;       /* why the stream was ended by us: 0, -ESTALE list anew, -errno */
    struct kw_err line_err;
};

static void tell(struct kw_kube_watch *watch, enum kw_kube_event event, const char *json,
                 size_t len)
{
    watch->fn(watch->user, event, json, len);
}

static void forget_version(struct kw_kube_watch *watch)
{
    free(watch->version);
    watch->version = NULL;
    watch->refusals = 0;
}

/* ---- list ---- */

static bool on_item(void *user, const char *json, size_t len)
{
    struct kw_kube_watch *watch = user;

    tell(watch, KW_KUBE_ADDED, json, len);
    return !kw_worker_stopped(&watch->worker);
}

static void on_restart(void *user)
{
    tell(user, KW_KUBE_SYNC_BEGIN, NULL, 0);
}

static int list(struct kw_kube_watch *watch, struct kw_err *err)
{
    char *version = NULL;

    tell(watch, KW_KUBE_SYNC_BEGIN, NULL, 0);
    int r = kw_kube_list(watch->kube, watch->path, watch->query, on_item, on_restart, watch,
                         &version, err);
    if (r < 0)
        return r;
    tell(watch, KW_KUBE_SYNC_END, NULL, 0);
    watch->version = version;
    watch->down = false;
    watch->busy = 0;
    return 0;
}

/* ---- watch ---- */

/* @return 0; -ESTALE the version is gone; -errno with line_err */
static int on_line(void *user, const char *bytes, size_t len)
{
    static const enum kw_kube_event events[] = {
        [KW_KUBE_LINE_ADDED] = KW_KUBE_ADDED,
        [KW_KUBE_LINE_MODIFIED] = KW_KUBE_MODIFIED,
        [KW_KUBE_LINE_DELETED] = KW_KUBE_DELETED,
    };
    struct kw_kube_watch *watch = user;
    struct kw_kube_status said;
    struct kw_kube_line line;
    int r = kw_kube_cut_line(bytes, len, &line, &watch->line_err);

    if (r < 0)
        return r;
    if (line.type == KW_KUBE_LINE_ERROR) {
        kw_kube_status_parse(line.object, line.object_len, &said);
        if (said.code == HTTP_GONE)
            return -ESTALE;
        return kw_err_set(&watch->line_err, -EREMOTEIO, "watch: the server says %u: %s", said.code,
                          said.message);
    }
    char *version = strdup(line.version);
    if (version == NULL)
        return kw_err_set(&watch->line_err, -ENOMEM, "watch: out of memory");
    free(watch->version);
    watch->version = version;
    watch->events++;
    if (line.type != KW_KUBE_LINE_BOOKMARK)
        tell(watch, events[line.type], line.object, line.object_len);
    return kw_worker_stopped(&watch->worker) ? -ECANCELED : 0;
}

static bool on_bytes(void *user, unsigned status, const char *bytes, size_t len)
{
    struct kw_kube_watch *watch = user;

    if (kw_worker_stopped(&watch->worker))
        return false;
    if (status != 200) /* a Status object, read when it is complete */
        return watch->refusal.len + len <= MAX_REFUSAL_BYTES &&
               kw_buf_add(&watch->refusal, bytes, len) == 0;
    watch->line_result = kw_kube_lines_feed(&watch->lines, bytes, len, on_line, watch);
    if (watch->line_result == -EFBIG || watch->line_result == -ENOMEM)
        (void)kw_err_set(&watch->line_err, watch->line_result, "watch: an event is too large: %s",
                         kw_errno_text(watch->line_result));
    return watch->line_result == 0;
}

static int watch_url(const struct kw_kube_watch *watch, struct kw_buf *url)
{
    uint32_t server_s = watch->times.server_s + kw_random_u32() % (watch->times.server_s + 1);

    (void)kw_buf_addf(url, "%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%u", watch->path,
                      server_s);
    if (watch->query[0] != '\0')
        (void)kw_buf_addf(url, "&%s", watch->query);
    (void)kw_buf_adds(url, "&resourceVersion=");
    return kw_kube_url_encode(url, watch->version);
}

/* The stream ended with a status that is not 200. */
static int refused(struct kw_kube_watch *watch, unsigned status, struct kw_err *err)
{
    const char *body = watch->refusal.data != NULL ? watch->refusal.data : "";
    int r = kw_kube_status_error("WATCH", kw_kube_server(watch->kube), watch->path, status, body,
                                 watch->refusal.len, err);

    if (status == HTTP_GONE)
        return -ESTALE;
    if (++watch->refusals >= MAX_REFUSALS)
        forget_version(watch);
    return r;
}

/* One stream. @return 0 it ended as streams do; -ESTALE list anew; -errno */
static int stream(struct kw_kube_watch *watch, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf url = {0};
    unsigned status = 0;

    if (watch_url(watch, &url) < 0)
        return kw_err_set(err, -ENOMEM, "watch: out of memory");
    kw_kube_lines_free(&watch->lines); /* the room of one large event is not kept for ever */
    kw_buf_reset(&watch->refusal);
    watch->events = 0;
    watch->line_result = 0;
    const struct kw_http_call call = {
        .method = "GET", .path = url.data, .accept = "application/json"};
    int r = kw_http_client_stream(kw_kube_http(watch->kube), &call, watch->times.idle_ms, on_bytes,
                                  watch, &status, err);
    if (watch->line_result < 0) {
        if (err != NULL)
            *err = watch->line_err;
        r = watch->line_result;
    } else if ((r == 0 || r == -ECANCELED) && status != 0 && status != 200) {
        r = refused(watch, status, err);
    } else if (r == -ETIMEDOUT && status == 200) {
        r = 0; /* silent: perhaps half-open; opened again, and if that fails, it is a failure */
    }
    if (watch->events > 0)
        watch->refusals = watch->busy = 0;
    return r;
}

/* ---- the thread ---- */

static bool on_probe(void *user, const char *json, size_t len)
{
    (void)user;
    (void)json;
    (void)len;
    return true;
}

/* Whether the server answers for this collection again. */
static int probe(struct kw_kube_watch *watch, struct kw_err *err)
{
    kw_cleanup(kw_kube_page_free) struct kw_kube_page page = {0};
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    kw_cleanup(kw_buf_free) struct kw_buf url = {0};

    (void)kw_buf_addf(&url, "%s?limit=1", watch->path);
    if (watch->query[0] != '\0')
        (void)kw_buf_addf(&url, "&%s", watch->query);
    if (url.failed)
        return kw_err_set(err, -ENOMEM, "watch: out of memory");
    int r = kw_kube_get(watch->kube, url.data, &body, err);
    if (r == 0)
        r = kw_kube_cut_list(body.data != NULL ? body.data : "", body.len, on_probe, NULL, &page,
                             err);
    if (r == 0) {
        watch->down = false;
        tell(watch, KW_KUBE_UP, NULL, 0);
    }
    return r;
}

/* One step: a list where one is due, then a stream. @return 0 go on at once; -EAGAIN go on after a
 * wait; -errno failed */
static int step(struct kw_kube_watch *watch, struct kw_err *err)
{
    int r = 0;

    if (watch->version == NULL)
        r = list(watch, err);
    else if (watch->down)
        r = probe(watch, err);
    if (r < 0)
        return r;
    uint64_t begin = kw_now_ns();
    r = stream(watch, err);
    bool good = watch->events > 0 || kw_now_ns() - begin >= GOOD_STREAM_NS;
    if (good)
        kw_backoff_reset(&watch->backoff);
    if (r == -ESTALE) {
        forget_version(watch);
        r = 0;
    } else if (watch->line_result < 0) {
        /* the server or the bytes are at fault; the list is the one sure way back */
        forget_version(watch);
    }
    return r < 0 || good ? r : -EAGAIN;
}

static void *run(void *user)
{
    struct kw_kube_watch *watch = user;

    while (!kw_worker_stopped(&watch->worker)) {
        struct kw_err err = {0};
        int r = step(watch, &err);
        if (kw_worker_stopped(&watch->worker))
            break;
        if (r == -EBUSY && ++watch->busy < MAX_REFUSALS)
            r = -EAGAIN;
        if (r < 0 && r != -EAGAIN) {
            watch->down = true;
            tell(watch, KW_KUBE_DOWN, err.text, strlen(err.text));
        }
        if (r < 0)
            kw_worker_wait_ns(&watch->worker,
                              kw_backoff_next_ms(&watch->backoff, kw_random_u32()) * KW_NS_PER_MS);
    }
    return NULL;
}

static void release(struct kw_kube_watch **watch)
{
    if (*watch == NULL)
        return;
    kw_kube_free(&(*watch)->kube);
    kw_worker_destroy(&(*watch)->worker);
    kw_kube_lines_free(&(*watch)->lines);
    kw_buf_free(&(*watch)->refusal);
    free((*watch)->version);
    free((*watch)->path);
    free((*watch)->query);
    free(*watch);
    *watch = NULL;
}

int kw_kube_watch_start_with(const struct kw_kube_conf *conf, const char *path, const char *query,
                             const struct kw_kube_watch_times *times, kw_kube_watch_fn fn,
                             void *user, struct kw_kube_watch **ret, struct kw_err *err)
{
    kw_cleanup(release) struct kw_kube_watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL)
        return kw_err_set(err, -ENOMEM, "watch: out of memory");
    kw_worker_init(&watch->worker);
    watch->path = strdup(path);
    watch->query = strdup(query != NULL ? query : "");
    if (watch->path == NULL || watch->query == NULL)
        return kw_err_set(err, -ENOMEM, "watch: out of memory");
    watch->times = *times;
    watch->backoff =
        (struct kw_backoff){.min_ms = times->backoff_min_ms, .max_ms = times->backoff_max_ms};
    watch->fn = fn;
    watch->user = user;
    int r = kw_kube_new(conf, &watch->kube, err);
    if (r < 0)
        return r;
    r = kw_worker_start(&watch->worker, "kube-watch", run, watch);
    if (r < 0)
        return kw_err_set(err, r, "watch: thread: %s", kw_errno_text(r));
    *ret = KW_TAKE_PTR(watch);
    return 0;
}

int kw_kube_watch_start(const struct kw_kube_conf *conf, const char *path, const char *query,
                        kw_kube_watch_fn fn, void *user, struct kw_kube_watch **ret,
                        struct kw_err *err)
{
    static const struct kw_kube_watch_times times = {
        .idle_ms = IDLE_MS,
        .server_s = SERVER_TIMEOUT_S,
        .backoff_min_ms = BACKOFF_MIN_MS,
        .backoff_max_ms = BACKOFF_MAX_MS,
    };
    return kw_kube_watch_start_with(conf, path, query, &times, fn, user, ret, err);
}

void kw_kube_watch_free(struct kw_kube_watch **watch)
{
    if (*watch == NULL)
        return;
    kw_worker_stop(&(*watch)->worker);
    kw_http_client_interrupt(kw_kube_http((*watch)->kube));
    kw_worker_join(&(*watch)->worker);
    release(watch);
}
