/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "node-agent/privilege.h"
#include "tests/support/cmocka.h"

/* In a child: what is given up is gone for good. */
static int drop_and_look(bool bpf)
{
    char kept[AGENT_PRIVILEGE_TEXT], status[8192];

    if (agent_privilege_drop(bpf, kept) < 0)
        return 1;
    if (kw_file_read_at(AT_FDCWD, "/proc/self/status", status, sizeof(status)) < 0)
        return 2;
    const char *effective = strstr(status, "CapEff:\t");
    const char *permitted = strstr(status, "CapPrm:\t");
    /* cap_dac_read_search is bit 2, cap_perfmon 38, cap_bpf 39 */
    const char *root = bpf ? "000000c000000004" : "0000004000000004";
    const char *names =
        bpf ? "cap_bpf,cap_perfmon,cap_dac_read_search" : "cap_perfmon,cap_dac_read_search";
    const char *expected = geteuid() == 0 ? root : "0000000000000000";
    if (effective == NULL || strncmp(effective + 8, expected, 16) != 0)
        return 3;
    if (permitted == NULL || strncmp(permitted + 8, expected, 16) != 0)
        return 4;
    if (strstr(status, "NoNewPrivs:\t1") == NULL)
        return 5;
    const char *bounding = strstr(status, "CapBnd:\t");
    if (bounding == NULL || (geteuid() == 0 && strncmp(bounding + 8, expected, 16) != 0))
        return 9;
    if (strcmp(kept, geteuid() == 0 ? names : "none") != 0)
        return 6;
    /* once more changes nothing and fails nowhere */
    return agent_privilege_drop(bpf, kept) == 0 ? 0 : 7;
}

static int drop_with_bpf(void)
{
    return drop_and_look(true);
}

static int drop_without_bpf(void)
{
    return drop_and_look(false);
}

/** What a process that was root has lost: it may read what it measures, and change nothing. */
static int drop_and_try(void)
{
    char kept[AGENT_PRIVILEGE_TEXT], folder[] = "/tmp/kwatt-privilege-XXXXXX", path[64];
    struct kw_err err = {0};

    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(path, sizeof(path), "%s/secret", folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || fchown(fd, 65534, 65534) < 0 || fchmod(fd, 0400) < 0 || close(fd) < 0)
        return 2;
    if (agent_privilege_drop(true, kept) < 0 || agent_privilege_confine(&err) < 0)
        return 3;
    int reading = open(path, O_RDONLY | O_CLOEXEC);
    int writing = open(path, O_WRONLY | O_CLOEXEC);
    if (unlink(path) < 0 || rmdir(folder) < 0)
        return 4;
    if (reading < 0)
        return 5;
    if (writing >= 0)
        return 6;
    char *const argv[] = {(char *)"true", NULL};
    if (setuid(65534) == 0 || setgid(65534) == 0 || chown("/", 1, 1) == 0 ||
        mount("none", "/tmp", "tmpfs", 0, NULL) == 0 || unshare(CLONE_NEWNET) == 0 ||
        sethostname("x", 1) == 0 || socket(AF_PACKET, SOCK_RAW, 0) >= 0 ||
        execv("/bin/true", argv) == 0)
        return 7;
    /* what sampling needs is refused for its arguments, not for itself */
    errno = 0;
    if (syscall(SYS_bpf, -1, NULL, 0) == 0 || errno == EPERM)
        return 8;
    errno = 0;
    return syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0) == 0 || errno == EPERM ? 9 : 0;
}

static int run_child(uid_t uid, int (*fn)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(uid != geteuid() && setuid(uid) < 0 ? 8 : fn());
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_keeps_only_what_sampling_needs(void **state)
{
    (void)state;
    assert_int_equal(run_child(geteuid(), drop_with_bpf), 0);
    assert_int_equal(run_child(geteuid(), drop_without_bpf), 0);
}

static void test_without_root(void **state)
{
    (void)state;
    if (geteuid() == 0)
        assert_int_equal(run_child(65534, drop_with_bpf), 0);
}

static void test_what_must_fail_fails(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(run_child(0, drop_and_try), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_only_what_sampling_needs),
        cmocka_unit_test(test_without_root),
        cmocka_unit_test(test_what_must_fail_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
