/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Small files (sysfs, procfs, secrets) read relative to a directory descriptor or a root path, so
 * that every reader can be pointed at a fixture tree.
 */

/**
 * Reads a whole small file into a caller's buffer and NUL-terminates it.
 * @param dirfd AT_FDCWD or an open directory.
 * A pipe in its place is read without waiting. @return bytes read (without the NUL); -errno; -EFBIG
 * where it does not fit.
 */
ssize_t kw_file_read_at(int dirfd, const char *path, char *buffer, size_t size);

/** Same, on an open descriptor, from offset 0 (pread): what a sampler does with files it keeps
 * open. */
ssize_t kw_file_pread(int fd, char *buffer, size_t size);

/** Reads one unsigned decimal number, trailing blanks allowed. @return 0; -errno; -EBADMSG not a
 * number; -ENODATA empty. */
int kw_file_read_u64_at(int dirfd, const char *path, uint64_t *ret);

/**
 * Reads a whole file of at most `limit` bytes.
 * @param ret the bytes and a NUL after them; caller frees. @param ret_len may be NULL.
 * @return 0; -errno; -EFBIG over the limit.
 */
int kw_file_slurp(const char *path, size_t limit, char **ret, size_t *ret_len);

/** The same of a file that others may have put there: -EINVAL where it is a pipe, a device or a
 * folder, and none of these is waited for. */
int kw_file_slurp_regular(const char *path, size_t limit, char **ret, size_t *ret_len);

/**
 * Writes a file so that readers see the old or the new content, never a part (temporary name beside
 * it, fsync, rename, fsync of the folder). A symbolic link at `path` is replaced, not followed.
 * @param mode exact, whatever the umask.
 * @return 0 or -errno; then the old content stands and the temporary file is gone.
 */
int kw_file_write_atomic(const char *path, const void *bytes, size_t len, mode_t mode);

/** Joins root and path with exactly one '/' into `out`. @return 0 or -ENAMETOOLONG. */
int kw_path_join(char *out, size_t size, const char *root, const char *path);

/** Creates a directory and its parents (mode for the last one, 0755 for parents). @return 0 or
 * -errno. */
int kw_mkdir_p(const char *path, mode_t mode);
