/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "extender/service.h"

/*
 * Requests and caps: which candidates pass. Like everything in a request: no lock that is waited
 * for, no allocation, no Redis.
 */

/** What a filter call came to. */
struct ext_gate {
    struct ext_cap_need need;
    uint64_t counts[EXT_CAP__MAX]; /**< candidates by verdict */
};

/** What a pod needs by what is expected of it, and what that counts as under the caps, where it
 * does not say its watts: its CPU, and `sigmas` deviations of what pods of its workload use. */
struct ext_cap_need ext_gate_need(const struct ext_caps *caps, const struct kw_extender_pod *pod,
                                  const struct ext_outlook *outlook, double sigmas);

/**
 * Says of each candidate whether it passes, into args->verdicts; enters the pod among those that
 * were let in, or among those that wait. @param snapshot has caps. @param args read with indices of
 * it. @param sigmas as for ext_gate_need.
 */
void ext_gate_filter(struct ext_service *service, const struct ext_snapshot *snapshot,
                     const struct ext_args *args, const struct ext_outlook *outlook, double sigmas,
                     int64_t now_ns, struct ext_gate *ret);

/** Takes levels from candidates that the pod would bring above a soft threshold. @return how many
 * candidates lost some. */
uint64_t ext_gate_penalise(const struct ext_caps *caps, const struct ext_args *args,
                           const struct ext_cap_need *need, uint8_t *scores);

/** Whether evicting pods of a node might let the pod in: its caps are not to blame, or are its own
 * and there is somebody to evict. @param index plus 1; 0: unknown. */
bool ext_gate_may_evict(const struct ext_caps *caps, uint32_t index,
                        const struct ext_cap_need *need, bool any_victims);
