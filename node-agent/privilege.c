/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/privilege.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include "common/cleanup.h"
#include "common/confine.h"

struct wanted {
    cap_value_t value;
    const char *name;
};
static const struct wanted wanted[] = {
    {CAP_BPF, "cap_bpf"},                         /* flush the accounting, read its maps */
    {CAP_PERFMON, "cap_perfmon"},                 /* the same, and hardware counters */
    {CAP_DAC_READ_SEARCH, "cap_dac_read_search"}, /* energy_uj and cgroup files of others */
};
static const struct wanted before_5_8 = {CAP_SYS_ADMIN, "cap_sys_admin"};

/** Adds a capability if this thread has it. */
static int keep(cap_t present, cap_t next, const struct wanted *one, char *kept)
{
    cap_flag_value_t has = CAP_CLEAR;
    size_t len = strlen(kept);

    if (cap_get_flag(present, one->value, CAP_PERMITTED, &has) < 0 || has != CAP_SET)
        return 0; /* not had, or not known to this kernel */
    if (cap_set_flag(next, CAP_PERMITTED, 1, &one->value, CAP_SET) < 0 ||
        cap_set_flag(next, CAP_EFFECTIVE, 1, &one->value, CAP_SET) < 0)
        return -errno;
    (void)snprintf(kept + len, AGENT_PRIVILEGE_TEXT - len, "%s%s", len > 0 ? "," : "", one->name);
    return 0;
}

/** Whatever is executed later cannot get back what is not wanted. Without CAP_SETPCAP nothing can
 * be taken out, and no_new_privs does as much. */
static void drop_bounding(cap_t next)
{
    for (cap_value_t cap = 0; cap_get_bound(cap) >= 0; cap++) {
        cap_flag_value_t has = CAP_CLEAR;
        if (cap_get_flag(next, cap, CAP_PERMITTED, &has) == 0 && has != CAP_SET)
            (void)cap_drop_bound(cap);
    }
    (void)cap_reset_ambient();
}

int agent_privilege_drop(bool bpf, char kept[AGENT_PRIVILEGE_TEXT])
{
    cap_t present = cap_get_proc();
    cap_t next = cap_init();
    int rc = present == NULL || next == NULL ? -ENOMEM : 0;

    kept[0] = '\0';
    for (size_t i = 0; rc == 0 && i < KW_ARRAY_SIZE(wanted); i++) {
        if (bpf || wanted[i].value != CAP_BPF)
            rc = keep(present, next, &wanted[i], kept);
    }
    if (rc == 0 && cap_get_bound(wanted[0].value) < 0)
        rc = keep(present, next, &before_5_8, kept);
    if (rc == 0)
        drop_bounding(next);
    if (rc == 0 && cap_set_proc(next) < 0)
        rc = -errno;
    if (rc == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        rc = -errno;
    if (kept[0] == '\0')
        (void)snprintf(kept, AGENT_PRIVILEGE_TEXT, "none");
    if (present != NULL)
        (void)cap_free(present);
    if (next != NULL)
        (void)cap_free(next);
    return rc;
}

int agent_privilege_confine(struct kw_err *err)
{
    /* to read BPF maps, and to load and attach again where CPUs come and go */
    static const char *const more[] = {"bpf", "perf_event_open", NULL};

    return kw_confine(more, err);
}
