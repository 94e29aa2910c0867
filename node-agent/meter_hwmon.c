/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwmon sensors as meters, three of them out of one implementation:
 *
 *   hwmon         energy counters of packages (64 bits, microjoules): read with the sample
 *   hwmon-power   powers of packages, summed up to energy
 *   acpi          power of the machine, published beside
 *
 * Powers may come over I2C, from firmware or from a management controller: they are read in a
 * thread of their own (node-agent/aside.h), and opened without being read. A machine's own meter is
 * a mean over a second or more, and each reading may cost traffic to the controller: it is asked
 * every five seconds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/domain.h"
#include "node-agent/hwmon.h"
#include "node-agent/integrator.h"

struct hwmon {
    const char *name; /* of the meter */
    enum agent_domain_kind kind;
    bool energy;
    char *sysfs_root;
    struct agent_topology topology;
    struct agent_hwmon sensors;
    struct agent_domain *domains;         /* sensors.n */
    struct agent_integrator *integrators; /* sensors.n */
    int *fds;                             /* sensors.n; negative: -errno of the opening */
    bool failed;                          /* a sensor failed since the last scan */
};

static void drop_sensors(struct hwmon *hwmon)
{
    for (size_t i = 0; hwmon->fds != NULL && i < hwmon->sensors.n; i++) {
        if (hwmon->fds[i] >= 0)
            (void)close(hwmon->fds[i]);
    }
    free(hwmon->fds);
    free(hwmon->domains);
    free(hwmon->integrators);
    hwmon->fds = NULL;
    hwmon->domains = NULL;
    hwmon->integrators = NULL;
    agent_hwmon_free(&hwmon->sensors);
}

static void hwmon_close(void **self)
{
    struct hwmon *hwmon = KW_TAKE_PTR(*(struct hwmon **)self);

    if (hwmon == NULL)
        return;
    drop_sensors(hwmon);
    free(hwmon->sysfs_root);
    free(hwmon);
}

/** The sum of a sensor that was there before, to go on from. */
static struct agent_integrator integrator_of(const struct hwmon *hwmon,
                                             const struct agent_domain *domain)
{
    for (size_t i = 0; i < hwmon->sensors.n; i++) {
        if (strcmp(hwmon->domains[i].path, domain->path) == 0)
            return hwmon->integrators[i];
    }
    return (struct agent_integrator){0};
}

/** Takes ownership of `sensors`. @return 0 or -ENOMEM with nothing changed. */
static int take_sensors(struct hwmon *hwmon, struct agent_hwmon *sensors)
{
    size_t n = sensors->n;
    kw_cleanup_free struct agent_domain *domains = calloc(n + 1, sizeof(*domains));
    kw_cleanup_free struct agent_integrator *integrators = calloc(n + 1, sizeof(*integrators));
    kw_cleanup_free int *fds = calloc(n + 1, sizeof(*fds));

    if (domains == NULL || integrators == NULL || fds == NULL) {
        agent_hwmon_free(sensors);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        domains[i] = sensors->items[i].domain;
        integrators[i] = integrator_of(hwmon, &domains[i]);
        fds[i] = agent_hwmon_open(hwmon->sysfs_root, &sensors->items[i]);
    }
    drop_sensors(hwmon);
    hwmon->sensors = *sensors;
    *sensors = (struct agent_hwmon){0};
    hwmon->domains = KW_TAKE_PTR(domains);
    hwmon->integrators = KW_TAKE_PTR(integrators);
    hwmon->fds = KW_TAKE_PTR(fds);
    hwmon->failed = false;
    for (size_t i = 0; i < n; i++)
        hwmon->failed = hwmon->failed || hwmon->fds[i] < 0;
    return 0;
}

/** Why there is nothing to read. */
static int explain(const struct hwmon *hwmon, struct kw_err *err)
{
    int error = hwmon->sensors.n > 0 ? hwmon->fds[0] : 0;

    if (error == -EACCES || error == -EPERM)
        return kw_err_set(err, error,
                          "%s: %s may be read by root only; run as root or with "
                          "CAP_DAC_READ_SEARCH",
                          hwmon->name, hwmon->domains[0].path);
    if (error < 0)
        return kw_err_set(err, error, "%s: %s: %s", hwmon->name, hwmon->domains[0].path,
                          kw_errno_text(error));
    if (hwmon->sensors.chips == 0)
        return kw_err_set(err, -ENODEV, "%s: no sensor chips in %s/class/hwmon", hwmon->name,
                          hwmon->sysfs_root);
    return kw_err_set(
        err, -ENODEV, "%s: none of the %u sensor chips in %s/class/hwmon shows the %s of %s",
        hwmon->name, hwmon->sensors.chips, hwmon->sysfs_root, hwmon->energy ? "energy" : "power",
        hwmon->kind == AGENT_DOMAIN_CPU ? "a CPU package" : "the machine");
}

