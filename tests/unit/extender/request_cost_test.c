/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no request may do, on any of its ways: allocate (once its buffers have their size), take a
 * lock, write a log line, speak to Redis or to any other file. The linker sends all of these
 * through here, and they are counted while a request is answered.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/redis.h"
#include "extender/capping.h"
#include "extender/service.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND INT64_C(1000000000)
#define NODES  600
/** More than the ring of decisions holds. */
#define ROUNDS 600

static unsigned long calls;
static const char *last = "";

static void count(const char *what)
{
    calls++;
    last = what;
}

/* clang-format off */
#define WRAP(type, name, params, args) \
    type __real_##name params;         \
    type __wrap_##name params;         \
    type __wrap_##name params          \
    {                                  \
        count(#name);                  \
        return __real_##name args;     \
    }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *old, size_t n), (old, n))
WRAP(void *, reallocarray, (void *old, size_t n, size_t size), (old, n, size))
WRAP(void *, aligned_alloc, (size_t align, size_t n), (align, n))
WRAP(char *, strdup, (const char *text), (text))
WRAP(int, pthread_mutex_lock, (pthread_mutex_t *lock), (lock))
WRAP(int, pthread_mutex_trylock, (pthread_mutex_t *lock), (lock))
WRAP(int, pthread_rwlock_rdlock, (pthread_rwlock_t *lock), (lock))
WRAP(int, pthread_rwlock_wrlock, (pthread_rwlock_t *lock), (lock))
WRAP(int, pthread_spin_lock, (pthread_spinlock_t *lock), (lock))
WRAP(int, kw_redis_exec, (struct kw_redis *redis, struct kw_redis_replies *ret, struct kw_err *err),
     (redis, ret, err))
WRAP(ssize_t, write, (int fd, const void *bytes, size_t n), (fd, bytes, n))
WRAP(ssize_t, send, (int fd, const void *bytes, size_t n, int flags), (fd, bytes, n, flags))
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(ssize_t, recv, (int fd, void *bytes, size_t n, int flags), (fd, bytes, n, flags))
/* clang-format on */

struct fixture {
    struct ext_service service;
    struct ext_capping *capping;
    struct kw_log *log;
    struct ext_snapshot *snapshot;
    int64_t now_ns;
    struct kw_buf own, out;
    unsigned lent; /* answers that were sent from where they stood */
};

static void policy(struct fixture *f, bool dry_run)
{
    const struct ext_policy policy = {
        .stale_after_ns = 30 * (uint64_t)SECOND,
        .assumptions = {.default_cpu_mcpu = 100, .request_use_percent = 100},
        .own_namespace = "kwatt",
        .cap_sigmas = 2,
        .dry_run = dry_run};

    assert_int_equal(ext_service_set_policy(&f->service, &policy), 0);
}

static void publish(struct fixture *f, char names[NODES][16])
{
    const struct kw_curve curve = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 100000, 0}, {1000, 180000, 0}}};
    static struct ext_node nodes[NODES];
    static struct ext_held held[NODES];

    for (size_t i = 0; i < NODES; i++) {
        nodes[i] = kwt_node(names[i], i % 50 == 49 ? NULL : &curve, (double)(i * 13 % 8000));
        nodes[i].fresh_ns = nodes[i].covered_ns = i % 40 == 39 ? 1 : f->now_ns;
        nodes[i].watts.heard = true;
        ext_watts_curve(&nodes[i].watts, &curve);
    }
    f->snapshot = ext_snapshot_new(nodes, NODES, 5, 30 * (uint64_t)SECOND);
    assert_non_null(f->snapshot);
    assert_int_equal(ext_capping_settle(f->capping, f->snapshot, held, NULL, f->now_ns), 0);
}

