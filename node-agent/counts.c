/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/counts.h"

/* Events that always run are read a moment apart: a thousandth is not worth a flag. */
#define MULTIPLEXED_FROM 1000

void agent_counts_add(struct agent_counts *to, const struct agent_counts *counts)
{
    to->shared_ns += counts->shared_ns;
    to->cycles += counts->cycles;
    to->instructions += counts->instructions;
    to->llc_misses += counts->llc_misses;
}

/** A counter's difference, as if it had run all of the time. @param running_ns > 0. */
static uint64_t whole(uint64_t now, uint64_t before, uint64_t enabled_ns, uint64_t running_ns)
{
    uint64_t delta = now > before ? now - before : 0;

    return (uint64_t)((unsigned __int128)delta * enabled_ns / running_ns);
}

struct agent_counts agent_counts_between(const struct agent_more *before,
                                         const struct agent_more *now, bool *multiplexed)
{
    struct agent_counts counts = {0};
    uint64_t enabled_ns = now->enabled_ns - before->enabled_ns;
    uint64_t running_ns = now->running_ns - before->running_ns;

    if (now->shared_ns > before->shared_ns)
        counts.shared_ns = now->shared_ns - before->shared_ns;
    if (now->enabled_ns <= before->enabled_ns || now->running_ns < before->running_ns)
        return counts;
    if (running_ns < enabled_ns - enabled_ns / MULTIPLEXED_FROM)
        *multiplexed = true;
    if (running_ns == 0)
        return counts; /* nobody knows */
    counts.cycles = whole(now->counters[AGENT_COUNTER_CYCLES],
                          before->counters[AGENT_COUNTER_CYCLES], enabled_ns, running_ns);
    counts.instructions =
        whole(now->counters[AGENT_COUNTER_INSTRUCTIONS],
              before->counters[AGENT_COUNTER_INSTRUCTIONS], enabled_ns, running_ns);
    counts.llc_misses = whole(now->counters[AGENT_COUNTER_LLC_MISSES],
                              before->counters[AGENT_COUNTER_LLC_MISSES], enabled_ns, running_ns);
    return counts;
}

struct agent_features agent_counts_features(const struct agent_counts *counts,
                                            const uint64_t *cpu_ns, unsigned n_packages,
                                            unsigned package, uint64_t workload)
{
    struct agent_counts sum = {0};
    uint64_t sum_ns = 0;

    for (unsigned p = 0; p < n_packages; p++) {
        if (package < n_packages && p != package)
            continue;
        agent_counts_add(&sum, &counts[p]);
        sum_ns += cpu_ns[p];
    }
    return (struct agent_features){.workload = workload,
                                   .cpu_ns = sum_ns,
                                   .shared_ns = sum.shared_ns,
                                   .cycles = sum.cycles,
                                   .instructions = sum.instructions,
                                   .llc_misses = sum.llc_misses};
}

unsigned agent_counts_has(unsigned features)
{
    unsigned has = 0;

    if ((features & AGENT_FEATURE_BIT(AGENT_FEATURE_SMT)) != 0)
        has |= AGENT_HAS_SMT;
    if ((features & AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS)) != 0)
        has |= AGENT_HAS_COUNTERS;
    return has;
}
