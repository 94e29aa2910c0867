/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules, in the order in which they are asked:
 *
 *   first reading        a baseline; what the counter holds was drawn before us
 *   forward step         the difference
 *   step back            a wrap if the counter wraps and the wrapped difference is something the
 * machine can draw in that time; else a reset (suspend, kexec, module reload), which has no energy:
 *                        a wrap taken from a reset would invent up to 262 kJ
 *   over the ceiling     dropped and flagged; the reading becomes the new baseline
 *   long window          if the machine could have drawn a whole modulus beside what is seen, a
 * second wrap cannot be excluded: the difference stands (it is the least that was drawn) and the
 * gap is flagged. A step back in a window in which a whole modulus could have been drawn says
 * nothing, since any difference would be plausible: a reset. The machine having slept is a gap too;
 * a step back after sleep is a reset, since suspend to RAM clears the counters.
 *
 * Energy is thus never invented. It is lost only where a flag says so.
 */
#include "node-agent/counter.h"

#include "api/quality.h"

/* Counters are updated about every millisecond with jitter, and clock and counter are not read at
 * one instant: a ceiling on power needs slack, or short windows would drop honest readings. */
#define SLACK_NS UINT64_C(20000000)

/* Sleep shorter than this is the two clocks being read one after the other. */
#define SLEEP_MIN_NS UINT64_C(100000000)

/** Most that can be drawn in a window, in uJ; saturates. */
static uint64_t most_uj(uint64_t max_mw, uint64_t ns)
{
    /* mW x ns = pJ */
    unsigned __int128 pj = (unsigned __int128)max_mw * (ns + SLACK_NS);
    unsigned __int128 uj = pj / 1000000;

    return uj > UINT64_MAX ? UINT64_MAX : (uint64_t)uj;
}

void agent_counter_take(struct agent_counter *counter, const struct agent_counter_limits *limits,
                        uint64_t counter_uj, uint64_t t_ns, uint64_t slept_ns,
                        struct agent_counter_step *ret)
{
    *ret = (struct agent_counter_step){0};
    if (!counter->primed) {
        *counter = (struct agent_counter){.primed = true, .prev_uj = counter_uj, .prev_t_ns = t_ns};
        ret->baseline = true;
        return;
    }
    counter->slept_ns += slept_ns;
    if (t_ns <= counter->prev_t_ns)
        return;

    uint64_t awake_ns = t_ns - counter->prev_t_ns;
    bool slept = counter->slept_ns >= SLEEP_MIN_NS;
    /* counters may run on in light sleep: the ceiling must allow for it */
    uint64_t ceiling_uj =
        limits->max_mw == 0 ? UINT64_MAX : most_uj(limits->max_mw, awake_ns + counter->slept_ns);
    uint64_t delta = 0;

    ret->interval_ns = awake_ns;
    if (counter_uj >= counter->prev_uj) {
        delta = counter_uj - counter->prev_uj;
        if (delta > ceiling_uj) {
            delta = 0;
            ret->quality |= KW_QUALITY_BIT(KW_QUALITY_IMPLAUSIBLE);
        }
    } else if (limits->modulus_uj > counter->prev_uj && !slept &&
               (limits->max_mw == 0 || ceiling_uj < limits->modulus_uj) &&
               limits->modulus_uj - counter->prev_uj + counter_uj <= ceiling_uj) {
        delta = limits->modulus_uj - counter->prev_uj + counter_uj;
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_WRAPPED);
    } else {
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_RESET);
    }
    bool hides_wrap = limits->modulus_uj != 0 && limits->max_mw != 0 &&
                      ceiling_uj >= limits->modulus_uj && ceiling_uj - limits->modulus_uj >= delta;
    if (slept || hides_wrap)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_GAP);

    ret->delta_uj = delta;
    if (counter_uj != counter->prev_uj)
        counter->still_windows = 0;
    else if (counter->still_windows < UINT32_MAX)
        counter->still_windows++;
    counter->prev_uj = counter_uj;
    counter->prev_t_ns = t_ns;
    counter->slept_ns = 0;
}

void agent_counter_miss(struct agent_counter *counter, uint64_t slept_ns)
{
    if (counter->primed)
        counter->slept_ns += slept_ns;
}

uint64_t agent_counter_modulus_uj(uint64_t range_uj)
{
    /* the range is (2^32 - 1) units, truncated to whole microjoules (kernel, intel_rapl) */
    uint64_t unit = (range_uj + UINT32_MAX / 2) / UINT32_MAX;

    if (range_uj == 0 || range_uj > UINT64_MAX / 2)
        return 0;
    return range_uj + (unit > 0 ? unit : 1);
}
