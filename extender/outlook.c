/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/outlook.h"

#include "extender/watts.h"

/** Pods that an assumption counts for. With n of its workload's pods seen, the error of their mean
 * is their spread by the root of n; requests are off by a factor of two to five in published
 * traces, so that few pods are as good a guess. */
#define ASSUMED_PODS 4

/** Between these what was learnt of lives counts for waking a node. */
#define WAKE_LEAST_S 1800.0
#define WAKE_MOST_S  7200.0

const char *const ext_cpu_from_names[EXT_CPU_FROM__MAX] = {
    [EXT_CPU_ANNOTATION] = "annotation",
    [EXT_CPU_PROFILE] = "profile",
    [EXT_CPU_REQUEST] = "requests",
    [EXT_CPU_DEFAULT] = "default",
};
_Static_assert(sizeof(ext_cpu_from_names) / sizeof(*ext_cpu_from_names) == EXT_CPU_FROM__MAX,
               "every source has a name");

const char *const ext_life_from_names[EXT_LIFE_FROM__MAX] = {
    [EXT_LIFE_ANNOTATION] = "annotation",
    [EXT_LIFE_PROFILE] = "profile",
    [EXT_LIFE_DEFAULT] = "default",
};
_Static_assert(sizeof(ext_life_from_names) / sizeof(*ext_life_from_names) == EXT_LIFE_FROM__MAX,
               "every source has a name");

static uint64_t at_least_one(uint64_t number)
{
    return number > 0 ? number : 1;
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

/** @param profile NULL: nothing was learnt. */
static void expect_life(const struct kw_extender_pod *pod, const struct ext_profile *profile,
                        struct ext_outlook *ret)
{
    ret->life_ms = pod->expected_life_ms;
    ret->life_from = EXT_LIFE_ANNOTATION;
    if (pod->expected_life_ms > 0)
        return;
    ret->life_from = EXT_LIFE_DEFAULT;
    if (profile != NULL && (profile->lived_ms > 0 || profile->ended_permille > 0)) {
        ret->life_from = EXT_LIFE_PROFILE;
        ret->lived_ms = profile->lived_ms;
        ret->ended_permille = profile->ended_permille;
    }
    double ms = 1000 * kw_profile_life_s(ret->lived_ms, ret->ended_permille);
    ret->life_ms =
        ms < (double)KW_POD_LIFE_MS_MAX ? at_least_one((uint64_t)ms) : KW_POD_LIFE_MS_MAX;
}

void ext_outlook_find(const struct ext_assumptions *assumptions,
                      const struct ext_profiles *profiles, const struct kw_extender_pod *pod,
                      struct ext_outlook *ret)
{
    *ret = (struct ext_outlook){0};
    assume(assumptions, pod, ret);
    const struct ext_profile *profile = ext_profiles_find(profiles, pod->ns, &pod->owner);
    expect_life(pod, profile, ret);
    if (profile == NULL || ret->from == EXT_CPU_ANNOTATION)
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

double ext_outlook_wake_s(double life_s, enum ext_life_from from)
{
    if (from != EXT_LIFE_PROFILE)
        return life_s;
    return life_s < WAKE_LEAST_S ? WAKE_LEAST_S : life_s > WAKE_MOST_S ? WAKE_MOST_S : life_s;
}

double ext_outlook_variance_mcpu2(const struct ext_outlook *outlook)
{
    double sigma = EXT_PRIOR_SPREAD * (double)outlook->mcpu;

    if (sigma < outlook->profile.sigma_mcpu)
        sigma = outlook->profile.sigma_mcpu;
    return sigma * sigma;
}
