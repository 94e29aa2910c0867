/* SPDX-License-Identifier: Apache-2.0 */
#include "common/backoff.h"

#include <sys/random.h>

#include "common/clock.h"

uint32_t kw_backoff_next_ms(struct kw_backoff *backoff, uint32_t random)
{
    uint32_t wait = backoff->next_ms > backoff->min_ms ? backoff->next_ms : backoff->min_ms;

    if (wait > backoff->max_ms)
        wait = backoff->max_ms;
    backoff->next_ms = wait > backoff->max_ms / 2 ? backoff->max_ms : wait * 2;
    return wait - (uint32_t)((uint64_t)(wait / 2) * random / UINT32_MAX);
}

void kw_backoff_reset(struct kw_backoff *backoff)
{
    backoff->next_ms = 0;
}

uint32_t kw_random_u32(void)
{
    uint32_t random;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random)) {
        /* splitmix64's last steps spread the low bits of the clock */
        uint64_t x = kw_now_ns();
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        random = (uint32_t)(x >> 32);
    }
    return random;
}
