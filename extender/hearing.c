/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/hearing.h"

#include <stdio.h>

bool ext_hearing_up(struct ext_hearing *hearing, int64_t now_ns)
{
    if (hearing->heard)
        return false;
    hearing->heard = true;
    hearing->since_ns = now_ns;
    return !hearing->said_lost;
}

bool ext_hearing_down(struct ext_hearing *hearing)
{
    bool say = !hearing->said_lost;

    hearing->heard = false;
    hearing->said_lost = true;
    return say;
}

void ext_hearing_say_lost(struct kw_log *log, const char *message, const char *cause, size_t len)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "%.*s", (int)(len < sizeof(text) ? len : sizeof(text) - 1),
                   cause);
    kw_log_warn(log, message, kw_str("cause", text));
}

bool ext_hearing_is_back(struct ext_hearing *hearing, int64_t now_ns)
{
    if (!hearing->heard || !hearing->said_lost ||
        now_ns - hearing->since_ns < EXT_HEARING_STEADY_NS)
        return false;
    hearing->said_lost = false;
    return true;
}
