/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

/*
 * Values that are written and read by the same lines of code: whoever has state lists its values
 * once, each with its bounds. Numbers are 8 bytes, little-endian; reals travel as IEEE 754. Reading
 * is total: what is out of bounds, missing or left over is an error that sticks, and leaves the
 * value as it was.
 */

struct agent_archive {
    bool loading;
    const char *why;         /**< static text of the first error; NULL: none */
    struct kw_buf *out;      /**< saving */
    const unsigned char *at; /**< loading: what is left */
    size_t left;
    /** Loading: whether a workload is there; NULL: all are. */
    bool (*is_there)(void *user, uint64_t workload);
    void *user;
};

/** Notes an error. */
void agent_archive_fail(struct agent_archive *archive, const char *why);

/** A number of at most `max`. @param why static text where it is not. */
void agent_archive_u64(struct agent_archive *archive, uint64_t *value, uint64_t max,
                       const char *why);

/** A finite number of [min, max]. */
void agent_archive_real(struct agent_archive *archive, double *value, double min, double max,
                        const char *why);

/** A text that must be the same: on loading, another one is an error. */
void agent_archive_same(struct agent_archive *archive, const char *text, const char *why);

/** Nothing may be left. @return 0; -ENOMEM saving; -EBADMSG loading. */
int agent_archive_end(struct agent_archive *archive);