static int open_any(const struct agent_meter_conf *conf, const char *name,
                    enum agent_domain_kind kind, bool energy, void **ret, struct kw_err *err)
{
    struct hwmon *hwmon = calloc(1, sizeof(*hwmon));
    struct agent_hwmon sensors = {0};
    void *owned = hwmon;
    bool usable = false;

    if (hwmon == NULL)
        return kw_err_set(err, -ENOMEM, "%s: out of memory", name);
    hwmon->name = name;
    hwmon->kind = kind;
    hwmon->energy = energy;
    hwmon->topology = *conf->topology;
    hwmon->sysfs_root = strdup(conf->sysfs_root);
    int rc = hwmon->sysfs_root == NULL
                 ? -ENOMEM
                 : agent_hwmon_scan(conf->sysfs_root, conf->topology, kind, energy, &sensors);
    if (rc == 0)
        rc = take_sensors(hwmon, &sensors);
    if (rc < 0)
        (void)kw_err_set(err, rc, "%s: %s", name, kw_errno_text(rc));
    for (size_t i = 0; rc == 0 && i < hwmon->sensors.n; i++)
        usable = usable || hwmon->fds[i] >= 0;
    if (rc == 0 && !usable)
        rc = explain(hwmon, err);
    if (rc < 0) {
        hwmon_close(&owned);
        return rc;
    }
    *ret = hwmon;
    return 0;
}

static int energy_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    return open_any(conf, agent_meter_hwmon.name, AGENT_DOMAIN_CPU, true, ret, err);
}

static int power_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    return open_any(conf, agent_meter_hwmon_power.name, AGENT_DOMAIN_CPU, false, ret, err);
}

static int acpi_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    return open_any(conf, agent_platform_acpi.name, AGENT_DOMAIN_PLATFORM, false, ret, err);
}

static size_t hwmon_domains(const void *self, const struct agent_domain **ret)
{
    const struct hwmon *hwmon = self;

    *ret = hwmon->domains;
    return hwmon->sensors.n;
}

static int hwmon_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    struct hwmon *hwmon = self;
    int first_error = -ENODEV;
    bool any = false;

    (void)load;
    for (size_t i = 0; i < hwmon->sensors.n; i++) {
        uint64_t value = 0;
        ret[i] = (struct agent_reading){0};
        int rc = agent_domain_read_number(hwmon->fds[i], &value);
        if (rc == 0 && hwmon->energy)
            ret[i].counter_uj = value;
        ret[i].t_ns = kw_now_ns();
        if (rc == 0 && !hwmon->energy) {
            struct agent_integrator *integrator = &hwmon->integrators[i];
            rc = agent_integrator_take(integrator, value, ret[i].t_ns);
            ret[i].counter_uj = integrator->counter_uj;
            ret[i].series = integrator->series;
        }
        ret[i].error = rc;
        any = any || rc == 0;
        if (rc < 0) {
            hwmon->failed = true;
            first_error = rc;
        }
    }
    return any ? 0 : first_error;
}

static bool hwmon_rescan(void *self)
{
    struct hwmon *hwmon = self;
    struct agent_hwmon sensors = {0};

    if (agent_hwmon_scan(hwmon->sysfs_root, &hwmon->topology, hwmon->kind, hwmon->energy,
                         &sensors) < 0)
        return false;
    bool same = !hwmon->failed && sensors.n == hwmon->sensors.n;
    for (size_t i = 0; i < sensors.n && same; i++)
        same = agent_domain_same(&sensors.items[i].domain, &hwmon->domains[i]);
    if (same) {
        agent_hwmon_free(&sensors);
        return false;
    }
    return take_sensors(hwmon, &sensors) == 0;
}

static size_t hwmon_left_out(const void *self)
{
    const struct hwmon *hwmon = self;

    return hwmon->sensors.left_out;
}

#define SHARED                                                            \
    .domains = hwmon_domains, .read = hwmon_read, .rescan = hwmon_rescan, \
    .left_out = hwmon_left_out, .close = hwmon_close

const struct agent_meter_ops agent_meter_hwmon = {.name = "hwmon", .open = energy_open, SHARED};

const struct agent_meter_ops agent_meter_hwmon_power = {
    .name = "hwmon-power", .period_ns = KW_NS_PER_S, .open = power_open, SHARED};

const struct agent_meter_ops agent_platform_acpi = {
    .name = "acpi", .period_ns = 5 * KW_NS_PER_S, .open = acpi_open, SHARED};
