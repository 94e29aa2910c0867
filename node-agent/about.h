/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/node_info.h"
#include "node-agent/accounting.h"
#include "node-agent/meter.h"
#include "node-agent/options.h"
#include "node-agent/recording.h"
#include "node-agent/roots.h"
#include "node-agent/topology.h"

/* What the agent says of the machine that it is on. */

/** Bytes of a boot id with its NUL. */
#define AGENT_BOOT_ID_MAX 40

/** What it is: names and counts. */
void agent_about_node(const struct agent_options *options, const struct agent_topology *topology,
                      struct kw_node_info *ret);

/** The kernel's boot id; "" where it is not known. */
void agent_about_boot(const struct agent_roots *roots, char ret[AGENT_BOOT_ID_MAX]);

/** The header of a recording that begins now. */
void agent_about_recording(const struct agent_options *options, const struct kw_node_info *info,
                           const struct agent_topology *topology,
                           const struct agent_accounting_ops *accounting, void *accounting_self,
                           const struct agent_meter_ops *meter, struct agent_recording_header *ret);
