/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "node-agent/power_limit.h"
#include "node-agent/topology.h"

/*
 * The long-term constraints of the CPU packages in a powercap tree. Each counter's zone once, as
 * the meter chooses them (node-agent/powercap_zones.h): one view of a package, never both, nor its
 * parts, memory or psys.
 *
 * Files of limits are opened once, for reading and writing, while there are privileges: later none
 * is needed for them.
 */

struct agent_limit_zones;

/**
 * Finds the packages and reads what is stated of their limits; changes nothing.
 * @return 0; -errno with the cause: no powercap, a package without a zone, a zone that takes no
 *         long-term limit or is not enabled, a tree that cannot be written. Free with
 *         agent_limit_zones_close.
 */
int agent_limit_zones_open(const char *sysfs_root, const struct agent_topology *topology,
                           struct agent_limit_zones **ret, struct kw_err *err);
void agent_limit_zones_close(struct agent_limit_zones **zones);

/** The packages; former_uw is what was in force when they were opened. @return how many, > 0. */
size_t agent_limit_zones_list(struct agent_limit_zones *zones, struct agent_power_limit **ret);

/** What is in force now. A zone that went away and came back (a package's CPUs off and on) is
 * opened again. @return 0 or -errno. */
int agent_limit_read(struct agent_limit_zones *zones, size_t i, uint64_t *ret_uw);

/** Writes a limit. @return 0; -EACCES the firmware has locked it; -errno. */
int agent_limit_write(struct agent_limit_zones *zones, size_t i, uint64_t uw);
