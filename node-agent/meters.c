/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "node-agent/meter.h"

const struct agent_meter_ops *const agent_meters[] = {&agent_meter_powercap, &agent_meter_model,
                                                      NULL};
