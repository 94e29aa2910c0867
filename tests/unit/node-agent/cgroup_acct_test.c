/* SPDX-License-Identifier: Apache-2.0 */
/* The fallback: against trees of files with known numbers, and against the real kernel beside eBPF.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/accounting.h"
#include "node-agent/cgroup_stat.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

#define MS(n) ((uint64_t)(n)*KW_NS_PER_MS)

static const char mountinfo_v2[] = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
static const char mountinfo_hybrid[] =
    "32 31 0:29 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

struct fixture {
    struct kwt_tree tree;
    char sys[128], proc[128];
    struct agent_topology topology;
    void *self;
    struct agent_usage usage;
};

static void fixture_make(struct fixture *fixture, const char *mountinfo)
{
    *fixture = (struct fixture){.topology = {.n_cpus = 2, .n_online = 2, .n_packages = 1}};
    kwt_tree_make(&fixture->tree);
    kwt_tree_write(&fixture->tree, "proc/self/mountinfo", mountinfo);
    kwt_tree_mkdir(&fixture->tree, "sys/fs/cgroup/unified");
    kwt_tree_mkdir(&fixture->tree, "sys/fs/cgroup/cpuacct");
    assert_int_equal(kw_path_join(fixture->sys, sizeof(fixture->sys), fixture->tree.root, "sys"),
                     0);
    assert_int_equal(kw_path_join(fixture->proc, sizeof(fixture->proc), fixture->tree.root, "proc"),
                     0);
}

static void fixture_open(struct fixture *fixture)
{
    struct kw_err err = {0};
    struct agent_accounting_conf conf = {
        .topology = &fixture->topology, .sysfs_root = fixture->sys, .procfs_root = fixture->proc};

    if (agent_accounting_cgroup_files.open(&conf, &fixture->self, &err) < 0)
        fail_msg("%s", err.text);
}

static void fixture_remove(struct fixture *fixture)
{
    agent_accounting_cgroup_files.close(&fixture->self);
    assert_null(fixture->self);
    agent_usage_free(&fixture->usage);
    kwt_tree_remove(&fixture->tree);
}

static void set_v2(const struct fixture *fixture, const char *path, uint64_t usage_ms)
{
    char file[256], text[128];

    (void)snprintf(file, sizeof(file), "sys/fs/cgroup%s/cpu.stat", path);
    (void)snprintf(text, sizeof(text), "usage_usec %lu\nuser_usec 1\nsystem_usec 2\n",
                   (unsigned long)usage_ms * 1000);
    kwt_tree_write(&fixture->tree, file, text);
}

/* Busy milliseconds of two CPUs. */
static void set_busy(const struct fixture *fixture, uint64_t cpu0_ms, uint64_t cpu1_ms)
{
    char text[512];
    unsigned long per_tick_ms = 1000 / (unsigned long)sysconf(_SC_CLK_TCK);

    (void)snprintf(text, sizeof(text),
                   "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 %lu 0 0 777 8 0 0 0 0 0\n"
                   "cpu1 0 0 %lu 777 8 0 0 0 0 0\nintr 5 6\n",
                   (unsigned long)cpu0_ms / per_tick_ms, (unsigned long)cpu1_ms / per_tick_ms);
    kwt_tree_write(&fixture->tree, "proc/stat", text);
}

static uint64_t key_of(const struct fixture *fixture, const char *path)
{
    char full[256];
    struct stat st;

    (void)snprintf(full, sizeof(full), "%s/fs/cgroup%s", fixture->sys, path);
    assert_int_equal(stat(full, &st), 0);
    return (uint64_t)st.st_ino;
}

static void take(struct fixture *fixture)
{
    assert_int_equal(agent_accounting_cgroup_files.read(fixture->self, &fixture->usage), 0);
}

/* Own time in ms on a package; UINT64_MAX: no row. */
static uint64_t own_ms(const struct fixture *fixture, uint64_t key, unsigned package)
{
    const struct agent_usage *usage = &fixture->usage;

    for (size_t i = 0; i < usage->n; i++) {
        if (usage->keys[i] == key)
            return usage->cpu_ns[i * usage->n_packages + package] / KW_NS_PER_MS;
    }
    return UINT64_MAX;
}

