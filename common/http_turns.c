/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_turns.h"

#include <stddef.h>

bool kw_http_turns_take(struct kw_http_turns *turns, const void *who, uint64_t *seen)
{
    if (turns->at == who)
        return true;
    turns->at = NULL;
    if (*seen != turns->taken) {
        *seen = turns->taken;
        return false;
    }
    turns->at = who;
    turns->taken++;
    return true;
}

void kw_http_turns_end(struct kw_http_turns *turns)
{
    turns->at = NULL;
}
