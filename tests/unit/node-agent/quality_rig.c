/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/node-agent/quality_rig.h"

#include <time.h>

#include "common/clock.h"

struct kwt_clocks kwt_clocks;

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    uint64_t ns = 1000 * KW_NS_PER_S;

    if (kwt_clocks.flow)
        return __real_clock_gettime(clock, ret);
    switch (clock) {
    case CLOCK_MONOTONIC: ns += kwt_clocks.monotonic; break;
    case CLOCK_BOOTTIME: ns += kwt_clocks.boot; break;
    case CLOCK_REALTIME: ns += kwt_clocks.real; break;
    default: ns = 0;
    }
    *ret = (struct timespec){.tv_sec = (time_t)(ns / KW_NS_PER_S),
                             .tv_nsec = (long)(ns % KW_NS_PER_S)};
    return 0;
}

void kwt_pass_ns(uint64_t ns)
{
    kwt_clocks.monotonic += ns;
    kwt_clocks.boot += ns;
    kwt_clocks.real += ns;
}

struct kwt_played kwt_played;

static int played_read(void *self, struct agent_usage *ret)
{
    (void)self;
    if (kwt_played.error != 0)
        return kwt_played.error;
    int rc = agent_usage_reset(
        ret, 2, 2, kwt_played.enabled_ns > 0 ? AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS) : 0);
    if (rc < 0)
        return rc;
    ret->t_ns = kw_now_ns();
    agent_usage_add(ret, AGENT_KEY_SYSTEM)[0] = kwt_played.system_ns;
    if (kwt_played.enabled_ns > 0) {
        ret->more[0].enabled_ns = kwt_played.enabled_ns;
        ret->more[0].running_ns = kwt_played.running_ns;
    }
    if (kwt_played.overflow_ns > 0) {
        agent_usage_add(ret, AGENT_KEY_OVERFLOW)[0] = kwt_played.overflow_ns;
        ret->overflowed = true;
    }
    return 0;
}

static void played_forget(void *self, const uint64_t *keys, size_t n)
{
    (void)self;
    (void)keys;
    (void)n;
}

const struct agent_accounting_ops kwt_played_accounting = {
    .name = "played", .read = played_read, .forget = played_forget};
