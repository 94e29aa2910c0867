/* SPDX-License-Identifier: Apache-2.0 */
#include "vpa-recommender/leading.h"

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

bool rec_leading_tell(struct rec_leading *leading, struct kw_log *log)
{
    struct kw_kube_lease_status status;

    if (leading->lease == NULL)
        return false;
    kw_kube_lease_status(leading->lease, &status);
    struct kw_field lease = kw_str("lease", kw_kube_lease_name(leading->lease));
    enum kw_lease_news news = kw_lease_news(&leading->seen, &status);
    switch (news) {
    case KW_LEASE_TAKEN:
        kw_log_info(log, "leading: this replica writes", lease,
                    kw_str("identity", kw_kube_lease_identity(leading->lease)));
        break;
    case KW_LEASE_LOST:
        kw_log_warn(log, "leading no longer: this replica writes nothing", lease,
                    kw_str("error", status.error));
        break;
    case KW_LEASE_OTHERS:
        kw_log_info(log, "standing by: another replica writes", lease,
                    kw_str("leader", status.holder));
        break;
    case KW_LEASE_UNUSABLE:
        kw_log_warn(log, "the lease cannot be used; this replica writes nothing", lease,
                    kw_str("error", status.error));
        break;
    case KW_LEASE_SAME:
    case KW_LEASE_NEWS__MAX: break;
    }
    return news == KW_LEASE_TAKEN;
}

void rec_leading_stats(const struct rec_leading *leading, struct rec_stats *stats)
{
    struct kw_kube_lease_status status = {.known = true, .held = true};

    if (leading->lease != NULL)
        kw_kube_lease_status(leading->lease, &status);
    stats->elected = status.known;
    stats->leader = status.held;
}
