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
    static const struct kw_lease_words words = {
        .taken = "leading: this replica writes",
        .lost = "leading no longer: this replica writes nothing",
        .others = "standing by: another replica writes",
        .unusable = "the lease cannot be used; this replica writes nothing",
    };
    struct kw_kube_lease_status status;

    if (leading->lease == NULL)
        return false;
    kw_kube_lease_status(leading->lease, &status);
    enum kw_lease_news news = kw_lease_news(&leading->seen, &status);
    struct kw_lease_line line = kw_lease_line(news, &words, &status);
    if (line.text != NULL)
        kw_log_write(log, line.level, line.text,
                     KW_FIELDS(kw_str("lease", kw_kube_lease_name(leading->lease)), line.why));
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
