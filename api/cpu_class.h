/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/** What a CPU of this class draws per hardware thread; a prior, never a measurement. */
struct kw_cpu_class {
    const char *name; /**< "Cascade Lake", or "generic server" where the CPU is not known */
    uint32_t idle_mw; /**< per hardware thread, nothing to do */
    uint32_t full_mw; /**< per hardware thread, all busy */
};

/** The class of a CPU.
 * @param vendor as /proc/cpuinfo has it ("GenuineIntel"); @param family, model as there.
 * @return never NULL; static. */
const struct kw_cpu_class *kw_cpu_class_of(const char *vendor, unsigned family, unsigned model);
