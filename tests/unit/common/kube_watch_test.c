/* SPDX-License-Identifier: Apache-2.0 */
/* The watch against a scripted API server: each test is a script of requests, and the events that
 * must come of it. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/json_scan.h"
#include "common/kube_impl.h"
#include "tests/support/cmocka.h"
#include "tests/support/http_script.h"

enum how {
    ANSWER, /* with Content-Length */
    STREAM, /* chunks, ended properly */
    BREAK,  /* chunks, then the connection is cut */
    STALL,  /* chunks, then silence */
    LARGE,  /* an event of 5 MB */
};

struct step {
    const char *want; /* in the request line */
    enum how how;
    unsigned status;
    const char *body;
};

struct fixture {
    struct kwt_http_server server;
    const struct step *steps;
    size_t n;
    char wrong[256];
    char path[64];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct kw_buf log; /* "begin a b end M:a D:b down up" */
    struct kw_kube_watch *watch;
};

/* Short, so that tests are quick; none of them fails by being slow. */
static const struct kw_kube_watch_times times = {
    .idle_ms = 400, .server_s = 7, .backoff_min_ms = 5, .backoff_max_ms = 50};

#define LARGE_BYTES (5u << 20)

static void send_large(int fd)
{
    static const char head[] =
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"large\","
        "\"resourceVersion\":\"60\"},\"pad\":\"";
    size_t len = 100000;
    kw_cleanup_free char *pad = malloc(len);

    assert_non_null(pad);
    memset(pad, 'x', len);
    kwt_http_chunk(fd, head, strlen(head));
    for (size_t sent = 0; sent < LARGE_BYTES; sent += len)
        kwt_http_chunk(fd, pad, len);
    kwt_http_chunk(fd, "\"}}\n", 4);
}

static void handler(void *user, unsigned n, const char *request, int fd)
{
    struct fixture *f = user;
    const struct step *step = &f->steps[n < f->n ? n : f->n - 1];

    if (n >= f->n || strstr(request, step->want) == NULL) {
        /* after the script: an open stream without events */
        if (n < f->n && f->wrong[0] == '\0')
            (void)snprintf(f->wrong, sizeof(f->wrong), "%u: %.200s", n, request);
        kwt_http_begin(fd, 200);
        kwt_http_stall(fd);
        return;
    }
    if (step->how == ANSWER) {
        kwt_http_answer(fd, step->status, step->body);
        return;
    }
    kwt_http_begin(fd, step->status);
    if (step->how == LARGE)
        send_large(fd);
    else if (step->body[0] != '\0')
        kwt_http_chunk(fd, step->body, strlen(step->body));
    if (step->how == STALL)
        kwt_http_stall(fd);
    else if (step->how != BREAK)
        kwt_http_end(fd);
}

/* metadata.name of an object. */
static void name_of(const char *bytes, size_t len, char *out, size_t size)
{
    const char *name = memmem(bytes, len, "\"name\":\"", 8);

    out[0] = '\0';
    if (name != NULL)
        (void)snprintf(out, size, "%.*s", (int)strcspn(name + 8, "\""), name + 8);
}

static void on_event(void *user, enum kw_kube_event event, const char *json, size_t len)
{
    static const char *const words[] = {"begin", "end", "", "M:", "D:", "down", "up"};
    _Static_assert(KW_ARRAY_SIZE(words) == KW_KUBE__MAX, "one word each");
    struct fixture *f = user;
    char name[64] = "";
    struct kw_json_token token;
    struct kw_json scan;

    if (event == KW_KUBE_ADDED || event == KW_KUBE_MODIFIED || event == KW_KUBE_DELETED) {
        name_of(json, len, name, sizeof(name));
        kw_json_begin(&scan, json, len);
        assert_int_equal(kw_json_skip(&scan, &token), KW_JSON_OBJECT);
        assert_int_equal(kw_json_next(&scan, &token), KW_JSON_END);
    } else {
        assert_int_equal(len > 0, event == KW_KUBE_DOWN);
    }
    (void)pthread_mutex_lock(&f->mutex);
    (void)kw_buf_addf(&f->log, "%s%s ", words[event], name);
    (void)pthread_cond_broadcast(&f->changed);
    (void)pthread_mutex_unlock(&f->mutex);
}