static int set_up(void **state)
{
    static char names[NODES][16];
    struct fixture *f = calloc(1, sizeof(*f));
    struct ext_policy first = {.stale_after_ns = 1};
    struct kw_err err = {0};

    /* as a connection's is after some answers: reasons make them longer while caps fill up */
    if (f == NULL || ext_service_init(&f->service, 1, &first) < 0 ||
        kw_buf_reserve(&f->own, 1 << 20) < 0 || kw_buf_reserve(&f->out, 1 << 20) < 0)
        return -1;
    f->now_ns = 1000 * SECOND;
    f->log = kw_log_new("test", KW_LOG_ERROR, NULL);
    const struct ext_capping_conf conf = {.policy = {.sigmas = 2, .soft_permille = 900},
                                          .stats = &f->service.stats,
                                          .decisions = f->service.decisions,
                                          .log = f->log};
    if (ext_capping_new(&conf, &f->capping, &err) < 0)
        return -1;
    f->service.tally = ext_capping_tally(f->capping);
    f->service.waiters = ext_capping_waiters(f->capping);
    policy(f, false);
    for (size_t i = 0; i < NODES; i++) {
        char json[256];
        (void)snprintf(names[i], sizeof(names[i]), "node-%zu", i);
        /* every third under a cap of its own, from closed to wide; some fall asleep */
        (void)snprintf(json, sizeof(json),
                       "{\"metadata\":{\"name\":\"%s\",\"annotations\":{\"%s\":\"%s\"}}}", names[i],
                       i % 7 == 0 ? "kwatt.io/falling-asleep" : "kwatt.io/power-cap-watts",
                       i % 7 == 0   ? "true"
                       : i % 3 == 0 ? "150"
                                    : "100000");
        ext_capping_event(f->capping, KW_KUBE_MODIFIED, json, strlen(json), f->now_ns);
    }
    publish(f, names);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ext_snapshot_free(&f->snapshot);
    ext_capping_free(&f->capping);
    ext_service_clear(&f->service);
    kw_log_free(&f->log);
    kw_buf_free(&f->own);
    kw_buf_free(&f->out);
    free(f);
    return 0;
}

/** The kinds of requests, each of them with what it must not be refused by. */
static const struct {
    const char *name, *cpu, *more;
    unsigned first, step; /* nodes */
    bool whole;
    enum ext_verb verb;
} kinds[] = {
    {"filter under caps", "1", "", 0, 1, false, EXT_VERB_FILTER},
    {"filter that passes none", "4", "", 0, 21, false, EXT_VERB_FILTER},
    {"filter of a critical pod", "1", ",\"priorityClassName\":\"system-node-critical\"", 0, 1,
     false, EXT_VERB_FILTER},
    {"filter of whole nodes", "1", "", 0, 3, true, EXT_VERB_FILTER},
    {"prioritize under caps", "1", "", 0, 1, false, EXT_VERB_PRIORITIZE},
    {"prioritize in another order", "1", "", 7, 1, false, EXT_VERB_PRIORITIZE},
    {"prioritize of whole nodes", "1", "", 0, 3, true, EXT_VERB_PRIORITIZE},
    {"preempt under caps", "1", "", 0, 5, false, EXT_VERB_PREEMPT},
};

static void make_body(struct kw_buf *body, size_t kind, unsigned round)
{
    bool preempt = kinds[kind].verb == EXT_VERB_PREEMPT;
    bool whole = kinds[kind].whole;
    bool first = true;

    (void)kw_buf_addf(
        body,
        "{\"Pod\":{\"metadata\":{\"uid\":\"u%u\",\"namespace\":\"x\",\"name\":\"p%u\"},"
        "\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"%s\"}}}]%s}},",
        round, round, kinds[kind].cpu, kinds[kind].more);
    (void)kw_buf_adds(body, preempt ? "\"NodeNameToMetaVictims\":{"
                            : whole ? "\"Nodes\":{\"items\":["
                                    : "\"NodeNames\":[");
    for (unsigned i = 0; i < NODES; i += kinds[kind].step) {
        (void)kw_buf_adds(body, first ? "" : ",");
        first = false;
        (void)kw_buf_addf(body,
                          preempt
                              ? "\"node-%u\":{\"Pods\":[{\"UID\":\"v\"}],\"NumPDBViolations\":0}"
                          : whole ? "{\"metadata\":{\"name\":\"node-%u\"}}"
                                  : "\"node-%u\"",
                          (i + kinds[kind].first) % NODES);
    }
    (void)kw_buf_adds(body, preempt ? "}}" : whole ? "]}}" : "]}");
}

