/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cgroup_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/accounting.h"
#include "node-agent/cgroup_mounts.h"
#include "node-agent/cgroup_stat.h"
#include "tests/support/cmocka.h"

static const char *mount_of(bool v1)
{
    static struct agent_cgroup_mounts mounts;

    if (agent_cgroup_mounts_read("/sys", "/proc", &mounts) < 0)
        return "";
    return mounts.paths[v1 ? AGENT_HIERARCHY_CPUACCT : AGENT_HIERARCHY_V2];
}

bool kwt_cgroup_possible(bool v1)
{
    char dir[PATH_MAX];
    const char *mount = mount_of(v1);

    if (mount[0] == '\0' ||
        snprintf(dir, sizeof(dir), "%s/kwt-%d-probe", mount, (int)getpid()) >= (int)sizeof(dir))
        return false;
    if (mkdir(dir, 0755) < 0)
        return false;
    (void)rmdir(dir);
    return true;
}

void kwt_cgroup_need(void)
{
    if (kwt_cgroup_possible(false) || kwt_cgroup_possible(true))
        return;
    printf("SKIP: cgroups cannot be made here (needs root and a writable cgroup file system)\n");
    exit(77);
}

static void make(struct kwt_cgroup *cgroup, bool v1, const char *mount)
{
    struct stat st;

    cgroup->v1 = v1;
    assert_true(snprintf(cgroup->dir, sizeof(cgroup->dir), "%s%s", mount, cgroup->path) <
                (int)sizeof(cgroup->dir));
    if (mkdir(cgroup->dir, 0755) < 0)
        fail_msg("%s: %s", cgroup->dir, strerror(errno));
    assert_int_equal(stat(cgroup->dir, &st), 0);
    cgroup->key = (uint64_t)st.st_ino | (v1 ? AGENT_KEY_V1 : 0);
}

void kwt_cgroup_root(struct kwt_cgroup *cgroup, bool v1)
{
    *cgroup = (struct kwt_cgroup){.v1 = v1, .key = AGENT_KEY_SYSTEM};
    (void)snprintf(cgroup->dir, sizeof(cgroup->dir), "%s", mount_of(v1));
}

void kwt_cgroup_make(struct kwt_cgroup *cgroup, bool v1, const char *name)
{
    (void)snprintf(cgroup->path, sizeof(cgroup->path), "/kwt-%d-%s", (int)getpid(), name);
    make(cgroup, v1, mount_of(v1));
}

void kwt_cgroup_make_below(struct kwt_cgroup *cgroup, const struct kwt_cgroup *parent,
                           const char *name)
{
    assert_true(snprintf(cgroup->path, sizeof(cgroup->path), "%s/%s", parent->path, name) <
                (int)sizeof(cgroup->path));
    make(cgroup, parent->v1, mount_of(parent->v1));
}

void kwt_cgroup_remove(struct kwt_cgroup *cgroup)
{
    /* a process that was reaped may hold its cgroup a moment longer: 10 s are far beyond that */
    for (int i = 0; i < 1000 && rmdir(cgroup->dir) < 0 && errno == EBUSY; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_int_equal(access(cgroup->dir, F_OK), -1);
}

/* @param pid 0: the calling process. */
static int put(const struct kwt_cgroup *cgroup, pid_t pid)
{
    char file[PATH_MAX + 16];

    (void)snprintf(file, sizeof(file), "%s/cgroup.procs", cgroup->dir);
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = dprintf(fd, "%d", (int)pid) > 0 ? 0 : -errno;
    (void)close(fd);
    return r;
}

int kwt_cgroup_enter(const struct kwt_cgroup *cgroup)
{
    return put(cgroup, 0);
}

pid_t kwt_cgroup_fork(const struct kwt_cgroup *cgroup, bool *ret_born)
{
    kw_cleanup_close int fd = open(cgroup->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned)fd};
    pid_t pid = cgroup->v1 || fd < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof(args));

    *ret_born = pid >= 0;
    if (pid >= 0)
        return pid;
    pid = fork();
    if (pid == 0 && kwt_cgroup_enter(cgroup) < 0)
        _exit(1);
    return pid;
}

void kwt_cgroup_put(const struct kwt_cgroup *cgroup, pid_t pid)
{
    assert_int_equal(put(cgroup, pid), 0);
}

uint64_t kwt_cgroup_usage_ns(const struct kwt_cgroup *cgroup)
{
    char file[PATH_MAX + 16], text[4096];
    uint64_t value = 0;

    if (cgroup->v1) {
        (void)snprintf(file, sizeof(file), "%s/cpuacct.usage", cgroup->dir);
        assert_int_equal(kw_file_read_u64_at(AT_FDCWD, file, &value), 0);
        return value;
    }
    (void)snprintf(file, sizeof(file), "%s/cpu.stat", cgroup->dir);
    ssize_t n = kw_file_read_at(AT_FDCWD, file, text, sizeof(text));
    assert_true(n > 0);
    assert_int_equal(agent_cgroup_stat_find(text, (size_t)n, "usage_usec", &value), 0);
    return value * 1000;
}

static uint64_t used_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * KW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

pid_t kwt_spin(const struct kwt_cgroup *cgroup, uint64_t cpu_ns)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    if (cgroup != NULL && kwt_cgroup_enter(cgroup) < 0)
        _exit(1);
    uint64_t from_ns = used_ns();
    while (used_ns() - from_ns < cpu_ns)
        ;
    _exit(0);
}

void kwt_reap(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void kwt_kill(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}