static void write_kubeconfig(struct fixture *f, const char *url)
{
    char text[256];

    (void)snprintf(f->path, sizeof(f->path), "/tmp/kwatt-watch-%d", (int)getpid());
    (void)snprintf(text, sizeof(text),
                   "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"
                   "clusters: [{name: a, cluster: {server: '%s'}}]\n",
                   url);
    assert_int_equal(kw_file_write_atomic(f->path, text, strlen(text), 0600), 0);
}

static void start(struct fixture *f, const struct step *steps, size_t n)
{
    struct kw_err err = {0};

    *f = (struct fixture){.steps = steps,
                          .n = n,
                          .mutex = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER};
    kwt_http_start(&f->server, handler, f);
    write_kubeconfig(f, f->server.url);
    if (kw_kube_watch_start_with(&(struct kw_kube_conf){.kubeconfig = f->path}, "/pods", "q=1",
                                 &times, on_event, f, &f->watch, &err) != 0)
        fail_msg("%s", err.text);
}

static void finish(struct fixture *f)
{
    kw_kube_watch_free(&f->watch);
    assert_null(f->watch);
    kwt_http_stop(&f->server);
    (void)unlink(f->path);
    kw_buf_free(&f->log);
    if (f->wrong[0] != '\0')
        fail_msg("request %s", f->wrong);
}

/* Waits for exactly this log (60 s: only a failing test waits so long). */
static void expect(struct fixture *f, const char *want)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    (void)pthread_mutex_lock(&f->mutex);
    while ((f->log.data == NULL || strcmp(f->log.data, want) != 0) && f->log.len <= strlen(want))
        if (pthread_cond_timedwait(&f->changed, &f->mutex, &until) != 0)
            break;
    int same = f->log.data != NULL && strcmp(f->log.data, want) == 0;
    kw_cleanup_free char *log = strdup(f->log.data != NULL ? f->log.data : "");
    (void)pthread_mutex_unlock(&f->mutex);
    if (!same)
        fail_msg("events: %s\n  wanted: %s\n  wrong request: %s", log, want, f->wrong);
}

#define OBJECT(name, version) \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":" OBJECT(name, version) "}\n"
#define LIST(version, items) \
    "{\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"
#define GONE \
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"message\":\"too old\",\"code\":410}}\n"

static void events_bookmarks_and_resumption(void **state)
{
    static const struct step steps[] = {
        {"GET /pods?limit=500&q=1 ", ANSWER, 200,
         LIST("10", OBJECT("a", "3") "," OBJECT("b", "4"))},
        {"&q=1&resourceVersion=10 ", STREAM, 200,
         EVENT("MODIFIED", "a", "11") "\n" EVENT("BOOKMARK", "", "15")},
        {"allowWatchBookmarks=true&", STREAM, 200, ""},
        {"/pods?watch=true&", STREAM, 200, ""},
        {"&resourceVersion=15 ", STREAM, 200,
         EVENT("ADDED", "c", "16") EVENT("DELETED", "b", "17")},
        {"&resourceVersion=17 ", STALL, 200, EVENT("DELETED", "c", "18")},
        {"&resourceVersion=18 ", STALL, 200, EVENT("ADDED", "d", "19")},
    };
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    /* silence after the 6th ends with the idle time-out, which alone is not DOWN */
    expect(&f, "begin a b end M:a c D:b D:c d ");
    finish(&f);
}

static void gone_as_status_and_as_event(void **state)
{
    static const struct step steps[] = {
        {"limit=500", ANSWER, 200, LIST("10", OBJECT("a", "3"))},
        {"resourceVersion=10", ANSWER, 410, "{\"kind\":\"Status\",\"code\":410}"},
        {"limit=500", ANSWER, 200, LIST("20", OBJECT("b", "13"))},
        {"resourceVersion=20", STREAM, 200,
         EVENT("MODIFIED", "b", "21") GONE EVENT("MODIFIED", "x", "22")},
        {"limit=500", ANSWER, 200, LIST("30", "")},
        {"resourceVersion=30", STALL, 200, EVENT("ADDED", "c", "31")},
    };
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    expect(&f, "begin a end begin b end M:b begin end c ");
    finish(&f);
}

