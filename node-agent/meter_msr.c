/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RAPL registers through /dev/cpu/N/msr, for kernels without the drivers of perf and powercap. Only
 * where it is asked for: the device can read every register of the machine, and opening it needs
 * CAP_SYS_RAWIO. That is given up after start, so a CPU that vanishes later is replaced by its
 * spare: each package (each die, on Intel) has two CPUs open where it has two.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/cpu_place.h"
#include "node-agent/domain.h"
#include "node-agent/msr_port.h"
#include "node-agent/msr_rapl.h"

#define SPARES 2

/* A package's registers. */
struct place {
    uint32_t package_id;
    int die;
    int fds[SPARES]; /* the first that reads is used; negative: -errno */
};

struct msr {
    const struct agent_msr_port *port;
    struct agent_msr_layout layout;
    size_t n_places;
    struct place *places;
    size_t n;
    struct agent_domain *domains;
    const struct agent_msr_counter **counters; /* n */
    size_t *place_of;                          /* n */
    size_t left_out;
};

static int device_open(void *user, const char *dev_root, unsigned cpu)
{
    char path[4096];

    (void)user;
    if (snprintf(path, sizeof(path), "%s/cpu/%u/msr", dev_root, cpu) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    return agent_domain_open_file(path);
}

static int device_read(void *user, int fd, uint32_t reg, uint64_t *ret)
{
    uint64_t value = 0;
    ssize_t n = pread(fd, &value, sizeof(value), (off_t)reg);

    (void)user;
    if (n != (ssize_t)sizeof(value))
        return n < 0 ? -errno : -ENODATA;
    *ret = value;
    return 0;
}

static const struct agent_msr_port device = {.open = device_open, .read = device_read};

static void msr_close(void **self)
{
    struct msr *msr = KW_TAKE_PTR(*(struct msr **)self);

    if (msr == NULL)
        return;
    for (size_t i = 0; i < msr->n_places; i++) {
        for (size_t k = 0; k < SPARES; k++) {
            if (msr->places[i].fds[k] >= 0)
                (void)close(msr->places[i].fds[k]);
        }
    }
    free(msr->places);
    free(msr->domains);
    free(msr->counters);
    free(msr->place_of);
    free(msr);
}

/** Reads a register on the first CPU of a place that answers. @return 0 or -errno of the last. */
static int read_place(const struct msr *msr, const struct place *place, uint32_t reg, uint64_t *ret)
{
    int rc = -ENODEV;

    for (size_t k = 0; k < SPARES && rc < 0; k++)
        rc = place->fds[k] < 0 ? place->fds[k]
                               : msr->port->read(msr->port->user, place->fds[k], reg, ret);
    return rc;
}

/** Opens the CPUs of every package. @return 0 or -errno. */
static int open_places(struct msr *msr, const struct agent_meter_conf *conf)
{
    struct agent_cpu_set cpus = {0};
    struct agent_cpu_places places;
    const char *dev_root = conf->dev_root != NULL ? conf->dev_root : "/dev";
    int rc = agent_cpu_set_read(conf->sysfs_root, "online", &cpus);

    if (rc < 0)
        return rc;
    for (size_t k = 0; k < SPARES; k++) {
        agent_cpu_places_find(conf->sysfs_root, conf->topology, &cpus, &places);
        if (k == 0) {
            msr->places = calloc((size_t)places.n + 1, sizeof(*msr->places));
            if (msr->places == NULL)
                return -ENOMEM;
            msr->n_places = places.n;
            msr->left_out = places.left_out;
        }
        for (unsigned p = 0; p < places.n; p++) {
            size_t i = 0;
            while (k > 0 && i < msr->n_places &&
                   (msr->places[i].package_id != places.items[p].package_id ||
                    msr->places[i].die != places.items[p].die))
                i++;
            if (k > 0 && i == msr->n_places)
                continue; /* of one that was left out */
            struct place *place = &msr->places[k == 0 ? p : i];
            if (k == 0)
                *place = (struct place){.package_id = places.items[p].package_id,
                                        .die = places.items[p].die,
                                        .fds = {-ENODEV, -ENODEV}};
            place->fds[k] = msr->port->open(msr->port->user, dev_root, places.items[p].cpu);
            /* the next round finds the next CPU */
            unsigned c = 0;
            while (cpus.cpus[c] != places.items[p].cpu)
                c++;
            memmove(&cpus.cpus[c], &cpus.cpus[c + 1], (--cpus.n - c) * sizeof(cpus.cpus[0]));
        }
    }
    return 0;
}

/** Lists a counter as a domain where it counts: one that reads 0 is not wired up. */
static void add_domain(struct msr *msr, const struct agent_topology *topology,
                       struct agent_package_numbers *numbers, size_t place,
                       enum agent_domain_kind kind)
{
    const struct agent_msr_counter *counter =
        kind == AGENT_DOMAIN_CPU ? &msr->layout.package : &msr->layout.dram;
    struct agent_domain *domain = &msr->domains[msr->n];
    uint64_t value = 0;
    char below[32];

    if (counter->reg == 0 || read_place(msr, &msr->places[place], counter->reg, &value) < 0 ||
        value == 0)
        return;
    *domain = (struct agent_domain){.kind = kind,
                                    .package_id = msr->places[place].package_id,
                                    .range_uj = agent_msr_modulus_uj(counter),
                                    .max_mw = 2 * agent_domain_bound_mw(kind)};
    if (agent_package_number(numbers, topology, domain->package_id, &domain->package) < 0) {
        msr->left_out++;
        return;
    }
    (void)snprintf(domain->name, sizeof(domain->name), "%s-%u",
                   kind == AGENT_DOMAIN_CPU ? "package" : "dram", domain->package_id);
    (void)snprintf(below, sizeof(below), "0x%x/%zu", counter->reg, place);
    agent_domain_set_path(domain, "msr:", below);
    msr->counters[msr->n] = counter;
    msr->place_of[msr->n] = place;
    msr->n++;
}

/** Why no package can be read: what the opening or the unit register said. */
static int explain(const struct msr *msr, int error, struct kw_err *err)
{
    for (size_t i = 0; i < msr->n_places && error == 0; i++)
        error = msr->places[i].fds[0] < 0 ? msr->places[i].fds[0] : 0;
    if (error == -ENOENT || error == -ENXIO || error == -ENODEV)
        return kw_err_set(err, -ENODEV, "msr: no /dev/cpu/N/msr; load the kernel module msr");
    if (error == -EACCES || error == -EPERM)
        return kw_err_set(err, error,
                          "msr: not allowed; run as root with CAP_SYS_RAWIO, without kernel "
                          "lockdown");
    return kw_err_set(err, error < 0 ? error : -ENODATA, "msr: the energy registers show nothing");
}

static int find_counters(struct msr *msr, const struct agent_meter_conf *conf, struct kw_err *err)
{
    struct agent_package_numbers numbers = {0};
    uint64_t unit_value = 0;
    int rc = msr->n_places == 0 ? -ENODEV : -EIO;

    for (size_t i = 0; i < msr->n_places && rc < 0; i++)
        rc = read_place(msr, &msr->places[i], msr->layout.unit_reg, &unit_value);
    if (rc < 0)
        return explain(msr, rc, err);
    msr->layout = agent_msr_layout(conf->topology, unit_value);
    msr->domains = calloc(2 * msr->n_places + 1, sizeof(*msr->domains));
    msr->counters = calloc(2 * msr->n_places + 1, sizeof(const struct agent_msr_counter *));
    msr->place_of = calloc(2 * msr->n_places + 1, sizeof(*msr->place_of));
    if (msr->domains == NULL || msr->counters == NULL || msr->place_of == NULL)
        return kw_err_set(err, -ENOMEM, "msr: out of memory");
    bool usable = false;
    for (size_t i = 0; i < msr->n_places; i++) {
        size_t before = msr->n;
        add_domain(msr, conf->topology, &numbers, i, AGENT_DOMAIN_CPU);
        usable = usable || msr->n > before;
        add_domain(msr, conf->topology, &numbers, i, AGENT_DOMAIN_DRAM);
    }
    return usable ? 0 : explain(msr, 0, err);
}

static int msr_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    struct msr *msr = calloc(1, sizeof(*msr));
    void *owned = msr;

    if (msr == NULL)
        return kw_err_set(err, -ENOMEM, "msr: out of memory");
    msr->port = conf->msr != NULL ? conf->msr : &device;
    msr->layout.unit_reg = agent_msr_unit_register(conf->topology);
    int rc;
    if (msr->layout.unit_reg == 0) {
        rc = kw_err_set(err, -ENODEV, "msr: this CPU is not known to have energy registers");
    } else {
        rc = open_places(msr, conf);
        rc = rc < 0 ? kw_err_set(err, rc, "msr: CPUs online: %s", kw_errno_text(rc))
                    : find_counters(msr, conf, err);
    }
    if (rc < 0) {
        msr_close(&owned);
        return rc;
    }
    *ret = msr;
    return 0;
}

static size_t msr_domains(const void *self, const struct agent_domain **ret)
{
    const struct msr *msr = self;

    *ret = msr->domains;
    return msr->n;
}

static int msr_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    const struct msr *msr = self;
    int first_error = -ENODEV;
    bool any = false;

    (void)load;
    for (size_t i = 0; i < msr->n; i++) {
        uint64_t value = 0;
        int rc = read_place(msr, &msr->places[msr->place_of[i]], msr->counters[i]->reg, &value);
        ret[i] = (struct agent_reading){
            .error = rc,
            .counter_uj = rc == 0 ? agent_msr_energy_uj(msr->counters[i], value) : 0,
            .t_ns = kw_now_ns()};
        any = any || rc == 0;
        if (rc < 0)
            first_error = rc;
    }
    return any ? 0 : first_error;
}

static size_t msr_left_out(const void *self)
{
    const struct msr *msr = self;

    return msr->left_out;
}

const struct agent_meter_ops agent_meter_msr = {
    .name = "msr",
    .on_request = true,
    .open = msr_open,
    .domains = msr_domains,
    .read = msr_read,
    .left_out = msr_left_out,
    .close = msr_close,
};
