/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "common/err.h"

/*
 * What a joule costs in each zone, in carbon or in money: a file that an operator, or a job of
 * theirs, keeps up to date.
 *
 *     unit = gCO2eq/kWh
 *     source = grid operator, week 48
 *     # zone, value
 *     north, 31.5
 *     south, 412
 *
 * Unit and source come first and are shown wherever a value is; a blank line, and one that begins
 * with '#', are passed over.
 */

/** Longest name of a zone: the value of a node's label. */
#define EXT_ZONE_MAX 63

/** Most zones of a file. */
#define EXT_ZONES_MAX 4096

/** Greatest value. */
#define EXT_ZONE_VALUE_MAX 1e6

/** Longest unit and source. */
#define EXT_ZONES_TEXT_MAX 127

/** How far a zone can lie from the median: beyond it, all nodes of a zone would look alike. */
#define EXT_ZONE_FACTOR_MAX 50.0

struct ext_zone {
    char name[EXT_ZONE_MAX + 1];
    double value;  /**< in the file's unit */
    double factor; /**< value / median, within 1 / EXT_ZONE_FACTOR_MAX .. EXT_ZONE_FACTOR_MAX */
};

/** A file as it was read; not changed after that, and shared by whoever holds it. */
struct ext_zones {
    _Atomic unsigned holders;
    char unit[EXT_ZONES_TEXT_MAX + 1];
    char source[EXT_ZONES_TEXT_MAX + 1];
    double median;          /**< of all zones; each counts once */
    size_t n;               /**< > 0 */
    struct ext_zone *items; /**< by name */
};

/** One more holder, who calls ext_zones_free, too. From any thread. @param zones may be NULL. */
struct ext_zones *ext_zones_hold(struct ext_zones *zones);
/** A holder less; the last one frees them. */
void ext_zones_free(struct ext_zones **zones);

/**
 * Reads the text of a file.
 * @param name of the file, for messages.
 * @param ret untouched on failure; the caller is the first holder.
 * @return 0; -ENOMEM; -EBADMSG with file, line, key and value named.
 */
int ext_zones_parse(const char *name, const char *text, size_t len, struct ext_zones **ret,
                    struct kw_err *err);

/** @param zones may be NULL. @return NULL: the file does not name it. */
const struct ext_zone *ext_zones_find(const struct ext_zones *zones, const char *name);
