/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/tariff.h"

#include <errno.h>
#include <stdlib.h>

#include "extender/zone_file.h"
#include "extender/zone_prices.h"

struct ext_tariff {
    struct ext_zone_file *file; /**< NULL: none */
    struct ext_stats *stats;
    struct kw_log *log;
    bool changed;       /**< since nodes were priced last */
    bool unlisted_said; /**< of the zones in force */
};

int ext_tariff_new(const char *file, struct ext_stats *stats, struct kw_log *log,
                   struct ext_tariff **ret)
{
    struct ext_tariff *tariff = calloc(1, sizeof(*tariff));
    int rc = 0;

    if (tariff == NULL)
        return -ENOMEM;
    tariff->stats = stats;
    tariff->log = log;
    if (file != NULL)
        rc = ext_zone_file_new(file, &tariff->file);
    if (rc < 0)
        ext_tariff_free(&tariff);
    else
        *ret = tariff;
    return rc;
}

void ext_tariff_free(struct ext_tariff **tariff)
{
    if (*tariff == NULL)
        return;
    ext_zone_file_free(&(*tariff)->file);
    free(*tariff);
    *tariff = NULL;
}

bool ext_tariff_reload(struct ext_tariff *tariff)
{
    struct kw_err err = {0};

    if (tariff->file == NULL)
        return false;
    int rc = ext_zone_file_check(tariff->file, &err);
    const struct ext_zones *zones = ext_zone_file_zones(tariff->file);
    tariff->stats->zones_file_bad = ext_zone_file_is_bad(tariff->file);
    if (rc < 0)
        kw_log_warn(tariff->log,
                    zones == NULL ? "no zones: a joule costs the same everywhere"
                                  : "the zones stay as they were",
                    kw_str("error", err.text));
    if (rc <= 0)
        return false;
    kw_log_info(tariff->log, "read the zones", kw_u64("zones", zones->n),
                kw_str("unit", zones->unit), kw_str("source", zones->source));
    tariff->stats->zones = zones->n;
    tariff->changed = true;
    tariff->unlisted_said = false;
    return true;
}

void ext_tariff_settle(struct ext_tariff *tariff, const struct ext_node_table *table, bool changed,
                       struct ext_snapshot *fresh)
{
    struct ext_stats *stats = tariff->stats;
    struct ext_zone_census census;

    if (tariff->file == NULL)
        return;
    ext_zone_prices_set(fresh, ext_zone_file_zones(tariff->file), table, changed || tariff->changed,
                        &census);
    tariff->changed = false;
    stats->zone_nodes_listed = census.listed;
    stats->zone_nodes_unlisted = census.unlisted;
    stats->zone_nodes_unlabelled = census.unlabelled;
    if (census.unlisted > 0 && !tariff->unlisted_said) {
        kw_log_warn(
            tariff->log,
            "nodes are in zones that the file does not name: a joule costs the median there",
            kw_u64("nodes", census.unlisted));
        tariff->unlisted_said = true;
    }
}
