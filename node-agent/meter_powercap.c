/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RAPL counters through /sys/class/powercap. Which zones count is node-agent/powercap_zones.c; here
 * the energy files are kept open and read. A zone that cannot be read marks only itself, and a
 * rescan (on error and every minute, decided by the caller) opens what came back: a package's zones
 * vanish with its last CPU and appear again with it, on other inodes.
 */
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/domain.h"
#include "node-agent/powercap_zones.h"

struct powercap {
    char *sysfs_root;
    struct agent_topology topology;
    struct agent_zones zones;
    struct agent_domain *domains; /* zones.n */
    int *fds;                     /* zones.n; negative: -errno of the opening */
    bool failed;                  /* a zone failed since the last scan */
    bool renamed;                 /* files may be replaced: they are not the kernel's */
};

static void drop_zones(struct powercap *powercap)
{
    for (size_t i = 0; powercap->fds != NULL && i < powercap->zones.n; i++) {
        if (powercap->fds[i] >= 0)
            (void)close(powercap->fds[i]);
    }
    free(powercap->fds);
    free(powercap->domains);
    powercap->fds = NULL;
    powercap->domains = NULL;
    agent_zones_free(&powercap->zones);
}

static void powercap_close(void **self)
{
    struct powercap *powercap = KW_TAKE_PTR(*(struct powercap **)self);

    if (powercap == NULL)
        return;
    drop_zones(powercap);
    free(powercap->sysfs_root);
    free(powercap);
}

/** @return its descriptor or -errno. */
static int open_counter(const struct powercap *powercap, size_t i)
{
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/class/powercap/%s/energy_uj", powercap->sysfs_root,
                         powercap->zones.items[i].dir) >= sizeof(path))
        return -ENAMETOOLONG;
    return agent_domain_open_file(path);
}

/** Takes ownership of `zones`. @return 0 or -ENOMEM. */
static int take_zones(struct powercap *powercap, struct agent_zones *zones)
{
    drop_zones(powercap);
    powercap->zones = *zones;
    *zones = (struct agent_zones){0};
    size_t n = powercap->zones.n;
    powercap->domains = calloc(n + 1, sizeof(*powercap->domains));
    powercap->fds = calloc(n + 1, sizeof(*powercap->fds));
    if (powercap->domains == NULL || powercap->fds == NULL) {
        free(powercap->fds); /* nothing is open yet */
        powercap->fds = NULL;
        drop_zones(powercap);
        return -ENOMEM;
    }
    powercap->failed = powercap->renamed = false;
    for (size_t i = 0; i < n; i++) {
        powercap->domains[i] = powercap->zones.items[i].domain;
        powercap->fds[i] = open_counter(powercap, i);
        powercap->failed = powercap->failed || powercap->fds[i] < 0;
        struct statfs files;
        if (powercap->fds[i] >= 0 &&
            (fstatfs(powercap->fds[i], &files) < 0 || files.f_type != SYSFS_MAGIC))
            powercap->renamed = true;
    }
    return 0;
}

static int read_counter(int fd, const struct agent_zone *zone, uint64_t *ret_uj)
{
    uint64_t value = 0;
    int rc = agent_domain_read_number(fd, &value);

    if (rc == 0)
        *ret_uj = (uint64_t)((unsigned __int128)value * zone->scale_num / zone->scale_den);
    return rc;
}

/** Why no CPU zone can be read, and what would help. */
static int explain(const struct powercap *powercap, struct kw_err *err)
{
    const struct agent_zones *zones = &powercap->zones;
    int error = zones->first_error;
    bool empty = false; /* a package without a counter */

    if (zones->seen == 0)
        return kw_err_set(
            err, -ENODEV,
            "powercap: no intel-rapl zones in %s/class/powercap; the hypervisor shows "
            "none, or the kernel module intel_rapl_msr is not loaded",
            powercap->sysfs_root);
    for (size_t i = 0; i < zones->n; i++) {
        uint64_t unused;
        if (powercap->domains[i].kind != AGENT_DOMAIN_CPU)
            continue;
        int rc = read_counter(powercap->fds[i], &zones->items[i], &unused);
        empty = empty || rc == -ENOENT;
        if (rc < 0)
            error = rc;
    }
    if (error == -EACCES || error == -EPERM)
        return kw_err_set(err, -EACCES,
                          "powercap: energy_uj may be read by root only; run as root or with "
                          "CAP_DAC_READ_SEARCH");
    if (error == -ENOENT && empty)
        return kw_err_set(err, -ENOENT, "powercap: the zones of packages have no energy_uj");
    if (error == -ENOENT)
        return kw_err_set(
            err, -ENOENT,
            "powercap: zones are listed in %s/class/powercap but lead nowhere, as in a "
            "container that hides them; mount the host's /sys and name it with --sysfs",
            powercap->sysfs_root);
    if (error == 0)
        return kw_err_set(err, -ENODEV, "powercap: no zone is a CPU package");
    return kw_err_set(err, error, "powercap: zones cannot be read: %s", kw_errno_text(error));
}

