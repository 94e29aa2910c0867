/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/node_info.h"
#include "node-agent/accounting.h"
#include "node-agent/meter.h"
#include "node-agent/options.h"
#include "node-agent/recording.h"
#include "node-agent/topology.h"

/** The header of a recording that begins now. */
void agent_recording_about(const struct agent_options *options, const struct kw_node_info *info,
                           const struct agent_topology *topology,
                           const struct agent_accounting_ops *accounting, void *accounting_self,
                           const struct agent_meter_ops *meter, struct agent_recording_header *ret);
