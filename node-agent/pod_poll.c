/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/pod_poll.h"

#include "common/clock.h"

/* A list of 250 pods is 2 MB, takes a kubelet some 20 ms to write and us as long to read: with so
 * many times its cost between two of them, asking takes at most 1 % of a CPU on either side. */
#define COST_FACTOR 100

/* Pods start one after the other; one list names all that did within this. */
#define WANTED_NS KW_NS_PER_S

/* Nothing is missing, but labels, requests and limits may have changed. */
#define REFRESH_NS (300 * KW_NS_PER_S)

#define FAILED_LONGEST_NS (300 * KW_NS_PER_S)

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t agent_pod_poll_next(const struct agent_pod_poll *poll)
{
    uint64_t wait_ns = poll->wanted ? WANTED_NS : REFRESH_NS;

    if (poll->ended_ns == 0)
        return 0;
    if (poll->failures > 0) {
        unsigned doublings = poll->failures < 10 ? poll->failures : 10;
        wait_ns = KW_NS_PER_S << doublings;
        if (wait_ns > FAILED_LONGEST_NS)
            wait_ns = FAILED_LONGEST_NS;
    }
    uint64_t spare_ns = poll->cost_ns < FAILED_LONGEST_NS / COST_FACTOR
                            ? COST_FACTOR * poll->cost_ns
                            : FAILED_LONGEST_NS;
    return poll->ended_ns + larger(wait_ns, spare_ns);
}

void agent_pod_poll_done(struct agent_pod_poll *poll, bool failed, uint64_t began_ns,
                         uint64_t now_ns)
{
    poll->wanted = false;
    poll->ended_ns = now_ns;
    poll->cost_ns = now_ns > began_ns ? now_ns - began_ns : 0;
    poll->failures = failed ? poll->failures + 1 : 0;
}