/** Answers as a connection does, and returns how often something was done that must not be. */
static unsigned long ask(struct fixture *f, enum ext_verb verb, const char *body, size_t len,
                         unsigned *ret_status)
{
    struct ext_lent lent = {.body = &f->own};

    kw_buf_reset(&f->own);
    (void)kw_buf_add(&f->own, body, len);
    kw_buf_reset(&f->out);
    unsigned long before = calls;
    *ret_status = ext_service_lend(&f->service, verb, f->snapshot, f->now_ns, f->own.data,
                                   f->own.len, &f->out, &lent);
    unsigned long did = calls - before;
    if (lent.bytes != NULL)
        (void)kw_buf_add(&f->out, lent.bytes, lent.len);
    if (lent.held != NULL)
        atomic_fetch_sub(lent.held, 1);
    f->lent += lent.bytes != NULL;
    return did;
}

static void check(struct fixture *f, size_t kind, unsigned rounds)
{
    unsigned status;

    for (unsigned round = 0; round < rounds; round++) {
        kw_cleanup(kw_buf_free) struct kw_buf body = {0};
        make_body(&body, kind, round);
        assert_false(body.failed);
        unsigned long did = ask(f, kinds[kind].verb, body.data, body.len, &status);
        assert_int_equal(status, 200);
        /* once more, with a list that may be known by now */
        if (kinds[kind].verb == EXT_VERB_PRIORITIZE)
            did += ask(f, kinds[kind].verb, body.data, body.len, &status);
        assert_int_equal(status, 200);
        if (kinds[kind].verb != EXT_VERB_PREEMPT || round > 0)
            assert_null(strstr(f->out.data, "\"Error\":\"kwatt"));
        if (did > 0 && round > 0)
            fail_msg("%s: %lu calls, the last of %s", kinds[kind].name, did, last);
        /* one that is cut off, too */
        did = ask(f, kinds[kind].verb, body.data, body.len - 2, &status);
        if (did > 0)
            fail_msg("%s, cut: %lu calls, the last of %s", kinds[kind].name, did, last);
        f->now_ns += SECOND / 1000;
    }
}

static void test_under_caps(void **state)
{
    struct fixture *f = *state;

    for (size_t kind = 0; kind < KW_ARRAY_SIZE(kinds); kind++)
        check(f, kind, ROUNDS);
    uint64_t rejected = 0;
    for (unsigned i = 0; i < EXT_CAP__MAX; i++)
        rejected += f->service.stats.rejected[i];
    assert_true(rejected > 0 && f->lent > 0); /* the ways that were meant were gone */
    assert_true(calls > 0);
}

static void test_dry_run(void **state)
{
    struct fixture *f = *state;

    policy(f, true);
    for (size_t kind = 0; kind < KW_ARRAY_SIZE(kinds); kind++)
        check(f, kind, ROUNDS);
    uint64_t seen = 0;
    for (unsigned i = 0; i < EXT_CAP__MAX; i++)
        seen += f->service.stats.rejected[i];
    assert_int_equal(seen, 0);
}

/** Pods that the ledger put on their nodes since the snapshot was made. */
static void test_moved_nodes(void **state)
{
    struct fixture *f = *state;
    char name[16];

    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "node-%u", i * 3);
        int rc = ext_snapshot_add_in_flight(f->snapshot, name, 500);
        assert_true(rc == 0 || rc == -ENOENT);
        check(f, 4 + i % 3, 3);
    }
}

static void test_rubbish(void **state)
{
    struct fixture *f = *state;
    static const char *const bodies[] = {"",
                                         "{",
                                         "[]",
                                         "{\"NodeNames\":7}",
                                         "{\"Pod\":[]}",
                                         "{\"NodeNames\":[\"\\u\"]}",
                                         "\xff",
                                         "{\"Nodes\":null}"};
    unsigned status;

    for (size_t i = 0; i < KW_ARRAY_SIZE(bodies); i++) {
        for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++) {
            (void)ask(f, (enum ext_verb)verb, bodies[i], strlen(bodies[i]), &status);
            unsigned long did = ask(f, (enum ext_verb)verb, bodies[i], strlen(bodies[i]), &status);
            if (did > 0)
                fail_msg("%s: %lu calls, the last of %s", bodies[i], did, last);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_under_caps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dry_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_moved_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rubbish, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
