/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher against a real redis-server: what is written, what is removed, and what an outage
 * costs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/names.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/publisher.h"
#include "tests/support/cmocka.h"
#include "tests/support/redis_server.h"
#include "tests/unit/node-agent/snapshot_rig.h"

#define POD_KEY  "kwatt:v1:pods:{node-1}"
#define NODE_KEY "kwatt:v1:node:{node-1}"

static struct kwt_redis_server server;
static struct agent_snapshot_pool *pool;
static struct kw_snapshot *snapshots;
static struct agent_publisher *publisher;

static int setup(void **state)
{
    (void)state;
    kwt_redis_need();
    kwt_redis_init(&server);
    kwt_redis_start(&server, NULL);
    if (agent_snapshot_pool_new(&pool) < 0)
        return -1;
    return kw_snapshot_new(2, agent_snapshot_recycle, &snapshots);
}

static int teardown(void **state)
{
    (void)state;
    agent_publisher_stop(&publisher);
    kw_snapshot_free(&snapshots);
    agent_snapshot_pool_free(&pool);
    kwt_redis_done(&server);
    return 0;
}

static int start(const char *url, const struct kw_node_info *info, struct kw_err *err)
{
    struct agent_publisher_conf conf = {
        .redis = {.access.url = url}, .info = info, .snapshots = snapshots};

    return agent_publisher_start(&conf, &publisher, err);
}

/** The integer or the length of the answer to a command; -1 for nil. */
static int64_t ask(const char *a, const char *b, const char *c)
{
    struct kw_redis_conf conf = {.access.url = server.socket_url};
    struct kw_redis *redis = NULL;
    struct kw_redis_replies replies = {0};

    assert_int_equal(kw_redis_new(&conf, &redis, NULL), 0);
    assert_int_equal(kw_redis_queue_texts(redis, a, b, c, NULL), 0);
    assert_int_equal(kw_redis_exec(redis, &replies, NULL), 0);
    const struct kw_redis_reply *reply = &replies.items[0];
    int64_t ret = reply->type == KW_REDIS_INTEGER  ? reply->integer
                  : reply->type == KW_REDIS_STRING ? (int64_t)reply->len
                                                   : -1;
    kw_redis_replies_free(&replies);
    kw_redis_free(&redis);
    return ret;
}

static void publish(bool without_unit)
{
    struct agent_snapshot *snapshot = kwt_snapshot_make(pool);

    if (without_unit) { /* the last row */
        snapshot->n_rows--;
        agent_label_unref(&snapshot->rows[snapshot->n_rows].label);
    }
    kw_snapshot_publish(snapshots, snapshot);
    agent_publisher_wake(publisher);
}

/** Wakes until `n` batches are written, as samples do. */
static void wait_written(uint64_t n)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000000};
    uint64_t written = 0, failed = 0;

    for (unsigned i = 0; i < 1500 && written < n; i++) {
        (void)nanosleep(&pause, NULL);
        agent_publisher_counts(publisher, &written, &failed);
        if (i % 10 == 9 && written < n)
            agent_publisher_wake(publisher);
    }
    assert_true(written >= n);
}

static void test_what_is_written(void **state)
{
    (void)state;
    assert_int_equal(start(server.socket_url, &kwt_snapshot_info, NULL), 0);
    publish(false);
    wait_written(1);
    assert_true(ask("HGET", NODE_KEY, "sample") > 100);
    assert_true(ask("HGET", NODE_KEY, "curve") > 100);
    assert_true(ask("HGET", NODE_KEY, "info") > 50);
    assert_true(ask("HGET", POD_KEY, "pod-uid") > 100);
    assert_int_equal(ask("HLEN", POD_KEY, NULL), 3);
    assert_int_equal(ask("ZSCORE", "kwatt:v1:nodes", "node-1"), 13); /* digits of the time */
    assert_in_range(ask("TTL", NODE_KEY, NULL), 3500, 3600);
    char feed[KW_KEY_MAX];
    kw_key_feed(feed, kw_feed_shard("node-1"));
    assert_int_equal(ask("XLEN", feed, NULL), 1);
    assert_in_range(ask("TTL", feed, NULL), 3500, 3600);
    assert_in_range(ask("TTL", POD_KEY, NULL), 3500, 3600);
}

static void test_removals(void **state)
{
    (void)state;
    assert_int_equal(start(server.socket_url, &kwt_snapshot_info, NULL), 0);
    publish(false);
    wait_written(1);
    publish(true);
    wait_written(2);
    assert_int_equal(ask("HLEN", POD_KEY, NULL), 2);
}

/** Killed and restarted empty: one batch brings everything back. */
static void test_outage(void **state)
{
    uint64_t written = 0, failed = 0;

    (void)state;
    assert_int_equal(start(server.socket_url, &kwt_snapshot_info, NULL), 0);
    publish(false);
    wait_written(1);
    kwt_redis_kill(&server);
    publish(false);
    for (unsigned i = 0; i < 500 && failed == 0; i++) {
        const struct timespec pause = {.tv_nsec = 20 * 1000000};
        (void)nanosleep(&pause, NULL);
        agent_publisher_counts(publisher, &written, &failed);
    }
    assert_true(failed > 0);
    kwt_redis_start(&server, NULL);
    wait_written(written + 1);
    assert_int_equal(ask("HLEN", POD_KEY, NULL), 3);
}

/** A replica that took over may not have heard of a removal: after a quiet reconnect, Redis is
 * asked what it has. */
static void test_another_connection(void **state)
{
    struct kw_redis_conf conf = {.access.url = server.socket_url};
    kw_cleanup(kw_redis_free) struct kw_redis *redis = NULL;
    (void)state;

    assert_int_equal(kw_redis_new(&conf, &redis, NULL), 0);
    assert_int_equal(start(server.socket_url, &kwt_snapshot_info, NULL), 0);
    publish(false);
    wait_written(1);
    assert_int_equal(kw_redis_queue_texts(redis, "HSET", POD_KEY, "removed-there", "{}", NULL), 0);
    assert_int_equal(kw_redis_exec(redis, NULL, NULL), 0);
    agent_publisher_wake(publisher);
    wait_written(2);
    assert_int_equal(ask("HLEN", POD_KEY, NULL), 4); /* the connection is the same */
    assert_int_equal(kw_redis_queue_texts(redis, "CLIENT", "KILL", "TYPE", "normal", NULL), 0);
    assert_int_equal(kw_redis_exec(redis, NULL, NULL), 0);
    agent_publisher_wake(publisher);
    wait_written(4);
    assert_int_equal(ask("HLEN", POD_KEY, NULL), 3);
}

static void test_bad_settings(void **state)
{
    struct kw_node_info bad = kwt_snapshot_info;
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(start("http://redis", &kwt_snapshot_info, &err), -EINVAL);
    (void)snprintf(bad.node, sizeof(bad.node), "a{b}");
    assert_int_equal(start(server.socket_url, &bad, &err), -EINVAL);
    assert_non_null(strstr(err.text, "a{b}"));
}

/** The last snapshot is written although the end came at once. */
static void test_stop_writes_what_is_pending(void **state)
{
    (void)state;
    assert_int_equal(start(server.socket_url, &kwt_snapshot_info, NULL), 0);
    publish(false);
    agent_publisher_stop(&publisher);
    assert_int_equal(ask("HLEN", POD_KEY, NULL), 3);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_written), TEST(test_removals),
        TEST(test_outage),          TEST(test_another_connection),
        TEST(test_bad_settings),    TEST(test_stop_writes_what_is_pending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
