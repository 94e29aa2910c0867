/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/outlook.h"

#include "extender/watts.h"

/** Pods that an assumption counts for. With n of its workload's pods seen, the error of their mean
 * is their spread by the root of n; requests are off by a factor of two to five in published
 * traces, so that few pods are as good a guess. */
#define ASSUMED_PODS 4

const char *const ext_cpu_from_names[EXT_CPU_FROM__MAX] = {
    [EXT_CPU_ANNOTATION] = "annotation",
    [EXT_CPU_PROFILE] = "profile",
    [EXT_CPU_REQUEST] = "requests",
    [EXT_CPU_DEFAULT] = "default",
};
_Static_assert(sizeof(ext_cpu_from_names) / sizeof(*ext_cpu_from_names) == EXT_CPU_FROM__MAX,
               "every source has a name");

static uint64_t at_least_one(uint64_t mcpu)
{
    return mcpu > 0 ? mcpu : 1;
}

/** @param request_mcpu at most KW_POD_MCPU_MAX. */
static uint64_t used_of(uint64_t request_mcpu, uint64_t percent)
{
    uint64_t mcpu = request_mcpu * percent / 100;

    return at_least_one(mcpu < KW_POD_MCPU_MAX ? mcpu : KW_POD_MCPU_MAX);
}

static void assume(const struct ext_assumptions *assumptions, const struct kw_extender_pod *pod,
                   struct ext_outlook *ret)
{
    if (pod->expected_mcpu > 0) {
        ret->from = EXT_CPU_ANNOTATION;
        ret->mcpu = pod->expected_mcpu;
    } else if (pod->request_mcpu > 0) {
        ret->from = EXT_CPU_REQUEST;
        ret->mcpu = used_of(pod->request_mcpu, assumptions->request_use_percent);
    } else {
        ret->from = EXT_CPU_DEFAULT;
        ret->mcpu = assumptions->default_cpu_mcpu;
    }
}

void ext_outlook_find(const struct ext_assumptions *assumptions,
                      const struct ext_profiles *profiles, const struct kw_extender_pod *pod,
                      struct ext_outlook *ret)
{
    *ret = (struct ext_outlook){0};
    assume(assumptions, pod, ret);
    if (ret->from == EXT_CPU_ANNOTATION)
        return;
    const struct ext_profile *profile = ext_profiles_find(profiles, pod->ns, &pod->owner);
    if (profile == NULL)
        return;
    /* all below 2^54 */
    uint64_t all = (uint64_t)profile->pods_permille + ASSUMED_PODS * 1000;
    uint64_t learnt = (uint64_t)profile->pods_permille * profile->used_mcpu;
    ret->assumed_mcpu = ret->mcpu;
    ret->assumed_from = ret->from;
    ret->from = EXT_CPU_PROFILE;
    ret->profile = *profile;
    ret->mcpu = at_least_one((learnt + ASSUMED_PODS * 1000 * ret->assumed_mcpu + all / 2) / all);
    ret->weight_permille = (unsigned)((uint64_t)profile->pods_permille * 1000 / all);
}

double ext_outlook_variance_mcpu2(const struct ext_outlook *outlook)
{
    double sigma = EXT_PRIOR_SPREAD * (double)outlook->mcpu;

    if (sigma < outlook->profile.sigma_mcpu)
        sigma = outlook->profile.sigma_mcpu;
    return sigma * sigma;
}
