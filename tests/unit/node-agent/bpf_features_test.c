/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the accounting counts beside time, and whose clock it goes by, against the real kernel.
 * Where the machine lacks the hardware (SMT, a PMU), the same code runs with a topology that calls
 * two CPUs siblings, and with the kernel's software counters. Nothing here depends on how busy the
 * machine is: what is compared are sums of the same slices.
 */
#include <arpa/inet.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/accounting.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"

#define MS(n) ((uint64_t)(n)*KW_NS_PER_MS)

static const struct agent_accounting_ops *const ebpf_backends[] = {&agent_accounting_ebpf,
                                                                   &agent_accounting_ebpf_raw};

/* Software counters in the place of cycles, instructions and misses. */
static const struct agent_counter_event software[AGENT_COUNTER__MAX] = {
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
};

struct backend {
    const struct agent_accounting_ops *ops;
    struct agent_topology topology;
    void *self;
    struct agent_usage usage;
};

static int backend_open(struct backend *backend, const struct agent_accounting_ops *ops,
                        unsigned features, const struct agent_counter_event *events)
{
    struct kw_err err = {0};
    struct agent_accounting_conf conf = {.topology = &backend->topology,
                                         .sysfs_root = "/sys",
                                         .procfs_root = "/proc",
                                         .features = features,
                                         .events = events};

    backend->ops = ops;
    int r = ops->open(&conf, &backend->self, &err);
    if (r < 0)
        print_message("%s: %s\n", ops->name, err.text);
    return r;
}

static void backend_start(struct backend *backend)
{
    *backend = (struct backend){0};
    assert_int_equal(agent_topology_read("/sys", "/proc", &backend->topology), 0);
}

static void backend_close(struct backend *backend)
{
    backend->ops->close(&backend->self);
    agent_usage_free(&backend->usage);
}

static void backend_read(struct backend *backend)
{
    assert_int_equal(backend->ops->read(backend->self, &backend->usage), 0);
}

static const struct agent_feature_state *state_of(const struct backend *backend,
                                                  enum agent_feature feature)
{
    return &backend->ops->features(backend->self)[feature];
}

/* @return the row of a key; fails the test where there is none. */
static size_t row_of(const struct agent_usage *usage, uint64_t key)
{
    for (size_t i = 0; i < usage->n; i++) {
        if (usage->keys[i] == key)
            return i;
    }
    fail_msg("no row of cgroup %llx", (unsigned long long)key);
    return 0;
}

static uint64_t time_of(const struct agent_usage *usage, uint64_t key)
{
    size_t row = row_of(usage, key);
    uint64_t ns = 0;

    for (unsigned p = 0; p < usage->n_packages; p++)
        ns += usage->cpu_ns[row * usage->n_packages + p];
    return ns;
}

static struct agent_more more_of(const struct agent_usage *usage, uint64_t key)
{
    size_t row = row_of(usage, key);
    struct agent_more sum = {0};

    for (unsigned p = 0; p < usage->n_packages; p++) {
        const struct agent_more *more = &usage->more[row * usage->n_packages + p];
        sum.shared_ns += more->shared_ns;
        sum.enabled_ns += more->enabled_ns;
        sum.running_ns += more->running_ns;
        for (unsigned i = 0; i < AGENT_COUNTER__MAX; i++)
            sum.counters[i] += more->counters[i];
    }
    return sum;
}

static bool pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* One of two that hand a byte to each other. */
static pid_t start_player(const struct kwt_cgroup *cgroup, int in, int out, bool first, int rounds)
{
    pid_t pid = fork();
    char byte = 0;

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    if (kwt_cgroup_enter(cgroup) < 0 || !pin(0) || (first && write(out, &byte, 1) != 1))
        _exit(1);
    for (int i = 0; i < rounds; i++) {
        if (read(in, &byte, 1) != 1)
            _exit(1);
        if ((i + 1 < rounds || !first) && write(out, &byte, 1) != 1)
            _exit(1);
    }
    _exit(0);
}

