/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/pace.h"

/* Windows of half a second, shorter where a window costs so little that one CPU spends no more
 * than a 10 000th of its time on them. */
#define WINDOW_NS  UINT64_C(500000000)
#define CHEAP_LESS 10000

/* A window that costs more (many workloads, an elaborate method, a machine so busy that nothing
 * stays in a cache) becomes longer, so that windows take at most a 5000th of one CPU, a millisecond
 * in five seconds: what a sample costs must not hang on how often one looks. */
#define DEAR_LESS 5000

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least)
        return least;
    return value > most ? most : value;
}

static uint64_t times(uint64_t value, uint64_t factor)
{
    return value > UINT64_MAX / factor ? UINT64_MAX : value * factor;
}

unsigned agent_pace_windows(uint64_t interval_ns, uint64_t cost_ns, unsigned now)
{
    uint64_t cheap_ns = cost_ns == 0 ? WINDOW_NS : times(cost_ns, CHEAP_LESS);
    uint64_t window_ns = clamp(cheap_ns, AGENT_WINDOW_MIN_NS, WINDOW_NS);
    uint64_t dear_ns = times(cost_ns, DEAR_LESS);

    if (dear_ns > window_ns)
        window_ns = dear_ns;
    uint64_t n = interval_ns / window_ns;
    if (n == 0)
        n = 1;
    /* a window's cost differs from turn to turn: the clock is not set again for a fifth */
    uint64_t apart = n > now ? n - now : now - n;
    return now > 0 && apart * 5 <= now ? now : (unsigned)n;
}