static uint64_t sum_ms(const struct agent_usage *usage)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < usage->n * usage->n_packages; i++)
        sum += usage->cpu_ns[i];
    return sum / KW_NS_PER_MS;
}

static void test_own_time(void **state)
{
    static struct fixture f;

    (void)state;
    fixture_make(&f, mountinfo_v2);
    set_busy(&f, 1000, 1000);
    set_v2(&f, "/pod", 500);
    set_v2(&f, "/pod/one", 300);
    set_v2(&f, "/pod/two", 100);
    set_v2(&f, "/pod-like-name", 70);
    fixture_open(&f);
    take(&f); /* what was before counts for nobody */
    assert_int_equal(sum_ms(&f.usage), 0);
    uint64_t pod = key_of(&f, "/pod"), one = key_of(&f, "/pod/one"), two = key_of(&f, "/pod/two");

    set_v2(&f, "/pod", 1000);
    set_v2(&f, "/pod/one", 600);
    set_v2(&f, "/pod/two", 200);
    set_v2(&f, "/pod-like-name", 100);
    set_busy(&f, 1700, 1000);
    take(&f);
    assert_int_equal(own_ms(&f, one, 0), 300);
    assert_int_equal(own_ms(&f, two, 0), 100);
    assert_int_equal(own_ms(&f, pod, 0), 100);
    assert_int_equal(own_ms(&f, key_of(&f, "/pod-like-name"), 0), 30);
    assert_int_equal(own_ms(&f, AGENT_KEY_SYSTEM, 0), 170);
    assert_int_equal(sum_ms(&f.usage), 700);

    /* the child was read later than its parent: nothing runs backward, and it evens out */
    set_v2(&f, "/pod/one", 800);
    set_busy(&f, 1900, 1000);
    take(&f);
    assert_int_equal(own_ms(&f, pod, 0), 100);
    assert_int_equal(own_ms(&f, one, 0), 500);
    set_v2(&f, "/pod", 1250);
    set_busy(&f, 2000, 1000);
    take(&f);
    assert_int_equal(own_ms(&f, pod, 0), 150);
    /* a damaged file keeps its last number */
    kwt_tree_write(&f.tree, "sys/fs/cgroup/pod/two/cpu.stat", "usage_usec many\n");
    take(&f);
    assert_int_equal(own_ms(&f, two, 0), 100);
    fixture_remove(&f);
}

/* New cgroups count from their first nanosecond, ended ones keep theirs, and what they did
 * unseen at their end is their parent's. */
static void test_come_and_go(void **state)
{
    static struct fixture f;

    (void)state;
    fixture_make(&f, mountinfo_v2);
    set_busy(&f, 0, 0);
    set_v2(&f, "/pod", 0);
    fixture_open(&f);
    set_v2(&f, "/pod/child", 200);
    set_v2(&f, "/pod", 200);
    set_busy(&f, 250, 0);
    take(&f);
    uint64_t pod = key_of(&f, "/pod"), child = key_of(&f, "/pod/child");
    assert_int_equal(own_ms(&f, child, 0), 200);
    assert_int_equal(own_ms(&f, pod, 0), 0);
    assert_int_equal(own_ms(&f, AGENT_KEY_SYSTEM, 0), 50);

    kwt_tree_delete(&f.tree, "sys/fs/cgroup/pod/child");
    set_v2(&f, "/pod", 280);
    set_busy(&f, 350, 0);
    take(&f);
    assert_int_equal(own_ms(&f, child, 0), 200);
    assert_int_equal(own_ms(&f, pod, 0), 80);
    assert_int_equal(own_ms(&f, AGENT_KEY_SYSTEM, 0), 70);
    assert_int_equal(sum_ms(&f.usage), 350);
    agent_accounting_cgroup_files.forget(f.self, &child, 1);
    take(&f);
    assert_true(own_ms(&f, child, 0) == UINT64_MAX);
    assert_int_equal(own_ms(&f, pod, 0), 80);
    /* what is there cannot be forgotten */
    uint64_t keys[] = {pod, AGENT_KEY_SYSTEM, 424242};
    agent_accounting_cgroup_files.forget(f.self, keys, KW_ARRAY_SIZE(keys));
    kwt_tree_delete(&f.tree, "sys/fs/cgroup/pod");
    take(&f);
    assert_int_equal(own_ms(&f, pod, 0), 80);
    set_busy(&f, 400, 0);
    take(&f);
    assert_int_equal(own_ms(&f, AGENT_KEY_SYSTEM, 0), 120);
    assert_int_equal(sum_ms(&f.usage) + 200, 400);
    fixture_remove(&f);
}

