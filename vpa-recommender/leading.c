/* SPDX-License-Identifier: Apache-2.0 */
#include "vpa-recommender/leading.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"

int rec_leading_start(struct rec_leading *leading, const struct rec_settings *settings,
                      void (*wake)(void *user), void *user, struct kw_err *err)
{
    const struct kw_kube_lease_conf conf = {
        .kube = {.kubeconfig = settings->kubeconfig, .context = settings->context},
        .settings = settings->lease,
        .changed = wake,
        .user = user,
    };

    return settings->lease.enabled ? kw_kube_lease_start(&conf, &leading->lease, err) : 0;
}

uint32_t rec_leading_timeout_ms(const struct kw_kube_lease_settings *settings)
{
    if (!settings->enabled)
        return 0;
    return (uint32_t)((settings->duration_ns - settings->renew_deadline_ns) / KW_NS_PER_MS);
}

bool rec_leading_tell(struct rec_leading *leading, struct kw_log *log)
{
    struct kw_kube_lease_status status;
    bool led = leading->led;

    if (leading->lease == NULL)
        return false;
    kw_kube_lease_status(leading->lease, &status);
    leading->led = status.held;
    struct kw_field lease = kw_str("lease", kw_kube_lease_name(leading->lease));
    if (status.held && !led)
        kw_log_info(log, "leading: this replica writes", lease,
                    kw_str("identity", kw_kube_lease_identity(leading->lease)));
    else if (led && !status.held)
        kw_log_warn(log, "leading no longer: this replica writes nothing", lease,
                    kw_str("error", status.error));
    else if (!status.held && status.holder[0] != '\0' &&
             strcmp(status.holder, leading->holder) != 0)
        kw_log_info(log, "standing by: another replica writes", lease,
                    kw_str("leader", status.holder));
    (void)snprintf(leading->holder, sizeof(leading->holder), "%s", status.holder);
    bool down = status.error[0] != '\0';
    if (down && !leading->down && !led)
        kw_log_warn(log, "the lease cannot be used; this replica writes nothing", lease,
                    kw_str("error", status.error));
    leading->down = down;
    return status.held && !led;
}

void rec_leading_stats(const struct rec_leading *leading, struct rec_stats *stats)
{
    struct kw_kube_lease_status status = {.known = true, .held = true};

    if (leading->lease != NULL)
        kw_kube_lease_status(leading->lease, &status);
    stats->elected = status.known;
    stats->leader = status.held;
}
