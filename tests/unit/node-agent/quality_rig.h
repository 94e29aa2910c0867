/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/accounting.h"

/* Clocks that a test moves (its program is linked with --wrap=clock_gettime), and CPU time that it
 * says. */

/** ns that each clock is ahead of a base of 1000 s. */
extern struct kwt_clocks {
    uint64_t monotonic, boot, real;
    bool flow; /**< they are the machine's own */
} kwt_clocks;

/** Time passes on all clocks. */
void kwt_pass_ns(uint64_t ns);

/** What the next reading says. */
extern struct kwt_played {
    uint64_t system_ns, overflow_ns;
    uint64_t enabled_ns, running_ns; /**< of hardware counters; 0: there are none */
    int error;
} kwt_played;

/** Its reading is that. */
extern const struct agent_accounting_ops kwt_played_accounting;
