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

/** Zones that can be held: 64 packages of two dies, each with its memory, and as many twins. */
#define AGENT_ZONES_MAX 512

/** A zone chosen as a domain. */
struct agent_zone {
    struct agent_domain domain; /**< path is the energy file, with the root in front */
    char dir[64];               /**< "intel-rapl:0:2" */
    int die;                    /**< -1: the zone is a whole package */
    bool mmio;
    bool mute;                     /**< its energy could not be read when it was listed */
    uint64_t scale_num, scale_den; /**< true energy = counter x num / den */
};

struct agent_zones {
    size_t n;
    struct agent_zone *items; /**< sorted: by package, CPU before DRAM; platform last */
    size_t seen;              /**< zones of the right control types, chosen or not */
    size_t left_out;          /**< domains there was no room for: too many zones or packages */
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

/**
 * Which of the zones that were read are domains, each counter once. Pure.
 * @param zones `n` of them with name, dir, kind, die, mmio and mute; sorted and cut to the chosen
 * ones.
 * @param dies_mirror the dies of a package show one counter (AMD), they do not add up (Intel).
 * @return how many were chosen.
 */
size_t agent_zones_choose(struct agent_zone *zones, size_t n, bool dies_mirror);

/** Whether all dies of this CPU's packages show the counter of their socket. */
bool agent_dies_mirror(const struct agent_topology *topology);

/** Whether a memory counter of this range was read by a kernel that mistook its unit (true energy
 * is then 61035/15300 of what it says). */
bool agent_dram_unit_mistaken(const struct agent_topology *topology, uint64_t range_uj);