static void test_split_by_package(void **state)
{
    static struct fixture f;

    (void)state;
    fixture_make(&f, mountinfo_v2);
    f.topology.n_packages = 2;
    f.topology.cpu_package[1] = 1;
    set_busy(&f, 0, 0);
    set_v2(&f, "/a", 0);
    fixture_open(&f);
    set_v2(&f, "/a", 300);
    set_busy(&f, 100, 300);
    take(&f);
    uint64_t a = key_of(&f, "/a");
    assert_int_equal(own_ms(&f, a, 0), 75);
    assert_int_equal(own_ms(&f, a, 1), 225);
    assert_int_equal(own_ms(&f, AGENT_KEY_SYSTEM, 0), 25);
    assert_int_equal(own_ms(&f, AGENT_KEY_SYSTEM, 1), 75);
    /* without /proc/stat nothing is lost either */
    kwt_tree_delete(&f.tree, "proc/stat");
    set_v2(&f, "/a", 400);
    take(&f);
    assert_int_equal(own_ms(&f, a, 0) + own_ms(&f, a, 1), 400);
    fixture_remove(&f);
}

static void test_hybrid_takes_the_populated_tree(void **state)
{
    static struct fixture f;

    (void)state;
    fixture_make(&f, mountinfo_hybrid);
    set_busy(&f, 0, 0);
    kwt_tree_write(&f.tree, "sys/fs/cgroup/cpuacct/a/cpuacct.usage", "5000000000\n");
    kwt_tree_write(&f.tree, "sys/fs/cgroup/cpuacct/a/cgroup.procs", "17\n");
    set_v2(&f, "/unified/b", 7);
    kwt_tree_write(&f.tree, "sys/fs/cgroup/unified/b/cgroup.procs", "");
    fixture_open(&f);
    kwt_tree_write(&f.tree, "sys/fs/cgroup/cpuacct/a/cpuacct.usage", "5250000000\n");
    take(&f);
    assert_int_equal(own_ms(&f, key_of(&f, "/cpuacct/a") | AGENT_KEY_V1, 0), 250);
    assert_true(own_ms(&f, key_of(&f, "/unified/b"), 0) == UINT64_MAX);
    fixture_remove(&f);
    /* on a tie, v2 */
    fixture_make(&f, mountinfo_hybrid);
    set_busy(&f, 0, 0);
    kwt_tree_write(&f.tree, "sys/fs/cgroup/cpuacct/a/cpuacct.usage", "0\n");
    set_v2(&f, "/unified/b", 7);
    fixture_open(&f);
    take(&f);
    assert_int_equal(own_ms(&f, key_of(&f, "/unified/b"), 0), 0);
    fixture_remove(&f);
}

static void test_no_tree(void **state)
{
    static struct fixture f;
    struct kw_err err = {0};

    (void)state;
    fixture_make(&f, "");
    struct agent_accounting_conf conf = {
        .topology = &f.topology, .sysfs_root = f.sys, .procfs_root = f.proc};
    assert_true(agent_accounting_cgroup_files.open(&conf, &f.self, &err) < 0);
    assert_null(f.self);
    assert_true(err.text[0] != '\0');
    fixture_remove(&f);
}

static void test_parsers(void **state)
{
    static const uint8_t packages[] = {0, 1};
    static const char stat[] = "cpu 1 2 3 4 5 6 7\ncpu0 1 2 3 9 9 4 5 9\ncpu1 0 0 0 9 9 0 1";
    uint64_t busy[2], value = 5;

    (void)state;
    assert_int_equal(agent_proc_stat_busy(stat, sizeof(stat) - 1, 10, packages, 2, 2, busy), 0);
    assert_int_equal(busy[0], 150);
    assert_int_equal(busy[1], 10);
    assert_int_equal(agent_proc_stat_busy("cpu0 1 2", 8, 10, packages, 2, 2, busy), -EBADMSG);
    assert_int_equal(agent_proc_stat_busy("", 0, 10, packages, 2, 2, busy), -EBADMSG);
    assert_int_equal(agent_cgroup_stat_find("a 1\nab 2\nb 3", 12, "ab", &value), 0);
    assert_int_equal(value, 2);
    assert_int_equal(agent_cgroup_stat_find("a 1\nab 2\nb 3", 12, "b", &value), 0);
    assert_int_equal(value, 3);
    assert_int_equal(agent_cgroup_stat_find("ab x\n", 5, "ab", &value), -EBADMSG);
    assert_int_equal(agent_cgroup_stat_find("abc 1\n", 6, "ab", &value), -ENODATA);
    assert_int_equal(value, 3);
}

