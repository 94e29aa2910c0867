/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of all nodes against a real redis-server: what follows the feeds, what makes the index
 * be read again, and that neither loses a node or takes an old sample for a new one. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/curve.h"
#include "api/names.h"
#include "api/sample.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "extender/refresh.h"
#include "tests/support/cmocka.h"
#include "tests/support/redis_server.h"

#define STALE_NS (UINT64_C(30) * 1000000000)

static struct kwt_redis_server server;
static struct kw_redis *redis;
static struct ext_refresh *refresh;
static struct ext_snapshot *last;
static struct ext_refresh_result result;
static int64_t later_ns; /* how far the reader's clock is ahead of this machine's */

static int setup(void **state)
{
    (void)state;
    kwt_redis_need();
    kwt_redis_init(&server);
    kwt_redis_start(&server, NULL);
    const struct kw_redis_conf conf = {.access.url = server.socket_url};
    redis = kwt_redis_client(&conf);
    later_ns = 0;
    return ext_refresh_new(&conf, STALE_NS, &refresh, NULL);
}

static int teardown(void **state)
{
    (void)state;
    ext_snapshot_free(&last);
    ext_refresh_free(&refresh);
    kw_redis_free(&redis);
    kwt_redis_done(&server);
    return 0;
}

static void run_queue(void)
{
    struct kw_err err = {0};

    kw_redis_retry_now(redis);
    if (kw_redis_exec(redis, NULL, &err) != 0)
        fail_msg("%s", err.text);
}

/** What an agent writes. @param feed whether it is one that writes feeds. */
static void publish(const char *node, uint64_t epoch, uint64_t seq, uint64_t mcpu,
                    int64_t t_unix_ms, bool feed)
{
    static struct kw_sample sample;
    const struct kw_curve curve = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 20000, 0}, {1000, 60000, 0}}};
    kw_cleanup_free char *full = NULL, *digest = NULL, *knots = NULL;
    char key[KW_KEY_MAX], score[32];
    size_t len;

    sample = (struct kw_sample){.epoch = epoch,
                                .seq = seq,
                                .t_unix_ms = t_unix_ms,
                                .interval_ns = 5000000000,
                                .used_mcpu = mcpu,
                                .watts_mw = 25000,
                                .n_packages = 1,
                                .platform = {.present = true, .mw = 90000}};
    memcpy(sample.meter, "model", sizeof("model"));
    (void)snprintf(sample.node, sizeof(sample.node), "%s", node);
    assert_int_equal(kw_sample_encode(&sample, &full, &len), 0);
    assert_int_equal(kw_sample_encode_digest(&sample, &digest, &len), 0);
    assert_int_equal(kw_curve_encode(&curve, &knots, &len), 0);
    (void)snprintf(score, sizeof(score), "%lld", (long long)t_unix_ms);
    (void)kw_key_node(key, node);
    (void)kw_redis_queue_texts(redis, "HSET", key, KW_FIELD_SAMPLE, full, KW_FIELD_CURVE, knots,
                               NULL);
    (void)kw_redis_queue_texts(redis, "ZADD", KW_KEY_NODES, score, node, NULL);
    kw_key_feed(key, kw_feed_shard(node));
    if (feed)
        (void)kw_redis_queue_texts(redis, "XADD", key, "*", KW_FIELD_SAMPLE, digest, KW_FIELD_CURVE,
                                   knots, NULL);
    run_queue();
}

/** One reading. @return whether it was of the index. */
static bool read_nodes(void)
{
    const struct ext_instant now = {.now_ns = (int64_t)kw_now_ns() + later_ns,
                                    .unix_ms = kw_now_unix_ms()};
    struct kw_err err = {0};
    int rc = -1;

    /* after an outage the first call may only find out that there was one */
    for (unsigned i = 0; i < 200 && rc != 0; i++) {
        rc = ext_refresh_once(refresh, last, &now, &result, &err);
        if (rc != 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = 50 * 1000000}, NULL);
    }
    if (rc != 0)
        fail_msg("%s", err.text);
    if (result.snapshot != NULL) {
        ext_snapshot_free(&last);
        last = result.snapshot;
    }
    return result.whole;
}

