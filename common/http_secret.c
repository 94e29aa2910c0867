/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/utf8.h"

/* Service account tokens have about 1 KiB; the API server takes no header over 1 MiB. */
#define SECRET_MAX 65536u

void kw_http_wipe(char **text)
{
    if (*text == NULL)
        return;
    explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

/* Whether the text can stand in a header line as it is. */
static int check(const char *text)
{
    if (*text == '\0')
        return -EINVAL;
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            return -EINVAL;
    }
    return 0;
}

/* Reads the file; replaces the text on success only. */
static int read_file(struct kw_http_secret *secret)
{
    kw_cleanup(kw_http_wipe) char *text = NULL;
    struct stat info;
    size_t len = 0;
    int rc;

    /* before reading: a change in between is then seen the next time */
    if (stat(secret->path, &info) < 0)
        return -errno;
    rc = kw_file_slurp(secret->path, SECRET_MAX, &text, &len);
    if (rc < 0)
        return rc;
    if (strlen(text) != len)
        return -EINVAL;
    size_t mark = kw_utf8_mark(text, len);
    memmove(text, text + mark, len - mark + 1);
    len -= mark;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' '))
        text[--len] = '\0';
    rc = check(text);
    if (rc < 0)
        return rc;
    kw_http_wipe(&secret->text);
    secret->text = KW_TAKE_PTR(text);
    secret->mtime_ns =
        (int64_t)info.st_mtim.tv_sec * (int64_t)KW_NS_PER_S + (int64_t)info.st_mtim.tv_nsec;
    secret->inode = info.st_ino;
    secret->size = info.st_size;
    return 0;
}

static int open_error(const char *what, const char *path, int rc, struct kw_err *err)
{
    const char *from = path == NULL ? "its setting" : path;

    if (rc == -EINVAL)
        return kw_err_set(err, rc, "%s from %s: must be one line of printable text", what, from);
    return kw_err_set(err, rc, "%s from %s: %s", what, from, kw_errno_text(rc));
}

int kw_http_secret_open(struct kw_http_secret *secret, const char *what, const char *text,
                        const char *path, struct kw_err *err)
{
    int rc = 0;

    *secret = (struct kw_http_secret){0};
    if (path != NULL) {
        secret->path = strdup(path);
        rc = secret->path == NULL ? -ENOMEM : read_file(secret);
    } else if (text != NULL) {
        rc = check(text);
        if (rc == 0) {
            secret->text = strdup(text);
            rc = secret->text == NULL ? -ENOMEM : 0;
        }
    }
    if (rc < 0) {
        kw_http_secret_close(secret);
        return open_error(what, path, rc, err);
    }
    return 0;
}

void kw_http_secret_renew(struct kw_http_secret *secret)
{
    struct stat info;

    if (secret->path == NULL || stat(secret->path, &info) < 0)
        return;
    if ((int64_t)info.st_mtim.tv_sec * (int64_t)KW_NS_PER_S + (int64_t)info.st_mtim.tv_nsec ==
            secret->mtime_ns &&
        info.st_ino == secret->inode && info.st_size == secret->size)
        return;
    (void)read_file(secret);
}

void kw_http_secret_close(struct kw_http_secret *secret)
{
    kw_http_wipe(&secret->text);
    free(secret->path);
    secret->path = NULL;
}
