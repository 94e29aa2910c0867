/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/accounting_choice.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

/** Says what was asked for and cannot be counted. */
static void log_features(struct kw_log *log, const struct agent_accounting_ops *ops, void *self)
{
    const struct agent_feature_state *states = ops->features == NULL ? NULL : ops->features(self);

    for (unsigned i = 0; states != NULL && i < AGENT_FEATURE__MAX; i++) {
        if (states[i].why_not[0] != '\0')
            kw_log_info(log, "not counted", kw_str("feature", agent_feature_names[i]),
                        kw_str("cause", states[i].why_not));
    }
}

static unsigned wanted_features(const struct agent_options *options)
{
    unsigned features = AGENT_FEATURE_BIT(AGENT_FEATURE_SMT);

    if (options->counters == 0)
        features |= AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS);
    if (options->softirq)
        features |= AGENT_FEATURE_BIT(AGENT_FEATURE_SOFTIRQ);
    return features;
}

/** Accounting by files keeps one open per cgroup. */
static void allow_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

int agent_accounting_choose(const struct agent_options *options, struct agent_accounting_conf *conf,
                            struct kw_log *log, const struct agent_accounting_ops **ret_ops,
                            void **ret_self, struct kw_err *err)
{
    const char *asked =
        options->accounting == 0 ? NULL : agent_accounting_choices[options->accounting];
    int rc = -ENODEV;

    allow_files();
    conf->features = wanted_features(options);
    for (size_t i = 0; agent_accounting_backends[i] != NULL && rc < 0; i++) {
        const struct agent_accounting_ops *ops = agent_accounting_backends[i];
        struct kw_err cause = {0};
        if (asked != NULL && strcmp(asked, ops->name) != 0)
            continue;
        rc = ops->open(conf, ret_self, &cause);
        if (rc == 0) {
            *ret_ops = ops;
            log_features(log, ops, *ret_self);
        } else if (asked == NULL) {
            kw_log_info(log, "accounting not usable", kw_str("accounting", ops->name),
                        kw_str("cause", cause.text));
        }
        (void)kw_err_set(err, rc, "accounting %s: %s", ops->name, cause.text);
    }
    return rc;
}
