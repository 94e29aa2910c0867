/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounting against the real kernel: real processes in real cgroups, compared with what the
 * kernel's own files say. Tolerances are generous and in CPU time, never in elapsed time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/accounting.h"
#include "node-agent/cgroups.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"

#define MS(n) ((uint64_t)(n)*KW_NS_PER_MS)

/* 3 %, or 20 ms: five ticks, by which the kernel's own files may lag behind. */
static void assert_near(const char *what, uint64_t measured_ns, uint64_t truth_ns)
{
    uint64_t difference_ns =
        measured_ns > truth_ns ? measured_ns - truth_ns : truth_ns - measured_ns;
    uint64_t allowed_ns = truth_ns * 3 / 100 > MS(20) ? truth_ns * 3 / 100 : MS(20);

    print_message("%s: %.3f ms, the kernel says %.3f ms\n", what, (double)measured_ns / 1e6,
                  (double)truth_ns / 1e6);
    assert_true(difference_ns <= allowed_ns);
}

struct backend {
    const struct agent_accounting_ops *ops;
    void *self;
    struct agent_usage usage;
};

static struct agent_topology topology;

static int backend_open(struct backend *backend, const struct agent_accounting_ops *ops,
                        unsigned max_cgroups)
{
    struct kw_err err = {0};
    struct agent_accounting_conf conf = {.topology = &topology,
                                         .sysfs_root = "/sys",
                                         .procfs_root = "/proc",
                                         .max_cgroups = max_cgroups};

    *backend = (struct backend){.ops = ops};
    int r = ops->open(&conf, &backend->self, &err);
    if (r < 0)
        print_message("%s: %s\n", ops->name, err.text);
    return r;
}

static void backend_close(struct backend *backend)
{
    if (backend->ops == NULL)
        return;
    backend->ops->close(&backend->self);
    assert_null(backend->self);
    agent_usage_free(&backend->usage);
}

/* @return whether the key has a row. */
static bool find_ns(const struct agent_usage *usage, uint64_t key, uint64_t *ret_ns)
{
    *ret_ns = 0;
    for (size_t i = 0; i < usage->n; i++) {
        if (usage->keys[i] != key)
            continue;
        for (unsigned p = 0; p < usage->n_packages; p++)
            *ret_ns += usage->cpu_ns[i * usage->n_packages + p];
        return true;
    }
    return false;
}

static uint64_t sum_ns(const struct agent_usage *usage)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < usage->n * usage->n_packages; i++)
        sum += usage->cpu_ns[i];
    return sum;
}

static void backend_read(struct backend *backend)
{
    assert_int_equal(backend->ops->read(backend->self, &backend->usage), 0);
    assert_true(backend->usage.t_ns > 0 && backend->usage.t_ns <= kw_now_ns());
    for (size_t i = 0; i < backend->usage.n; i++) {
        for (size_t k = 0; k < i; k++)
            assert_true(backend->usage.keys[i] != backend->usage.keys[k]);
    }
}

static const struct agent_accounting_ops *const ebpf_backends[] = {&agent_accounting_ebpf,
                                                                   &agent_accounting_ebpf_raw};

/* Two processes with a known ratio, in each hierarchy, read by both programs at once. */
static void test_known_time(void **state)
{
    struct backend backends[KW_ARRAY_SIZE(ebpf_backends)];
    struct kwt_cgroup cgroups[4];
    pid_t pids[4];
    size_t n = 0;

    (void)state;
    uint64_t from_ns = kw_now_ns(); /* the first counts while the second is opened */
    for (size_t i = 0; i < KW_ARRAY_SIZE(backends); i++)
        assert_int_equal(backend_open(&backends[i], ebpf_backends[i], 0), 0);
    for (int v1 = 0; v1 < 2; v1++) {
        if (!kwt_cgroup_possible(v1))
            continue;
        kwt_cgroup_make(&cgroups[n], v1, "one");
        pids[n] = kwt_spin(&cgroups[n], MS(150));
        n++;
        kwt_cgroup_make(&cgroups[n], v1, "three");
        pids[n] = kwt_spin(&cgroups[n], MS(450));
        n++;
    }
    for (size_t i = 0; i < n; i++)
        kwt_reap(pids[i]);
    for (size_t b = 0; b < KW_ARRAY_SIZE(backends); b++) {
        backend_read(&backends[b]);
        for (size_t i = 0; i < n; i++) {
            uint64_t ns;
            assert_true(find_ns(&backends[b].usage, cgroups[i].key, &ns));
            assert_near(backends[b].ops->name, ns, kwt_cgroup_usage_ns(&cgroups[i]));
        }
        /* time is never invented: not more than the CPUs had */
        assert_true(sum_ns(&backends[b].usage) <=
                    topology.n_cpus * (kw_now_ns() - from_ns + MS(100)));
        assert_false(backends[b].usage.overflowed);
        backend_close(&backends[b]);
    }
    for (size_t i = 0; i < n; i++)
        kwt_cgroup_remove(&cgroups[i]);
}