static int powercap_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    struct powercap *powercap = calloc(1, sizeof(*powercap));
    void *owned = powercap;
    struct agent_zones zones = {0};
    int rc = -ENOMEM;

    if (powercap == NULL)
        return kw_err_set(err, -ENOMEM, "powercap: out of memory");
    powercap->topology = *conf->topology;
    powercap->sysfs_root = strdup(conf->sysfs_root);
    if (powercap->sysfs_root != NULL) {
        rc = agent_zones_scan(conf->sysfs_root, conf->topology, &zones);
        if (rc == 0 || rc == -ENOENT)
            rc = take_zones(powercap, &zones);
    }
    if (rc == 0) {
        bool usable = false;
        for (size_t i = 0; i < powercap->zones.n; i++) {
            uint64_t unused;
            usable =
                usable || (powercap->domains[i].kind == AGENT_DOMAIN_CPU &&
                           read_counter(powercap->fds[i], &powercap->zones.items[i], &unused) == 0);
        }
        if (usable) {
            *ret = powercap;
            return 0;
        }
        rc = explain(powercap, err);
    } else {
        (void)kw_err_set(err, rc, "powercap: %s/class/powercap: %s", conf->sysfs_root,
                         kw_errno_text(rc));
    }
    powercap_close(&owned);
    return rc;
}

static size_t powercap_domains(const void *self, const struct agent_domain **ret)
{
    const struct powercap *powercap = self;

    *ret = powercap->domains;
    return powercap->zones.n;
}

/** Opens a zone's file again where the name leads to another file now: guests get theirs by rename,
 * and an open descriptor would show the old number for ever. The kernel's own files never do that.
 */
static void follow_rename(struct powercap *powercap, size_t i)
{
    struct stat info;

    if (!powercap->renamed || powercap->fds[i] < 0 || fstat(powercap->fds[i], &info) < 0 ||
        info.st_nlink > 0)
        return;
    (void)close(powercap->fds[i]);
    powercap->fds[i] = open_counter(powercap, i);
}

static int powercap_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    struct powercap *powercap = self;
    int first_error = -ENODEV;
    bool any = false;

    (void)load;
    for (size_t i = 0; i < powercap->zones.n; i++) {
        ret[i] = (struct agent_reading){0};
        follow_rename(powercap, i);
        ret[i].error =
            read_counter(powercap->fds[i], &powercap->zones.items[i], &ret[i].counter_uj);
        ret[i].t_ns = kw_now_ns();
        if (ret[i].error == 0) {
            any = true;
        } else {
            powercap->failed = true;
            first_error = ret[i].error;
        }
    }
    return any ? 0 : first_error;
}

static bool same_zones(const struct agent_zones *a, const struct agent_zones *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!agent_domain_same(&a->items[i].domain, &b->items[i].domain))
            return false;
    }
    return true;
}

static bool powercap_rescan(void *self)
{
    struct powercap *powercap = self;
    struct agent_zones zones = {0};
    int rc = agent_zones_scan(powercap->sysfs_root, &powercap->topology, &zones);

    /* a tree that is gone is a tree without zones; anything else (out of descriptors) changes
     * nothing */
    if (rc < 0 && rc != -ENOENT)
        return false;
    powercap->zones.left_out = zones.left_out;
    if (!powercap->failed && same_zones(&powercap->zones, &zones)) {
        agent_zones_free(&zones);
        return false;
    }
    (void)take_zones(powercap, &zones);
    return true;
}

static size_t powercap_left_out(const void *self)
{
    const struct powercap *powercap = self;

    return powercap->zones.left_out;
}

const struct agent_meter_ops agent_meter_powercap = {
    .name = "powercap",
    .estimated = false,
    .open = powercap_open,
    .domains = powercap_domains,
    .read = powercap_read,
    .rescan = powercap_rescan,
    .left_out = powercap_left_out,
    .close = powercap_close,
};