/* Two processes on one CPU, in cgroups of their own: 2 x rounds switches between the two. */
static void play(const struct kwt_cgroup cgroups[2], int rounds)
{
    int there[2], back[2];

    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    pid_t pids[2] = {start_player(&cgroups[0], back[0], there[1], true, rounds),
                     start_player(&cgroups[1], there[0], back[1], false, rounds)};
    for (int i = 0; i < 2; i++) {
        kwt_reap(pids[i]);
        (void)close(there[i]);
        (void)close(back[i]);
    }
}

static void make_two(struct kwt_cgroup cgroups[2])
{
    kwt_cgroup_make(&cgroups[0], !kwt_cgroup_possible(false), "left");
    kwt_cgroup_make(&cgroups[1], !kwt_cgroup_possible(false), "right");
}

/* The figures are the scheduler's own, also after 200 000 slices of a few microseconds: a clock of
 * ours, read a moment later and running while a hypervisor has the CPU, was 1 to 2 % above. */
static void test_time_is_the_schedulers(void **state)
{
    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(ebpf_backends); i++) {
        struct kwt_cgroup cgroups[2];
        struct backend backend;

        backend_start(&backend);
        make_two(cgroups);
        assert_int_equal(backend_open(&backend, ebpf_backends[i], 0, NULL), 0);
        play(cgroups, 50000);
        backend_read(&backend);
        for (int k = 0; k < 2; k++) {
            uint64_t ns = time_of(&backend.usage, cgroups[k].key);
            uint64_t truth_ns = kwt_cgroup_usage_ns(&cgroups[k]);
            uint64_t apart_ns = ns > truth_ns ? ns - truth_ns : truth_ns - ns;
            print_message("%s: %.3f ms, the kernel says %.3f ms\n", backend.ops->name,
                          (double)ns / 1e6, (double)truth_ns / 1e6);
            /* never above; below by what the mover used since its last tick (4 or 10 ms) and took
             * along, which the kernel counts here and we where it was used */
            assert_true(apart_ns <= (ns > truth_ns ? MS(1) : MS(10)) + truth_ns / 1000);
            kwt_cgroup_remove(&cgroups[k]);
        }
        assert_null(backend.usage.more);
        backend_close(&backend);
    }
}

static pid_t spin_on(const struct kwt_cgroup *cgroup, int cpu, uint64_t cpu_ns)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    if (!pin(cpu) || kwt_cgroup_enter(cgroup) < 0)
        _exit(1);
    pid_t child = kwt_spin(NULL, cpu_ns);
    _exit(waitpid(child, NULL, 0) == child ? 0 : 1);
}

/* Busy time and shared time of one package, over all rows. */
static void sum_package(const struct agent_usage *usage, unsigned package, uint64_t *busy_ns,
                        uint64_t *shared_ns)
{
    *busy_ns = 0;
    *shared_ns = 0;
    for (size_t i = 0; i < usage->n; i++) {
        size_t at = i * usage->n_packages + package;
        assert_true(usage->more[at].shared_ns <= usage->cpu_ns[at]);
        *busy_ns += usage->cpu_ns[at];
        *shared_ns += usage->more[at].shared_ns;
    }
}

/* Each CPU counts by itself how long the other was busy, and both must come to the same: the time
 * in which both were. Each CPU is called a package, so that its sums can be told apart. */
