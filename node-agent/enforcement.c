/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: a cap that the scheduler keeps is kept for what it places; what already runs may still
 * draw more. RAPL makes a package stay below a limit whatever runs, but the limit outlives who set
 * it: an agent that goes away must leave the machine as it was, also where it is killed.
 *
 * Order: the former limits are recorded in a file before the first one changes, and the record is
 * emptied after the last one is back. An agent killed in between leaves its limits in force (which
 * is what a cap is for) and the record; the next agent takes the former limits from there and not
 * from the hardware, and puts them back when it ends, or at once if it has no cap. After a reboot
 * the firmware's limits are in force and the record does not count.
 *
 * Somebody else (thermald, an operator) may change a limit meanwhile. That is said, and neither
 * fought nor undone: two programs that keep setting one register are worse than either.
 */
#include "node-agent/enforcement.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node-agent/limit_record.h"
#include "node-agent/limit_zones.h"
#include "node-agent/power_limit.h"

struct agent_enforcement {
    struct kw_log *log;
    const char *boot_id;
    int record_fd;
    struct agent_limit_zones *zones; /* NULL: not opened */
    struct agent_power_limit *limits;
    size_t n;
    bool ours[AGENT_PACKAGES_MAX];     /* this agent or a killed one has changed it */
    bool theirs[AGENT_PACKAGES_MAX];   /* somebody else has, since, and that was said */
    struct agent_former_limits absent; /* a killed agent's, of packages that are off now */
};

static double watts(uint64_t uw)
{
    return (double)uw / 1e6;
}

static struct agent_power_limit *find_limit(struct agent_enforcement *enforcement, const char *name)
{
    for (size_t i = 0; i < enforcement->n; i++) {
        if (strcmp(enforcement->limits[i].name, name) == 0)
            return &enforcement->limits[i];
    }
    return NULL;
}

/** Takes the true former limits from the record, and the present ones for what the killed agent
 * left. */
static void inherit(struct agent_enforcement *enforcement, const struct agent_former_limits *former)
{
    for (size_t i = 0; i < enforcement->n; i++)
        enforcement->limits[i].set_uw = enforcement->limits[i].former_uw;
    for (size_t k = 0; k < former->n; k++) {
        const struct agent_former_limit *item = &former->items[k];
        struct agent_power_limit *limit = find_limit(enforcement, item->name);
        if (limit == NULL) {
            enforcement->absent.items[enforcement->absent.n++] = *item;
            kw_log_warn(enforcement->log,
                        "a package whose limit an agent that was killed has set is not there now",
                        kw_str("package", item->name), kw_u64("former_mw", item->uw / 1000));
            continue;
        }
        limit->former_uw = item->uw;
        enforcement->ours[limit - enforcement->limits] = limit->set_uw != limit->former_uw;
    }
}

/** Records the former limit of every package, or of those that are not back. A package that comes
 * and one that goes at each start would fill the file: then the absent ones give way. */
static int record(const struct agent_enforcement *enforcement, bool all)
{
    struct agent_former_limits former = {0};
    const struct agent_former_limits *absent = &enforcement->absent;

    for (size_t i = 0; i < enforcement->n; i++) {
        if (!all && !enforcement->ours[i])
            continue;
        struct agent_former_limit *item = &former.items[former.n++];
        memcpy(item->name, enforcement->limits[i].name, sizeof(item->name));
        item->uw = enforcement->limits[i].former_uw;
    }
    for (size_t i = 0; i < absent->n && former.n < AGENT_PACKAGES_MAX; i++)
        former.items[former.n++] = absent->items[i];
    return agent_limit_record_write(enforcement->record_fd, enforcement->boot_id, &former);
}

static int refuse_write(const struct agent_power_limit *limit, int rc, struct kw_err *err)
{
    if (rc == -EACCES || rc == -EPERM)
        return kw_err_set(err, rc, "the limit of %s is locked by the firmware", limit->name);
    return kw_err_set(err, rc, "the limit of %s cannot be set to %.3f W: %s", limit->name,
                      watts(limit->wanted_uw), kw_errno_text(rc));
}

