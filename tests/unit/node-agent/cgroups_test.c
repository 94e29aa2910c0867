/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "node-agent/accounting.h"
#include "node-agent/cgroup_mounts.h"
#include "node-agent/cgroups.h"
#include "tests/support/cgroups_fixture.h"
#include "tests/support/cmocka.h"

#define UID "4eb0d6a3-17c5-4d21-9a67-0d5b3fb9c1e2"
#define CID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define POD "/kubepods/burstable/pod" UID

static void test_scan_and_identities(void **state)
{
    struct kwt_cgroups fixture;

    (void)state;
    kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
    kwt_cgroups_mkdir(&fixture, POD "/" CID);
    kwt_cgroups_mkdir(&fixture, "/system.slice/nginx.service");
    kwt_cgroups_open(&fixture, "/");
    assert_string_equal(agent_cgroups_layout(fixture.cgroups), "v2");
    assert_true(agent_cgroups_watched(fixture.cgroups));

    const struct agent_cgroup *cgroup =
        agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, POD "/" CID));
    assert_non_null(cgroup);
    assert_string_equal(cgroup->path, POD "/" CID);
    assert_int_equal(cgroup->identity.kind, KW_WORKLOAD_POD);
    assert_string_equal(cgroup->identity.container_id, CID);
    assert_string_equal(cgroup->identity.workload_path, POD);
    assert_false(cgroup->system);
    cgroup = agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/kubepods/burstable"));
    assert_non_null(cgroup);
    assert_true(cgroup->system);
    assert_string_equal(cgroup->identity.id, "");
    assert_null(agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "")));
    assert_null(agent_cgroups_find(fixture.cgroups, AGENT_KEY_SYSTEM));
    assert_null(agent_cgroups_find(fixture.cgroups, AGENT_KEY_OVERFLOW));
    kwt_cgroups_remove(&fixture);
}

static void test_create_and_remove(void **state)
{
    struct kwt_cgroups fixture;
    size_t there;

    (void)state;
    kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
    kwt_cgroups_mkdir(&fixture, "/kubepods/burstable");
    kwt_cgroups_open(&fixture, "/");
    struct pollfd poller = {.fd = agent_cgroups_fd(fixture.cgroups), .events = POLLIN};
    assert_int_equal(poll(&poller, 1, 0), 0);
    kwt_cgroups_mkdir(&fixture, POD "/" CID "/deep/deeper"); /* children before the watch */
    assert_int_equal(poll(&poller, 1, 0), 1);
    kwt_cgroups_update(&fixture);
    assert_int_equal(poll(&poller, 1, 0), 0);
    uint64_t key = kwt_cgroups_key(&fixture, POD "/" CID "/deep/deeper");
    assert_non_null(agent_cgroups_find(fixture.cgroups, key));
    kwt_cgroups_mkdir(&fixture,
                      POD "/" CID "/deep/deeper/still"); /* the new ones are watched too */
    kwt_cgroups_update(&fixture);
    assert_int_equal(kwt_cgroups_count(fixture.cgroups, &there), 7);

    kwt_cgroups_delete(&fixture, POD);
    kwt_cgroups_update(&fixture);
    const struct agent_cgroup *cgroup = agent_cgroups_find(fixture.cgroups, key);
    assert_non_null(cgroup);
    assert_true(cgroup->gone_ns != 0);
    assert_string_equal(cgroup->path, POD "/" CID "/deep/deeper");
    assert_int_equal(cgroup->identity.kind, KW_WORKLOAD_POD);
    assert_int_equal(kwt_cgroups_count(fixture.cgroups, &there), 7);
    assert_int_equal(there, 2);
    agent_cgroups_forget(fixture.cgroups, key);
    assert_null(agent_cgroups_find(fixture.cgroups, key));
    /* one that is there is not forgotten */
    key = kwt_cgroups_key(&fixture, "/kubepods");
    agent_cgroups_forget(fixture.cgroups, key);
    assert_non_null(agent_cgroups_find(fixture.cgroups, key));
    agent_cgroups_forget(fixture.cgroups, 99999999);
    kwt_cgroups_remove(&fixture);
}

