/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "node-agent/meter.h"

/*
 * Which zones of a powercap tree are energy domains: the part of the powercap meter that reads
 * names and limits. Zones are told apart by control type and `name`; the numbers in directory names
 * are hexadecimal and mean nothing but parentage.
 */

/** Zones looked at: 64 packages x (package, core, uncore, dram) and as many twins. */
#define AGENT_ZONES_MAX 512

/** A zone chosen as a domain. */
struct agent_zone {
    struct agent_domain domain; /**< path is the energy file, with the root in front */
    char dir[64];               /**< "intel-rapl:0:2" */
    int die;                    /**< -1: the zone is a whole package */
    bool mmio;
    uint64_t scale_num, scale_den; /**< true energy = counter x num / den */
};

struct agent_zones {
    size_t n;
    struct agent_zone *items; /**< sorted: by package, CPU before DRAM; platform last */
    size_t seen;              /**< zones of the right control types, chosen or not */
    int first_error;          /**< of a zone whose name could not be read; 0: none */
};

/** What a zone's `name` says. Pure. */
struct agent_zone_name {
    enum agent_domain_kind
        kind; /**< AGENT_DOMAIN__MAX: core, uncore, or anything else that is no domain */
    uint32_t package;
    int die;
};

/** Parses "package-1", "package-1-die-0", "dram", "psys", "psys-1". Pure. */
void agent_zone_name_parse(const char *name, struct agent_zone_name *ret);

/** Whether a directory name is a zone of intel-rapl or intel-rapl-mmio; depth 1 is a zone of its
 * own, 2 a child. Pure. */
bool agent_zone_dir_parse(const char *dir, bool *ret_mmio, unsigned *ret_depth);

/**
 * Reads the tree below `sysfs_root`/class/powercap and chooses the domains.
 * @param ret free with agent_zones_free.
 * @return 0, also where no zone was found; -ENOENT no such class directory; -errno.
 */
int agent_zones_scan(const char *sysfs_root, const struct agent_topology *topology,
                     struct agent_zones *ret);
void agent_zones_free(struct agent_zones *zones);
