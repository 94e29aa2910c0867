/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod enters the tally before its candidates are looked at, so that two schedulers that ask at
 * the same instant see each other. Where no candidate passes, it is taken back at once.
 */
#include "extender/gate.h"

struct ext_cap_need ext_gate_need(const struct kw_extender_pod *pod,
                                  const struct ext_outlook *outlook, double sigmas)
{
    double mcpu = (double)outlook->mcpu + sigmas * outlook->profile.sigma_mcpu;

    return (struct ext_cap_need){
        .mcpu = pod->expected_mw > 0 ? 0 : mcpu,
        .mw = (double)pod->expected_mw,
        .critical = pod->critical,
    };
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
static void wait_for_room(struct ext_waiters *waiters, uint64_t key, const struct ext_args *args,
                          const struct ext_cap_need *need, int64_t now_ns)
{
    struct ext_waiter waiter = {
        .key = key, .mcpu = need->mcpu, .mw = need->mw, .critical = need->critical};
    size_t n = ext_args_count(args);

    for (size_t i = 0; i < n; i++) {
        size_t bit = (args->indices[i] - 1) % EXT_WAITER_BITS;
        waiter.nodes[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
    ext_waiters_put(waiters, &waiter, now_ns);
}

void ext_gate_filter(struct ext_service *service, const struct ext_caps *caps,
                     const struct ext_args *args, const struct ext_outlook *outlook, double sigmas,
                     int64_t now_ns, struct ext_gate *ret)
{
    const struct kw_extender_pod *pod = &args->pod;
    uint64_t key = ext_tally_key(pod->uid, pod->ns, pod->name);
    struct ext_gate gate = {.need = ext_gate_need(pod, outlook, sigmas)};
    uint64_t others_mcpu = 0;
    uint64_t others_mw = 0;

    ext_tally_put(service->tally, key, (uint64_t)gate.need.mcpu, (uint64_t)gate.need.mw, now_ns,
                  &others_mcpu, &others_mw);
    gate.need.held_mcpu = (double)others_mcpu;
    gate.need.held_mw = (double)others_mw;
    look(caps, args, &gate);
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
        wait_for_room(service->waiters, key, args, &gate.need, now_ns);
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