/* A name that is used again before anybody looked. */
static void test_name_used_again(void **state)
{
    struct kwt_cgroups fixture;

    (void)state;
    kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
    kwt_cgroups_mkdir(&fixture, "/a");
    kwt_cgroups_open(&fixture, "/");
    uint64_t old_key = kwt_cgroups_key(&fixture, "/a");
    kwt_cgroups_mkdir(&fixture, "/holder"); /* so that the inode number is not given again */
    kwt_cgroups_delete(&fixture, "/a");
    kwt_cgroups_mkdir(&fixture, "/b");
    kwt_cgroups_mkdir(&fixture, "/a");
    kwt_cgroups_mkdir(&fixture, "/a/child");
    kwt_cgroups_update(&fixture);
    uint64_t new_key = kwt_cgroups_key(&fixture, "/a");
    const struct agent_cgroup *cgroup = agent_cgroups_find(fixture.cgroups, new_key);
    assert_non_null(cgroup);
    assert_int_equal(cgroup->gone_ns, 0);
    assert_string_equal(cgroup->path, "/a");
    assert_non_null(agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/a/child")));
    if (old_key != new_key && old_key != kwt_cgroups_key(&fixture, "/b"))
        assert_true(agent_cgroups_find(fixture.cgroups, old_key)->gone_ns != 0);
    kwt_cgroups_remove(&fixture);
}

static void test_rename(void **state)
{
    struct kwt_cgroups fixture;
    char from[PATH_MAX], to[PATH_MAX];

    (void)state;
    kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
    kwt_cgroups_mkdir(&fixture, "/before/child");
    kwt_cgroups_open(&fixture, "/");
    uint64_t key = kwt_cgroups_key(&fixture, "/before/child");
    (void)snprintf(from, sizeof(from), "%s/fs/cgroup/before", fixture.sys);
    (void)snprintf(to, sizeof(to), "%s/fs/cgroup/after", fixture.sys);
    assert_int_equal(rename(from, to), 0);
    kwt_cgroups_update(&fixture);
    const struct agent_cgroup *cgroup = agent_cgroups_find(fixture.cgroups, key);
    assert_non_null(cgroup);
    assert_int_equal(cgroup->gone_ns, 0);
    assert_string_equal(cgroup->path, "/after/child");
    kwt_cgroups_mkdir(&fixture, "/after/child/x");
    kwt_cgroups_update(&fixture);
    assert_non_null(
        agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/after/child/x")));
    kwt_cgroups_remove(&fixture);
}

static void test_hybrid(void **state)
{
    struct kwt_cgroups fixture;

    (void)state;
    kwt_cgroups_make(&fixture, kwt_mountinfo_hybrid);
    kwt_cgroups_mkdir(&fixture, "/unified/system.slice/a.service");
    kwt_cgroups_mkdir(&fixture, "/cpu,cpuacct/docker/" CID);
    kwt_cgroups_mkdir(&fixture, "/memory/docker/" CID);
    kwt_cgroups_open(&fixture, "/");
    assert_string_equal(agent_cgroups_layout(fixture.cgroups), "hybrid");
    uint64_t inode = kwt_cgroups_key(&fixture, "/cpu,cpuacct/docker/" CID);
    assert_null(agent_cgroups_find(fixture.cgroups, inode));
    const struct agent_cgroup *cgroup = agent_cgroups_find(fixture.cgroups, inode | AGENT_KEY_V1);
    assert_non_null(cgroup);
    assert_int_equal(cgroup->identity.kind, KW_WORKLOAD_CONTAINER);
    assert_non_null(agent_cgroups_find(
        fixture.cgroups, kwt_cgroups_key(&fixture, "/unified/system.slice/a.service")));

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
    kwt_cgroups_remove(&fixture);
}

static void test_memory_v2(void **state)
{
    struct kwt_cgroups fixture;
    uint64_t bytes = 0;

    (void)state;
    kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
    kwt_cgroups_mkdir(&fixture, "/a");
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/a/memory.current", "5000\n");
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 7000\n");
    kwt_cgroups_open(&fixture, "/");
    assert_int_equal(agent_cgroups_memory_bytes(fixture.cgroups, "/a", &bytes), 0);
    assert_int_equal(bytes, 0); /* the two files are not read at one instant */
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/a/memory.stat", "inactive_file 4000\n");
    assert_int_equal(agent_cgroups_memory_bytes(fixture.cgroups, "/a", &bytes), 0);
    assert_int_equal(bytes, 1000);
    kwt_cgroups_remove(&fixture);
}

/* An agent inside a kind node looks below that node only, and knows its pods by the inner path. */
static void test_cgroup_root(void **state)
{
    struct kwt_cgroups fixture;
    struct kw_err err = {0};

    (void)state;
    kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
    kwt_cgroups_mkdir(&fixture, "/docker/" CID POD "/" CID);
    kwt_cgroups_mkdir(&fixture, "/docker/" CID "/system.slice/x.service");
    kwt_cgroups_mkdir(&fixture, "/other");
    kwt_cgroups_open(&fixture, "/docker/" CID "/");
    assert_null(agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/other")));
    assert_null(agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/docker")));
    const struct agent_cgroup *cgroup =
        agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/docker/" CID));
    assert_non_null(cgroup);
    assert_true(cgroup->system);
    cgroup = agent_cgroups_find(
        fixture.cgroups, kwt_cgroups_key(&fixture, "/docker/" CID "/system.slice/x.service"));
    assert_int_equal(cgroup->identity.kind, KW_WORKLOAD_UNIT);
    assert_string_equal(cgroup->identity.workload_path, "/docker/" CID "/system.slice/x.service");
    kwt_cgroups_mkdir(&fixture, "/docker/" CID "/late");
    kwt_cgroups_mkdir(&fixture, "/late");
    kwt_cgroups_update(&fixture);
    assert_non_null(
        agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/docker/" CID "/late")));
    assert_null(agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/late")));
    agent_cgroups_free(&fixture.cgroups);

    struct agent_cgroups_conf conf = {fixture.sys, fixture.proc, "/missing"};
    assert_int_equal(agent_cgroups_new(&conf, &fixture.cgroups, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/missing"));
    conf.cgroup_root = "relative";
    assert_int_equal(agent_cgroups_new(&conf, &fixture.cgroups, &err), -EINVAL);
    kwt_cgroups_remove(&fixture);
}

static void test_no_cgroups(void **state)
{
    struct kwt_cgroups fixture;
    struct kw_err err = {0};

    (void)state;
    kwt_cgroups_make(&fixture, "24 1 0:22 / /sys rw - sysfs sysfs rw\n");
    struct agent_cgroups_conf conf = {fixture.sys, fixture.proc, "/"};
    assert_int_equal(agent_cgroups_new(&conf, &fixture.cgroups, &err), -ENOENT);
    assert_non_null(strstr(err.text, "cgroup"));
    kwt_cgroups_remove(&fixture);
}

/* Without mountinfo the usual places are tried. */
static void test_guessed_mounts(void **state)
{
    struct kwt_cgroups fixture;

    (void)state;
    kwt_cgroups_make(&fixture, "");
    kwt_tree_delete(&fixture.tree, "proc/self/mountinfo");
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    kwt_cgroups_mkdir(&fixture, "/a");
    kwt_cgroups_open(&fixture, NULL);
    assert_string_equal(agent_cgroups_layout(fixture.cgroups), "v2");
    assert_non_null(agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/a")));
    kwt_cgroups_remove(&fixture);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