/** Reads until the index was read by its turn. */
static void read_index(void)
{
    for (unsigned i = 0; i < 100; i++) {
        if (read_nodes())
            return;
    }
    fail_msg("the index is never read");
}

/** @return what a node uses, or -1. */
static int64_t used(const char *node)
{
    const struct ext_node *found = ext_snapshot_find(last, node, strlen(node));

    return found == NULL ? -1 : (int64_t)found->used_mcpu;
}

/** Two nodes, known and followed. */
static void begin(int64_t t)
{
    publish("a", 1, 1, 100, t, true);
    publish("b", 1, 1, 200, t, true);
    assert_true(read_nodes());
    assert_false(result.refused);
    assert_int_equal(last->n, 2);
}

static void test_feeds_are_followed(void **state)
{
    int64_t t = kw_now_unix_ms();

    (void)state;
    begin(t);
    assert_false(read_nodes());
    assert_null(result.snapshot); /* nothing new: nothing is made */
    publish("a", 1, 2, 150, t + 5000, true);
    assert_false(read_nodes());
    assert_int_equal(result.read, 1);
    assert_int_equal(used("a"), 150);
    assert_int_equal(used("b"), 200);
    /* many in one go: several pages */
    for (uint64_t i = 3; i < 400; i++)
        publish("a", 1, i, 1000 + i, t + 5000 * (int64_t)i, true);
    assert_false(read_nodes());
    assert_int_equal(used("a"), 1399);
    /* the index, by its turn, has nothing to add */
    read_index();
    assert_int_equal(result.read, 0);
    assert_int_equal(used("a"), 1399);
}

static void test_nodes_come_and_go(void **state)
{
    int64_t t = kw_now_unix_ms();

    (void)state;
    begin(t);
    const struct ext_node *b = ext_snapshot_find(last, "b", 1);
    size_t b_at = (size_t)(b - last->nodes);
    publish("c", 1, 1, 300, t, true);
    bool whole = read_nodes(); /* a feed speaks of it, or was empty and has something now */
    assert_true(whole);
    assert_int_equal(used("c"), 300);
    (void)kw_redis_queue_texts(redis, "ZREM", KW_KEY_NODES, "a", NULL);
    run_queue();
    read_index();
    assert_int_equal(used("a"), 100); /* what is known of it is still good */
    later_ns = (int64_t)STALE_NS + 1000000000;
    publish("c", 1, 2, 310, t + 500, true);
    read_index();
    assert_int_equal(used("a"), -1);
    assert_int_equal(used("b"), 200); /* stale, but Redis has it */
    assert_int_equal(last->n, 2);
    assert_true(b_at == 0 || ext_snapshot_find(last, "b", 1) == &last->nodes[b_at - 1]);
    /* one whose agent writes no feed is heard by the index */
    publish("c", 1, 3, 333, t + 1000, false);
    read_index();
    assert_int_equal(used("c"), 333);
}

static void test_old_samples_are_passed_over(void **state)
{
    int64_t t = kw_now_unix_ms();

    (void)state;
    begin(t);
    publish("a", 1, 5, 500, t + 5000, true);
    assert_false(read_nodes());
    publish("a", 1, 4, 400, t + 4000, true); /* late, or sent again */
    publish("a", 1, 5, 555, t + 9000, true);
    assert_false(read_nodes());
    assert_int_equal(used("a"), 500);
    /* another epoch counts, also where the agent's clock was put back */
    publish("a", 0, 1, 700, t - 3600000, true);
    assert_false(read_nodes());
    assert_int_equal(used("a"), 700);
    publish("a", 0, 2, 710, t - 3595000, true);
    assert_false(read_nodes());
    assert_int_equal(used("a"), 710);
    const struct ext_node *a = ext_snapshot_find(last, "a", 1);
    /* its clock is an hour behind, but it goes on: heard just now */
    assert_false(ext_is_stale(a->fresh_ns, a->interval_ns, (int64_t)kw_now_ns(), STALE_NS));
}

