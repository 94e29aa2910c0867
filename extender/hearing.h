/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log.h"

/*
 * When to say that the API server tells of something no more, and that it does again. A list that
 * may be read where watching it is refused, or a proxy that cuts each stream, is lost and back
 * every few seconds: that is said once, and its end once it has lasted. One thread at a time.
 */

/** Heard for so long, it is said to be back. */
#define EXT_HEARING_STEADY_NS (INT64_C(10) * 1000000000)

/** Zero-initialised: nothing was heard or said yet. */
struct ext_hearing {
    bool heard;     /**< by now */
    bool said_lost; /**< and not yet that it is back */
    int64_t since_ns;
};

/** It is heard. @return whether to say so now: it is the first time. */
bool ext_hearing_up(struct ext_hearing *hearing, int64_t now_ns);

/** It is not. @return whether to say so. */
bool ext_hearing_down(struct ext_hearing *hearing);

/** Says it. @param cause as a watch gives it. */
void ext_hearing_say_lost(struct kw_log *log, const char *message, const char *cause, size_t len);

/** Time goes on; to be called about once a second. @return whether to say that it is back. */
bool ext_hearing_is_back(struct ext_hearing *hearing, int64_t now_ns);

/** @param up as ext_hearing_up; else as ext_hearing_is_back. */
static inline bool ext_hearing_news(struct ext_hearing *hearing, bool up, int64_t now_ns)
{
    return up ? ext_hearing_up(hearing, now_ns) : ext_hearing_is_back(hearing, now_ns);
}
