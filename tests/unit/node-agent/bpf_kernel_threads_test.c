/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel threads apart from the processes of the cgroup that both are in, the root: what they have
 * is the scheduler's own sum (/proc/PID/schedstat), and what a process of the root uses is not in
 * it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/accounting.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"

#define MS(n) ((uint64_t)(n)*KW_NS_PER_MS)

#define PF_KTHREAD 0x00200000

/* 0 for one that is no kernel thread, and where it went meanwhile. */
static uint64_t kernel_thread_ns(long pid)
{
    char path[64], text[4096];
    unsigned flags = 0;
    unsigned long long ns = 0;

    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    ssize_t n = kw_file_read_at(AT_FDCWD, path, text, sizeof(text));
    const char *name_end = n > 0 ? strrchr(text, ')') : NULL;
    if (name_end == NULL || sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1 ||
        (flags & PF_KTHREAD) == 0)
        return 0;
    (void)snprintf(path, sizeof(path), "/proc/%ld/schedstat", pid);
    n = kw_file_read_at(AT_FDCWD, path, text, sizeof(text));
    return n > 0 && sscanf(text, "%llu", &ns) == 1 ? ns : 0;
}

static uint64_t kernel_threads_ns(void)
{
    DIR *proc = opendir("/proc");
    uint64_t sum = 0;

    assert_non_null(proc);
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        long pid = strtol(entry->d_name, NULL, 10);
        sum += pid > 0 ? kernel_thread_ns(pid) : 0;
    }
    (void)closedir(proc);
    return sum;
}

/* Networks are taken down by kernel threads. @return whether they can be made. */
static bool make_kernel_threads_work(void)
{
    int status = 1;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        for (int i = 0; i < 40; i++) {
            if (unshare(CLONE_NEWNET) < 0)
                _exit(1);
        }
        _exit(0);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static uint64_t time_of(const struct agent_usage *usage, uint64_t key)
{
    uint64_t ns = 0;

    for (size_t i = 0; i < usage->n; i++) {
        for (unsigned p = 0; usage->keys[i] == key && p < usage->n_packages; p++)
            ns += usage->cpu_ns[i * usage->n_packages + p];
    }
    return ns;
}

/* A reading between two looks at the threads' own counts. */
struct look {
    uint64_t before_ns, kernel_ns, root_ns, after_ns;
};

static struct look look(const struct agent_accounting_ops *ops, void *self,
                        struct agent_usage *usage)
{
    struct look look = {.before_ns = kernel_threads_ns()};

    assert_int_equal(ops->read(self, usage), 0);
    look.kernel_ns = time_of(usage, AGENT_KEY_KERNEL);
    look.root_ns = time_of(usage, AGENT_KEY_SYSTEM);
    look.after_ns = kernel_threads_ns();
    return look;
}

static struct agent_topology topology;

static void measure(const struct agent_accounting_ops *ops, const struct kwt_cgroup *root)
{
    struct agent_accounting_conf conf = {
        .topology = &topology, .sysfs_root = "/sys", .procfs_root = "/proc"};
    struct agent_usage usage = {0};
    struct kw_err err = {0};
    void *self = NULL;

    if (ops->open(&conf, &self, &err) < 0)
        fail_msg("%s: %s", ops->name, err.text);
    struct look first, last;
    do { /* again where a worker that had done more than that ended and took its count along */
        first = look(ops, self, &usage);
        pid_t pid = kwt_spin(root, MS(400));
        assert_true(make_kernel_threads_work());
        kwt_reap(pid);
        last = look(ops, self, &usage);
    } while (last.before_ns < first.after_ns);
    uint64_t ns = last.kernel_ns - first.kernel_ns;
    uint64_t low_ns = last.before_ns - first.after_ns, high_ns = last.after_ns - first.before_ns;
    print_message("%s: %.3f ms, the kernel says %.3f to %.3f ms\n", ops->name, (double)ns / 1e6,
                  (double)low_ns / 1e6, (double)high_ns / 1e6);
    assert_true(ns + MS(20) >= low_ns);
    /* a worker that ended meanwhile takes its count along; a root's process has 400 ms */
    assert_true(ns <= high_ns + MS(100));
    assert_true(last.root_ns - first.root_ns >= MS(380));
    ops->close(&self);
    agent_usage_free(&usage);
}

static void test_kernel_threads(void **state)
{
    struct kwt_cgroup root;

    (void)state;
    kwt_cgroup_root(&root, !kwt_cgroup_possible(false));
    measure(&agent_accounting_ebpf, &root);
    measure(&agent_accounting_ebpf_raw, &root);
    assert_true(agent_accounting_cgroup_files.merges_kernel);
}

static int setup(void **state)
{
    struct agent_accounting_conf conf = {
        .topology = &topology, .sysfs_root = "/sys", .procfs_root = "/proc"};
    void *self = NULL;

    (void)state;
    if (agent_topology_read("/sys", "/proc", &topology) < 0)
        return -1;
    kwt_cgroup_need();
    if (agent_accounting_ebpf.open(&conf, &self, NULL) < 0) {
        printf("SKIP: the kernel takes no BPF program from this process\n");
        exit(77);
    }
    agent_accounting_ebpf.close(&self);
    if (kernel_threads_ns() == 0 || !make_kernel_threads_work()) {
        printf("SKIP: kernel threads are not seen from here, or networks cannot be made\n");
        exit(77);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernel_threads)};

    return cmocka_run_group_tests(tests, setup, NULL);
}