/** Sets one limit and sees what it became. */
static int set(struct agent_enforcement *enforcement, size_t i, struct kw_err *err)
{
    struct agent_power_limit *limit = &enforcement->limits[i];
    uint64_t before_uw = limit->set_uw;
    int rc = before_uw == limit->wanted_uw
                 ? 0
                 : agent_limit_write(enforcement->zones, i, limit->wanted_uw);

    if (rc < 0)
        return refuse_write(limit, rc, err);
    rc = agent_limit_read(enforcement->zones, i, &limit->set_uw);
    if (rc < 0) {
        limit->set_uw = limit->wanted_uw; /* as far as anybody knows */
        enforcement->ours[i] = true;
        return kw_err_set(err, rc, "the limit of %s cannot be read back: %s", limit->name,
                          kw_errno_text(rc));
    }
    enforcement->ours[i] = limit->set_uw != limit->former_uw;
    switch (agent_power_limit_judge(before_uw, limit->wanted_uw, limit->set_uw)) {
    case AGENT_LIMIT_IGNORED:
        return kw_err_set(err, -EPERM,
                          "the limit of %s stays at %.3f W when %.3f W are set: locked by the "
                          "firmware",
                          limit->name, watts(limit->set_uw), watts(limit->wanted_uw));
    case AGENT_LIMIT_HIGHER:
        kw_log_warn(enforcement->log, "a power limit became more than was set",
                    kw_str("package", limit->name), kw_u64("wanted_mw", limit->wanted_uw / 1000),
                    kw_u64("limit_mw", limit->set_uw / 1000));
        return 0;
    case AGENT_LIMIT_SET: break;
    }
    kw_log_info(enforcement->log, "power limit", kw_str("package", limit->name),
                kw_u64("limit_mw", limit->set_uw / 1000),
                kw_u64("wanted_mw", limit->wanted_uw / 1000),
                kw_u64("former_mw", limit->former_uw / 1000));
    return 0;
}

/** Puts one limit back. @return whether it needs no more of it. */
static bool restore(struct agent_enforcement *enforcement, size_t i)
{
    const struct agent_power_limit *limit = &enforcement->limits[i];
    uint64_t now_uw = 0;
    int rc = agent_limit_read(enforcement->zones, i, &now_uw);

    if (rc == 0 && now_uw != limit->set_uw) {
        kw_log_warn(enforcement->log, "a power limit was changed by somebody else, and is left",
                    kw_str("package", limit->name), kw_u64("limit_mw", now_uw / 1000),
                    kw_u64("former_mw", limit->former_uw / 1000));
        return true;
    }
    if (rc == 0)
        rc = agent_limit_write(enforcement->zones, i, limit->former_uw);
    if (rc == 0)
        rc = agent_limit_read(enforcement->zones, i, &now_uw);
    if (rc == 0) {
        kw_log_info(enforcement->log, "power limit put back", kw_str("package", limit->name),
                    kw_u64("limit_mw", now_uw / 1000),
                    kw_u64("former_mw", limit->former_uw / 1000));
        return true;
    }
    kw_log_error(enforcement->log, "a power limit cannot be put back; the next start tries again",
                 kw_str("package", limit->name), kw_u64("former_mw", limit->former_uw / 1000),
                 kw_errno(rc));
    return false;
}

void agent_enforcement_stop(struct agent_enforcement **enforcement)
{
    struct agent_enforcement *owned = KW_TAKE_PTR(*enforcement);

    if (owned == NULL)
        return;
    for (size_t i = 0; i < owned->n; i++)
        owned->ours[i] = owned->ours[i] && !restore(owned, i);
    /* without zones nothing was put back, and the record stands */
    int rc = owned->zones != NULL ? record(owned, false) : 0;
    if (rc < 0)
        kw_log_error(owned->log, "the record of power limits cannot be written", kw_errno(rc));
    agent_limit_zones_close(&owned->zones);
    if (owned->record_fd >= 0)
        (void)close(owned->record_fd);
    free(owned);
}

