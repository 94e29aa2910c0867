/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decides is the content: times and inodes of a mounted ConfigMap, of a file that an editor
 * replaces and of one that is written in place all behave differently, and a file of a few
 * kilobytes is read faster than any of that is got right.
 */
#include "extender/zone_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"

/** EXT_ZONES_MAX lines of their greatest length, and comments. */
#define LIMIT (512 * 1024)

struct ext_zone_file {
    char *path;
    char *text; /**< as it was read last, good or bad; NULL: it could not be */
    size_t len;
    int failed; /**< why it could not be read, as it was told; 0: it could */
    bool bad;   /**< the text was */
    struct ext_zones *zones;
};

int ext_zone_file_new(const char *path, struct ext_zone_file **ret)
{
    struct ext_zone_file *file = calloc(1, sizeof(*file));

    if (file != NULL)
        file->path = strdup(path);
    if (file == NULL || file->path == NULL) {
        ext_zone_file_free(&file);
        return -ENOMEM;
    }
    *ret = file;
    return 0;
}

void ext_zone_file_free(struct ext_zone_file **file)
{
    if (*file == NULL)
        return;
    ext_zones_free(&(*file)->zones);
    free((*file)->path);
    free((*file)->text);
    free(*file);
    *file = NULL;
}

struct ext_zones *ext_zone_file_zones(const struct ext_zone_file *file)
{
    return file->zones;
}

bool ext_zone_file_is_bad(const struct ext_zone_file *file)
{
    return file->failed != 0 || file->bad;
}

/** It cannot be read. */
static int fail(struct ext_zone_file *file, int rc, struct kw_err *err)
{
    if (file->failed == rc)
        return 0;
    file->failed = rc;
    if (rc == -EFBIG)
        return kw_err_set(err, rc, "%s: more than 512 KiB", file->path);
    return kw_err_set(err, rc, "%s: %s", file->path, kw_errno_text(rc));
}

int ext_zone_file_check(struct ext_zone_file *file, struct kw_err *err)
{
    kw_cleanup_free char *text = NULL;
    struct ext_zones *zones = NULL;
    size_t len = 0;
    int rc = kw_file_slurp(file->path, LIMIT, &text, &len);

    if (rc < 0)
        return fail(file, rc, err);
    file->failed = 0;
    if (file->text != NULL && file->len == len && memcmp(file->text, text, len) == 0)
        return 0;
    free(file->text);
    file->text = KW_TAKE_PTR(text);
    file->len = len;
    rc = ext_zones_parse(file->path, file->text, len, &zones, err);
    file->bad = rc < 0;
    if (rc < 0)
        return rc;
    ext_zones_free(&file->zones);
    file->zones = zones;
    return 1;
}
