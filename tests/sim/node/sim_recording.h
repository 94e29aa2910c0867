/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "tests/sim/node/node_sim.h"

/** What of a simulated node is written, and how long. */
struct sim_recording_conf {
    struct sim_node_conf node;
    unsigned has;         /**< enum agent_has */
    double idle_factor;   /**< prior of idle power, of the truth; 0: none is given */
    uint64_t interval_ns; /**< of a window; a multiple of 10 ms */
    unsigned seconds;
    bool dram; /**< the domain of memory, too */
};

/** Writes a recording with its truth (docs/recording.md). @return 0 or -errno. */
int sim_recording_write(const struct sim_recording_conf *conf, FILE *out);
