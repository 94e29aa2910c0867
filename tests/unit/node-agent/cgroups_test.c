/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/accounting.h"
#include "node-agent/cgroup_mounts.h"
#include "node-agent/cgroup_stat.h"
#include "node-agent/cgroups.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

#define UID "4eb0d6a3-17c5-4d21-9a67-0d5b3fb9c1e2"
#define CID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define POD "/kubepods/burstable/pod" UID

static const char mountinfo_v2[] =
    "24 1 0:22 / /sys rw,nosuid shared:6 - sysfs sysfs rw\n"
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
static const char mountinfo_hybrid[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

struct fixture {
    struct kwt_tree tree;
    char sys[128], proc[128];
    struct agent_cgroups *cgroups;
};

static void fixture_make(struct fixture *fixture, const char *mountinfo)
{
    kwt_tree_make(&fixture->tree);
    kwt_tree_mkdir(&fixture->tree, "sys");
    kwt_tree_write(&fixture->tree, "proc/self/mountinfo", mountinfo);
    assert_int_equal(kw_path_join(fixture->sys, sizeof(fixture->sys), fixture->tree.root, "sys"),
                     0);
    assert_int_equal(kw_path_join(fixture->proc, sizeof(fixture->proc), fixture->tree.root, "proc"),
                     0);
    fixture->cgroups = NULL;
}

static void fixture_open(struct fixture *fixture, const char *cgroup_root)
{
    struct kw_err err = {0};
    struct agent_cgroups_conf conf = {fixture->sys, fixture->proc, cgroup_root};
    int r = agent_cgroups_new(&conf, &fixture->cgroups, &err);

    if (r < 0)
        fail_msg("%s", err.text);
}

static void fixture_remove(struct fixture *fixture)
{
    agent_cgroups_free(&fixture->cgroups);
    assert_null(fixture->cgroups);
    kwt_tree_remove(&fixture->tree);
}

/* A directory below sys/fs/cgroup. */
static void make_dir(const struct fixture *fixture, const char *path)
{
    char full[PATH_MAX];

    (void)snprintf(full, sizeof(full), "sys/fs/cgroup%s", path);
    kwt_tree_mkdir(&fixture->tree, full);
}

static void delete_dir(const struct fixture *fixture, const char *path)
{
    char full[PATH_MAX];

    (void)snprintf(full, sizeof(full), "sys/fs/cgroup%s", path);
    kwt_tree_delete(&fixture->tree, full);
}

static uint64_t key_of(const struct fixture *fixture, const char *path)
{
    char full[PATH_MAX];
    struct stat st;

    (void)snprintf(full, sizeof(full), "%s/fs/cgroup%s", fixture->sys, path);
    assert_int_equal(stat(full, &st), 0);
    return (uint64_t)st.st_ino;
}

static void update(const struct fixture *fixture)
{
    assert_int_equal(agent_cgroups_update(fixture->cgroups, kw_now_ns()), 0);
}

static void count_one(void *user, const struct agent_cgroup *cgroup)
{
    size_t *n = user;

    n[0]++;
    n[1] += cgroup->gone_ns == 0;
}

static size_t count(const struct agent_cgroups *cgroups, size_t *ret_there)
{
    size_t n[2] = {0, 0};

    agent_cgroups_each(cgroups, count_one, n);
    *ret_there = n[1];
    return n[0];
}

static void test_scan_and_identities(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_make(&fixture, mountinfo_v2);
    make_dir(&fixture, POD "/" CID);
    make_dir(&fixture, "/system.slice/nginx.service");
    fixture_open(&fixture, "/");
    assert_string_equal(agent_cgroups_layout(fixture.cgroups), "v2");
    assert_true(agent_cgroups_watched(fixture.cgroups));

    const struct agent_cgroup *cgroup =
        agent_cgroups_find(fixture.cgroups, key_of(&fixture, POD "/" CID));
    assert_non_null(cgroup);
    assert_string_equal(cgroup->path, POD "/" CID);
    assert_int_equal(cgroup->identity.kind, KW_WORKLOAD_POD);
    assert_string_equal(cgroup->identity.container_id, CID);
    assert_string_equal(cgroup->identity.workload_path, POD);
    assert_false(cgroup->system);
    cgroup = agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/kubepods/burstable"));
    assert_non_null(cgroup);
    assert_true(cgroup->system);
    assert_string_equal(cgroup->identity.id, "");
    assert_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "")));
    assert_null(agent_cgroups_find(fixture.cgroups, AGENT_KEY_SYSTEM));
    assert_null(agent_cgroups_find(fixture.cgroups, AGENT_KEY_OVERFLOW));
    fixture_remove(&fixture);
}

