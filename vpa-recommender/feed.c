/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: counters restart with their agent, records arrive late, twice or not at all, and a
 * record comes from another machine, whose clock or honesty may be off. Whatever it says must not
 * make a jump in somebody's histogram, and must not move the histogram's time, which would decay
 * all true samples at once.
 *
 * Approach: the last reading used is the base of the next sample. A sample is made only between two
 * readings of one epoch with growing time and counter; anything else makes a new base and no
 * sample. A silence (agent or Redis away) ends in one sample with the mean over it: cumulative
 * counters lose nothing. Readings whose time is far from ours are refused before they touch
 * anything.
 *
 * The CPU use is rounded up to whole millicores, as the metrics API does whose samples the stock
 * recommender reads, and weighs 0.1 as there (since 1.4).
 */
#include "vpa-recommender/feed.h"

#include <string.h>

/** The stock weight of a CPU sample (minSampleWeight); only the ratio to the histogram's epsilon
 * matters. */
#define CPU_WEIGHT 0.1

/** Clocks of one cluster agree better than this; a token or certificate would fail long before. */
#define AHEAD_MAX_MS INT64_C(300000)

/** The stock recommender forgets after 8 days. */
#define BEHIND_MAX_MS (8 * INT64_C(86400000))

/** Shortest span of a first sample: below it, the agent's tick and rounding dominate. */
#define FIRST_SPAN_MS 1000

/** The histogram's last bucket starts at 1021 cores; a container with more is none. */
#define MCPU_MAX UINT64_C(1021000)

const char *const rec_feed_result_names[REC_FEED__MAX] = {
    [REC_FEED_SAMPLED] = "sampled", [REC_FEED_BASED] = "based",
    [REC_FEED_WAITING] = "waiting", [REC_FEED_OLD] = "old",
    [REC_FEED_CLOCK] = "clock",     [REC_FEED_IMPLAUSIBLE] = "implausible",
};
_Static_assert(REC_FEED__MAX == 6, "a result without a name");

static void rebase(struct rec_instance *instance, const struct rec_reading *reading)
{
    instance->based = true;
    instance->epoch = reading->epoch;
    instance->cpu_ns = reading->cpu_ns;
    instance->t_unix_ms = reading->t_unix_ms;
}

static void add_cpu(struct rec_usage *usage, uint64_t mcpu, int64_t t_ms)
{
    rec_histogram_add(&usage->cpu, (double)mcpu / 1000.0, CPU_WEIGHT, t_ms);
    if (usage->samples == 0 || t_ms < usage->first_ms)
        usage->first_ms = t_ms;
    if (usage->samples == 0 || t_ms > usage->last_ms)
        usage->last_ms = t_ms;
    usage->samples++;
}

/**
 * Our own clock was set back (a machine that booted with a wrong one): what was read before lies
 * ahead, and would stand for newer than all that comes. A little of that passes; beyond the time
 * that the stock recommender remembers, what was learnt weighs more than anything ever could again.
 */
static void mend_clock(struct rec_usage *usage, struct rec_instance *instance, int64_t now_unix_ms)
{
    if (instance->t_unix_ms > now_unix_ms + AHEAD_MAX_MS)
        memset(instance, 0, sizeof(*instance));
    if (usage->last_ms > now_unix_ms + BEHIND_MAX_MS)
        rec_usage_init(usage);
}

enum rec_feed_result rec_feed(struct rec_usage *usage, struct rec_instance *instance,
                              const struct rec_reading *reading, uint64_t interval_ms,
                              int64_t now_unix_ms)
{
    if (reading->t_unix_ms > now_unix_ms + AHEAD_MAX_MS ||
        reading->t_unix_ms < now_unix_ms - BEHIND_MAX_MS)
        return REC_FEED_CLOCK;
    mend_clock(usage, instance, now_unix_ms);
    if (instance->based && instance->epoch == reading->epoch &&
        reading->t_unix_ms <= instance->t_unix_ms)
        return REC_FEED_OLD;
    (void)rec_memory_peaks_add(&instance->memory, &usage->memory, reading->memory_bytes,
                               reading->t_unix_ms);
    if (!instance->based || instance->epoch != reading->epoch ||
        reading->cpu_ns < instance->cpu_ns) {
        rebase(instance, reading);
        return REC_FEED_BASED;
    }

    uint64_t span_ms = (uint64_t)(reading->t_unix_ms - instance->t_unix_ms);
    if (span_ms < (usage->samples == 0 ? FIRST_SPAN_MS : interval_ms - interval_ms / 4))
        return REC_FEED_WAITING;
    uint64_t used_ns = reading->cpu_ns - instance->cpu_ns;
    /* ns per ms / 1000 = millicores, rounded up */
    uint64_t mcpu = used_ns / (span_ms * 1000) + (used_ns % (span_ms * 1000) != 0);
    rebase(instance, reading);
    if (mcpu > MCPU_MAX)
        return REC_FEED_IMPLAUSIBLE;
    add_cpu(usage, mcpu, reading->t_unix_ms);
    return REC_FEED_SAMPLED;
}
