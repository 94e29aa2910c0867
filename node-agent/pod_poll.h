/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** When to ask a kubelet for its pods (pure). Times are CLOCK_MONOTONIC. */
struct agent_pod_poll {
    bool wanted;       /**< somebody lacks a name */
    uint64_t ended_ns; /**< of the last try; 0: none yet */
    uint64_t cost_ns;  /**< what that took */
    unsigned failures; /**< in a row */
};

/** Time of the next try: at once where there was none. */
uint64_t agent_pod_poll_next(const struct agent_pod_poll *poll);

/** Notes a try. */
void agent_pod_poll_done(struct agent_pod_poll *poll, bool failed, uint64_t began_ns,
                         uint64_t now_ns);