static void test_shared_time(void **state)
{
    (void)state;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        skip();
    for (size_t i = 0; i < KW_ARRAY_SIZE(ebpf_backends); i++) {
        struct kwt_cgroup cgroups[2];
        struct backend backend;
        uint64_t busy_ns[2], shared_ns[2], from_ns[2], to_ns[2];

        backend_start(&backend);
        make_two(cgroups);
        memset(backend.topology.cpu_sibling, 0, sizeof(backend.topology.cpu_sibling));
        backend.topology.cpu_sibling[0] = 1 + 1;
        backend.topology.cpu_sibling[1] = 1 + 0;
        backend.topology.n_packages = 2;
        backend.topology.cpu_package[1] = 1;
        from_ns[0] = kw_now_ns();
        assert_int_equal(
            backend_open(&backend, ebpf_backends[i], AGENT_FEATURE_BIT(AGENT_FEATURE_SMT), NULL),
            0);
        from_ns[1] = kw_now_ns();
        assert_true(state_of(&backend, AGENT_FEATURE_SMT)->on);
        pid_t left = spin_on(&cgroups[0], 0, MS(300));
        pid_t right = spin_on(&cgroups[1], 1, MS(150));
        kwt_reap(right);
        kwt_reap(left);
        to_ns[0] = kw_now_ns();
        backend_read(&backend);
        to_ns[1] = kw_now_ns();
        for (unsigned p = 0; p < 2; p++)
            sum_package(&backend.usage, p, &busy_ns[p], &shared_ns[p]);
        uint64_t least_ns = busy_ns[0] < busy_ns[1] ? busy_ns[0] : busy_ns[1];
        print_message("busy %.3f and %.3f ms, both at a time %.3f and %.3f ms of %.3f\n",
                      (double)busy_ns[0] / 1e6, (double)busy_ns[1] / 1e6,
                      (double)shared_ns[0] / 1e6, (double)shared_ns[1] / 1e6,
                      (double)(to_ns[1] - from_ns[0]) / 1e6);
        uint64_t apart_ns =
            shared_ns[0] > shared_ns[1] ? shared_ns[0] - shared_ns[1] : shared_ns[1] - shared_ns[0];
        /* the two are read one after the other, and a stolen moment is in the other's time only */
        assert_true(apart_ns <= MS(20) + least_ns / 20 + (to_ns[1] - to_ns[0]));
        /* two that are busy together longer than there is time must share the rest */
        uint64_t together_ns = busy_ns[0] + busy_ns[1], wall_ns = to_ns[1] - from_ns[0];
        uint64_t must_ns = together_ns > wall_ns ? together_ns - wall_ns : 0;
        for (unsigned p = 0; p < 2; p++)
            assert_true(shared_ns[p] + MS(20) >= must_ns && shared_ns[p] <= least_ns + MS(20));
        /* nothing that did not run has shared time, and the one with less work shared some of it */
        assert_true(more_of(&backend.usage, cgroups[1].key).shared_ns > 0);
        backend_close(&backend);
        kwt_cgroup_remove(&cgroups[0]);
        kwt_cgroup_remove(&cgroups[1]);
    }
}

static void test_counters(void **state)
{
    enum { ROUNDS = 20000 };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(ebpf_backends); i++) {
        struct kwt_cgroup cgroups[2];
        struct backend backend;

        backend_start(&backend);
        make_two(cgroups);
        assert_int_equal(backend_open(&backend, ebpf_backends[i],
                                      AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS), software),
                         0);
        if (!state_of(&backend, AGENT_FEATURE_COUNTERS)->on)
            fail_msg("%s", state_of(&backend, AGENT_FEATURE_COUNTERS)->why_not);
        play(cgroups, ROUNDS);
        backend_read(&backend);
        for (int k = 0; k < 2; k++) {
            uint64_t ns = time_of(&backend.usage, cgroups[k].key);
            struct agent_more more = more_of(&backend.usage, cgroups[k].key);
            print_message("%.3f ms: CPU clock %.3f ms, task clock %.3f ms, %llu switches, enabled "
                          "%.3f ms, running %.3f ms\n",
                          (double)ns / 1e6, (double)more.counters[0] / 1e6,
                          (double)more.counters[1] / 1e6, (unsigned long long)more.counters[2],
                          (double)more.enabled_ns / 1e6, (double)more.running_ns / 1e6);
            /* the clocks go on while a hypervisor has the CPU; the scheduler's does not */
            assert_true(more.counters[0] >= ns - ns / 20);
            assert_true(more.counters[1] >= ns - ns / 20);
            assert_true(more.enabled_ns >= ns - ns / 20);
            assert_true(more.enabled_ns == more.running_ns);
            assert_true(more.counters[2] >= ROUNDS && more.counters[2] <= 40 * ROUNDS);
            kwt_cgroup_remove(&cgroups[k]);
        }
        /* counts do not fall, whatever else happens */
        uint64_t before = more_of(&backend.usage, AGENT_KEY_SYSTEM).counters[0];
        backend_read(&backend);
        assert_true(more_of(&backend.usage, AGENT_KEY_SYSTEM).counters[0] >= before);
        backend_close(&backend);
    }
}

