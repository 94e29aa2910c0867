/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many cgroups are kept apart: on machines of every size, and against the real kernel where the
 * first map is far too small for what comes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/sched.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/accounting.h"
#include "node-agent/bpf_room.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"

#define GIB(n)    ((uint64_t)(n) << 30)
#define STORM     10000 /* of cgroups that come and go between two readings */
#define VALUE_ALL 56

static void test_machines(void **state)
{
    static const struct {
        struct agent_bpf_room_ask ask;
        bool storm, first_grows;
    } cases[] = {
        {{50, 2, 8, GIB(2), true, 0, 0}, true, false},
        {{50, 2, 8, GIB(2), false, 0, 0}, true, false},
        {{500, 16, VALUE_ALL, GIB(16), true, 0, 0}, true, false},
        {{1000, 64, 8, GIB(64), false, 0, 0}, true, false},
        {{2000, 512, 8, GIB(512), true, 0, 0}, true, true},
        {{2000, 512, 8, GIB(512), false, 0, 0}, true, false},
        {{2000, 512, VALUE_ALL, GIB(2048), true, 0, 0}, true, true},
        {{40, 1, 8, GIB(1) / 8, true, 0, 0}, false, false}, /* a toy: 4096 and some */
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        const struct agent_bpf_room_ask *ask = &cases[i].ask;
        struct agent_bpf_room room = agent_bpf_room_for(ask);
        uint64_t bytes = room.second * (ask->n_cpus * ask->value_bytes);
        print_message("%2zu: %u and %u cgroups\n", i, room.first, room.second);
        assert_true(room.first >= 4096);
        assert_true(!ask->allocates || room.first >= 4 * ask->n_cgroups);
        assert_int_equal(room.first_grows, cases[i].first_grows);
        assert_int_equal(room.first + room.second > STORM, cases[i].storm);
        assert_true(bytes <= ask->memory_bytes / 256);
        assert_true(room.second <= 65536);
    }
}

static void test_what_is_asked_for(void **state)
{
    struct agent_bpf_room_ask ask = {50, 2, 8, GIB(2), true, 0, 2};

    (void)state;
    struct agent_bpf_room room = agent_bpf_room_for(&ask);
    assert_int_equal(room.first, 2 + AGENT_BPF_ROOM_FIXED);
    assert_int_equal(room.second, 0);
    ask.first_cgroups = 5;
    ask.max_cgroups = 12;
    room = agent_bpf_room_for(&ask);
    assert_int_equal(room.first, 5 + AGENT_BPF_ROOM_FIXED);
    assert_int_equal(room.second, 7);
    ask.max_cgroups = UINT32_MAX;
    ask.first_cgroups = UINT32_MAX;
    room = agent_bpf_room_for(&ask);
    assert_true(room.first <= (1u << 20) + AGENT_BPF_ROOM_FIXED && room.second <= 65536);
}

enum { FIRST = 8, CGROUPS = 120, ROUNDS = 3, ENTERED = 2 };

#define SAME_NS 5000 /* the kernel's file has whole microseconds */

static struct agent_topology topology;
static struct kwt_cgroup cgroups[CGROUPS];
static struct agent_usage usage;

static void *open_small(unsigned max_cgroups)
{
    struct agent_accounting_conf conf = {.topology = &topology,
                                         .sysfs_root = "/sys",
                                         .procfs_root = "/proc",
                                         .features = AGENT_FEATURE_BIT(AGENT_FEATURE_SMT),
                                         .first_cgroups = FIRST,
                                         .max_cgroups = max_cgroups};
    void *self = NULL;
    struct kw_err err = {0};

    if (agent_accounting_ebpf.open(&conf, &self, &err) < 0) {
        printf("SKIP: %s\n", err.text);
        exit(77);
    }
    return self;
}

/* Each process starts one in all of them in turn, so that CPUs meet them at the same moments.
 * @return whether all were born there: whose time the kernel's books have exactly. */
static bool visit_all(void)
{
    pid_t pids[2];
    bool born = true;

    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        for (int k = 0; pids[i] == 0 && k < CGROUPS; k++) {
            bool one = false;
            pid_t child = kwt_cgroup_fork(&cgroups[k], &one);
            if (child < 0)
                _exit(1);
            if (child == 0) {
                uint64_t until_ns = kw_now_ns() + KW_NS_PER_MS;
                while (kw_now_ns() < until_ns)
                    ;
                _exit(0);
            }
            kwt_reap(child);
            born = born && one;
        }
        if (pids[i] == 0)
            _exit(born ? 0 : ENTERED);
    }
    for (int i = 0; i < 2; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == ENTERED);
        born = born && WEXITSTATUS(status) == 0;
    }
    return born;
}

