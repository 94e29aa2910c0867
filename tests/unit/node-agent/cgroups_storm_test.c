/* SPDX-License-Identifier: Apache-2.0 */
/* The table of cgroups where it is pressed: queue overflow, exhausted inotify, storms of real
 * cgroups. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/cgroups.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cgroups_fixture.h"
#include "tests/support/cmocka.h"

/* More events than the kernel's queue takes: everything is looked at again. */
static void test_queue_overflow(void **state)
{
    struct kwt_cgroups fixture;
    uint64_t queue = 0;
    size_t there;

    (void)state;
    if (kw_file_read_u64_at(AT_FDCWD, "/proc/sys/fs/inotify/max_queued_events", &queue) < 0 ||
        queue > 40000)
        skip();
    kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
    kwt_cgroups_mkdir(&fixture, "/base");
    kwt_cgroups_open(&fixture, "/");
    for (uint64_t i = 0; i < queue / 2 + 100; i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/base/x%lu", (unsigned long)i);
        kwt_cgroups_mkdir(&fixture, path);
        kwt_cgroups_delete(&fixture, path);
    }
    kwt_cgroups_mkdir(&fixture, "/base/late/child");
    kwt_cgroups_update(&fixture);
    kwt_cgroups_update(&fixture);
    assert_non_null(
        agent_cgroups_find(fixture.cgroups, kwt_cgroups_key(&fixture, "/base/late/child")));
    (void)kwt_cgroups_count(fixture.cgroups, &there);
    assert_int_equal(there, 3);
    kwt_cgroups_remove(&fixture);
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
static int without_inotify(struct kwt_cgroups *fixture, const char *name, const char *value)
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
              kwt_cgroups_count(fixture->cgroups, &there) == 4 && there == 4;
    kwt_cgroups_mkdir(fixture, "/a/b/c/d");
    kwt_cgroups_delete(fixture, "/e");
    /* not before a second is over, then all of it */
    ok = ok && agent_cgroups_update(fixture->cgroups, now_ns + 3 * KW_NS_PER_S) == 0 &&
         kwt_cgroups_count(fixture->cgroups, &there) == 5 && there == 4 &&
         agent_cgroups_find(fixture->cgroups, kwt_cgroups_key(fixture, "/a/b/c/d")) != NULL;
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
        struct kwt_cgroups fixture;
        int status = 0;
        kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
        kwt_cgroups_mkdir(&fixture, "/a/b/c");
        kwt_cgroups_mkdir(&fixture, "/e");
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(without_inotify(&fixture, limits[i][0], limits[i][1]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        print_message("%s: %d\n", limits[i][0], WEXITSTATUS(status));
        assert_true(WEXITSTATUS(status) == CHILD_OK || WEXITSTATUS(status) == CHILD_SKIPPED);
        kwt_cgroups_remove(&fixture);
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
    (void)kwt_cgroups_count(cgroups, &there);
    assert_int_equal(there, 2); /* the parent and the one that was kept */
    kwt_cgroup_remove(&kept);
    kwt_cgroup_remove(&parent);
    agent_cgroups_free(&cgroups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_overflow),
        cmocka_unit_test(test_without_inotify),
        cmocka_unit_test(test_real_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