/* A process that another one moves while it runs: what it uses is in one of the two, and what it
 * uses after the move in the second. */
static void test_moved_while_it_runs(void **state)
{
    struct backend backend;
    struct kwt_cgroup from, to;
    uint64_t from_ns, to_ns;

    (void)state;
    kwt_cgroup_make(&from, !kwt_cgroup_possible(false), "from");
    kwt_cgroup_make(&to, !kwt_cgroup_possible(false), "to");
    for (size_t i = 0; i < KW_ARRAY_SIZE(ebpf_backends); i++) {
        assert_int_equal(backend_open(&backend, ebpf_backends[i], 0), 0);
        uint64_t before_ns = kwt_cgroup_usage_ns(&from) + kwt_cgroup_usage_ns(&to);
        uint64_t to_before_ns = kwt_cgroup_usage_ns(&to);
        pid_t pid = kwt_spin(&from, UINT64_MAX);
        while (kwt_cgroup_usage_ns(&from) + kwt_cgroup_usage_ns(&to) < before_ns + MS(60))
            (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        kwt_cgroup_put(&to, pid);
        while (kwt_cgroup_usage_ns(&to) < to_before_ns + MS(60))
            (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        kwt_kill(pid);
        backend_read(&backend);
        (void)find_ns(&backend.usage, from.key, &from_ns);
        assert_true(find_ns(&backend.usage, to.key, &to_ns));
        assert_near(backend.ops->name, from_ns + to_ns,
                    kwt_cgroup_usage_ns(&from) + kwt_cgroup_usage_ns(&to) - before_ns);
        assert_true(to_ns + MS(20) >= kwt_cgroup_usage_ns(&to) - to_before_ns);
        backend_close(&backend);
    }
    kwt_cgroup_remove(&from);
    kwt_cgroup_remove(&to);
}

/* A process in both a v2 and a v1 cgroup counts once, in the v2 one. */
static void test_v2_before_v1(void **state)
{
    struct backend backend;
    struct kwt_cgroup v1, v2;
    uint64_t ns;

    (void)state;
    if (!kwt_cgroup_possible(false) || !kwt_cgroup_possible(true))
        skip();
    kwt_cgroup_make(&v1, true, "both");
    kwt_cgroup_make(&v2, false, "both");
    assert_int_equal(backend_open(&backend, &agent_accounting_ebpf, 0), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (kwt_cgroup_enter(&v1) < 0 || kwt_cgroup_enter(&v2) < 0)
            _exit(1);
        pid_t child = kwt_spin(NULL, MS(100));
        _exit(waitpid(child, NULL, 0) == child ? 0 : 1);
    }
    kwt_reap(pid);
    backend_read(&backend);
    assert_true(find_ns(&backend.usage, v2.key, &ns));
    assert_near("v2", ns, kwt_cgroup_usage_ns(&v2));
    (void)find_ns(&backend.usage, v1.key, &ns);
    assert_true(ns < MS(20));
    backend_close(&backend);
    kwt_cgroup_remove(&v1);
    kwt_cgroup_remove(&v2);
}

/* A reading lies between two looks at the kernel's own file, however long this process waits in
 * between. */
static void assert_between(const char *what, uint64_t low_ns, uint64_t measured_ns,
                           uint64_t high_ns)
{
    print_message("%s: %.3f ms, the kernel says %.3f to %.3f ms\n", what, (double)measured_ns / 1e6,
                  (double)low_ns / 1e6, (double)high_ns / 1e6);
    assert_true(measured_ns + MS(20) + low_ns * 3 / 100 >= low_ns);
    assert_true(measured_ns <= high_ns + MS(20) + high_ns * 3 / 100);
}

/* Reads between two looks at the file. */
struct look {
    uint64_t before_ns, read_ns, after_ns;
};

static struct look look_at(struct backend *backend, const struct kwt_cgroup *cgroup)
{
    struct look look;

    look.before_ns = kwt_cgroup_usage_ns(cgroup);
    backend_read(backend);
    (void)find_ns(&backend->usage, cgroup->key, &look.read_ns);
    look.after_ns = kwt_cgroup_usage_ns(cgroup);
    return look;
}

/* A process that never leaves its CPU is read in the middle of its slice. */
static void test_running_slice_is_closed(void **state)
{
    struct kwt_cgroup cgroup;

    (void)state;
    kwt_cgroup_make(&cgroup, !kwt_cgroup_possible(false), "busy");
    for (size_t i = 0; i < KW_ARRAY_SIZE(ebpf_backends); i++) {
        struct backend backend;
        pid_t pid = kwt_spin(&cgroup, UINT64_MAX); /* runs before the program is attached */
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        assert_int_equal(backend_open(&backend, ebpf_backends[i], 0), 0);
        struct look first = look_at(&backend, &cgroup);
        for (int k = 0; k < 3; k++) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 120000000}, NULL);
            struct look now = look_at(&backend, &cgroup);
            assert_true(now.read_ns >= first.read_ns);
            assert_between(backend.ops->name,
                           now.before_ns > first.after_ns ? now.before_ns - first.after_ns : 0,
                           now.read_ns - first.read_ns, now.after_ns - first.before_ns);
        }
        kwt_kill(pid);
        backend_close(&backend);
    }
    kwt_cgroup_remove(&cgroup);
}

