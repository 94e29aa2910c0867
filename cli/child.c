/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/spawn.h"
#include "cli/text.h"
#include "common/cleanup.h"

/** A log is cut when it passes the first and keeps the second: hours of warnings, little beside a
 * tmpfs. */
#define LOG_BYTES_MAX  (1 << 20)
#define LOG_BYTES_KEPT (64 << 10)
/** Enough for ten log lines. */
#define TAIL_BYTES     8192

int cli_child_arg(struct cli_child *child, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    int len;

    if (child->argc >= CLI_CHILD_ARGS_MAX)
        return -E2BIG;
    va_start(args, format);
    len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return -ENOMEM;
    child->argv[child->argc++] = text;
    return 0;
}

void cli_child_clear(struct cli_child *child)
{
    for (unsigned i = 0; i < child->argc; i++)
        free(child->argv[i]);
    *child = (struct cli_child){0};
}

int cli_child_start(struct cli_child *child, uint64_t now_ns, struct kw_err *err)
{
    int rc;

    child->restart_at_ns = 0;
    kw_cleanup_close int log_fd =
        open(child->log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* a full disk is no reason not to measure: then it runs without a log */
    child->log_from_bytes = log_fd >= 0 ? lseek(log_fd, 0, SEEK_END) : 0;
    rc = cli_spawn(child->argv, child->envp, log_fd, log_fd, &child->pid);
    if (rc < 0) {
        child->pid = 0;
        return kw_err_set(err, rc, "cannot start %.200s: %s", child->argv[0], kw_errno_text(rc));
    }
    child->started_ns = now_ns;
    child->starts++;
    return 0;
}

uint64_t cli_child_ended(struct cli_child *child, uint64_t now_ns)
{
    uint64_t lived_ns = now_ns - child->started_ns;

    child->pid = 0;
    if (child->backoff_ns == 0 || lived_ns >= CLI_GOOD_LIFE_NS)
        child->backoff_ns = CLI_BACKOFF_FIRST_NS;
    else if (child->backoff_ns < CLI_BACKOFF_LAST_NS / 2)
        child->backoff_ns *= 2;
    else
        child->backoff_ns = CLI_BACKOFF_LAST_NS;
    child->restart_at_ns = now_ns + child->backoff_ns;
    return lived_ns;
}

bool cli_child_refused(const struct cli_child *child)
{
    return child->pid == 0 && child->starts > 0 && WIFEXITED(child->last_status) &&
           WEXITSTATUS(child->last_status) == 2;
}

void cli_child_bound_log(const struct cli_child *child)
{
    struct stat status;
    kw_cleanup_free char *kept = NULL;
    ssize_t len;

    if (stat(child->log_path, &status) < 0 || status.st_size <= LOG_BYTES_MAX)
        return;
    kw_cleanup_close int fd = open(child->log_path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    kept = malloc(LOG_BYTES_KEPT);
    if (fd < 0 || kept == NULL)
        return;
    len = pread(fd, kept, LOG_BYTES_KEPT, status.st_size - LOG_BYTES_KEPT);
    /* the program appends, so it goes on at the new end; a line written in between may be lost */
    if (len > 0 && ftruncate(fd, 0) == 0)
        (void)!write(fd, kept, (size_t)len);
}

void cli_child_log_tail(const struct cli_child *child, unsigned lines, const char *prefix,
                        struct kw_buf *out)
{
    char text[TAIL_BYTES + 1];
    kw_cleanup_close int fd = open(child->log_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    ssize_t len;
    unsigned seen = 0;

    if (from < child->log_from_bytes && child->log_from_bytes <= size)
        from = child->log_from_bytes;
    len = fd >= 0 ? pread(fd, text, TAIL_BYTES, from) : 0;
    while (len > 0 && text[len - 1] == '\n')
        len--;
    if (len <= 0)
        return;
    text[len] = '\0';
    char *start = text + len;
    while (start > text && (start[-1] != '\n' || ++seen < lines))
        start--;
    for (char *line = start, *end; line != NULL; line = end != NULL ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        (void)kw_buf_adds(out, prefix);
        cli_text_add(out, line);
        (void)kw_buf_add(out, "\n", 1);
    }
}
