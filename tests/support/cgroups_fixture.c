/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cgroups_fixture.h"

#include <stdio.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/file.h"
#include "tests/support/cmocka.h"

const char kwt_mountinfo_v2[] =
    "24 1 0:22 / /sys rw,nosuid shared:6 - sysfs sysfs rw\n"
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const char kwt_mountinfo_hybrid[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

void kwt_cgroups_make(struct kwt_cgroups *fixture, const char *mountinfo)
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

void kwt_cgroups_open(struct kwt_cgroups *fixture, const char *cgroup_root)
{
    struct kw_err err = {0};
    struct agent_cgroups_conf conf = {fixture->sys, fixture->proc, cgroup_root};
    int r = agent_cgroups_new(&conf, &fixture->cgroups, &err);

    if (r < 0)
        fail_msg("%s", err.text);
}

void kwt_cgroups_remove(struct kwt_cgroups *fixture)
{
    agent_cgroups_free(&fixture->cgroups);
    assert_null(fixture->cgroups);
    kwt_tree_remove(&fixture->tree);
}

void kwt_cgroups_mkdir(const struct kwt_cgroups *fixture, const char *path)
{
    char full[PATH_MAX];

    (void)snprintf(full, sizeof(full), "sys/fs/cgroup%s", path);
    kwt_tree_mkdir(&fixture->tree, full);
}

void kwt_cgroups_delete(const struct kwt_cgroups *fixture, const char *path)
{
    char full[PATH_MAX];

    (void)snprintf(full, sizeof(full), "sys/fs/cgroup%s", path);
    kwt_tree_delete(&fixture->tree, full);
}

uint64_t kwt_cgroups_key(const struct kwt_cgroups *fixture, const char *path)
{
    char full[PATH_MAX];
    struct stat st;

    (void)snprintf(full, sizeof(full), "%s/fs/cgroup%s", fixture->sys, path);
    assert_int_equal(stat(full, &st), 0);
    return (uint64_t)st.st_ino;
}

void kwt_cgroups_update(const struct kwt_cgroups *fixture)
{
    assert_int_equal(agent_cgroups_update(fixture->cgroups, kw_now_ns()), 0);
}

static void count_one(void *user, const struct agent_cgroup *cgroup)
{
    size_t *n = user;

    n[0]++;
    n[1] += cgroup->gone_ns == 0;
}

size_t kwt_cgroups_count(const struct agent_cgroups *cgroups, size_t *ret_there)
{
    size_t n[2] = {0, 0};

    agent_cgroups_each(cgroups, count_one, n);
    *ret_there = n[1];
    return n[0];
}