static void broken_stream_resumes(void **state)
{
    static const struct step steps[] = {
        {"limit=500", ANSWER, 200, LIST("10", OBJECT("a", "3"))},
        {"resourceVersion=10", BREAK, 200,
         EVENT("MODIFIED", "a", "11") "{\"type\":\"MODIFIED\",\"obj"},
        {"limit=1&q=1 ", ANSWER, 503, "{}"},
        {"limit=1&", ANSWER, 200, LIST("12", "")},
        {"resourceVersion=11", STALL, 200, EVENT("MODIFIED", "a", "12")},
    };
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    expect(&f, "begin a end M:a down down up M:a ");
    finish(&f);
}

static void other_errors_list_anew(void **state)
{
    static const struct step steps[] = {
        {"limit=500", ANSWER, 200, LIST("10", "")},
        {"resourceVersion=10", STREAM, 200,
         "{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"etcd\"}}\n"},
        {"limit=500", ANSWER, 200, LIST("11", "")},
        {"resourceVersion=11", STREAM, 200, "rubbish\n"},
        {"limit=500", ANSWER, 200, LIST("12", "")},
        {"resourceVersion=12", STALL, 200, EVENT("ADDED", "a", "13")},
    };
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    expect(&f, "begin end down begin end down begin end a ");
    finish(&f);
}

static void refused_version_lists_anew_at_last(void **state)
{
    static const struct step steps[] = {
        {"limit=500", ANSWER, 200, LIST("10", "")},
        {"resourceVersion=10", ANSWER, 504, "{\"message\":\"Too large resource version\"}"},
        {"limit=1&", ANSWER, 200, LIST("9", "")},
        {"resourceVersion=10", ANSWER, 504, "{}"},
        {"limit=1&", ANSWER, 200, LIST("9", "")},
        {"resourceVersion=10", ANSWER, 504, "{}"},
        {"limit=500", ANSWER, 200, LIST("9", OBJECT("a", "9"))},
        {"resourceVersion=9", STALL, 200, EVENT("MODIFIED", "a", "10")},
    };
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    expect(&f, "begin end down up down up down begin a end M:a ");
    finish(&f);
}

static void busy_server_is_not_down_at_once(void **state)
{
    static const struct step steps[] = {
        {"limit=500", ANSWER, 429, "{}"},
        {"limit=500", ANSWER, 200, LIST("10", "")},
        {"resourceVersion=10", ANSWER, 429, "{\"message\":\"storage is (re)initializing\"}"},
        {"resourceVersion=10", ANSWER, 429, "{}"},
        {"resourceVersion=10", STREAM, 200, EVENT("ADDED", "a", "11")},
        {"resourceVersion=11", ANSWER, 429, "{}"},
        {"resourceVersion=11", ANSWER, 429, "{}"},
        {"resourceVersion=11", ANSWER, 429, "{}"},
        {"limit=500", ANSWER, 200, LIST("12", OBJECT("a", "12"))},
        {"resourceVersion=12", STALL, 200, EVENT("MODIFIED", "a", "13")},
    };
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    expect(&f, "begin begin end a down begin a end M:a ");
    finish(&f);
}

static void failed_list_begins_again(void **state)
{
    static const struct step steps[] = {
        {"limit=500", ANSWER, 403, "{\"message\":\"forbidden\"}"},
        {"limit=500", ANSWER, 200,
         "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[" OBJECT("a", "1") ",0]}"},
        {"limit=500", ANSWER, 200,
         "{\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"n\"},\"items\":[" OBJECT(
             "a", "1") "]}"},
        {"continue=n", ANSWER, 410, "{}"},
        {"limit=500", ANSWER, 200, LIST("6", OBJECT("b", "1"))},
        {"resourceVersion=6", STALL, 200, EVENT("ADDED", "c", "7")},
    };
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    expect(&f, "begin down begin a down begin a begin b end c ");
    finish(&f);
}