static void test_create_and_remove(void **state)
{
    struct fixture fixture;
    size_t there;

    (void)state;
    fixture_make(&fixture, mountinfo_v2);
    make_dir(&fixture, "/kubepods/burstable");
    fixture_open(&fixture, "/");
    struct pollfd poller = {.fd = agent_cgroups_fd(fixture.cgroups), .events = POLLIN};
    assert_int_equal(poll(&poller, 1, 0), 0);
    make_dir(&fixture, POD "/" CID "/deep/deeper"); /* children before the watch */
    assert_int_equal(poll(&poller, 1, 0), 1);
    update(&fixture);
    assert_int_equal(poll(&poller, 1, 0), 0);
    uint64_t key = key_of(&fixture, POD "/" CID "/deep/deeper");
    assert_non_null(agent_cgroups_find(fixture.cgroups, key));
    make_dir(&fixture, POD "/" CID "/deep/deeper/still"); /* the new ones are watched too */
    update(&fixture);
    assert_int_equal(count(fixture.cgroups, &there), 7);

    delete_dir(&fixture, POD);
    update(&fixture);
    const struct agent_cgroup *cgroup = agent_cgroups_find(fixture.cgroups, key);
    assert_non_null(cgroup);
    assert_true(cgroup->gone_ns != 0);
    assert_string_equal(cgroup->path, POD "/" CID "/deep/deeper");
    assert_int_equal(cgroup->identity.kind, KW_WORKLOAD_POD);
    assert_int_equal(count(fixture.cgroups, &there), 7);
    assert_int_equal(there, 2);
    agent_cgroups_forget(fixture.cgroups, key);
    assert_null(agent_cgroups_find(fixture.cgroups, key));
    /* one that is there is not forgotten */
    key = key_of(&fixture, "/kubepods");
    agent_cgroups_forget(fixture.cgroups, key);
    assert_non_null(agent_cgroups_find(fixture.cgroups, key));
    agent_cgroups_forget(fixture.cgroups, 99999999);
    fixture_remove(&fixture);
}

/* A name that is used again before anybody looked. */
static void test_name_used_again(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_make(&fixture, mountinfo_v2);
    make_dir(&fixture, "/a");
    fixture_open(&fixture, "/");
    uint64_t old_key = key_of(&fixture, "/a");
    make_dir(&fixture, "/holder"); /* so that the inode number is not given again */
    delete_dir(&fixture, "/a");
    make_dir(&fixture, "/b");
    make_dir(&fixture, "/a");
    make_dir(&fixture, "/a/child");
    update(&fixture);
    uint64_t new_key = key_of(&fixture, "/a");
    const struct agent_cgroup *cgroup = agent_cgroups_find(fixture.cgroups, new_key);
    assert_non_null(cgroup);
    assert_int_equal(cgroup->gone_ns, 0);
    assert_string_equal(cgroup->path, "/a");
    assert_non_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/a/child")));
    if (old_key != new_key && old_key != key_of(&fixture, "/b"))
        assert_true(agent_cgroups_find(fixture.cgroups, old_key)->gone_ns != 0);
    fixture_remove(&fixture);
}

static void test_rename(void **state)
{
    struct fixture fixture;
    char from[PATH_MAX], to[PATH_MAX];

    (void)state;
    fixture_make(&fixture, mountinfo_v2);
    make_dir(&fixture, "/before/child");
    fixture_open(&fixture, "/");
    uint64_t key = key_of(&fixture, "/before/child");
    (void)snprintf(from, sizeof(from), "%s/fs/cgroup/before", fixture.sys);
    (void)snprintf(to, sizeof(to), "%s/fs/cgroup/after", fixture.sys);
    assert_int_equal(rename(from, to), 0);
    update(&fixture);
    const struct agent_cgroup *cgroup = agent_cgroups_find(fixture.cgroups, key);
    assert_non_null(cgroup);
    assert_int_equal(cgroup->gone_ns, 0);
    assert_string_equal(cgroup->path, "/after/child");
    make_dir(&fixture, "/after/child/x");
    update(&fixture);
    assert_non_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/after/child/x")));
    fixture_remove(&fixture);
}

