/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/topology.h"
#include "tests/support/tree.h"

/* Machines with power meters, as folders of text files. */

/** Makes a symbolic link, with the folders above it. */
void kwt_meter_link(const struct kwt_tree *tree, const char *path, const char *target);

/** A RAPL zone: name, energy and range; range NULL: no such file. */
void kwt_meter_zone(const struct kwt_tree *tree, const char *dir, const char *name,
                    const char *energy, const char *range);

/** A machine of `packages` packages with two CPUs each. */
void kwt_meter_topology(struct agent_topology *topology, unsigned packages, const char *vendor);