/* @return the time of a key, which has exactly one row. */
static uint64_t one_row(uint64_t key)
{
    uint64_t ns = 0;
    unsigned rows = 0;

    for (size_t i = 0; i < usage.n; i++) {
        if (usage.keys[i] != key)
            continue;
        rows++;
        for (unsigned p = 0; p < usage.n_packages; p++)
            ns += usage.cpu_ns[i * usage.n_packages + p];
    }
    assert_int_equal(rows, 1);
    return ns;
}

/* @return how many of the keys have a row. */
static size_t count_of(const uint64_t keys[CGROUPS])
{
    size_t n = 0;

    for (size_t i = 0; i < usage.n; i++) {
        for (int k = 0; k < CGROUPS; k++)
            n += usage.keys[i] == keys[k];
    }
    return n;
}

/*
 * Each cgroup has what the kernel has booked for it: nine in ten to a few microseconds, and none
 * more than that by a millisecond.
 * More is what the scheduler took to look for somebody else: the kernel books a task's time before,
 * and announces the switch after that. Where processes enter instead of being born in the cgroup
 * (v1), also up to a tick a process: what a mover used since the last tick is booked where it
 * arrives, and a tick may fall into the move.
 * Less has a cgroup only where the kernel does not announce switches away from some tasks (a
 * sandbox's own): a process that followed one, and gave its CPU to another of the same cgroup, was
 * never seen, and the system has its time.
 */
static void compare_with_kernel(const uint64_t keys[CGROUPS], bool exact)
{
    uint64_t moved_ns = exact ? 0 : 2 * KW_SCHED_TICK_NS_MAX;
    unsigned n_same = 0;

    for (int k = 0; k < CGROUPS; k++) {
        uint64_t ns = one_row(keys[k]), truth_ns = kwt_cgroup_usage_ns(&cgroups[k]);
        if (ns > truth_ns + KW_NS_PER_MS + moved_ns)
            fail_msg("cgroup %d: %.6f ms, the kernel says %.6f ms", k, (double)ns / 1e6,
                     (double)truth_ns / 1e6);
        n_same += ns <= truth_ns + SAME_NS && ns + SAME_NS >= truth_ns;
        assert_true(ns > 0);
    }
    print_message("%u of %d cgroups have what the kernel says\n", n_same, CGROUPS);
    assert_true(n_same * 10 >= CGROUPS * 9);
}

/* Fifteen times more cgroups than the first map takes, again and again: none is lost or doubled,
 * all go, and their room returns. */
static void test_storms(void **state)
{
    uint64_t keys[CGROUPS];
    void *self = open_small(0);

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < CGROUPS; k++) {
            char name[32];
            (void)snprintf(name, sizeof(name), "storm%d", k);
            kwt_cgroup_make(&cgroups[k], !kwt_cgroup_possible(false), name);
            keys[k] = cgroups[k].key;
        }
        bool exact = visit_all();
        for (int read = 0; read < 2; read++) { /* the second one finds the same */
            assert_int_equal(agent_accounting_ebpf.read(self, &usage), 0);
            assert_false(usage.overflowed);
            compare_with_kernel(keys, exact);
        }
        assert_true(usage.crowded);
        for (int k = 0; k < CGROUPS; k++)
            kwt_cgroup_remove(&cgroups[k]);
        /* a process that was waited for has a last slice yet to come: once more, then */
        bool gone = false;
        for (int i = 0; i < 1000 && !gone; i++) {
            agent_accounting_ebpf.forget(self, keys, CGROUPS);
            assert_int_equal(agent_accounting_ebpf.read(self, &usage), 0);
            gone = count_of(keys) == 0;
        }
        assert_true(gone);
    }
    agent_accounting_ebpf.close(&self);
}

/* Beyond both maps: one key for what is too much, and it is said. */
static void test_beyond(void **state)
{
    void *self = open_small(2 * FIRST);
    uint64_t overflow_ns = 0;

    (void)state;
    for (int k = 0; k < CGROUPS; k++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "beyond%d", k);
        kwt_cgroup_make(&cgroups[k], !kwt_cgroup_possible(false), name);
    }
    (void)visit_all();
    assert_int_equal(agent_accounting_ebpf.read(self, &usage), 0);
    assert_true(usage.overflowed);
    assert_true(usage.n <= 2 * FIRST + AGENT_BPF_ROOM_FIXED);
    overflow_ns = one_row(AGENT_KEY_OVERFLOW);
    assert_true(overflow_ns >= (CGROUPS - 2 * FIRST) * KW_NS_PER_MS / 2);
    for (int k = 0; k < CGROUPS; k++)
        kwt_cgroup_remove(&cgroups[k]);
    agent_accounting_ebpf.close(&self);
}

static int setup(void **state)
{
    (void)state;
    return agent_topology_read("/sys", "/proc", &topology);
}

static int setup_kernel(void **state)
{
    (void)state;
    kwt_cgroup_need();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_usage_free(&usage);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_what_is_asked_for),
        cmocka_unit_test_setup(test_storms, setup_kernel),
        cmocka_unit_test_setup(test_beyond, setup_kernel),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
