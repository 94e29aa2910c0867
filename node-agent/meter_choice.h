/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/power_model.h"
#include "common/log.h"
#include "node-agent/metering.h"
#include "node-agent/options.h"

/**
 * Opens the meter that the options name, or the first that works, and logs the reasons against the
 * others.
 * @param model NULL: none. @return as agent_metering_new.
 */
int agent_meter_choose(const struct agent_options *options, const struct agent_topology *topology,
                       const char *sysfs_root, const struct kw_power_model *model,
                       struct kw_log *log, struct agent_metering **ret, struct kw_err *err);