/* Sends datagrams to itself: the sender's own thread delivers them, in a soft interrupt. */
static pid_t send_datagrams(const struct kwt_cgroup *cgroup, int n)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    char text[1024] = {0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (kwt_cgroup_enter(cgroup) < 0 || fd < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        _exit(1);
    for (int i = 0; i < n; i++) {
        if (sendto(fd, text, sizeof(text), 0, (struct sockaddr *)&address, len) < 0 ||
            recv(fd, text, sizeof(text), 0) < 0)
            _exit(1);
    }
    _exit(0);
}

/* What a cgroup no longer has is in the bucket. */
static void test_softirq(void **state)
{
    struct kwt_cgroup cgroup;
    struct backend backend;

    (void)state;
    backend_start(&backend);
    kwt_cgroup_make(&cgroup, !kwt_cgroup_possible(false), "network");
    assert_int_equal(backend_open(&backend, &agent_accounting_ebpf,
                                  AGENT_FEATURE_BIT(AGENT_FEATURE_SOFTIRQ), NULL),
                     0);
    if (!state_of(&backend, AGENT_FEATURE_SOFTIRQ)->on)
        fail_msg("%s", state_of(&backend, AGENT_FEATURE_SOFTIRQ)->why_not);
    backend_read(&backend);
    uint64_t before_ns = time_of(&backend.usage, AGENT_KEY_INTERRUPTS);
    kwt_reap(send_datagrams(&cgroup, 50000));
    backend_read(&backend);
    uint64_t bucket_ns = time_of(&backend.usage, AGENT_KEY_INTERRUPTS) - before_ns;
    uint64_t ns = time_of(&backend.usage, cgroup.key);
    uint64_t truth_ns = kwt_cgroup_usage_ns(&cgroup);
    print_message("%.3f ms and %.3f ms in soft interrupts, the kernel says %.3f ms together\n",
                  (double)ns / 1e6, (double)bucket_ns / 1e6, (double)truth_ns / 1e6);
    assert_true(bucket_ns > MS(1));
    assert_true(ns < truth_ns);
    assert_true(ns + bucket_ns + MS(20) >= truth_ns);
    backend_close(&backend);
    kwt_cgroup_remove(&cgroup);
}

/* What cannot be had is off, says why, and leaves the rest as it is. */
static void test_what_is_missing(void **state)
{
    static const struct agent_counter_event none[AGENT_COUNTER__MAX] = {{4242, 1}};
    struct backend backend;
    unsigned all = AGENT_FEATURE_BIT(AGENT_FEATURE_SMT) | AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS);

    (void)state;
    backend_start(&backend);
    memset(backend.topology.cpu_sibling, 0, sizeof(backend.topology.cpu_sibling));
    backend.topology.threads_per_core = 4;
    assert_int_equal(backend_open(&backend, &agent_accounting_ebpf, all, none), 0);
    assert_false(state_of(&backend, AGENT_FEATURE_SMT)->on);
    assert_non_null(strstr(state_of(&backend, AGENT_FEATURE_SMT)->why_not, "more than two"));
    assert_false(state_of(&backend, AGENT_FEATURE_COUNTERS)->on);
    assert_non_null(strstr(state_of(&backend, AGENT_FEATURE_COUNTERS)->why_not, "no PMU"));
    backend_read(&backend);
    assert_int_equal(backend.usage.features & all, 0);
    assert_null(backend.usage.more);
    backend_close(&backend);
    /* not asked for: nothing is said */
    backend.topology.threads_per_core = 1;
    assert_int_equal(backend_open(&backend, &agent_accounting_ebpf, 0, NULL), 0);
    for (unsigned i = 0; i < AGENT_FEATURE__MAX; i++)
        assert_string_equal(state_of(&backend, (enum agent_feature)i)->why_not, "");
    backend_close(&backend);
    assert_null(agent_accounting_cgroup_files.features);
}

static int setup(void **state)
{
    struct backend backend;

    (void)state;
    kwt_cgroup_need();
    backend_start(&backend);
    if (backend_open(&backend, &agent_accounting_ebpf, 0, NULL) < 0) {
        printf("SKIP: the kernel takes no BPF program from this process\n");
        exit(77);
    }
    backend_close(&backend);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_is_the_schedulers),
        cmocka_unit_test(test_shared_time),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_softirq),
        cmocka_unit_test(test_what_is_missing),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
