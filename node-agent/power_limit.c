/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/power_limit.h"

#include <errno.h>

/* Above this a limit is a firmware's way to say "none" (262 kW were seen). */
#define SANE_UW UINT64_C(20000000000)

/* RAPL counts power in 1/2^n W, n from 0 to 15; most CPUs have n = 3. */
#define COARSEST_UNIT_UW UINT64_C(1000000)

static double watts(uint64_t uw)
{
    return (double)uw / 1e6;
}

static uint64_t sane(uint64_t uw)
{
    return uw <= SANE_UW ? uw : 0;
}

/** What a package may draw at most; 0: not known. */
static uint64_t ceiling_uw(const struct agent_power_limit *limit)
{
    return sane(limit->max_uw) > 0 ? limit->max_uw : sane(limit->former_uw);
}

static uint64_t part_uw(uint64_t cap_uw, const struct agent_power_limit *limit, uint64_t sum_uw)
{
    return (uint64_t)((unsigned __int128)cap_uw * ceiling_uw(limit) / sum_uw);
}

int agent_power_limits_divide(uint64_t cap_uw, struct agent_power_limit *limits, size_t n,
                              struct kw_err *err)
{
    uint64_t sum_uw = 0;

    for (size_t i = 0; i < n; i++) {
        if (ceiling_uw(&limits[i]) == 0)
            return kw_err_set(err, -ENODATA,
                              "%s states neither a maximum nor a limit; nothing tells its part of "
                              "the cap",
                              limits[i].name);
        sum_uw += ceiling_uw(&limits[i]);
    }
    if (cap_uw > sum_uw)
        return kw_err_set(err, -ERANGE,
                          "a cap of %.3f W is above the %.3f W that the %zu CPU packages may draw "
                          "in the long term",
                          watts(cap_uw), watts(sum_uw), n);
    for (size_t i = 0; i < n; i++) {
        uint64_t part = part_uw(cap_uw, &limits[i], sum_uw);
        if (part == 0 || part < sane(limits[i].min_uw))
            return kw_err_set(err, -ERANGE,
                              "a cap of %.3f W leaves %.3f W for %s, below its minimum of %.3f W",
                              watts(cap_uw), watts(part), limits[i].name, watts(limits[i].min_uw));
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t part = part_uw(cap_uw, &limits[i], sum_uw);
        uint64_t former = sane(limits[i].former_uw);
        limits[i].wanted_uw = former > 0 && former < part ? former : part;
    }
    return 0;
}

enum agent_limit_outcome agent_power_limit_judge(uint64_t before_uw, uint64_t wanted_uw,
                                                 uint64_t after_uw)
{
    if (after_uw <= wanted_uw || after_uw - wanted_uw < COARSEST_UNIT_UW)
        return AGENT_LIMIT_SET;
    return after_uw == before_uw ? AGENT_LIMIT_IGNORED : AGENT_LIMIT_HIGHER;
}
