/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"

#define LOCK_NAME  "lock"
/** Six lines of at most 320 bytes. */
#define LOCK_BYTES 4096

#define REMEDY "give another folder with --state-dir or KWATT_STATE_DIR"

int cli_state_default_dir(const struct cli_io *io, char *out, size_t size)
{
    const char *dir = cli_env(io, "KWATT_STATE_DIR");
    const char *runtime = cli_env(io, "XDG_RUNTIME_DIR");
    int len;

    if (dir != NULL)
        len = snprintf(out, size, "%s", dir);
    else if (geteuid() == 0)
        len = snprintf(out, size, "/run/kwatt");
    else if (runtime != NULL)
        len = snprintf(out, size, "%s/kwatt", runtime);
    else
        len = snprintf(out, size, "/tmp/kwatt-%u", geteuid());
    return len >= 0 && (size_t)len < size ? 0 : -ENAMETOOLONG;
}

int cli_state_fallback_dir(const char *dir, unsigned n, char *out, size_t size)
{
    static const char *const parents[] = {"/dev/shm", "/tmp"};
    uint32_t hash = 2166136261; /* FNV-1a: the same folder by kwatt up and by kwatt top */
    int len;

    if (n >= KW_ARRAY_SIZE(parents))
        return -ENOENT;
    for (const char *c = dir; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619;
    len = snprintf(out, size, "%s/kwatt-%u-%08x", parents[n], geteuid(), hash);
    return len >= 0 && (size_t)len < size ? 0 : -ENAMETOOLONG;
}

int cli_state_prepare(const char *dir, struct kw_err *err)
{
    struct stat status;
    int rc = kw_mkdir_p(dir, 0700);

    if (rc < 0 && rc != -EEXIST)
        return kw_err_set(err, rc, "cannot make the state folder %.200s: %s; " REMEDY, dir,
                          kw_errno_text(rc));
    /* lstat: somebody else's symbolic link in /tmp is not followed */
    if (lstat(dir, &status) < 0)
        return kw_err_set(err, -errno, "state folder %.200s: %m; " REMEDY, dir);
    if (!S_ISDIR(status.st_mode))
        return kw_err_set(err, -ENOTDIR, "state folder %.200s is no folder; " REMEDY, dir);
    if (status.st_uid != geteuid())
        return kw_err_set(err, -EPERM, "state folder %.200s belongs to user %u, not to %u; " REMEDY,
                          dir, status.st_uid, geteuid());
    if ((status.st_mode & 022) != 0)
        return kw_err_set(err, -EPERM,
                          "state folder %.200s can be written by others; chmod 700 it, or " REMEDY,
                          dir);
    return 0;
}

static int lock_path(const char *dir, char out[PATH_MAX])
{
    return kw_path_join(out, PATH_MAX, dir, LOCK_NAME);
}

static int write_failed(int code, struct kw_err *err, const char *dir)
{
    return kw_err_set(
        err, code, "cannot write in the state folder %.200s: %s; %s", dir, kw_errno_text(code),
        code == -ENOSPC || code == -EDQUOT ? "free some space there, or " REMEDY : REMEDY);
}

int cli_state_lock(const char *dir, int *ret_fd, struct cli_running *ret_other, struct kw_err *err)
{
    char path[PATH_MAX];
    char text[LOCK_BYTES];
    ssize_t len;

    if (lock_path(dir, path) < 0)
        return kw_err_set(err, -ENAMETOOLONG, "state folder %.200s: name too long; " REMEDY, dir);
    kw_cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return write_failed(-errno, err, dir);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        const struct cli_running this_one = {.pid = getpid()};
        int rc = cli_state_announce(fd, &this_one, err);
        /* a disk may be full and still make an empty file: that shows here */
        if (rc < 0)
            return write_failed(rc, err, dir);
        *ret_fd = KW_TAKE_FD(fd);
        return 0;
    }
    if (errno != EWOULDBLOCK)
        return kw_err_set(err, -errno, "cannot lock %.200s: %m; " REMEDY, path);
    *ret_other = (struct cli_running){0};
    len = kw_file_pread(fd, text, sizeof(text));
    if (len > 0)
        (void)cli_state_parse(text, (size_t)len, ret_other);
    return kw_err_set(err, -EBUSY, "another kwatt up runs with the state folder %.200s", dir);
}

int cli_state_announce(int fd, const struct cli_running *running, struct kw_err *err)
{
    struct kw_buf text = {0};
    int rc = 0;

    errno = 0;
    (void)kw_buf_addf(&text, "pid=%d\nagent=%s\nextender=%s\nrecommender=%s\nredis=%s\nnode=%s\n",
                      (int)running->pid, running->agent, running->extender, running->recommender,
                      running->redis, running->node);
    if (text.failed)
        rc = -ENOMEM;
    /* written over the old text first: a reader between the two calls sees all keys */
    else if (pwrite(fd, text.data, text.len, 0) != (ssize_t)text.len ||
             ftruncate(fd, (off_t)text.len) < 0)
        rc = errno != 0 ? -errno : -ENOSPC;
    kw_buf_free(&text);
    if (rc < 0)
        return write_failed(rc, err, "(lock file)");
    return 0;
}

int cli_state_find(const char *dir, struct cli_running *ret)
{
    char path[PATH_MAX];
    char text[LOCK_BYTES];
    int rc = lock_path(dir, path);

    if (rc < 0)
        return rc;
    kw_cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    /* a shared lock that can be had means that nobody holds the other */
    if (flock(fd, LOCK_SH | LOCK_NB) == 0)
        return -ENOENT;
    ssize_t len = kw_file_pread(fd, text, sizeof(text));
    if (len < 0)
        return (int)len;
    return cli_state_parse(text, (size_t)len, ret);
}

/** Takes "key=value" into its field where the key is known and the value fits. */
static void parse_line(const char *line, size_t len, struct cli_running *running)
{
    const struct {
        const char *key;
        char *out;
        size_t size;
    } fields[] = {
        {"agent", running->agent, sizeof(running->agent)},
        {"extender", running->extender, sizeof(running->extender)},
        {"recommender", running->recommender, sizeof(running->recommender)},
        {"redis", running->redis, sizeof(running->redis)},
        {"node", running->node, sizeof(running->node)},
    };
    const char *equals = memchr(line, '=', len);
    size_t key_len, value_len;
    uint64_t pid;

    if (equals == NULL || memchr(line, '\0', len) != NULL)
        return;
    key_len = (size_t)(equals - line);
    value_len = len - key_len - 1;
    if (key_len == 3 && memcmp(line, "pid", 3) == 0) {
        if (kw_parse_u64_span(equals + 1, value_len, 1, INT32_MAX, &pid) == 0)
            running->pid = (pid_t)pid;
        return;
    }
    for (size_t i = 0; i < KW_ARRAY_SIZE(fields); i++) {
        if (strlen(fields[i].key) != key_len || memcmp(fields[i].key, line, key_len) != 0 ||
            value_len >= fields[i].size)
            continue;
        memcpy(fields[i].out, equals + 1, value_len);
        fields[i].out[value_len] = '\0';
    }
}

int cli_state_parse(const char *text, size_t len, struct cli_running *ret)
{
    struct cli_running running = {0};

    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line_len = end != NULL ? (size_t)(end - text) : len;
        parse_line(text, line_len, &running);
        size_t used = line_len + (end != NULL);
        text += used;
        len -= used;
    }
    if (running.pid == 0)
        return -EBADMSG;
    *ret = running;
    return 0;
}
