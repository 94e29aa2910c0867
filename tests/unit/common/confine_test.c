/* SPDX-License-Identifier: Apache-2.0 */
/* In children, since what is given up is gone for good: what must work works, what must not fails.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/confine.h"
#include "common/file.h"
#include "tests/support/cmocka.h"

static const char *const *more;

/** Runs `fn` in a confined child. @return its answer, 0..99; 100: not confined. */
static int confined(int (*fn)(void))
{
    struct kw_err err = {0};
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (kw_confine(more, &err) < 0) {
            (void)fprintf(stderr, "%s\n", err.text);
            _exit(100);
        }
        _exit(fn());
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int status_says(void)
{
    char status[8192];

    if (kw_file_read_at(AT_FDCWD, "/proc/self/status", status, sizeof(status)) < 0)
        return 1;
    if (strstr(status, "\nSeccomp:\t2\n") == NULL)
        return 2;
    return strstr(status, "\nNoNewPrivs:\t1\n") == NULL ? 3 : 0;
}

/** What must fail, and how. */
static const struct {
    const char *name;
    long number;
    long args[3];
    int expected;
} refused[] = {
    {"execve", SYS_execve, {0}, EPERM},
    {"execveat", SYS_execveat, {-1}, EPERM},
    {"unshare", SYS_unshare, {CLONE_NEWUSER}, EPERM},
    {"setns", SYS_setns, {-1}, EPERM},
    {"mount", SYS_mount, {0}, EPERM},
    {"umount2", SYS_umount2, {0}, EPERM},
    {"pivot_root", SYS_pivot_root, {0}, EPERM},
    {"chroot", SYS_chroot, {0}, EPERM},
    {"init_module", SYS_init_module, {0}, EPERM},
    {"finit_module", SYS_finit_module, {-1}, EPERM},
    {"delete_module", SYS_delete_module, {0}, EPERM},
    {"kexec_load", SYS_kexec_load, {0}, EPERM},
    {"reboot", SYS_reboot, {0}, EPERM},
    {"open_by_handle_at", SYS_open_by_handle_at, {-1}, EPERM}, /* past every mount */
    {"process_vm_writev", SYS_process_vm_writev, {0}, EPERM},
    {"keyctl", SYS_keyctl, {0}, EPERM},
    {"userfaultfd", SYS_userfaultfd, {0}, EPERM},
    {"io_uring_setup", SYS_io_uring_setup, {0}, EPERM},
    {"setuid", SYS_setuid, {0}, EPERM},
    {"capset", SYS_capset, {0}, EPERM},
    {"sethostname", SYS_sethostname, {0}, EPERM},
    {"settimeofday", SYS_settimeofday, {0}, EPERM},
    {"clock_settime", SYS_clock_settime, {0}, EPERM},
    {"swapon", SYS_swapon, {0}, EPERM},
    {"bpf", SYS_bpf, {-1}, EPERM},
    {"perf_event_open", SYS_perf_event_open, {0}, EPERM},
    {"socket of packets", SYS_socket, {AF_PACKET, SOCK_RAW}, EPERM},
    {"socket of the kernel's ciphers", SYS_socket, {AF_ALG, SOCK_SEQPACKET}, EPERM},
    {"socket of machines", SYS_socket, {AF_VSOCK, SOCK_STREAM}, EPERM},
    {"clone3", SYS_clone3, {0}, ENOSYS},
    {"a call of the future", 599, {0}, ENOSYS},
#if defined(KWT_RELEASE_FILTER) || !defined(__SANITIZE_ADDRESS__)
    {"a process", SYS_clone, {SIGCHLD}, EPERM},
    {"a user name space", SYS_clone, {CLONE_NEWUSER | SIGCHLD}, EPERM},
    {"ptrace", SYS_ptrace, {PTRACE_TRACEME}, EPERM},
    {"kill", SYS_kill, {1, 0}, EPERM},
    {"process_vm_readv", SYS_process_vm_readv, {0}, EPERM},
#endif
};

static int try_refused(void)
{
    for (size_t i = 0; i < KW_ARRAY_SIZE(refused); i++) {
        errno = 0;
        long rc = syscall(refused[i].number, refused[i].args[0], refused[i].args[1],
                          refused[i].args[2], 0, 0, 0);
        if (rc != -1 || errno != refused[i].expected) {
            (void)fprintf(stderr, "%s: %ld, %s\n", refused[i].name, rc, kw_errno_text(errno));
            return 1;
        }
    }
    return 0;
}

static void *thread(void *user)
{
    return user;
}

static int resolve(const char *name, const char *port)
{
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    int rc = getaddrinfo(name, port, &hints, &found);

    if (rc == 0)
        freeaddrinfo(found);
    return rc;
}

static int try_needed(void)
{
    pthread_t made;
    void *got = NULL;
    char folder[] = "/tmp/kwatt-confine-XXXXXX", path[64];

    if (pthread_create(&made, NULL, thread, folder) != 0 || pthread_join(made, &got) != 0 ||
        got != folder)
        return 1;
    if (pthread_setname_np(pthread_self(), "confined") != 0)
        return 2;
    /* the resolver opens its configuration, loads libraries and asks the kernel by netlink; a name
     * that no server knows must come back as that, not as a refused call */
    if (resolve("localhost", "6379") != 0)
        return 3;
    int unknown = resolve("no-such-host.invalid", "1");
    if (unknown == 0 || unknown == EAI_SYSTEM)
        return 4;
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library == NULL || dlclose(library) != 0)
        return 5;
    if (mkdtemp(folder) == NULL)
        return 6;
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    if (kw_file_write_atomic(path, "x", 1, 0600) < 0 || unlink(path) < 0 || rmdir(folder) < 0)
        return 7;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    if (epoll_create1(0) < 0 || inotify_init1(0) < 0 || timerfd_create(CLOCK_MONOTONIC, 0) < 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) < 0 || signalfd(-1, &set, 0) < 0)
        return 8;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || send(ends[0], "x", 1, MSG_NOSIGNAL) != 1)
        return 9;
    return raise(SIGTERM) == 0 ? 0 : 10;
}

static int try_more(void)
{
    errno = 0;
    return syscall(SYS_bpf, -1, NULL, 0) == -1 && errno == EPERM ? 1 : 0;
}

static void test_says_so(void **state)
{
    (void)state;
    assert_int_equal(confined(status_says), 0);
}

static void test_refuses(void **state)
{
    (void)state;
    assert_int_equal(confined(try_refused), 0);
}

static void test_lets_a_server_work(void **state)
{
    (void)state;
    assert_int_equal(confined(try_needed), 0);
}

static void test_more(void **state)
{
    static const char *const names[] = {"bpf", "no_such_call", "s390_pci_mmio_read", NULL};

    (void)state;
    if (geteuid() != 0)
        skip();
    more = names;
    assert_int_equal(confined(try_more), 0);
    more = NULL;
}

static int confine_again(void)
{
    return kw_confine(NULL, NULL) < 0 ? 0 : 1;
}

/** A filter cannot be laid over by a wider one, and the attempt harms nothing. */
static void test_once(void **state)
{
    (void)state;
    assert_int_equal(confined(confine_again), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_so),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_lets_a_server_work),
        cmocka_unit_test(test_more),
        cmocka_unit_test(test_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
