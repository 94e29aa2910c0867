/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * One costly thing per turn of a loop, for http_tls.c only: a loop that serves many connections
 * offers each of them, one after the other, to go on; where all of them would work for
 * milliseconds, whoever has a short question waits for all of them. So each goes on only once the
 * loop has come round since another did. Whoever has waited longest is whom the loop offers first.
 */

/** Of one loop. Zeroed at the start. */
struct kw_http_turns {
    const void *at; /**< whose turn it is; only compared */
    uint64_t taken;
};

/**
 * Whether somebody may go on now; asked again in the next turn where not. Whose turn it is may ask
 * more than once.
 * @param seen of the one who asks, zeroed at the start.
 */
bool kw_http_turns_take(struct kw_http_turns *turns, const void *who, uint64_t *seen);

/** Whose turn it is has done what can be done now. */
void kw_http_turns_end(struct kw_http_turns *turns);
