/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between fork and exec only async-signal-safe calls are made. The child tells a failed exec
 * through a pipe that exec closes: an empty read is success. PR_SET_PDEATHSIG covers the parent's
 * death from then on; a parent that died between fork and prctl shows as another getppid().
 */
#include "cli/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

/** In the child: does not return. */
__attribute__((noreturn)) static void become(char *const *argv, char *const *envp, int out_fd,
                                             int err_fd, int report_fd, pid_t parent)
{
    sigset_t none;
    int code = 0, null_fd;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(127);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd >= 0 ? out_fd : null_fd, 1) < 0 ||
        dup2(err_fd >= 0 ? err_fd : null_fd, 2) < 0)
        code = errno;
    /* all of ours are close-on-exec; what this program itself was started with is not */
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (code == 0) {
        (void)execve(argv[0], argv, envp);
        code = errno;
    }
    (void)!write(report_fd, &code, sizeof(code));
    _exit(127);
}

int cli_spawn(char *const *argv, char *const *envp, int out_fd, int err_fd, pid_t *ret_pid)
{
    int report[2], code = 0;
    pid_t parent = getpid();
    ssize_t got;

    if (pipe2(report, O_CLOEXEC) < 0)
        return -errno;
    kw_cleanup_close int report_read = report[0];
    kw_cleanup_close int report_write = report[1];
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        become(argv, envp, out_fd, err_fd, report_write, parent);
    /* also here, so that a signal to the group right after this call finds it */
    (void)setpgid(pid, pid);
    (void)close(KW_TAKE_FD(report_write));
    do {
        got = read(report_read, &code, sizeof(code));
    } while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof(code)) {
        (void)waitpid(pid, NULL, 0);
        return code != 0 ? -code : -EIO;
    }
    *ret_pid = pid;
    return 0;
}

/** Reads until the end of the output. */
static int drain(int fd, uint64_t deadline_ns, size_t limit_bytes, struct kw_buf *out)
{
    for (;;) {
        uint64_t now_ns = kw_now_ns();
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        char bytes[4096];
        ssize_t got;

        if (now_ns >= deadline_ns)
            return -ETIMEDOUT;
        int ready = poll(&poll_fd, 1, (int)((deadline_ns - now_ns) / KW_NS_PER_MS) + 1);
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready <= 0)
            continue;
        got = read(fd, bytes, sizeof(bytes));
        if (got == 0)
            return 0;
        if (got < 0)
            return -errno;
        if (out->len + (size_t)got > limit_bytes)
            return -EFBIG;
        if (kw_buf_add(out, bytes, (size_t)got) < 0)
            return -ENOMEM;
    }
}

int cli_spawn_capture(char *const *argv, char *const *envp, unsigned timeout_ms, size_t limit_bytes,
                      struct kw_buf *ret_out, int *ret_status)
{
    uint64_t deadline_ns = kw_now_ns() + timeout_ms * KW_NS_PER_MS;
    int ends[2], rc, status = 0;
    pid_t pid = -1;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    kw_cleanup_close int read_end = ends[0];
    kw_cleanup_close int write_end = ends[1];
    rc = cli_spawn(argv, envp, write_end, -1, &pid);
    if (rc < 0)
        return rc;
    (void)close(KW_TAKE_FD(write_end));
    rc = drain(read_end, deadline_ns, limit_bytes, ret_out);
    /* its output ended, so it is about to end; what is not is ended here */
    for (unsigned i = 0; rc == 0 && waitpid(pid, &status, WNOHANG) == 0; i++) {
        if (kw_now_ns() >= deadline_ns)
            rc = -ETIMEDOUT;
        (void)poll(NULL, 0, 5);
    }
    if (rc < 0) {
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return rc;
    }
    *ret_status = status;
    return 0;
}
