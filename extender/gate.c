/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod enters the tally before its candidates are looked at, so that two schedulers that ask at
 * the same instant see each other. Where no candidate passes, it is taken back at once.
 */
#include "extender/gate.h"

#include <math.h>
#include <string.h>

/** Beyond a million cores nothing is told apart; keeps the sum of all variances far from its
 * limit. */
#define VARIANCE_MAX_MCPU2 1e12

/** What a pod adds to what is held. */
static struct ext_tally_sum share_of(const struct ext_caps *caps, const struct kw_extender_pod *pod,
                                     const struct ext_outlook *outlook)
{
    double variance =
        ext_caps_variance_mcpu2(caps, (double)outlook->mcpu, ext_outlook_variance_mcpu2(outlook));

    if (pod->expected_mw > 0) /* what it draws is said, and nothing is left to chance */
        return (struct ext_tally_sum){.mw = pod->expected_mw};
    return (struct ext_tally_sum){
        .mcpu = outlook->mcpu,
        .variance_mcpu2 =
            (uint64_t)(variance < VARIANCE_MAX_MCPU2 ? variance : VARIANCE_MAX_MCPU2)};
}

static struct ext_cap_need need_of(const struct ext_caps *caps, const struct kw_extender_pod *pod,
                                   const struct ext_tally_sum *share,
                                   const struct ext_tally_sum *others, double sigmas)
{
    double variance = (double)share->variance_mcpu2 + (double)others->variance_mcpu2;

    return (struct ext_cap_need){
        .mcpu = (double)share->mcpu * caps->use.flight,
        .mw = (double)share->mw,
        .held_mcpu = (double)others->mcpu * caps->use.flight + sigmas * sqrt(variance),
        .held_mw = (double)others->mw,
        .alone_mcpu = ext_caps_alone_mcpu(&caps->use, sigmas, (double)share->mcpu,
                                          (double)share->variance_mcpu2),
        .critical = pod->critical,
    };
}

struct ext_cap_need ext_gate_need(const struct ext_caps *caps, const struct kw_extender_pod *pod,
                                  const struct ext_outlook *outlook, double sigmas)
{
    const struct ext_tally_sum share = share_of(caps, pod, outlook);

    return need_of(caps, pod, &share, &(const struct ext_tally_sum){0}, sigmas);
}

static void look(const struct ext_caps *caps, const struct ext_args *args, struct ext_gate *gate)
{
    size_t n = ext_args_count(args);

    for (size_t i = 0; i < n; i++) {
        uint32_t index = args->indices[i];
        /* missing knowledge never blocks */
        enum ext_cap_verdict verdict =
            index == 0 ? EXT_CAP_PASSES : ext_caps_check(caps, index - 1, &gate->need);
        args->verdicts[i] = (uint8_t)verdict;
        gate->counts[verdict]++;
    }
}

/** Keeps a pod that nothing was left for, until it is let in. */
static void wait_for_room(struct ext_waiters *waiters, uint64_t key,
                          const struct ext_snapshot *snapshot, const struct ext_args *args,
                          const struct ext_tally_sum *share, int64_t now_ns)
{
    struct ext_waiter waiter = {.key = key,
                                .mcpu = (double)share->mcpu,
                                .mw = (double)share->mw,
                                .variance_mcpu2 = (double)share->variance_mcpu2,
                                .critical = args->pod.critical};
    size_t n = ext_args_count(args);

    for (size_t i = 0; i < n; i++) { /* known ones all: others pass */
        const struct ext_node *node = &snapshot->nodes[args->indices[i] - 1];
        ext_waiter_add(&waiter, node->name, node->name_len);
    }
    ext_waiters_put(waiters, &waiter, now_ns);
}

void ext_gate_filter(struct ext_service *service, const struct ext_snapshot *snapshot,
                     const struct ext_args *args, const struct ext_outlook *outlook, double sigmas,
                     int64_t now_ns, struct ext_gate *ret)
{
    const struct ext_caps *caps = snapshot->caps;
    const struct kw_extender_pod *pod = &args->pod;
    uint64_t key = ext_tally_key(pod->uid, pod->ns, pod->name);
    const struct ext_tally_sum share = share_of(caps, pod, outlook);
    struct ext_tally_sum others;

    ext_tally_put(service->tally, key, &share, now_ns, &others);
    struct ext_gate gate = {.need = need_of(caps, pod, &share, &others, sigmas)};
    look(caps, args, &gate);
    if (gate.counts[EXT_CAP_PASSES] == 0 && gate.need.alone_mcpu > 0) {
        gate.need.nowhere_else = true;
        memset(gate.counts, 0, sizeof(gate.counts));
        look(caps, args, &gate);
    }
    bool rejected = false;
    for (unsigned i = EXT_CAP_PASSES + 1; i < EXT_CAP__MAX; i++) {
        service->stats.rejected[i] += gate.counts[i];
        rejected = rejected || gate.counts[i] > 0;
    }
    if (gate.counts[EXT_CAP_PASSES] > 0)
        ext_waiters_drop(service->waiters, key);
    else
        ext_tally_take_back(service->tally, key);
    if (gate.counts[EXT_CAP_PASSES] == 0 && rejected)
        wait_for_room(service->waiters, key, snapshot, args, &share, now_ns);
    *ret = gate;
}

uint64_t ext_gate_penalise(const struct ext_caps *caps, const struct ext_args *args,
                           const struct ext_cap_need *need, uint8_t *scores)
{
    size_t n = ext_args_count(args);
    uint64_t penalised = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t index = args->indices[i];
        unsigned levels = index == 0 ? 0 : ext_caps_penalty(caps, index - 1, need);
        penalised += levels > 0;
        scores[i] = (uint8_t)(scores[i] > levels ? scores[i] - levels : 0);
    }
    return penalised;
}

bool ext_gate_may_evict(const struct ext_caps *caps, uint32_t index,
                        const struct ext_cap_need *need, bool any_victims)
{
    enum ext_cap_verdict verdict =
        index == 0 ? EXT_CAP_PASSES : ext_caps_check(caps, index - 1, need);

    return verdict == EXT_CAP_PASSES || (verdict == EXT_CAP_NODE && any_victims);
}