static void test_hybrid(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_make(&fixture, mountinfo_hybrid);
    make_dir(&fixture, "/unified/system.slice/a.service");
    make_dir(&fixture, "/cpu,cpuacct/docker/" CID);
    make_dir(&fixture, "/memory/docker/" CID);
    fixture_open(&fixture, "/");
    assert_string_equal(agent_cgroups_layout(fixture.cgroups), "hybrid");
    uint64_t inode = key_of(&fixture, "/cpu,cpuacct/docker/" CID);
    assert_null(agent_cgroups_find(fixture.cgroups, inode));
    const struct agent_cgroup *cgroup = agent_cgroups_find(fixture.cgroups, inode | AGENT_KEY_V1);
    assert_non_null(cgroup);
    assert_int_equal(cgroup->identity.kind, KW_WORKLOAD_CONTAINER);
    assert_non_null(
        agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/unified/system.slice/a.service")));

    uint64_t bytes = 0;
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/memory/docker/" CID "/memory.usage_in_bytes",
                   "1000000\n");
    assert_int_equal(agent_cgroups_memory_bytes(fixture.cgroups, "/docker/" CID, &bytes), 0);
    assert_int_equal(bytes, 1000000); /* no memory.stat: all of it */
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/memory/docker/" CID "/memory.stat",
                   "cache 5\ninactive_file 1\ntotal_inactive_file 300000\n");
    assert_int_equal(agent_cgroups_memory_bytes(fixture.cgroups, "/docker/" CID, &bytes), 0);
    assert_int_equal(bytes, 700000);
    assert_int_equal(agent_cgroups_memory_bytes(fixture.cgroups, "/nowhere", &bytes), -ENOENT);
    assert_int_equal(agent_cgroups_memory_bytes(fixture.cgroups, "", &bytes), -ENOENT);
    assert_int_equal(bytes, 700000);
    fixture_remove(&fixture);
}

static void test_memory_v2(void **state)
{
    struct fixture fixture;
    uint64_t bytes = 0;

    (void)state;
    fixture_make(&fixture, mountinfo_v2);
    make_dir(&fixture, "/a");
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/a/memory.current", "5000\n");
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 7000\n");
    fixture_open(&fixture, "/");
    assert_int_equal(agent_cgroups_memory_bytes(fixture.cgroups, "/a", &bytes), 0);
    assert_int_equal(bytes, 0); /* the two files are not read at one instant */
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/a/memory.stat", "inactive_file 4000\n");
    assert_int_equal(agent_cgroups_memory_bytes(fixture.cgroups, "/a", &bytes), 0);
    assert_int_equal(bytes, 1000);
    fixture_remove(&fixture);
}

