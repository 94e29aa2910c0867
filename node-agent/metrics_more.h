/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/** What /metrics lists where it is asked for. */
struct agent_metrics_more {
    bool containers; /**< those of pods */
    bool explain;    /**< what kwatt explain --pod tells, of every workload */
};
