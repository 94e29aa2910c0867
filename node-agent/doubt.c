/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seen on real machines: two sockets that claim more than the management controller measured at the
 * power supplies, and a memory counter that shows 200 W on one socket beside 6 W on the other.
 */
#include "node-agent/doubt.h"

#include <string.h>

/* Parts may exceed the whole by what meters err, and by the time between their readings. */
#define PLATFORM_SLACK_PERMILLE 100

#define DRAM_RATIO 10

#define PJ_PER_UJ UINT64_C(1000000)

static bool exceeds_platform(const struct agent_doubt *doubt, size_t n_packages)
{
    unsigned __int128 parts_uj = 0;

    for (size_t p = 0; p < n_packages; p++)
        parts_uj += (unsigned __int128)doubt->cpu_uj[p] + doubt->dram_uj[p];
    return doubt->platform_known &&
           parts_uj * PJ_PER_UJ * 1000 > doubt->platform_pj * (1000 + PLATFORM_SLACK_PERMILLE);
}

static bool one_dram_stands_out(const struct agent_doubt *doubt, size_t n_packages)
{
    uint64_t least_uj = UINT64_MAX;

    for (size_t p = 0; p < n_packages; p++) {
        if (doubt->dram_uj[p] != 0 && doubt->dram_uj[p] < least_uj)
            least_uj = doubt->dram_uj[p];
    }
    for (size_t p = 0; p < n_packages; p++) {
        if (doubt->cpu_uj[p] != 0 && doubt->dram_uj[p] > doubt->cpu_uj[p] &&
            doubt->dram_uj[p] / DRAM_RATIO > least_uj)
            return true;
    }
    return false;
}

static void count(uint32_t *spans, bool seen)
{
    if (!seen)
        *spans = 0;
    else if (*spans < AGENT_DOUBT_SPANS)
        ++*spans;
}

/** Begins a span that starts now. */
static void begin(struct agent_doubt *doubt, uint64_t now_ns)
{
    memset(doubt->cpu_uj, 0, sizeof(doubt->cpu_uj));
    memset(doubt->dram_uj, 0, sizeof(doubt->dram_uj));
    doubt->platform_pj = 0;
    doubt->platform_known = true;
    doubt->start_ns = doubt->last_ns = now_ns;
}

bool agent_doubt_take(struct agent_doubt *doubt, const struct agent_doubt_window *window,
                      uint64_t now_ns)
{
    if (doubt->start_ns == 0 || now_ns < doubt->last_ns) {
        begin(doubt, now_ns);
        return false;
    }
    for (size_t p = 0; p < window->n_packages; p++) {
        doubt->cpu_uj[p] += window->cpu_uj[p];
        doubt->dram_uj[p] += window->dram_uj[p];
    }
    /* mW x ns = pJ */
    doubt->platform_pj += (unsigned __int128)window->platform_mw * (now_ns - doubt->last_ns);
    doubt->platform_known = doubt->platform_known && window->platform_mw != 0;
    doubt->last_ns = now_ns;
    if (now_ns - doubt->start_ns >= AGENT_DOUBT_SPAN_NS) {
        count(&doubt->platform_spans, exceeds_platform(doubt, window->n_packages));
        count(&doubt->dram_spans, one_dram_stands_out(doubt, window->n_packages));
        begin(doubt, now_ns);
    }
    return doubt->platform_spans >= AGENT_DOUBT_SPANS || doubt->dram_spans >= AGENT_DOUBT_SPANS;
}
