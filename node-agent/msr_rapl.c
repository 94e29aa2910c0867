/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/msr_rapl.h"

#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"

#define INTEL_UNIT    0x606
#define INTEL_PACKAGE 0x611
#define INTEL_DRAM    0x619
#define AMD_UNIT      UINT32_C(0xC0010299)
#define AMD_PACKAGE   UINT32_C(0xC001029B)

#define UJ_PER_J UINT64_C(1000000)

/* Family 23 (Zen) is the first with these registers; 24 is Hygon's. */
#define AMD_FAMILY_MIN 23

/* Server parts whose memory counts in 15.3 uJ, whatever the unit register says. */
static const uint8_t fixed_dram_models[] = {
    63,  /* Haswell-X */
    79,  /* Broadwell-X */
    85,  /* Skylake-X, Cascade Lake, Cooper Lake */
    87,  /* Knights Landing */
    106, /* Ice Lake-X */
    108, /* Ice Lake-D */
    133, /* Knights Mill */
};
#define FIXED_DRAM_NUM 153
#define FIXED_DRAM_DEN 10

/* Silvermont and Airmont parts for phones and tablets count in 2^ESU uJ, not in 2^-ESU J. */
static const uint8_t microjoule_models[] = {55, 74, 76, 90};

static bool is_one_of(unsigned model, const uint8_t *models, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (models[i] == model)
            return true;
    }
    return false;
}

static bool is_amd(const struct agent_topology *topology)
{
    return (strcmp(topology->cpu_vendor, "AuthenticAMD") == 0 ||
            strcmp(topology->cpu_vendor, "HygonGenuine") == 0) &&
           topology->cpu_family >= AMD_FAMILY_MIN;
}

uint32_t agent_msr_unit_register(const struct agent_topology *topology)
{
    if (is_amd(topology))
        return AMD_UNIT;
    return strcmp(topology->cpu_vendor, "GenuineIntel") == 0 && topology->cpu_family == 6
               ? INTEL_UNIT
               : 0;
}

struct agent_msr_layout agent_msr_layout(const struct agent_topology *topology, uint64_t unit_value)
{
    unsigned esu = (unsigned)(unit_value >> 8) & 31;
    struct agent_msr_layout layout = {.unit_reg = agent_msr_unit_register(topology)};
    unsigned model = topology->cpu_model_number;

    if (layout.unit_reg == 0)
        return layout;
    layout.package = (struct agent_msr_counter){.num = UJ_PER_J, .den = UINT64_C(1) << esu};
    if (layout.unit_reg == AMD_UNIT) {
        layout.package.reg = AMD_PACKAGE;
        return layout;
    }
    if (is_one_of(model, microjoule_models, KW_ARRAY_SIZE(microjoule_models)))
        layout.package = (struct agent_msr_counter){.num = UINT64_C(1) << esu, .den = 1};
    layout.dram = layout.package;
    if (is_one_of(model, fixed_dram_models, KW_ARRAY_SIZE(fixed_dram_models)))
        layout.dram = (struct agent_msr_counter){.num = FIXED_DRAM_NUM, .den = FIXED_DRAM_DEN};
    layout.package.reg = INTEL_PACKAGE;
    layout.dram.reg = INTEL_DRAM;
    return layout;
}

/* 32 bits of counts times at most 2^31 fit 64 bits. */
uint64_t agent_msr_energy_uj(const struct agent_msr_counter *counter, uint64_t value)
{
    return (value & UINT32_MAX) * counter->num / counter->den;
}

uint64_t agent_msr_modulus_uj(const struct agent_msr_counter *counter)
{
    return (UINT64_C(1) << 32) * counter->num / counter->den;
}
