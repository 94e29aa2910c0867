/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that somebody else puts into their cgroups while they run, as container runtimes do,
 * and that end without having left their CPU: what they used there is their cgroup's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/accounting.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"

#define LIVES   200
/* Of CPU time: so short that few are switched out on the way, which would make them known. */
#define SPIN_NS (150 * UINT64_C(1000))

/* What mover and moved tell each other. */
struct turn {
    _Atomic pid_t pid; /* runs and is to be moved; 0: nobody */
    _Atomic unsigned moved;
};

static uint64_t spent_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * KW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Lives them one after the other. */
static void live(struct turn *turn)
{
    int status;

    (void)setpriority(PRIO_PROCESS, 0, -20); /* keeps its CPU, whoever else there is */
    for (unsigned i = 0; i < LIVES; i++) {
        /* not fork: the end of a process with memory of its own takes so long that it is switched
         * out before */
        pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): see above
        if (pid == 0) {
            turn->pid = getpid(); // NOLINT(clang-analyzer-unix.Vfork): a bare system call
            while (turn->moved == i)
                ;
            uint64_t from_ns = spent_ns();
            while (spent_ns() - from_ns < SPIN_NS)
                ;
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            _exit(1);
    }
    _exit(0);
}

static uint64_t time_of(const struct agent_usage *usage, uint64_t key)
{
    uint64_t ns = 0;

    for (size_t i = 0; i < usage->n; i++) {
        for (unsigned p = 0; p < usage->n_packages && usage->keys[i] == key; p++)
            ns += usage->cpu_ns[i * usage->n_packages + p];
    }
    return ns;
}

static void check_moved(const struct agent_accounting_ops *ops, void *self)
{
    static struct kwt_cgroup cgroups[LIVES];
    struct agent_usage usage = {0};
    size_t below = 0;

    struct turn *turn =
        mmap(NULL, sizeof(*turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(turn != MAP_FAILED);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        live(turn);
    for (unsigned i = 0; i < LIVES; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "moved%u", i);
        kwt_cgroup_make(&cgroups[i], !kwt_cgroup_possible(false), name);
        while (turn->pid == 0)
            ;
        kwt_cgroup_put(&cgroups[i], turn->pid);
        turn->pid = 0;
        turn->moved++;
    }
    kwt_reap(pid);
    (void)munmap(turn, sizeof(*turn));
    assert_int_equal(ops->read(self, &usage), 0);
    for (unsigned i = 0; i < LIVES; i++) {
        below += time_of(&usage, cgroups[i].key) < SPIN_NS;
        kwt_cgroup_remove(&cgroups[i]);
    }
    agent_usage_free(&usage);
    print_message("%s: %zu of %d have less than they used\n", ops->name, below, LIVES);
    assert_int_equal(below, 0);
}

static void test_moved_and_ended(void **state)
{
    const struct agent_accounting_ops *const backends[] = {&agent_accounting_ebpf,
                                                           &agent_accounting_ebpf_raw};
    struct agent_topology topology;

    (void)state;
    assert_int_equal(agent_topology_read("/sys", "/proc", &topology), 0);
    struct agent_accounting_conf conf = {
        .topology = &topology, .sysfs_root = "/sys", .procfs_root = "/proc"};
    for (size_t i = 0; i < KW_ARRAY_SIZE(backends); i++) {
        struct kw_err err = {0};
        void *self = NULL;
        if (backends[i]->open(&conf, &self, &err) < 0) {
            printf("SKIP: %s\n", err.text);
            exit(77);
        }
        check_moved(backends[i], self);
        backends[i]->close(&self);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moved_and_ended)};

    kwt_cgroup_need();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
