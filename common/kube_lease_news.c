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

uint32_t kw_lease_timeout_ms(const struct kw_kube_lease_settings *settings)
{
    if (!settings->enabled)
        return 0;
    return (uint32_t)((settings->duration_ns - settings->renew_deadline_ns) / KW_NS_PER_MS);
}
