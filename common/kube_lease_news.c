/* SPDX-License-Identifier: Apache-2.0 */
#include "common/kube_lease_news.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"

enum kw_lease_news kw_lease_news(struct kw_lease_seen *seen,
                                 const struct kw_kube_lease_status *status)
{
    const struct kw_lease_seen before = *seen;

    seen->held = status->held;
    seen->down = status->error[0] != '\0';
    (void)snprintf(seen->holder, sizeof(seen->holder), "%s", status->holder);
    if (status->held)
        return before.held ? KW_LEASE_SAME : KW_LEASE_TAKEN;
    if (before.held)
        return KW_LEASE_LOST;
    if (seen->down && !before.down)
        return KW_LEASE_UNUSABLE;
    bool another = status->holder[0] != '\0' && strcmp(status->holder, before.holder) != 0;
    return another ? KW_LEASE_OTHERS : KW_LEASE_SAME;
}

struct kw_lease_line kw_lease_line(enum kw_lease_news news, const struct kw_lease_words *words,
                                   const struct kw_kube_lease_status *status)
{
    const char *const texts[KW_LEASE_NEWS__MAX] = {
        [KW_LEASE_TAKEN] = words->taken,
        [KW_LEASE_LOST] = words->lost,
        [KW_LEASE_OTHERS] = words->others,
        [KW_LEASE_UNUSABLE] = words->unusable,
    };
    bool bad = news == KW_LEASE_LOST || news == KW_LEASE_UNUSABLE;
    bool failed = bad && status->error[0] != '\0';

    return (struct kw_lease_line){
        .level = bad ? KW_LOG_WARN : KW_LOG_INFO,
        .text = texts[news],
        .why = failed ? kw_str("error", status->error) : kw_str("leader", status->holder),
    };
}

uint32_t kw_lease_timeout_ms(const struct kw_kube_lease_settings *settings)
{
    if (!settings->enabled)
        return 0;
    return (uint32_t)((settings->duration_ns - settings->renew_deadline_ns) / KW_NS_PER_MS);
}
