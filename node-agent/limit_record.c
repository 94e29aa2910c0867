/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   kwatt-power-limits 1 BOOT
 *   package-0 120000000
 *   package-1 120000000
 *   end
 *
 * Written in place, since a lock belongs to a file and not to its name. A text without its end is
 * cut off: then the limits were not yet set, as they are only after it is written.
 */
#include "node-agent/limit_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"

static const char heading[] = "kwatt-power-limits 1 ", ending[] = "end";

int agent_former_limits_encode(const struct agent_former_limits *limits, const char *boot_id,
                               struct kw_buf *out)
{
    int rc = kw_buf_addf(out, "%s%s\n", heading, boot_id);

    for (size_t i = 0; rc == 0 && i < limits->n; i++) {
        const struct agent_former_limit *limit = &limits->items[i];
        if (limit->name[0] == '\0' || strpbrk(limit->name, " \n") != NULL)
            return -EINVAL;
        rc = kw_buf_addf(out, "%s %llu\n", limit->name, (unsigned long long)limit->uw);
    }
    return rc == 0 ? kw_buf_addf(out, "%s\n", ending) : rc;
}

/** Takes one line off a text. @return whether there was a whole one. */
static bool next_line(const char **at, size_t *left, const char **ret, size_t *ret_len)
{
    const char *end = memchr(*at, '\n', *left);

    if (end == NULL)
        return false;
    *ret = *at;
    *ret_len = (size_t)(end - *at);
    *left -= *ret_len + 1;
    *at = end + 1;
    return true;
}

static bool parse_limit(const char *line, size_t len, struct agent_former_limit *ret)
{
    const char *blank = memchr(line, ' ', len);
    size_t name_len = blank != NULL ? (size_t)(blank - line) : 0;

    if (name_len == 0 || name_len >= sizeof(ret->name) || memchr(line, '\0', name_len) != NULL)
        return false;
    if (kw_parse_u64_span(blank + 1, len - name_len - 1, 0, UINT64_MAX, &ret->uw) < 0)
        return false;
    memcpy(ret->name, line, name_len);
    ret->name[name_len] = '\0';
    return true;
}

int agent_former_limits_decode(const char *text, size_t len, const char *boot_id,
                               struct agent_former_limits *ret)
{
    struct agent_former_limits limits = {0};
    const size_t heading_len = sizeof(heading) - 1, ending_len = sizeof(ending) - 1;
    const char *line = NULL;
    size_t line_len = 0;

    if (len == 0) {
        *ret = limits;
        return 0;
    }
    if (!next_line(&text, &len, &line, &line_len) || line_len < heading_len ||
        memcmp(line, heading, heading_len) != 0)
        return -EBADMSG;
    bool ours = line_len - heading_len == strlen(boot_id) &&
                memcmp(line + heading_len, boot_id, line_len - heading_len) == 0;
    while (next_line(&text, &len, &line, &line_len)) {
        if (line_len == ending_len && memcmp(line, ending, ending_len) == 0) {
            if (!ours)
                limits = (struct agent_former_limits){0};
            *ret = limits;
            return 0;
        }
        if (limits.n == KW_ARRAY_SIZE(limits.items) ||
            !parse_limit(line, line_len, &limits.items[limits.n]))
            return -EBADMSG;
        limits.n++;
    }
    return -EBADMSG;
}

/** Makes the folder of a file. */
static int make_folder(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL || slash == path)
        return 0;
    kw_cleanup_free char *folder = strndup(path, (size_t)(slash - path));
    return folder != NULL ? kw_mkdir_p(folder, 0755) : -ENOMEM;
}

int agent_limit_record_open(const char *path, int *ret_fd, struct kw_err *err)
{
    int rc = make_folder(path);

    if (rc < 0)
        return kw_err_set(err, rc, "no folder for %s: %s", path, kw_errno_text(rc));
    kw_cleanup_close int fd =
        open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return kw_err_set(err, -errno, "%s: %s", path, kw_errno_text(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? kw_err_set(err, -EBUSY, "another agent limits this machine: it holds %s", path)
                   : kw_err_set(err, -errno, "%s: %s", path, kw_errno_text(errno));
    *ret_fd = KW_TAKE_FD(fd);
    return 0;
}

int agent_limit_record_read(int fd, const char *boot_id, struct agent_former_limits *ret)
{
    char text[AGENT_LIMIT_RECORD_SIZE];
    ssize_t len = kw_file_pread(fd, text, sizeof(text));

    return len < 0 ? (int)len : agent_former_limits_decode(text, (size_t)len, boot_id, ret);
}

int agent_limit_record_write(int fd, const char *boot_id, const struct agent_former_limits *limits)
{
    kw_cleanup(kw_buf_free) struct kw_buf text = {0};
    int rc = limits->n > 0 ? agent_former_limits_encode(limits, boot_id, &text) : 0;

    if (rc < 0)
        return rc;
    /* old bytes behind the new ones are behind its end, and not read */
    ssize_t written = text.len > 0 ? pwrite(fd, text.data, text.len, 0) : 0;
    if (written != (ssize_t)text.len)
        return written < 0 ? -errno : -EIO;
    return ftruncate(fd, (off_t)text.len) < 0 || fdatasync(fd) < 0 ? -errno : 0;
}
