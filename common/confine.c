/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: a parser's bug must not become a shell. Of some 450 system calls a server needs 150.
 *
 * A list of what is allowed, not of what is harmful: the latter grows with every kernel. What is
 * refused fails with EPERM: a call in a corner that nobody saw then costs its own function, which
 * says so, and not the program (or, worse, one of its threads). A number that the library cannot
 * name is newer than it: ENOSYS, as an older kernel would say, since the C library asks for new
 * calls first and takes the old one on that answer only. The same for clone3, whose flags are in
 * memory where a filter cannot look: threads are then made by clone, which may make nothing else.
 *
 * The kernel keeps the numbers that are allowed whatever their arguments in a bitmap (5.11), so
 * that the filter costs nothing where it matters.
 *
 * Tests run with sanitizers, whose leak check makes a process that looks into this one: those
 * builds allow what it takes.
 */
#include "common/confine.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "common/cleanup.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static const char *const allowed[] = {
    /* memory */
    "brk",
    "madvise",
    "membarrier",
    "mincore",
    "mmap",
    "mmap2",
    "mprotect",
    "mremap",
    "munmap",
    /* files */
    "access",
    "chmod",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fadvise64_64",
    "fchmod",
    "fchmodat",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "flock",
    "fstat",
    "fstat64",
    "fstatat64",
    "fstatfs",
    "fstatfs64",
    "fsync",
    "ftruncate",
    "ftruncate64",
    "getcwd",
    "getdents",
    "getdents64",
    "ioctl",
    "lseek",
    "_llseek",
    "lstat",
    "lstat64",
    "mkdir",
    "mkdirat",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pipe",
    "pipe2",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "stat",
    "stat64",
    "statfs",
    "statfs64",
    "statx",
    "umask",
    "unlink",
    "unlinkat",
    "write",
    "writev",
    /* waiting */
    "_newselect",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd",
    "eventfd2",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "poll",
    "ppoll",
    "ppoll_time64",
    "pselect6",
    "pselect6_time64",
    "select",
    "signalfd",
    "signalfd4",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_gettime64",
    "timerfd_settime",
    "timerfd_settime64",
    /* time */
    "clock_getres",
    "clock_getres_time64",
    "clock_gettime",
    "clock_gettime64",
    "clock_nanosleep",
    "clock_nanosleep_time64",
    "gettimeofday",
    "nanosleep",
    "time",
    "times",
    /* the process and its threads */
    "arch_prctl",
    "capget",
    "exit",
    "exit_group",
    "futex",
    "futex_time64",
    "futex_waitv",
    "get_robust_list",
    "getcpu",
    "getegid",
    "getegid32",
    "geteuid",
    "geteuid32",
    "getgid",
    "getgid32",
    "getgroups",
    "getgroups32",
    "getpgrp",
    "getpid",
    "getppid",
    "getrandom",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "gettid",
    "getuid",
    "getuid32",
    "prlimit64",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_sigtimedwait_time64",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_yield",
    "set_robust_list",
    "set_thread_area",
    "set_tid_address",
    "setrlimit",
    "sigaltstack",
    "sigreturn",
    "sysinfo",
    "tgkill",
    "ugetrlimit",
    "uname",
    /* the network; `socket` has a rule of its own */
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getsockname",
    "getsockopt",
    "listen",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmmsg_time64",
    "recvmsg",
    "send",
    "sendfile",
    "sendfile64",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socketpair",
};

#if SANITIZED
static const char *const sanitizers[] = {
    "clone", "kill", "personality", "prctl", "process_vm_readv", "ptrace", "wait4", "waitid",
};
#endif

/* Numbers up to here are looked at one by one; Linux gives out about five a year, and had 470 in
 * 2025. */
#define NUMBERS 600

/* clone takes its flags first, and on s390 second. */
#ifdef __s390__
#define CLONE_FLAGS SCMP_A1
#else
#define CLONE_FLAGS SCMP_A0
#endif

static int allow(scmp_filter_ctx filter, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);

    /* negative: another architecture's */
    return number < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
}

/** What is allowed with some arguments only. */
static int allow_partly(scmp_filter_ctx filter)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
    static const int prctls[] = {PR_SET_NAME,         PR_GET_NAME,         PR_CAPBSET_READ,
                                 PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP,
                                 PR_GET_DUMPABLE,     PR_GET_PDEATHSIG,    PR_SET_VMA};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < KW_ARRAY_SIZE(families); i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                              SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
#if !SANITIZED
    for (size_t i = 0; rc == 0 && i < KW_ARRAY_SIZE(prctls); i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                              SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)prctls[i]));
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                              CLONE_FLAGS(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
#else
    (void)prctls;
    for (size_t i = 0; rc == 0 && i < KW_ARRAY_SIZE(sanitizers); i++)
        rc = allow(filter, sanitizers[i]);
#endif
    return rc;
}

/** Calls that are to look like an older kernel's lack of them. */
static int deny_unknown(scmp_filter_ctx filter)
{
    int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

    for (int number = 0; rc == 0 && number < NUMBERS; number++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
        if (name == NULL)
            rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), number, 0);
        free(name);
    }
    return rc;
}

static int fill(scmp_filter_ctx filter, const char *const *more)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < KW_ARRAY_SIZE(allowed); i++)
        rc = allow(filter, allowed[i]);
    for (size_t i = 0; rc == 0 && more != NULL && more[i] != NULL; i++)
        rc = allow(filter, more[i]);
    if (rc == 0)
        rc = allow_partly(filter);
    if (rc == 0)
        rc = deny_unknown(filter);
    /* a tree instead of a list */
    if (rc == 0)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (rc == 0)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    /* calls of another architecture are no mistake of a library */
    if (rc == 0)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    return rc;
}

int kw_confine(const char *const *more, struct kw_err *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return kw_err_set(err, -errno, "no_new_privs: %s", kw_errno_text(errno));
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (filter == NULL)
        return kw_err_set(err, -ENOMEM, "seccomp: out of memory");
    int rc = fill(filter, more);
    if (rc == 0)
        rc = seccomp_load(filter);
    seccomp_release(filter);
    return rc < 0 ? kw_err_set(err, rc, "seccomp: %s", kw_errno_text(rc)) : 0;
}
