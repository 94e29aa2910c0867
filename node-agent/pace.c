/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/pace.h"

#define SECOND_NS UINT64_C(1000000000)
#define WINDOW_NS (SECOND_NS / 2)

/* CPU time that windows may take in a second: 0.55 ms in 5 s with 50 workloads, 5.3 ms with 1000.
 * What a sample costs is held against what it would cost to read one file of each cgroup, some 4 us
 * each (`scripts/bench agent`): that is 2.7 times as much with 50 workloads, 1.3 with 1000. A
 * window that costs more becomes longer. */
#define BUDGET_NS             UINT64_C(60000)
#define BUDGET_OF_WORKLOAD_NS UINT64_C(1000)

/* Below half a second windows go only with a part of it: shorter ones help less and less. */
#define CHEAP 2

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least)
        return least;
    return value > most ? most : value;
}

/** value x factor / divisor, as far as it fits. */
static uint64_t scaled(uint64_t value, uint64_t factor, uint64_t divisor)
{
    unsigned __int128 product = (unsigned __int128)value * factor / divisor;

    return product > UINT64_MAX ? UINT64_MAX : (uint64_t)product;
}

unsigned agent_pace_windows(uint64_t interval_ns, uint64_t cost_ns, size_t workloads, unsigned now)
{
    uint64_t budget_ns = BUDGET_NS + BUDGET_OF_WORKLOAD_NS * (uint64_t)workloads;
    uint64_t least_ns = scaled(cost_ns, SECOND_NS, budget_ns);
    uint64_t window_ns = cost_ns == 0 ? WINDOW_NS
                                      : clamp(scaled(cost_ns, CHEAP * SECOND_NS, budget_ns),
                                              AGENT_WINDOW_MIN_NS, WINDOW_NS);

    if (least_ns > window_ns)
        window_ns = least_ns;
    uint64_t n = interval_ns / window_ns;
    if (n == 0)
        n = 1;
    /* a window's cost differs from turn to turn: the clock is not set again for a fifth */
    uint64_t apart = n > now ? n - now : now - n;
    return now > 0 && apart * 5 <= now ? now : (unsigned)n;
}
