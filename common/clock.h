/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <time.h>

#define KW_NS_PER_S  UINT64_C(1000000000)
#define KW_NS_PER_MS UINT64_C(1000000)

/** CLOCK_MONOTONIC in nanoseconds: what intervals are measured with. */
static inline uint64_t kw_now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * KW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/** CLOCK_BOOTTIME in nanoseconds: as kw_now_ns, and it goes on while the machine sleeps. */
static inline uint64_t kw_now_boot_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * KW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/** Wall clock in unix milliseconds: for people and for records that leave the machine, never for
 * intervals. */
static inline int64_t kw_now_unix_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + (int64_t)ts.tv_nsec / 1000000;
}