/* An agent inside a kind node looks below that node only, and knows its pods by the inner path. */
static void test_cgroup_root(void **state)
{
    struct fixture fixture;
    struct kw_err err = {0};

    (void)state;
    fixture_make(&fixture, mountinfo_v2);
    make_dir(&fixture, "/docker/" CID POD "/" CID);
    make_dir(&fixture, "/docker/" CID "/system.slice/x.service");
    make_dir(&fixture, "/other");
    fixture_open(&fixture, "/docker/" CID "/");
    assert_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/other")));
    assert_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/docker")));
    const struct agent_cgroup *cgroup =
        agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/docker/" CID));
    assert_non_null(cgroup);
    assert_true(cgroup->system);
    cgroup = agent_cgroups_find(fixture.cgroups,
                                key_of(&fixture, "/docker/" CID "/system.slice/x.service"));
    assert_int_equal(cgroup->identity.kind, KW_WORKLOAD_UNIT);
    assert_string_equal(cgroup->identity.workload_path, "/docker/" CID "/system.slice/x.service");
    make_dir(&fixture, "/docker/" CID "/late");
    make_dir(&fixture, "/late");
    update(&fixture);
    assert_non_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/docker/" CID "/late")));
    assert_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/late")));
    agent_cgroups_free(&fixture.cgroups);

    struct agent_cgroups_conf conf = {fixture.sys, fixture.proc, "/missing"};
    assert_int_equal(agent_cgroups_new(&conf, &fixture.cgroups, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/missing"));
    conf.cgroup_root = "relative";
    assert_int_equal(agent_cgroups_new(&conf, &fixture.cgroups, &err), -EINVAL);
    fixture_remove(&fixture);
}

static void test_no_cgroups(void **state)
{
    struct fixture fixture;
    struct kw_err err = {0};

    (void)state;
    fixture_make(&fixture, "24 1 0:22 / /sys rw - sysfs sysfs rw\n");
    struct agent_cgroups_conf conf = {fixture.sys, fixture.proc, "/"};
    assert_int_equal(agent_cgroups_new(&conf, &fixture.cgroups, &err), -ENOENT);
    assert_non_null(strstr(err.text, "cgroup"));
    fixture_remove(&fixture);
}

/* Without mountinfo the usual places are tried. */
static void test_guessed_mounts(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_make(&fixture, "");
    kwt_tree_delete(&fixture.tree, "proc/self/mountinfo");
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    make_dir(&fixture, "/a");
    fixture_open(&fixture, NULL);
    assert_string_equal(agent_cgroups_layout(fixture.cgroups), "v2");
    assert_non_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/a")));
    fixture_remove(&fixture);
}

static void test_mounts_of_a_pod(void **state)
{
    static struct agent_cgroup_mounts mounts;
    static const char text[] =
        "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
        "2 0 0:2 /kubepods/x /host/sys/fs/cgroup/part rw - cgroup2 cgroup rw\n"
        "3 0 0:3 / /host/sys/fs/cgroup rw master:1 - cgroup2 cgroup rw\n"
        "4 0 0:4 / /host/sys/fs/my\\040dir rw - cgroup cgroup rw,memory\n"
        "5 0 0:5 / /elsewhere rw - cgroup cgroup rw,cpuacct\n"
        "damaged\n6 0 - cgroup2\n7 0 0:7 / - -";

    (void)state;
    agent_cgroup_mounts_parse(text, sizeof(text) - 1, "/host/sys", &mounts);
    assert_string_equal(mounts.paths[AGENT_HIERARCHY_V2], "/host/sys/fs/cgroup");
    assert_string_equal(mounts.paths[AGENT_HIERARCHY_MEMORY], "/host/sys/fs/my dir");
    assert_string_equal(mounts.paths[AGENT_HIERARCHY_CPUACCT], "");
    agent_cgroup_mounts_parse(text, sizeof(text) - 1, "/sys", &mounts);
    assert_string_equal(mounts.paths[AGENT_HIERARCHY_V2], "/sys/fs/cgroup");
    assert_string_equal(mounts.paths[AGENT_HIERARCHY_CPUACCT], "/elsewhere");
}

/* More events than the kernel's queue takes: everything is looked at again. */
static void test_queue_overflow(void **state)
{
    struct fixture fixture;
    char text[32] = "";
    uint64_t queue = 0;
    size_t there;

    (void)state;
    if (kw_file_read_at(-1, "/proc/sys/fs/inotify/max_queued_events", text, sizeof(text)) <= 0 ||
        kw_file_read_u64_at(-1, "/proc/sys/fs/inotify/max_queued_events", &queue) < 0 ||
        queue > 40000)
        skip();
    fixture_make(&fixture, mountinfo_v2);
    make_dir(&fixture, "/base");
    fixture_open(&fixture, "/");
    for (uint64_t i = 0; i < queue / 2 + 100; i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/base/x%lu", (unsigned long)i);
        make_dir(&fixture, path);
        delete_dir(&fixture, path);
    }
    make_dir(&fixture, "/base/late/child");
    update(&fixture);
    update(&fixture);
    assert_non_null(agent_cgroups_find(fixture.cgroups, key_of(&fixture, "/base/late/child")));
    (void)count(fixture.cgroups, &there);
    assert_int_equal(there, 3);
    fixture_remove(&fixture);
}

/* Lowers an inotify limit for this process alone. @return false where the kernel does not let us.
 */
static bool limit_inotify(const char *name, const char *value)
{
    char path[128];

    if (unshare(CLONE_NEWUSER) < 0)
        return false;
    (void)snprintf(path, sizeof(path), "/proc/sys/user/%s", name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, value, strlen(value)) > 0;
    (void)close(fd);
    return ok;
}

enum { CHILD_OK = 0, CHILD_FAILED = 1, CHILD_SKIPPED = 77 };

/* What is left of it in a process that has hardly any inotify. No asserts here: a child. */
static int without_inotify(struct fixture *fixture, const char *name, const char *value)
{
    struct kw_err err = {0};
    struct agent_cgroups_conf conf = {fixture->sys, fixture->proc, "/"};
    uint64_t now_ns = kw_now_ns();
    size_t there = 0;

    if (!limit_inotify(name, value))
        return CHILD_SKIPPED;
    if (agent_cgroups_new(&conf, &fixture->cgroups, &err) < 0)
        return CHILD_FAILED;
    bool ok = !agent_cgroups_watched(fixture->cgroups) && agent_cgroups_fd(fixture->cgroups) >= 0 &&
              count(fixture->cgroups, &there) == 4 && there == 4;
    make_dir(fixture, "/a/b/c/d");
    delete_dir(fixture, "/e");
    /* not before a second is over, then all of it */
    ok = ok && agent_cgroups_update(fixture->cgroups, now_ns + 3 * KW_NS_PER_S) == 0 &&
         count(fixture->cgroups, &there) == 5 && there == 4 &&
         agent_cgroups_find(fixture->cgroups, key_of(fixture, "/a/b/c/d")) != NULL;
    agent_cgroups_free(&fixture->cgroups);
    return ok ? CHILD_OK : CHILD_FAILED;
}

/* Other programs have used up inotify, as happens on container hosts: scanning takes over. */
static void test_without_inotify(void **state)
{
    static const char *const limits[][2] = {{"max_inotify_instances", "0"},
                                            {"max_inotify_watches", "2"}};

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(limits); i++) {
        struct fixture fixture;
        int status = 0;
        fixture_make(&fixture, mountinfo_v2);
        make_dir(&fixture, "/a/b/c");
        make_dir(&fixture, "/e");
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(without_inotify(&fixture, limits[i][0], limits[i][1]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        print_message("%s: %d\n", limits[i][0], WEXITSTATUS(status));
        assert_true(WEXITSTATUS(status) == CHILD_OK || WEXITSTATUS(status) == CHILD_SKIPPED);
        fixture_remove(&fixture);
    }
}

/* The real trees, with thousands that come and go: none lost, none left. */
static void test_real_storm(void **state)
{
    enum { ROUNDS = 20, EACH = 50 };
    struct agent_cgroups *cgroups = NULL;
    struct kw_err err = {0};
    struct agent_cgroups_conf conf = {"/sys", "/proc", "/"};
    struct kwt_cgroup parent, kept;
    size_t there;

    (void)state;
    if (!kwt_cgroup_possible(false) && !kwt_cgroup_possible(true))
        skip();
    kwt_cgroup_make(&parent, !kwt_cgroup_possible(false), "storm");
    char root[sizeof(parent.path)];
    memcpy(root, parent.path, sizeof(root));
    conf.cgroup_root = root;
    if (agent_cgroups_new(&conf, &cgroups, &err) < 0)
        fail_msg("%s", err.text);
    for (int round = 0; round < ROUNDS; round++) {
        struct kwt_cgroup children[EACH];
        for (int i = 0; i < EACH; i++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "c%d", i);
            kwt_cgroup_make_below(&children[i], &parent, name);
        }
        if (round % 2 == 0) {
            assert_int_equal(agent_cgroups_update(cgroups, kw_now_ns()), 0);
            for (int i = 0; i < EACH; i++) {
                const struct agent_cgroup *cgroup = agent_cgroups_find(cgroups, children[i].key);
                assert_non_null(cgroup);
                assert_string_equal(cgroup->path, children[i].path);
            }
        }
        for (int i = 0; i < EACH; i++)
            kwt_cgroup_remove(&children[i]);
        if (round % 3 != 0)
            continue;
        assert_int_equal(agent_cgroups_update(cgroups, kw_now_ns()), 0);
        for (int i = 0; i < EACH; i++)
            agent_cgroups_forget(cgroups, children[i].key);
    }
    kwt_cgroup_make_below(&kept, &parent, "kept");
    assert_int_equal(agent_cgroups_update(cgroups, kw_now_ns()), 0);
    assert_non_null(agent_cgroups_find(cgroups, kept.key));
    (void)count(cgroups, &there);
    assert_int_equal(there, 2); /* the parent and the one that was kept */
    kwt_cgroup_remove(&kept);
    kwt_cgroup_remove(&parent);
    agent_cgroups_free(&cgroups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_and_identities),
        cmocka_unit_test(test_create_and_remove),
        cmocka_unit_test(test_name_used_again),
        cmocka_unit_test(test_rename),
        cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_memory_v2),
        cmocka_unit_test(test_cgroup_root),
        cmocka_unit_test(test_no_cgroups),
        cmocka_unit_test(test_guessed_mounts),
        cmocka_unit_test(test_mounts_of_a_pod),
        cmocka_unit_test(test_queue_overflow),
        cmocka_unit_test(test_without_inotify),
        cmocka_unit_test(test_real_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