/* What polls /proc misses these altogether. */
static void test_short_lived_processes(void **state)
{
    struct kwt_cgroup cgroup;
    struct backend backend;
    uint64_t ns;

    (void)state;
    kwt_cgroup_make(&cgroup, !kwt_cgroup_possible(false), "short");
    assert_int_equal(backend_open(&backend, &agent_accounting_ebpf, 0), 0);
    for (int i = 0; i < 150; i++)
        kwt_reap(kwt_spin(&cgroup, MS(1)));
    backend_read(&backend);
    assert_true(find_ns(&backend.usage, cgroup.key, &ns));
    uint64_t truth_ns = kwt_cgroup_usage_ns(&cgroup);
    print_message("150 x 1 ms: %.3f ms, the kernel says %.3f ms\n", (double)ns / 1e6,
                  (double)truth_ns / 1e6);
    assert_true(ns >= MS(150) - MS(20));
    assert_true(ns <= truth_ns + MS(20));
    kwt_cgroup_remove(&cgroup);
    backend_close(&backend);
}

/* A process that goes from cgroup to cgroup without ever leaving its CPU for long. It takes along
 * what the kernel has not booked yet, and so it does here: both have the same to the microsecond,
 * but where a tick, of which the kernel makes 250 a second, falls into a move of microseconds. */
static void test_mover(void **state)
{
    enum { N = 60 };
    static struct kwt_cgroup cgroups[N];
    struct backend backend;
    unsigned n_same;
    uint64_t ns;

    (void)state;
    for (size_t b = 0; b < KW_ARRAY_SIZE(ebpf_backends); b++) {
        assert_int_equal(backend_open(&backend, ebpf_backends[b], 0), 0);
        for (int i = 0; i < N; i++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "mover%d", i);
            kwt_cgroup_make(&cgroups[i], !kwt_cgroup_possible(false), name);
        }
        pid_t pid = fork();
        assert_true(pid >= 0);
        for (int i = 0; pid == 0 && i < N; i++) {
            if (kwt_cgroup_enter(&cgroups[i]) < 0)
                _exit(1);
            uint64_t until_ns = kw_now_ns() + MS(1) / 2;
            while (kw_now_ns() < until_ns)
                ;
        }
        if (pid == 0)
            _exit(0);
        kwt_reap(pid);
        backend_read(&backend);
        n_same = 0;
        for (int i = 0; i < N; i++) {
            (void)find_ns(&backend.usage, cgroups[i].key, &ns); /* all may have been taken along */
            uint64_t truth_ns = kwt_cgroup_usage_ns(&cgroups[i]);
            n_same += ns < truth_ns + 1000 && truth_ns < ns + 1000;
            kwt_cgroup_remove(&cgroups[i]);
        }
        print_message("%s: %u of %d have what the kernel says\n", backend.ops->name, n_same, N);
        assert_true(n_same * 10 >= N * 8);
        backend_close(&backend);
    }
}

static void test_ended_cgroup_keeps_its_time(void **state)
{
    struct kwt_cgroup cgroup;
    struct backend backend;
    uint64_t first_ns, ns;

    (void)state;
    assert_int_equal(backend_open(&backend, &agent_accounting_ebpf, 0), 0);
    kwt_cgroup_make(&cgroup, !kwt_cgroup_possible(false), "ended");
    kwt_reap(kwt_spin(&cgroup, MS(60)));
    uint64_t truth_ns = kwt_cgroup_usage_ns(&cgroup);
    kwt_cgroup_remove(&cgroup);
    backend_read(&backend);
    assert_true(find_ns(&backend.usage, cgroup.key, &first_ns));
    assert_near("ended", first_ns, truth_ns);
    backend_read(&backend);
    assert_true(find_ns(&backend.usage, cgroup.key, &ns));
    assert_true(ns == first_ns);
    backend.ops->forget(backend.self, &cgroup.key, 1);
    backend_read(&backend);
    assert_false(find_ns(&backend.usage, cgroup.key, &ns));
    /* what cannot be forgotten */
    uint64_t fixed[] = {AGENT_KEY_SYSTEM, AGENT_KEY_OVERFLOW, 12345678};
    backend.ops->forget(backend.self, fixed, KW_ARRAY_SIZE(fixed));
    backend_read(&backend);
    assert_true(find_ns(&backend.usage, AGENT_KEY_SYSTEM, &ns));
    backend_close(&backend);
}

