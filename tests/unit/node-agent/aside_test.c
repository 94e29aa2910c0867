/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meter that is slow, or never answers: samples do not wait, values have an age, the agent ends.
 * The meter is played: it blocks where a test tells it to.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/quality.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/metering.h"
#include "node-agent/source.h"
#include "tests/support/cmocka.h"
#include "tests/support/count_alloc.h"
#include "tests/unit/node-agent/meter_rig.h"

/* The played meter, shared with its thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool blocked;
static unsigned reads, closes;
static size_t n_domains;
static int read_error;
static struct agent_domain domains[2] = {
    {.kind = AGENT_DOMAIN_PLATFORM, .name = "one", .path = "played/one"},
    {.kind = AGENT_DOMAIN_PLATFORM, .name = "two", .path = "played/two"}};

static int played_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    (void)conf;
    (void)err;
    *ret = malloc(1); /* a leak would show */
    return *ret != NULL ? 0 : -ENOMEM;
}

static size_t played_domains(const void *self, const struct agent_domain **ret)
{
    (void)self;
    *ret = domains;
    return n_domains;
}

static int played_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    (void)self;
    assert_null(load);
    (void)pthread_mutex_lock(&lock);
    reads++;
    (void)pthread_cond_broadcast(&changed);
    while (blocked)
        (void)pthread_cond_wait(&changed, &lock);
    int rc = read_error;
    (void)pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < n_domains; i++)
        ret[i] = (struct agent_reading){
            .error = rc, .counter_uj = kw_now_ns() / 1000, .t_ns = kw_now_ns()};
    return rc;
}

static bool played_rescan(void *self)
{
    (void)self;
    bool more = n_domains == 1;
    n_domains = 2;
    return more;
}

