/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/** A file as it was read. Zero-initialised is none: then nothing is known of any zone. */
struct ext_zones {
    char unit[EXT_ZONES_TEXT_MAX + 1];
    char source[EXT_ZONES_TEXT_MAX + 1];
    double median;          /**< of all zones; each counts once */
    size_t n;               /**< > 0 */
    struct ext_zone *items; /**< by name */
};

/** Frees the zones; leaves none. */
void ext_zones_clear(struct ext_zones *zones);

/**
 * Reads the text of a file.
 * @param name of the file, for messages.
 * @param ret untouched on failure; to be cleared.
 * @return 0; -ENOMEM; -EBADMSG with file, line, key and value named.
 */
int ext_zones_parse(const char *name, const char *text, size_t len, struct ext_zones *ret,
                    struct kw_err *err);

/** @return NULL: the file does not name it. */
const struct ext_zone *ext_zones_find(const struct ext_zones *zones, const char *name);

/** What a joule costs in a zone, relative to the median: 1 where the file does not name it.
 * @param zone "": the node has none. */
double ext_zones_factor(const struct ext_zones *zones, const char *zone);
