/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/topology.h"

/*
 * RAPL registers as the vendors number them, and what a count in them is worth. Pure.
 * Sources: Intel SDM volume 4 (0x606 and its energy status registers), AMD PPR (0xC0010299,
 * 0xC001029B), and the kernel's intel_rapl driver for the parts that break the rule.
 */

/** A 32-bit counter in a register. */
struct agent_msr_counter {
    uint32_t reg;      /**< 0: the CPU has none */
    uint64_t num, den; /**< one count is num/den microjoules */
};

struct agent_msr_layout {
    uint32_t unit_reg; /**< 0: this CPU is not known to have RAPL registers */
    struct agent_msr_counter package, dram;
};

/** The unit register of a CPU. @return 0 where it is not known to have any. */
uint32_t agent_msr_unit_register(const struct agent_topology *topology);

/** @param unit_value what the unit register shows. @return the registers and their units. */
struct agent_msr_layout agent_msr_layout(const struct agent_topology *topology,
                                         uint64_t unit_value);

/** Microjoules of the low 32 bits of a register's value, rounded down. */
uint64_t agent_msr_energy_uj(const struct agent_msr_counter *counter, uint64_t value);

/** What such a counter wraps at, in microjoules. */
uint64_t agent_msr_modulus_uj(const struct agent_msr_counter *counter);
