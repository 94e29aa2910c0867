/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /sys/class/powercap is flat: links to the zones of every control type at every depth. Choosing:
 *
 *   package-P            CPU, once per P; a package-P-die-D counts beside its siblings on Intel
 * (each die has its own counter) and once per P on AMD and Hygon (all dies mirror the socket's
 * counter) dram below a package DRAM of that package (its energy is not part of the package's)
 *   psys, psys-P         platform, beside the others
 *   core, uncore         part of the package already: never taken
 *   intel-rapl-mmio      mirrors the zone of the same name of intel-rapl: taken only where that is
 * missing arm-scmi, dtpm, ...  no energy counters of the CPU: not looked at
 *
 * Of several views of one counter one that can be read comes before one that cannot.
 *
 * Two zones that say they are the same (type, name, parent) are one counter seen twice.
 *
 * A machine's zones and its topology may disagree (a container that sees one socket's CPUs and both
 * sockets' zones). A package that the topology does not know gets a number behind those it knows.
 */
#include "node-agent/powercap_zones.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"
#include "node-agent/counter.h"
#include "node-agent/domain.h"

/* A limit above this is a firmware's way to say "none" (262 kW were seen). */
#define LIMIT_SANE_MW UINT64_C(20000000)

/* Constraints are long term, short term and peak power. */
#define CONSTRAINTS_MAX 4

/* Kernels before the fix read DRAM of these CPUs with the 15.3 uJ unit of their forerunners, where
 * the hardware counts in 61.035 uJ; the range betrays it. */
#define SPR_MODEL             143
#define EMR_MODEL             207
#define OLD_DRAM_RANGE_UJ     UINT64_C(65712999613)
#define DRAM_UNIT_TRUE_NJ     UINT64_C(61035)
#define DRAM_UNIT_MISTAKEN_NJ UINT64_C(15300)

void agent_zone_name_parse(const char *name, struct agent_zone_name *ret)
{
    static const char package_prefix[] = "package-", die_infix[] = "-die-", psys_prefix[] = "psys-";
    uint64_t number = 0;

    *ret = (struct agent_zone_name){.kind = AGENT_DOMAIN__MAX, .die = -1};
    if (strcmp(name, "dram") == 0) {
        ret->kind = AGENT_DOMAIN_DRAM;
    } else if (strcmp(name, "psys") == 0) {
        ret->kind = AGENT_DOMAIN_PLATFORM;
    } else if (strncmp(name, psys_prefix, sizeof(psys_prefix) - 1) == 0) {
        if (kw_parse_u64(name + sizeof(psys_prefix) - 1, 0, UINT32_MAX, &number) < 0)
            return;
        ret->kind = AGENT_DOMAIN_PLATFORM;
        ret->package = (uint32_t)number;
    } else if (strncmp(name, package_prefix, sizeof(package_prefix) - 1) == 0) {
        const char *text = name + sizeof(package_prefix) - 1;
        const char *infix = strstr(text, die_infix);
        size_t len = infix != NULL ? (size_t)(infix - text) : strlen(text);
        uint64_t die = 0;
        if (kw_parse_u64_span(text, len, 0, UINT32_MAX, &number) < 0)
            return;
        if (infix != NULL && kw_parse_u64(infix + sizeof(die_infix) - 1, 0, 1023, &die) < 0)
            return;
        ret->kind = AGENT_DOMAIN_CPU;
        ret->package = (uint32_t)number;
        ret->die = infix != NULL ? (int)die : -1;
    }
}

bool agent_zone_dir_parse(const char *dir, bool *ret_mmio, unsigned *ret_depth)
{
    static const char rapl[] = "intel-rapl", mmio_suffix[] = "-mmio";
    const char *at = dir;
    unsigned depth = 0;
    bool mmio = false;

    if (strncmp(at, rapl, sizeof(rapl) - 1) != 0)
        return false;
    at += sizeof(rapl) - 1;
    if (strncmp(at, mmio_suffix, sizeof(mmio_suffix) - 1) == 0) {
        mmio = true;
        at += sizeof(mmio_suffix) - 1;
    }
    while (*at == ':') {
        size_t digits = strspn(at + 1, "0123456789abcdef");
        if (digits == 0 || digits > 8)
            return false;
        at += 1 + digits;
        depth++;
    }
    if (*at != '\0' || depth == 0)
        return false;
    *ret_mmio = mmio;
    *ret_depth = depth;
    return true;
}

/** Reads a zone's `name`, its line end cut off. @return 0 or -errno. */
static int read_name(int class_fd, const char *dir, char *out, size_t size)
{
    char path[128];
    int rc = kw_path_join(path, sizeof(path), dir, "name");

    if (rc < 0)
        return rc;
    ssize_t len = kw_file_read_at(class_fd, path, out, size);
    if (len < 0)
        return (int)len;
    out[strcspn(out, "\r\n")] = '\0';
    return 0;
}

/** One number of a zone; 0 where it cannot be had (constraint attributes give ENODATA, EIO or
 * nothing on many machines). */
static uint64_t read_attribute(int class_fd, const char *dir, const char *attribute)
{
    char path[192];
    uint64_t value = 0;

    if (kw_path_join(path, sizeof(path), dir, attribute) < 0 ||
        kw_file_read_u64_at(class_fd, path, &value) < 0)
        return 0;
    return value;
}

/** Twice the largest of every constraint's maximum and present limit, and of the class bound. */
static uint64_t plausible_mw(int class_fd, const char *dir, enum agent_domain_kind kind)
{
    static const char *const attributes[] = {"max_power_uw", "power_limit_uw"};
    uint64_t largest = agent_domain_bound_mw(kind);

    for (unsigned k = 0; k < CONSTRAINTS_MAX; k++) {
        for (size_t a = 0; a < KW_ARRAY_SIZE(attributes); a++) {
            char name[64];
            (void)snprintf(name, sizeof(name), "constraint_%u_%s", k, attributes[a]);
            uint64_t mw = read_attribute(class_fd, dir, name) / 1000;
            if (mw > largest && mw <= LIMIT_SANE_MW)
                largest = mw;
        }
    }
    return 2 * largest;
}

bool agent_dram_unit_mistaken(const struct agent_topology *topology, uint64_t range_uj)
{
    return range_uj == OLD_DRAM_RANGE_UJ && strcmp(topology->cpu_vendor, "GenuineIntel") == 0 &&
           topology->cpu_family == 6 &&
           (topology->cpu_model_number == SPR_MODEL || topology->cpu_model_number == EMR_MODEL);
}

bool agent_dies_mirror(const struct agent_topology *topology)
{
    return strcmp(topology->cpu_vendor, "AuthenticAMD") == 0 ||
           strcmp(topology->cpu_vendor, "HygonGenuine") == 0;
}

/** Whether a zone's energy cannot be read. */
static bool is_mute(int class_fd, const char *dir)
{
    char path[128];
    uint64_t unused;

    if (kw_path_join(path, sizeof(path), dir, "energy_uj") < 0)
        return true;
    kw_cleanup_close int fd = openat(class_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 || agent_domain_read_number(fd, &unused) < 0;
}

/** Fills a zone of the tree, chosen or not. @return 0; -errno of its name. */
static int read_zone(int class_fd, const char *dir, bool mmio, struct agent_zone *ret)
{
    struct agent_zone_name parsed;
    struct agent_zone zone = {.mmio = mmio, .scale_num = 1, .scale_den = 1};
    int rc = read_name(class_fd, dir, zone.domain.name, sizeof(zone.domain.name));

    if (rc < 0)
        return rc;
    (void)snprintf(zone.dir, sizeof(zone.dir), "%s", dir);
    agent_zone_name_parse(zone.domain.name, &parsed);
    zone.domain.kind = parsed.kind;
    zone.domain.package_id = parsed.package;
    zone.die = parsed.die;
    zone.mute = parsed.kind != AGENT_DOMAIN__MAX && is_mute(class_fd, dir);
    *ret = zone;
    return 0;
}

/** A child's package is its parent's; a child without a package above it is no domain. */
static void adopt_children(struct agent_zone *zones, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct agent_zone *zone = &zones[i];
        const char *first = strchr(zone->dir, ':');
        const char *last = strrchr(zone->dir, ':');
        bool child = first != last;
        if (zone->domain.kind == AGENT_DOMAIN__MAX)
            continue;
        if (!child) {
            if (zone->domain.kind == AGENT_DOMAIN_DRAM)
                zone->domain.kind = AGENT_DOMAIN__MAX;
            continue;
        }
        const struct agent_zone *parent = NULL;
        size_t len = (size_t)(last - zone->dir);
        for (size_t k = 0; k < n && parent == NULL; k++) {
            if (strlen(zones[k].dir) == len && strncmp(zones[k].dir, zone->dir, len) == 0)
                parent = &zones[k];
        }
        if (zone->domain.kind != AGENT_DOMAIN_DRAM || parent == NULL ||
            parent->domain.kind != AGENT_DOMAIN_CPU) {
            zone->domain.kind = AGENT_DOMAIN__MAX;
            continue;
        }
        zone->domain.package_id = parent->domain.package_id;
        zone->die = parent->die;
    }
}

static int compare_zones(const void *a, const void *b)
{
    const struct agent_zone *x = a, *y = b;
    bool x_platform = x->domain.kind == AGENT_DOMAIN_PLATFORM;
    bool y_platform = y->domain.kind == AGENT_DOMAIN_PLATFORM;

    if (x_platform != y_platform)
        return x_platform ? 1 : -1;
    if (x->domain.package_id != y->domain.package_id)
        return x->domain.package_id < y->domain.package_id ? -1 : 1;
    if (x->domain.kind != y->domain.kind)
        return x->domain.kind < y->domain.kind ? -1 : 1;
    if (x->mute != y->mute)
        return x->mute ? 1 : -1;
    if (x->mmio != y->mmio)
        return x->mmio ? 1 : -1;
    if (x->die != y->die)
        return x->die < y->die ? -1 : 1;
    return strcmp(x->dir, y->dir);
}

size_t agent_zones_choose(struct agent_zone *zones, size_t n, bool dies_mirror)
{
    size_t kept = 0;

    adopt_children(zones, n);
    /* sorted, what is preferred comes first */
    qsort(zones, n, sizeof(*zones), compare_zones);
    for (size_t i = 0; i < n; i++) {
        bool twin = zones[i].domain.kind == AGENT_DOMAIN__MAX;
        for (size_t k = 0; k < kept && !twin; k++) {
            if (zones[k].domain.kind != zones[i].domain.kind ||
                zones[k].domain.package_id != zones[i].domain.package_id)
                continue;
            /* a whole package beside its dies would count them twice */
            twin = zones[k].mmio != zones[i].mmio || dies_mirror || zones[k].die == zones[i].die ||
                   zones[k].die < 0 || zones[i].die < 0;
        }
        if (!twin)
            zones[kept++] = zones[i];
    }
    return kept;
}

/** Dense numbers. Packages there is no number for are dropped and counted; a platform zone is of no
 * package and needs none. */
static void number_packages(struct agent_zones *zones, const struct agent_topology *topology)
{
    struct agent_package_numbers numbers = {0};
    size_t kept = 0;

    for (size_t i = 0; i < zones->n; i++) {
        struct agent_domain *domain = &zones->items[i].domain;
        if (domain->kind != AGENT_DOMAIN_PLATFORM &&
            agent_package_number(&numbers, topology, domain->package_id, &domain->package) < 0) {
            zones->left_out++;
            continue;
        }
        zones->items[kept++] = zones->items[i];
    }
    zones->n = kept;
}

static void read_limits(int class_fd, const char *class_path, const struct agent_topology *topology,
                        struct agent_zone *zone)
{
    uint64_t range_uj = read_attribute(class_fd, zone->dir, "max_energy_range_uj");

    if (zone->domain.kind == AGENT_DOMAIN_DRAM && agent_dram_unit_mistaken(topology, range_uj)) {
        zone->scale_num = DRAM_UNIT_TRUE_NJ;
        zone->scale_den = DRAM_UNIT_MISTAKEN_NJ;
    }
    zone->domain.range_uj = (uint64_t)((unsigned __int128)agent_counter_modulus_uj(range_uj) *
                                       zone->scale_num / zone->scale_den);
    zone->domain.max_mw = plausible_mw(class_fd, zone->dir, zone->domain.kind);
    char below[sizeof(zone->dir) + 16];
    (void)snprintf(below, sizeof(below), "%s/energy_uj", zone->dir);
    agent_domain_set_path(&zone->domain, class_path, below);
}

int agent_zones_scan(const char *sysfs_root, const struct agent_topology *topology,
                     struct agent_zones *ret)
{
    char class_path[4096];
    struct agent_zones zones = {0};
    int rc = kw_path_join(class_path, sizeof(class_path), sysfs_root, "class/powercap");

    if (rc < 0)
        return rc;
    DIR *folder = opendir(class_path);
    if (folder == NULL)
        return -errno;
    kw_cleanup_free struct agent_zone *items = calloc(AGENT_ZONES_MAX, sizeof(*items));
    if (items == NULL) {
        (void)closedir(folder);
        return -ENOMEM;
    }
    size_t n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct agent_zone zone;
        bool mmio = false;
        unsigned depth = 0;
        if (strlen(entry->d_name) >= sizeof(zone.dir) ||
            !agent_zone_dir_parse(entry->d_name, &mmio, &depth))
            continue;
        zones.seen++;
        rc = read_zone(dirfd(folder), entry->d_name, mmio, &zone);
        if (rc < 0)
            zones.first_error = zones.first_error == 0 ? rc : zones.first_error;
        else if (zone.domain.kind == AGENT_DOMAIN__MAX)
            continue; /* part of a package, or unknown */
        else if (n < AGENT_ZONES_MAX)
            items[n++] = zone;
        else
            zones.left_out++;
    }
    zones.n = agent_zones_choose(items, n, agent_dies_mirror(topology));
    zones.items = KW_TAKE_PTR(items);
    number_packages(&zones, topology);
    for (size_t i = 0; i < zones.n; i++)
        read_limits(dirfd(folder), class_path, topology, &zones.items[i]);
    (void)closedir(folder);
    *ret = zones;
    return 0;
}

void agent_zones_free(struct agent_zones *zones)
{
    free(zones->items);
    *zones = (struct agent_zones){0};
}