/** Opens record and zones. @param ret_killed how many limits a killed agent recorded. */
static int open_all(struct agent_enforcement *enforcement,
                    const struct agent_enforcement_conf *conf, size_t *ret_killed,
                    struct kw_err *err)
{
    struct agent_former_limits former = {0};
    int rc = agent_limit_record_open(conf->record_path, &enforcement->record_fd, err);

    if (rc < 0)
        return rc;
    rc = agent_limit_record_read(enforcement->record_fd, conf->boot_id, &former);
    if (rc < 0)
        return kw_err_set(err, rc,
                          "%s is no whole record of power limits; remove it where no kwatt agent "
                          "was killed on this machine since it booted",
                          conf->record_path);
    *ret_killed = former.n;
    if (former.n == 0 && conf->cap_w <= 0)
        return 0;
    rc = agent_limit_zones_open(conf->sysfs_root, conf->topology, &enforcement->zones, err);
    if (rc < 0)
        return rc;
    enforcement->n = agent_limit_zones_list(enforcement->zones, &enforcement->limits);
    inherit(enforcement, &former);
    return 0;
}

static int set_all(struct agent_enforcement *enforcement, double cap_w, struct kw_err *err)
{
    int rc = agent_power_limits_divide((uint64_t)(cap_w * 1e6 + 0.5), enforcement->limits,
                                       enforcement->n, err);

    if (rc < 0)
        return rc;
    rc = record(enforcement, true);
    if (rc < 0)
        return kw_err_set(err, rc, "the former power limits cannot be recorded: %s",
                          kw_errno_text(rc));
    for (size_t i = 0; rc == 0 && i < enforcement->n; i++)
        rc = set(enforcement, i, err);
    return rc;
}

int agent_enforcement_start(const struct agent_enforcement_conf *conf,
                            struct agent_enforcement **ret, struct kw_err *err)
{
    bool wanted = conf->cap_w > 0;
    size_t killed = 0;

    if (!wanted && access(conf->record_path, F_OK) < 0)
        return 0;
    kw_cleanup(agent_enforcement_stop) struct agent_enforcement *enforcement =
        calloc(1, sizeof(*enforcement));
    if (enforcement == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    enforcement->log = conf->log;
    enforcement->boot_id = conf->boot_id;
    enforcement->record_fd = -1;
    int rc = open_all(enforcement, conf, &killed, err);
    if (wanted && rc == 0)
        rc = set_all(enforcement, conf->cap_w, err);
    if (wanted)
        rc = rc < 0 ? kw_err_wrap(err, "the power cap cannot be enforced") : 0;
    else if (rc < 0 && killed > 0)
        kw_log_warn(conf->log, "power limits of an agent that was killed are still in force",
                    kw_str("cause", err->text));
    if (wanted && rc == 0)
        *ret = KW_TAKE_PTR(enforcement);
    return wanted ? rc : 0;
}

uint64_t agent_enforcement_look(struct agent_enforcement *enforcement)
{
    uint64_t sum_uw = 0;
    bool whole = true;

    if (enforcement == NULL)
        return 0;
    for (size_t i = 0; i < enforcement->n; i++) {
        const struct agent_power_limit *limit = &enforcement->limits[i];
        uint64_t now_uw = 0;
        int rc = agent_limit_read(enforcement->zones, i, &now_uw);
        whole = whole && rc == 0;
        sum_uw += now_uw;
        bool theirs = rc == 0 && now_uw != limit->set_uw;
        if (theirs && !enforcement->theirs[i])
            kw_log_warn(enforcement->log, "a power limit was changed by somebody else",
                        kw_str("package", limit->name), kw_u64("set_mw", limit->set_uw / 1000),
                        kw_u64("limit_mw", now_uw / 1000));
        enforcement->theirs[i] = theirs;
    }
    return whole ? sum_uw : 0;
}
