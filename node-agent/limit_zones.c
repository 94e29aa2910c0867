/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/limit_zones.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"
#include "node-agent/powercap_zones.h"

/* Constraints are long term, short term and peak power, in an order that nothing promises. */
#define CONSTRAINTS_MAX 4

struct agent_limit_zones {
    size_t n;
    struct agent_power_limit limits[AGENT_PACKAGES_MAX];
    char paths[AGENT_PACKAGES_MAX][4096]; /* of constraint_K_power_limit_uw */
    int fds[AGENT_PACKAGES_MAX];          /* -1: its zone went away */
};

/** Number of the constraint called long_term. @return 0; -EOPNOTSUPP there is none; -errno. */
static int find_long_term(const char *zone, unsigned *ret)
{
    for (unsigned k = 0; k < CONSTRAINTS_MAX; k++) {
        char file[64], path[4096], name[64];
        (void)snprintf(file, sizeof(file), "constraint_%u_name", k);
        if (kw_path_join(path, sizeof(path), zone, file) < 0)
            return -ENAMETOOLONG;
        if (kw_file_read_at(AT_FDCWD, path, name, sizeof(name)) < 0)
            continue;
        name[strcspn(name, "\r\n")] = '\0';
        if (strcmp(name, "long_term") == 0) {
            *ret = k;
            return 0;
        }
    }
    return -EOPNOTSUPP;
}

/** A number that a zone may state; 0 where it does not (no file, ENODATA, EIO). */
static uint64_t stated(const char *zone, const char *attribute, unsigned k)
{
    char file[64], path[4096];
    uint64_t value = 0;

    (void)snprintf(file, sizeof(file), "constraint_%u_%s", k, attribute);
    if (kw_path_join(path, sizeof(path), zone, file) < 0 ||
        kw_file_read_u64_at(AT_FDCWD, path, &value) < 0)
        return 0;
    return value;
}

/** Whether limits of this zone are in force at all. */
static bool is_enabled(const char *zone)
{
    char path[4096];
    uint64_t enabled = 1;

    return kw_path_join(path, sizeof(path), zone, "enabled") < 0 ||
           kw_file_read_u64_at(AT_FDCWD, path, &enabled) < 0 || enabled != 0;
}

static int read_fd(int fd, uint64_t *ret_uw)
{
    char text[64];
    ssize_t len = kw_file_pread(fd, text, sizeof(text));

    if (len < 0)
        return (int)len;
    text[strcspn(text, "\r\n")] = '\0';
    if (text[0] == '\0')
        return -ENODATA;
    return kw_parse_u64(text, 0, UINT64_MAX, ret_uw) < 0 ? -EBADMSG : 0;
}

static int open_limit(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    return fd < 0 ? -errno : fd;
}

static int refuse_open(const char *name, const char *path, int rc, struct kw_err *err)
{
    if (rc == -EROFS)
        return kw_err_set(err, rc, "%s cannot be limited: %s is mounted read-only", name, path);
    if (rc == -EACCES || rc == -EPERM)
        return kw_err_set(err, rc,
                          "%s cannot be limited: %s is not this user's to write; run as "
                          "root",
                          name, path);
    return kw_err_set(err, rc, "%s cannot be limited: %s: %s", name, path, kw_errno_text(rc));
}

/** Adds one package. */
static int add_zone(struct agent_limit_zones *zones, const char *class_path,
                    const struct agent_zone *zone, struct kw_err *err)
{
    struct agent_power_limit limit = {0};
    char folder[4096], file[64];
    unsigned k = 0;
    int rc = kw_path_join(folder, sizeof(folder), class_path, zone->dir);

    if (rc < 0)
        return kw_err_set(err, rc, "%s: %s", class_path, kw_errno_text(rc));
    /* a package's name, two numbers included, has 35 bytes at most */
    (void)snprintf(limit.name, sizeof(limit.name), "%.50s%s", zone->domain.name,
                   zone->mmio ? "-mmio" : "");
    rc = find_long_term(folder, &k);
    if (rc < 0)
        return kw_err_set(err, rc, "%s takes no long-term limit through powercap (%s)", limit.name,
                          folder);
    if (!is_enabled(folder))
        return kw_err_set(err, -EOPNOTSUPP,
                          "limits of %s are switched off: %s/enabled is 0; write 1 there to have "
                          "them",
                          limit.name, folder);
    (void)snprintf(file, sizeof(file), "constraint_%u_power_limit_uw", k);
    rc = kw_path_join(zones->paths[zones->n], sizeof(zones->paths[0]), folder, file);
    if (rc < 0)
        return kw_err_set(err, rc, "%s/%s: %s", folder, file, kw_errno_text(rc));
    limit.min_uw = stated(folder, "min_power_uw", k);
    limit.max_uw = stated(folder, "max_power_uw", k);
    int fd = open_limit(zones->paths[zones->n]);
    if (fd < 0)
        return refuse_open(limit.name, zones->paths[zones->n], fd, err);
    zones->fds[zones->n] = fd;
    zones->limits[zones->n] = limit;
    rc = read_fd(fd, &zones->limits[zones->n].former_uw);
    zones->n++;
    return rc == 0 ? 0
                   : kw_err_set(err, rc, "the limit of %s cannot be read: %s: %s", limit.name,
                                zones->paths[zones->n - 1], kw_errno_text(rc));
}