/* More cgroups than the map takes: nothing is lost, and the reading says so. */
static void test_full_map_overflows(void **state)
{
    struct kwt_cgroup cgroups[6];
    struct backend full, all;
    uint64_t kept_ns = 0, in_all_ns = 0, ns;
    uint64_t full_from_ns, all_from_ns[2], all_to_ns;

    (void)state;
    assert_int_equal(backend_open(&full, &agent_accounting_ebpf, 2), 0);
    assert_int_equal(backend_open(&all, &agent_accounting_ebpf, 0), 0);
    backend_read(&all);
    all_from_ns[0] = sum_ns(&all.usage);
    backend_read(&full);
    full_from_ns = sum_ns(&full.usage);
    backend_read(&all);
    all_from_ns[1] = sum_ns(&all.usage);
    for (size_t i = 0; i < KW_ARRAY_SIZE(cgroups); i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "of%zu", i);
        kwt_cgroup_make(&cgroups[i], !kwt_cgroup_possible(false), name);
        kwt_reap(kwt_spin(&cgroups[i], MS(40)));
    }
    backend_read(&all);
    all_to_ns = sum_ns(&all.usage);
    backend_read(&full);
    backend_read(&all);
    assert_true(full.usage.overflowed);
    assert_false(all.usage.overflowed);
    assert_true(full.usage.n <= 5);
    assert_true(find_ns(&full.usage, AGENT_KEY_OVERFLOW, &ns));
    assert_true(ns > 0);
    assert_between("sum with overflow", all_to_ns - all_from_ns[1],
                   sum_ns(&full.usage) - full_from_ns, sum_ns(&all.usage) - all_from_ns[0]);
    for (size_t i = 0; i < KW_ARRAY_SIZE(cgroups); i++) {
        (void)find_ns(&full.usage, cgroups[i].key, &ns);
        kept_ns += ns;
        (void)find_ns(&all.usage, cgroups[i].key, &ns);
        in_all_ns += ns;
        kwt_cgroup_remove(&cgroups[i]);
    }
    (void)find_ns(&full.usage, AGENT_KEY_OVERFLOW, &ns);
    assert_true(kept_ns + ns + MS(20) >= in_all_ns);
    backend_close(&full);
    backend_close(&all);
}

/* As many as a large node has: several batches, each key once. */
static void test_many_cgroups(void **state)
{
    enum { N = 700 };
    struct kwt_cgroup *cgroups = calloc(N, sizeof(*cgroups));
    struct backend backend;
    unsigned n_found = 0;
    uint64_t ns;

    (void)state;
    assert_non_null(cgroups);
    assert_int_equal(backend_open(&backend, &agent_accounting_ebpf, 0), 0);
    for (int i = 0; i < N; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "many%d", i);
        kwt_cgroup_make(&cgroups[i], !kwt_cgroup_possible(false), name);
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* one process that visits all */
        for (int i = 0; i < N; i++) {
            if (kwt_cgroup_enter(&cgroups[i]) < 0)
                _exit(1);
            (void)nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        }
        _exit(0);
    }
    kwt_reap(pid);
    backend_read(&backend);
    for (int i = 0; i < N; i++) {
        /* none where the process passed before anything was booked: the kernel has none either */
        bool found = find_ns(&backend.usage, cgroups[i].key, &ns);
        assert_true(found || kwt_cgroup_usage_ns(&cgroups[i]) == 0);
        n_found += found;
        kwt_cgroup_remove(&cgroups[i]);
    }
    assert_true(n_found > N / 2);
    backend_close(&backend);
    free(cgroups);
}

static int setup(void **state)
{
    struct backend backend;

    (void)state;
    if (agent_topology_read("/sys", "/proc", &topology) < 0)
        return -1;
    kwt_cgroup_need();
    if (backend_open(&backend, &agent_accounting_ebpf, 0) < 0) {
        printf("SKIP: the kernel takes no BPF program from this process\n");
        exit(77);
    }
    backend_close(&backend);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_time),
        cmocka_unit_test(test_moved_while_it_runs),
        cmocka_unit_test(test_v2_before_v1),
        cmocka_unit_test(test_running_slice_is_closed),
        cmocka_unit_test(test_short_lived_processes),
        cmocka_unit_test(test_mover),
        cmocka_unit_test(test_ended_cgroup_keeps_its_time),
        cmocka_unit_test(test_full_map_overflows),
        cmocka_unit_test(test_many_cgroups),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
