/* SPDX-License-Identifier: Apache-2.0 */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/num.h"

/*
 * Reading: files of procfs and sysfs have no size and may give fewer bytes than asked for, so every
 * read goes on until the end of file. Writing: a new file beside the old one, fsync, rename, fsync
 * of the folder; after a power cut there is the old or the new content. Interrupted calls are
 * repeated.
 */

/* Reads until end of file or until `size` bytes are there; `at` < 0 reads from the descriptor's own
 * position. */
static ssize_t read_full(int fd, char *buffer, size_t size, off_t at)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = at < 0 ? read(fd, buffer + done, size - done)
                           : pread(fd, buffer + done, size - done, at + (off_t)done);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static ssize_t read_text(int fd, char *buffer, size_t size, off_t at)
{
    if (size == 0)
        return -EFBIG;
    ssize_t n = read_full(fd, buffer, size, at);
    if (n < 0)
        return n;
    if ((size_t)n == size) { /* no room for the NUL: at least one byte too long */
        buffer[size - 1] = '\0';
        return -EFBIG;
    }
    buffer[n] = '\0';
    return n;
}

ssize_t kw_file_read_at(int dirfd, const char *path, char *buffer, size_t size)
{
    /* O_NONBLOCK: a tree from outside may hold a pipe where a file should be */
    kw_cleanup_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    return read_text(fd, buffer, size, -1);
}

ssize_t kw_file_pread(int fd, char *buffer, size_t size)
{
    return read_text(fd, buffer, size, 0);
}

int kw_file_read_u64_at(int dirfd, const char *path, uint64_t *ret)
{
    char text[64]; /* 20 digits and blanks */
    ssize_t n = kw_file_read_at(dirfd, path, text, sizeof(text));
    if (n == -EFBIG)
        return -EBADMSG;
    if (n < 0)
        return (int)n;
    size_t len = (size_t)n;
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL && text[len - 1] != '\0')
        len--;
    if (len == 0)
        return -ENODATA;
    return kw_parse_u64_span(text, len, 0, UINT64_MAX, ret) < 0 ? -EBADMSG : 0;
}

static int slurp(int fd, size_t limit, char **ret, size_t *ret_len)
{
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    for (;;) {
        /* One byte over the limit tells "too big" from "exactly at the limit". */
        size_t left = limit - buf.len;
        size_t step = left < 16384 ? left + 1 : 16384;
        int rc = kw_buf_reserve(&buf, step);
        if (rc < 0)
            return rc;
        ssize_t n = read_full(fd, buf.data + buf.len, step, -1);
        if (n < 0)
            return (int)n;
        buf.len += (size_t)n;
        buf.data[buf.len] = '\0';
        if (buf.len > limit)
            return -EFBIG;
        if ((size_t)n < step)
            break;
    }
    size_t len = buf.len;
    *ret = kw_buf_take(&buf, NULL);
    if (ret_len != NULL)
        *ret_len = len;
    return 0;
}

int kw_file_slurp(const char *path, size_t limit, char **ret, size_t *ret_len)
{
    kw_cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    return fd < 0 ? -errno : slurp(fd, limit, ret, ret_len);
}

int kw_file_slurp_regular(const char *path, size_t limit, char **ret, size_t *ret_len)
{
    struct stat st;
    kw_cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    return slurp(fd, limit, ret, ret_len);
}

static int write_full(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Makes a rename in the folder of `path` durable. */
static int sync_folder(const char *path)
{
    kw_cleanup_free char *folder = NULL;
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        folder = strdup(".");
    else
        folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (folder == NULL)
        return -ENOMEM;
    kw_cleanup_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? 0 : -errno; /* a folder may be writable and not readable */
    if (fsync(fd) < 0 && errno != EINVAL)    /* EINVAL: a file system that cannot, FUSE for one */
        return -errno;
    return 0;
}

int kw_file_write_atomic(const char *path, const void *bytes, size_t len, mode_t mode)
{
    kw_cleanup_free char *temporary = NULL;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        temporary = NULL; /* undefined after a failure */
        return -ENOMEM;
    }
    kw_cleanup_close int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return -errno;

    int rc = write_full(fd, bytes, len);
    if (rc == 0 && fchmod(fd, mode) < 0)
        rc = -errno;
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    /* Some file systems report a full disk only here. */
    if (close(KW_TAKE_FD(fd)) < 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && rename(temporary, path) < 0)
        rc = -errno;
    if (rc < 0) {
        (void)unlink(temporary);
        return rc;
    }
    return sync_folder(path);
}

int kw_path_join(char *out, size_t size, const char *root, const char *path)
{
    size_t root_len = strlen(root);
    while (root_len > 0 && root[root_len - 1] == '/')
        root_len--;
    while (*path == '/')
        path++;
    size_t path_len = strlen(path);
    if (root_len >= size || path_len >= size || root_len + 1 + path_len >= size)
        return -ENAMETOOLONG;
    memcpy(out, root, root_len);
    out[root_len] = '/';
    memcpy(out + root_len + 1, path, path_len);
    out[root_len + 1 + path_len] = '\0';
    return 0;
}

static int make_folder(const char *path, mode_t mode)
{
    if (mkdir(path, mode) == 0)
        return 0;
    int code = errno;
    /* EEXIST says nothing of its kind, and a read-only file system answers EROFS for what exists
     * too. */
    struct stat st;
    if (stat(path, &st) < 0)
        return -code;
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int kw_mkdir_p(const char *path, mode_t mode)
{
    kw_cleanup_free char *copy = strdup(path);
    if (copy == NULL)
        return -ENOMEM;
    size_t len = strlen(copy);
    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    for (char *p = copy + (copy[0] == '/' ? 1 : 0); (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        int rc = make_folder(copy, 0755);
        *p = '/';
        if (rc < 0)
            return rc;
    }
    return make_folder(copy, mode);
}