/** A package that is not seen would draw beside the cap. A part of one may well be unreadable. */
static int check_whole(const struct agent_zones *found, const struct agent_topology *topology,
                       struct kw_err *err)
{
    if (found->left_out > 0)
        return kw_err_set(err, -E2BIG, "more packages than kwatt has room for");
    for (unsigned p = 0; p < topology->n_packages; p++) {
        bool seen = false;
        for (size_t i = 0; i < found->n && !seen; i++)
            seen = found->items[i].domain.kind == AGENT_DOMAIN_CPU &&
                   found->items[i].domain.package_id == topology->package_ids[p];
        if (seen)
            continue;
        return kw_err_set(err, -ENOENT, "package %u has no zone in powercap%s",
                          (unsigned)topology->package_ids[p],
                          found->first_error != 0
                              ? "; zones are listed that cannot be read, as in a container that "
                                "hides them"
                              : "");
    }
    return 0;
}

static int add_zones(struct agent_limit_zones *zones, const char *class_path,
                     const struct agent_zones *found, struct kw_err *err)
{
    for (size_t i = 0; i < found->n; i++) {
        if (found->items[i].domain.kind != AGENT_DOMAIN_CPU)
            continue;
        if (zones->n == AGENT_PACKAGES_MAX)
            return kw_err_set(err, -E2BIG, "more packages than kwatt has room for");
        int rc = add_zone(zones, class_path, &found->items[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int agent_limit_zones_open(const char *sysfs_root, const struct agent_topology *topology,
                           struct agent_limit_zones **ret, struct kw_err *err)
{
    kw_cleanup(agent_limit_zones_close) struct agent_limit_zones *zones = calloc(1, sizeof(*zones));
    char class_path[4096];
    struct agent_zones found = {0};

    if (zones == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    int rc = kw_path_join(class_path, sizeof(class_path), sysfs_root, "class/powercap");
    if (rc == 0)
        rc = agent_zones_scan(sysfs_root, topology, &found);
    if (rc < 0)
        return kw_err_set(err, rc, "no powercap in %s: %s", sysfs_root, kw_errno_text(rc));
    rc = found.seen == 0 ? kw_err_set(err, -ENOENT, "no RAPL zones in %s", class_path)
                         : check_whole(&found, topology, err);
    if (rc == 0)
        rc = add_zones(zones, class_path, &found, err);
    agent_zones_free(&found);
    if (rc == 0)
        *ret = KW_TAKE_PTR(zones);
    return rc;
}

void agent_limit_zones_close(struct agent_limit_zones **zones)
{
    struct agent_limit_zones *owned = KW_TAKE_PTR(*zones);

    if (owned == NULL)
        return;
    for (size_t i = 0; i < owned->n; i++) {
        if (owned->fds[i] >= 0)
            (void)close(owned->fds[i]);
    }
    free(owned);
}

size_t agent_limit_zones_list(struct agent_limit_zones *zones, struct agent_power_limit **ret)
{
    *ret = zones->limits;
    return zones->n;
}

/** Sees to an open file. @return 0 or -errno. */
static int reopen(struct agent_limit_zones *zones, size_t i)
{
    if (zones->fds[i] < 0)
        zones->fds[i] = open_limit(zones->paths[i]);
    return zones->fds[i] < 0 ? zones->fds[i] : 0;
}

/** The file of a zone that was taken down says ENODEV for ever. */
static void forget_gone(struct agent_limit_zones *zones, size_t i, int rc)
{
    if (rc != -ENODEV)
        return;
    (void)close(zones->fds[i]);
    zones->fds[i] = -1;
}

int agent_limit_read(struct agent_limit_zones *zones, size_t i, uint64_t *ret_uw)
{
    int rc = reopen(zones, i);

    if (rc == 0)
        rc = read_fd(zones->fds[i], ret_uw);
    forget_gone(zones, i, rc);
    return rc;
}

int agent_limit_write(struct agent_limit_zones *zones, size_t i, uint64_t uw)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)uw);
    int rc = reopen(zones, i);

    if (rc < 0)
        return rc;
    /* as a shell's `>` does: sysfs takes no notice, a file that plays it has no old digits left */
    if (ftruncate(zones->fds[i], 0) < 0)
        return -errno;
    ssize_t written = pwrite(zones->fds[i], text, (size_t)len, 0);
    rc = written == (ssize_t)len ? 0 : written < 0 ? -errno : -EIO;
    forget_gone(zones, i, rc);
    return rc;
}