static void large_event(void **state)
{
    static const struct step steps[] = {
        {"limit=500", ANSWER, 200, LIST("10", "")},
        {"resourceVersion=10", LARGE, 200, ""},
        {"resourceVersion=60", STALL, 200, EVENT("DELETED", "large", "61")},
    };
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    expect(&f, "begin end M:large D:large ");
    finish(&f);
}

static void server_that_ends_every_stream_is_not_stormed(void **state)
{
    static const struct step end = {"watch=true", STREAM, 200, ""};
    const struct step steps[] = {{"limit=500", ANSWER, 200, LIST("10", "")},
                                 end,
                                 end,
                                 end,
                                 end,
                                 end,
                                 end,
                                 end,
                                 end,
                                 end,
                                 end,
                                 end,
                                 end,
                                 end};
    struct fixture f;
    (void)state;

    start(&f, steps, KW_ARRAY_SIZE(steps));
    uint64_t begin = kw_now_ns();
    while (atomic_load(&f.server.requests) < KW_ARRAY_SIZE(steps))
        (void)poll(NULL, 0, 5);
    /* waits of at least half of 5 10 20 40 50 50 50 50 50 50 50 50 ms */
    assert_true(kw_now_ns() - begin >= 200 * KW_NS_PER_MS);
    expect(&f, "begin end ");
    finish(&f);
}

static void free_ends_every_wait(void **state)
{
    static const struct step stalled_list[] = {{"limit=500", STALL, 200, "{"}};
    static const struct step stalled_watch[] = {{"limit=500", ANSWER, 200, LIST("1", "")},
                                                {"watch=true", STALL, 200, ""}};
    static const struct {
        const struct step *steps;
        size_t n;
    } rows[] = {{stalled_list, 1}, {stalled_watch, 2}};
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct fixture f;
        start(&f, rows[i].steps, rows[i].n);
        while (atomic_load(&f.server.requests) < rows[i].n)
            (void)poll(NULL, 0, 5);
        finish(&f);
    }
}

static void nobody_listens(void **state)
{
    struct fixture f = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    /* a wait of half a minute at least: free must not sit it out */
    const struct kw_kube_watch_times slow = {
        .idle_ms = 400, .server_s = 7, .backoff_min_ms = 60000, .backoff_max_ms = 60000};
    struct kw_err err = {0};
    (void)state;

    write_kubeconfig(&f, "http://127.0.0.1:1");
    assert_int_equal(kw_kube_watch_start_with(&(struct kw_kube_conf){.kubeconfig = f.path}, "/pods",
                                              NULL, &slow, on_event, &f, &f.watch, &err),
                     0);
    expect(&f, "begin down ");
    uint64_t begin = kw_now_ns();
    kw_kube_watch_free(&f.watch);
    assert_true(kw_now_ns() - begin < 20 * KW_NS_PER_S);
    (void)unlink(f.path);
    kw_buf_free(&f.log);
}

static void bad_configuration(void **state)
{
    struct kw_kube_watch *watch = NULL;
    struct kw_err err = {0};
    (void)state;

    assert_int_equal(kw_kube_watch_start(&(struct kw_kube_conf){.kubeconfig = "/nonexistent"},
                                         "/pods", NULL, on_event, NULL, &watch, &err),
                     -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent"));
    assert_null(watch);
    kw_kube_watch_free(&watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_bookmarks_and_resumption),
        cmocka_unit_test(gone_as_status_and_as_event),
        cmocka_unit_test(broken_stream_resumes),
        cmocka_unit_test(other_errors_list_anew),
        cmocka_unit_test(refused_version_lists_anew_at_last),
        cmocka_unit_test(busy_server_is_not_down_at_once),
        cmocka_unit_test(failed_list_begins_again),
        cmocka_unit_test(large_event),
        cmocka_unit_test(server_that_ends_every_stream_is_not_stormed),
        cmocka_unit_test(free_ends_every_wait),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(bad_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
