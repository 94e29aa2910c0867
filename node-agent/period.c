/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/period.h"

#include <string.h>

void agent_period_add(struct agent_period *period, const struct agent_period_window *window)
{
    period->interval_ns += window->interval_ns;
    period->quality |= window->quality;
    period->quality_epoch |= window->quality;
    if (window->usage_known) {
        period->busy_ns += window->busy_ns;
        period->work_ns += window->work_ns;
        period->known_ns += window->interval_ns;
    }
    for (unsigned q = 0; q < KW_QUALITY__MAX; q++)
        period->quality_windows[q] += (window->quality >> q) & 1;
}

void agent_period_flag(struct agent_period *period, uint32_t quality)
{
    const struct agent_period_window window = {.quality = quality & ~period->quality};

    agent_period_add(period, &window);
}

void agent_period_next(struct agent_period *period)
{
    period->interval_ns = 0;
    period->busy_ns = 0;
    period->work_ns = 0;
    period->known_ns = 0;
    period->quality = 0;
    memset(period->slots, 0, sizeof(period->slots));
}

bool agent_period_covers(const struct agent_period *period, size_t slot)
{
    uint64_t ns = period->slots[slot].interval_ns, all_ns = period->interval_ns;

    return (ns > all_ns ? ns - all_ns : all_ns - ns) <= all_ns / 20;
}

uint64_t agent_period_used_mcpu(const struct agent_period *period, uint64_t before)
{
    return period->known_ns == 0 ? before : agent_period_mcpu(period->busy_ns, period->known_ns);
}

uint64_t agent_period_work_mcpu(const struct agent_period *period, uint64_t before)
{
    return period->known_ns == 0 ? before : agent_period_mcpu(period->work_ns, period->known_ns);
}

uint64_t agent_period_mcpu(uint64_t busy_ns, uint64_t interval_ns)
{
    return interval_ns == 0 ? 0 : (uint64_t)((unsigned __int128)busy_ns * 1000 / interval_ns);
}

uint64_t agent_period_mw(uint64_t uj, uint64_t interval_ns)
{
    return interval_ns == 0 ? 0 : (uint64_t)((unsigned __int128)uj * 1000000 / interval_ns);
}
