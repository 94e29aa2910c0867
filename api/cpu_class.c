/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watts per hardware thread, idle and full, of server CPU classes. The figures are facts published
 * by the Cloud Carbon Footprint project (cloud-carbon-coefficients, use coefficients per provider),
 * which derives them from idle and full-load results of SPECpower; where providers differ, the mean
 * is given, rounded to 10 mW. They cover the whole machine divided by its threads, so that on
 * package power they err to the high side. CPUs without a published figure take that of the nearest
 * older relative, and say so by `name`.
 *
 * A model number is what CPUID leaf 1 gives (family and model as /proc/cpuinfo shows them).
 */
#include "api/cpu_class.h"

#include <stddef.h>
#include <string.h>

struct class_row {
    const char *vendor;
    unsigned family;
    unsigned model_min, model_max;
    struct kw_cpu_class prior;
};

static const struct class_row rows[] = {
    {"GenuineIntel", 6, 42, 42, {"Sandy Bridge", 2170, 8560}},
    {"GenuineIntel", 6, 45, 45, {"Sandy Bridge", 2170, 8560}},
    {"GenuineIntel", 6, 58, 58, {"Ivy Bridge", 3040, 8220}},
    {"GenuineIntel", 6, 62, 62, {"Ivy Bridge", 3040, 8220}},
    {"GenuineIntel", 6, 60, 60, {"Haswell", 1900, 6000}},
    {"GenuineIntel", 6, 63, 63, {"Haswell", 1900, 6000}},
    {"GenuineIntel", 6, 69, 70, {"Haswell", 1900, 6000}},
    {"GenuineIntel", 6, 61, 61, {"Broadwell", 710, 3590}},
    {"GenuineIntel", 6, 71, 71, {"Broadwell", 710, 3590}},
    {"GenuineIntel", 6, 79, 79, {"Broadwell", 710, 3590}},
    {"GenuineIntel", 6, 86, 86, {"Broadwell", 710, 3590}},
    /* model 85 is Skylake-SP, Cascade Lake and Cooper Lake; their figures differ by 6 % */
    {"GenuineIntel", 6, 85, 85, {"Skylake to Cooper Lake", 640, 3980}},
    {"GenuineIntel", 6, 78, 78, {"Coffee Lake", 1140, 5420}},
    {"GenuineIntel", 6, 94, 94, {"Coffee Lake", 1140, 5420}},
    {"GenuineIntel", 6, 142, 142, {"Coffee Lake", 1140, 5420}},
    {"GenuineIntel", 6, 158, 158, {"Coffee Lake", 1140, 5420}},
    {"GenuineIntel", 6, 165, 167, {"Coffee Lake (nearest for this CPU)", 1140, 5420}},
    {"GenuineIntel", 6, 106, 108, {"Cascade Lake (nearest for Ice Lake)", 640, 3860}},
    {"GenuineIntel", 6, 143, 143, {"Cascade Lake (nearest for Sapphire Rapids)", 640, 3860}},
    {"GenuineIntel", 6, 207, 207, {"Cascade Lake (nearest for Emerald Rapids)", 640, 3860}},
    {"GenuineIntel", 6, 173, 174, {"Cascade Lake (nearest for Granite Rapids)", 640, 3860}},
    {"AuthenticAMD", 23, 0, 47, {"EPYC 1st Gen", 820, 2550}},
    {"HygonGenuine", 24, 0, 255, {"EPYC 1st Gen", 820, 2550}},
    {"AuthenticAMD", 23, 48, 255, {"EPYC 2nd Gen", 470, 1650}},
    {"AuthenticAMD", 25, 0, 15, {"EPYC 3rd Gen", 450, 1950}},
    {"AuthenticAMD", 25, 16, 255, {"EPYC 3rd Gen (nearest for Zen 4)", 450, 1950}},
    {"AuthenticAMD", 26, 0, 255, {"EPYC 3rd Gen (nearest for Zen 5)", 450, 1950}},
    {"ARM", 8, 0, 65535, {"Graviton", 470, 1690}},
};

/* Median of the classes above. */
static const struct kw_cpu_class generic = {"generic server", 680, 3640};

const struct kw_cpu_class *kw_cpu_class_of(const char *vendor, unsigned family, unsigned model)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct class_row *row = &rows[i];
        if (strcmp(row->vendor, vendor) == 0 && row->family == family && model >= row->model_min &&
            model <= row->model_max)
            return &row->prior;
    }
    return &generic;
}
