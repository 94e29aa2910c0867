/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/*
 * A secret of one line (token, password) from a text or from a file that is read again when it
 * changes; for http_client.c only. The text is wiped before its memory is given back.
 */

struct kw_http_secret {
    char *path; /**< NULL: a fixed text */
    char *text; /**< without the line end; NULL while none was read */
    int64_t mtime_ns;
    uint64_t inode;
    off_t size;
};

/**
 * Takes a fixed text or reads a file the first time.
 * @param path wins over text; both NULL: an empty secret (text stays NULL).
 * @param what names it in an error: "token". The error never holds the secret itself.
 * @return 0, -EINVAL (empty, or bytes that must not stand in a header), -errno.
 */
int kw_http_secret_open(struct kw_http_secret *secret, const char *what, const char *text,
                        const char *path, struct kw_err *err);

/** Reads the file again where it changed; keeps the old text where it cannot be read or is not
 * valid. */
void kw_http_secret_renew(struct kw_http_secret *secret);

/** Wipes and frees. */
void kw_http_secret_close(struct kw_http_secret *secret);

/** Wipes and frees a text; NULL-safe. */
void kw_http_wipe(char **text);