static void test_gaps(void **state)
{
    char key[KW_KEY_MAX];
    int64_t t = kw_now_unix_ms();

    (void)state;
    begin(t);
    /* trimmed beyond what was read */
    publish("a", 1, 2, 110, t + 1, true);
    publish("a", 1, 3, 120, t + 2, true);
    kw_key_feed(key, kw_feed_shard("a"));
    (void)kw_redis_queue_texts(redis, "XTRIM", key, "MAXLEN", "1", NULL);
    run_queue();
    assert_true(read_nodes());
    assert_int_equal(used("a"), 120);
    assert_false(read_nodes());
    /* gone altogether */
    publish("a", 1, 4, 130, t + 3, false);
    (void)kw_redis_queue_texts(redis, "DEL", key, NULL);
    run_queue();
    assert_true(read_nodes());
    assert_int_equal(used("a"), 130);
    /* another Redis, that starts empty */
    kwt_redis_kill(&server);
    kwt_redis_start(&server, NULL);
    publish("b", 2, 1, 900, t + 4, true);
    assert_true(read_nodes());
    assert_int_equal(used("b"), 900);
    assert_int_equal(used("a"), 130); /* until it is stale */
    later_ns = (int64_t)STALE_NS + 1000000000;
    read_index();
    assert_int_equal(used("a"), -1);
    assert_int_equal(last->n, 1);
}

/** A Redis that was lost until all nodes were stale, and comes back empty: caps go on by what was
 * known of those who have not published yet, for the time in which they would. */
static void test_back_and_empty(void **state)
{
    int64_t t = kw_now_unix_ms();
    const struct ext_instant now = {.now_ns = (int64_t)kw_now_ns(), .unix_ms = t};
    struct kw_err err = {0};

    (void)state;
    begin(t);
    kwt_redis_kill(&server);
    assert_true(ext_refresh_once(refresh, last, &now, &result, &err) < 0);
    later_ns = 3 * (int64_t)STALE_NS;
    kwt_redis_start(&server, NULL);
    publish("a", 2, 1, 900, t + 4, true);
    read_index();
    assert_int_equal(used("a"), 900);
    assert_int_equal(used("b"), 200);
    later_ns += (int64_t)STALE_NS + 1000000000;
    read_index();
    assert_int_equal(used("b"), -1);
}

static void test_hostile_feeds(void **state)
{
    static const char *const bad[] = {"", "{", "[]", "{\"schema\":2}",
                                      "{\"schema\":1,\"node\":\"a\"}"};
    char key[KW_KEY_MAX];
    int64_t t = kw_now_unix_ms();

    (void)state;
    begin(t);
    kw_key_feed(key, kw_feed_shard("a"));
    for (size_t i = 0; i < KW_ARRAY_SIZE(bad); i++)
        (void)kw_redis_queue_texts(redis, "XADD", key, "*", KW_FIELD_SAMPLE, bad[i], KW_FIELD_CURVE,
                                   bad[i], NULL);
    (void)kw_redis_queue_texts(redis, "XADD", key, "*", "else", "x", "else", "y", NULL);
    run_queue();
    publish("a", 1, 2, 110, t + 1, true);
    assert_false(read_nodes());
    assert_int_equal(used("a"), 110);
    assert_true(result.skipped[EXT_SKIP_SAMPLE] >= 4);
    assert_int_equal(result.skipped[EXT_SKIP_SCHEMA], 1);
    assert_int_equal(result.skipped[EXT_SKIP_MISSING], 1);
    /* more than a feed ever keeps: not followed to its end */
    for (unsigned i = 0; i < 10000; i++)
        (void)kw_redis_queue_texts(redis, "XADD", key, "*", "x", "y", NULL);
    run_queue();
    assert_true(read_nodes());
    assert_false(read_nodes());
    /* a key of another type: everything by the index, and followed again when it is gone */
    (void)kw_redis_queue_texts(redis, "SET", key, "x", NULL);
    run_queue();
    for (unsigned i = 0; i < 3; i++) {
        publish("a", 1, 3 + i, 120 + i, t + 2 + i, false);
        assert_true(read_nodes());
        assert_true(result.refused);
        assert_int_equal(used("a"), 120 + i);
    }
    (void)kw_redis_queue_texts(redis, "DEL", key, NULL);
    run_queue();
    assert_true(read_nodes());
    assert_false(result.refused);
    assert_false(read_nodes());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_feeds_are_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nodes_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_old_samples_are_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gaps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_back_and_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_feeds, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
