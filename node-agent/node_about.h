/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/node_info.h"
#include "node-agent/options.h"
#include "node-agent/topology.h"

#define AGENT_BOOT_ID_SIZE 40

/**
 * What is said of this machine for as long as the agent runs.
 * @param boot_id of the kernel that runs; "" where it cannot be read.
 */
void agent_node_about(const struct agent_options *options, const struct agent_topology *topology,
                      struct kw_node_info *ret, char boot_id[AGENT_BOOT_ID_SIZE]);
