/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Exponential back-off with jitter, as arithmetic: the caller brings the randomness and does the
 * waiting. The jitter takes away up to half of the wait, so that many clients that lost the same
 * server at the same time do not come back at the same time.
 */
struct kw_backoff {
    uint32_t min_ms;  /**< first wait, at least 1 */
    uint32_t max_ms;  /**< longest wait, at least min_ms */
    uint32_t next_ms; /**< private; 0 after a success */
};

/** The wait before the next try, (1/2 .. 1] of a value that doubles with each call. @param random
 * any 32 bits. @return ms. */
uint32_t kw_backoff_next_ms(struct kw_backoff *backoff, uint32_t random);

/** After a success: the next failure waits min_ms again. */
void kw_backoff_reset(struct kw_backoff *backoff);

/** 32 bits for jitter, from the kernel (from the clock where it has none to give); no secret may
 * rest on them. */
uint32_t kw_random_u32(void);