static void played_close(void **self)
{
    free(KW_TAKE_PTR(*self));
    (void)pthread_mutex_lock(&lock);
    closes++;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static const struct agent_meter_ops slow = {.name = "slow",
                                            .period_ns = 2 * KW_NS_PER_MS,
                                            .open = played_open,
                                            .domains = played_domains,
                                            .read = played_read,
                                            .rescan = played_rescan,
                                            .close = played_close};

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_meter_conf conf;

static int setup(void **state)
{
    (void)state;
    blocked = false;
    reads = closes = 0;
    n_domains = 1;
    read_error = 0;
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 1, "GenuineIntel");
    conf = (struct agent_meter_conf){.topology = &topology, .sysfs_root = tree.root};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

static void wait_for(const unsigned *counter, unsigned value)
{
    (void)pthread_mutex_lock(&lock);
    while (*counter < value)
        (void)pthread_cond_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
}

static void set_blocked(bool value)
{
    (void)pthread_mutex_lock(&lock);
    blocked = value;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static void test_readings_arrive(void **state)
{
    const struct agent_source_step *steps = NULL;
    struct agent_source *source = NULL;
    uint64_t uj = 0;

    (void)state;
    set_blocked(true);
    assert_int_equal(agent_source_open(&slow, &conf, &source, NULL), 0);
    assert_int_equal(reads, 0); /* not before the first read: privileges are given up in between */
    assert_int_equal(agent_source_read(source, NULL, kw_now_ns(), 0), 0);
    assert_int_equal(agent_source_steps(source, &steps), 1);
    assert_int_equal(steps[0].error, -EAGAIN);
    assert_true(steps[0].stale);
    set_blocked(false);
    for (unsigned i = 1; i < 20 || uj == 0; i++) {
        wait_for(&reads, i + 1);
        (void)agent_source_read(source, NULL, kw_now_ns(), 0);
        (void)agent_source_steps(source, &steps);
        uj += steps[0].step.delta_uj;
        assert_int_equal(steps[0].error, 0);
    }
    /* a second domain appears: found by the thread, taken over at the next rescan */
    for (size_t n = 1; n < 2;) {
        agent_source_rescan(source);
        (void)agent_source_read(source, NULL, kw_now_ns(), 0);
        n = agent_source_steps(source, &steps);
        (void)usleep(1000);
    }
    agent_source_close(&source);
    assert_int_equal(closes, 1);
}

/** Never answers: samples go on, what was read grows old, and the end does not wait. */
static void test_blocked_for_ever(void **state)
{
    const struct agent_source_step *steps = NULL;
    struct agent_source *source = NULL;

    (void)state;
    assert_int_equal(agent_source_open(&slow, &conf, &source, NULL), 0);
    (void)agent_source_read(source, NULL, kw_now_ns(), 0);
    wait_for(&reads, 3);
    set_blocked(true);
    wait_for(&reads, reads + 1);
    uint64_t start_ns = kw_now_ns();
    for (unsigned i = 0; i < 1000; i++)
        (void)agent_source_read(source, NULL, start_ns + i * KW_NS_PER_MS, 0);
    (void)agent_source_steps(source, &steps);
    assert_int_equal(steps[0].error, 0);
    assert_true(steps[0].stale);
    assert_int_equal(steps[0].step.interval_ns, 0); /* nothing new, nothing invented */
    agent_source_rescan(source);
    agent_source_close(&source);
    assert_int_equal(closes, 0); /* its thread still uses it */
    set_blocked(false);
    wait_for(&closes, 1);
}

/** Blocked from the start, as the meter of a whole machine: the sample of the CPU stands. */
static void test_platform_blocked(void **state)
{
    static const struct agent_meter_ops *const platforms[] = {&slow, NULL};
    struct agent_metering *metering = NULL;
    struct agent_metering_window window;

    (void)state;
    set_blocked(true);
    conf.platforms = platforms;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", "262143328850\n");
    kwt_meter_zone(&tree, "intel-rapl:1", "psys\n", "100\n", "262143328850\n");
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    (void)agent_metering_read(metering, NULL, KW_NS_PER_S, 0, &window);
    wait_for(&reads, 1);
    kwt_tree_write(&tree, "class/powercap/intel-rapl:0/energy_uj", "150\n");
    kwt_tree_write(&tree, "class/powercap/intel-rapl:1/energy_uj", "190\n");
    assert_int_equal(agent_metering_read(metering, NULL, 2 * KW_NS_PER_S, 0, &window), 0);
    assert_int_equal(window.slots[0].delta_uj, 50);
    assert_int_equal(window.quality, 0);
    /* in steady state a reading of all meters allocates nothing; the meter's thread stands still */
    size_t before = kwt_allocations();
    for (unsigned i = 0; i < 100; i++)
        (void)agent_metering_read(metering, NULL, 2 * KW_NS_PER_S + i * KW_NS_PER_MS, 0, &window);
    assert_int_equal(kwt_allocations(), before);
    /* the better meter is silent: what there is takes its place */
    assert_true(window.has_platform);
    assert_string_equal(window.platform_source, "psys");
    agent_metering_free(&metering);
    set_blocked(false);
    wait_for(&closes, 1);
}

/** A meter that fails is asked ever more rarely. */
static void test_backs_off(void **state)
{
    struct agent_source *source = NULL;

    (void)state;
    read_error = -EIO;
    assert_int_equal(agent_source_open(&slow, &conf, &source, NULL), 0);
    (void)agent_source_read(source, NULL, kw_now_ns(), 0);
    wait_for(&reads, 2);
    (void)usleep(60000); /* 2 + 2 + 4 + 8 + 16 + 32 ... ms: at most seven by now, never thirty */
    (void)pthread_mutex_lock(&lock);
    unsigned made = reads;
    (void)pthread_mutex_unlock(&lock);
    assert_int_equal(agent_source_read(source, NULL, kw_now_ns(), 0), -EIO);
    assert_true(made < 12);
    agent_source_close(&source);
    assert_int_equal(closes, 1);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_readings_arrive),
        TEST(test_blocked_for_ever),
        TEST(test_platform_blocked),
        TEST(test_backs_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