/* The two ways of counting agree on real processes. */
static void test_agrees_with_ebpf(void **state)
{
    static struct agent_topology topology;
    struct agent_accounting_conf conf = {
        .topology = &topology, .sysfs_root = "/sys", .procfs_root = "/proc"};
    struct kw_err err = {0};
    void *files = NULL, *ebpf = NULL;
    struct agent_usage by_files = {0}, by_ebpf = {0};
    struct kwt_cgroup cgroups[2];

    (void)state;
    bool v1 = !kwt_cgroup_possible(false);
    if (v1 && !kwt_cgroup_possible(true))
        skip();
    assert_int_equal(agent_topology_read("/sys", "/proc", &topology), 0);
    kwt_cgroup_make(&cgroups[0], v1, "agree1");
    kwt_cgroup_make(&cgroups[1], v1, "agree2");
    /* a process in one of them, so that this hierarchy is the populated one */
    pid_t sitter = kwt_spin(&cgroups[0], MS(1));
    kwt_reap(sitter);
    if (agent_accounting_cgroup_files.open(&conf, &files, &err) < 0)
        fail_msg("%s", err.text);
    bool have_ebpf = agent_accounting_ebpf.open(&conf, &ebpf, &err) == 0;
    uint64_t before_ns[2] = {kwt_cgroup_usage_ns(&cgroups[0]), kwt_cgroup_usage_ns(&cgroups[1])};
    pid_t pids[] = {kwt_spin(&cgroups[0], MS(100)), kwt_spin(&cgroups[1], MS(300))};
    kwt_reap(pids[0]);
    kwt_reap(pids[1]);
    assert_int_equal(agent_accounting_cgroup_files.read(files, &by_files), 0);
    if (have_ebpf)
        assert_int_equal(agent_accounting_ebpf.read(ebpf, &by_ebpf), 0);
    for (int c = 0; c < 2; c++) {
        const struct agent_usage *readings[] = {&by_files, &by_ebpf};
        uint64_t truth_ns = kwt_cgroup_usage_ns(&cgroups[c]) - before_ns[c];
        for (int k = 0; k < 1 + have_ebpf; k++) {
            uint64_t ns = 0;
            bool found = false;
            for (size_t i = 0; i < readings[k]->n; i++) {
                if (readings[k]->keys[i] != cgroups[c].key)
                    continue;
                found = true;
                for (unsigned p = 0; p < readings[k]->n_packages; p++)
                    ns += readings[k]->cpu_ns[i * readings[k]->n_packages + p];
            }
            print_message("%s: %.3f ms, the kernel says %.3f ms\n", k == 0 ? "files" : "ebpf",
                          (double)ns / 1e6, (double)truth_ns / 1e6);
            if (k == 0 && !found) {
                print_message("the other hierarchy holds more processes\n");
                continue;
            }
            uint64_t difference_ns = ns > truth_ns ? ns - truth_ns : truth_ns - ns;
            assert_true(found && difference_ns <= MS(20) + truth_ns * 3 / 100);
        }
        kwt_cgroup_remove(&cgroups[c]);
    }
    agent_accounting_cgroup_files.close(&files);
    agent_accounting_ebpf.close(&ebpf);
    agent_usage_free(&by_files);
    agent_usage_free(&by_ebpf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_time),
        cmocka_unit_test(test_come_and_go),
        cmocka_unit_test(test_split_by_package),
        cmocka_unit_test(test_hybrid_takes_the_populated_tree),
        cmocka_unit_test(test_no_tree),
        cmocka_unit_test(test_parsers),
        cmocka_unit_test(test_agrees_with_ebpf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
