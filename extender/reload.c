/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/reload.h"

#include <string.h>

/** Options of ext_reload_policy, ext_reload_caps and the log. */
static const char *const at_once[] = {
    "stale-after", "default-cpu-mcpu",  "request-use-percent", "own-namespace",
    "dry-run",     "cap-soft-permille", "cap-sigma-permille",  "log-level",
};

struct ext_policy ext_reload_policy(const struct ext_settings *settings)
{
    struct ext_policy policy = {
        .stale_after_ns = settings->stale_after_ns,
        .assumptions = {.default_cpu_mcpu = settings->default_cpu_mcpu,
                        .request_use_percent = settings->request_use_percent},
        .cap_sigmas = (double)settings->cap_sigma_permille / 1000,
        .dry_run = settings->dry_run,
    };

    /* options.c bounds it */
    memcpy(policy.own_namespace, settings->own_namespace,
           strnlen(settings->own_namespace, KW_NAMESPACE_MAX - 1));
    return policy;
}

struct ext_cap_policy ext_reload_caps(const struct ext_settings *settings)
{
    return (struct ext_cap_policy){.sigmas = (double)settings->cap_sigma_permille / 1000,
                                   .soft_permille = (unsigned)settings->cap_soft_permille};
}

static bool is_at_once(const char *flag)
{
    for (size_t i = 0; i < sizeof(at_once) / sizeof(*at_once); i++) {
        if (strcmp(flag, at_once[i]) == 0)
            return true;
    }
    return false;
}

int ext_reload_later(const struct ext_settings *running, const struct ext_settings *fresh,
                     struct kw_buf *ret_flags)
{
    for (size_t i = 0; i < ext_program.n_options; i++) {
        const struct kw_conf_option *option = &ext_program.options[i];
        if (is_at_once(option->flag) || kw_conf_same(option, running, fresh))
            continue;
        int rc = kw_buf_addf(ret_flags, "%s--%s", ret_flags->len > 0 ? " " : "", option->flag);
        if (rc < 0)
            return rc;
    }
    return 0;
}
