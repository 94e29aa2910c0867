/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "node-agent/meter.h"

const struct agent_meter_ops *const agent_meters[] = {&agent_meter_perf,
                                                      &agent_meter_powercap,
                                                      &agent_meter_msr,
                                                      &agent_meter_hwmon,
                                                      &agent_meter_hwmon_power,
                                                      &agent_meter_model,
                                                      NULL};

const struct agent_meter_ops *const agent_platform_meters[] = {&agent_platform_acpi, NULL};
