/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's `power` PMU: RAPL counters that the kernel itself carries on to 64 bits, before they
 * can wrap. One event a domain, counted on the CPU that `cpumask` names for it. As with powercap, a
 * package's dies add up on Intel and mirror the socket on AMD (node-agent/powercap_zones.h).
 *
 * When that CPU is taken offline the kernel moves the event to a sibling, and the descriptor stays
 * good; with the last CPU of a package the event dies, which shows by its time no longer going on.
 * A rescan opens dead events anew, on what `cpumask` then says. A new event counts from 0: it is
 * set upon the last value of the old one, so that the domain's counter only goes up and what was
 * drawn in between is lost, not invented.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/cpu_place.h"
#include "node-agent/domain.h"
#include "node-agent/perf_pmu.h"
#include "node-agent/powercap_zones.h"

/* Kernels that mistake the memory unit of Sapphire and Emerald Rapids take 2^-16 J for 2^-14 J. */
#define DRAM_UNIT_FACTOR 4

/* Readings closer than this may find the event's clock where it was. */
#define ALIVE_AFTER_NS KW_NS_PER_MS

struct event {
    const struct agent_perf_event *what;
    uint32_t package_id;
    int die;
    unsigned cpu;
    int fd; /* negative: -errno */
    uint64_t num, den;
    uint64_t base_uj, last_uj; /* of the domain: when the event was opened; at the last reading */
    uint64_t enabled_ns, read_ns;
};

struct perf {
    char *sysfs_root;
    struct agent_topology topology;
    const struct agent_perf_port *port;
    struct agent_perf_pmu pmu;
    size_t n;
    struct event *events;
    struct agent_domain *domains; /* n */
    size_t left_out;
};

static void drop_events(struct perf *perf)
{
    for (size_t i = 0; i < perf->n; i++) {
        if (perf->events[i].fd >= 0)
            (void)close(perf->events[i].fd);
    }
    free(perf->events);
    free(perf->domains);
    perf->events = NULL;
    perf->domains = NULL;
    perf->n = 0;
}

static void perf_close(void **self)
{
    struct perf *perf = KW_TAKE_PTR(*(struct perf **)self);

    if (perf == NULL)
        return;
    drop_events(perf);
    free(perf->sysfs_root);
    free(perf);
}

/** CPUs on which events are to be counted. */
static int read_cpumask(const struct perf *perf, struct agent_cpu_set *ret)
{
    char path[4096];
    char text[4096];

    if (kw_path_join(path, sizeof(path), perf->sysfs_root,
                     "bus/event_source/devices/power/cpumask") < 0)
        return -ENAMETOOLONG;
    ssize_t len = kw_file_read_at(AT_FDCWD, path, text, sizeof(text));
    return len < 0 ? (int)len : agent_cpu_set_parse(text, (size_t)len, ret);
}

/** Whether the memory counter of this machine's kernel is four times too small; powercap, of the
 * same kernel, shows it by its range. */
static bool dram_unit_mistaken(const struct perf *perf)
{
    struct agent_zones zones = {0};
    bool mistaken = false;

    if (agent_zones_scan(perf->sysfs_root, &perf->topology, &zones) < 0)
        return false;
    for (size_t i = 0; i < zones.n; i++)
        mistaken = mistaken || zones.items[i].scale_num != zones.items[i].scale_den;
    agent_zones_free(&zones);
    return mistaken;
}

/** What is to be counted now: each event at each place, memory after its package; the platform's
 * once. @return 0 or -errno. */
static int list_events(const struct perf *perf, struct event **ret, size_t *ret_n, size_t *ret_out)
{
    struct agent_cpu_set cpus = {0};
    struct agent_cpu_places places;
    bool mistaken = dram_unit_mistaken(perf);
    size_t n = 0;
    int rc = read_cpumask(perf, &cpus);

    if (rc < 0)
        return rc;
    agent_cpu_places_find(perf->sysfs_root, &perf->topology, &cpus, &places);
    struct event *events = calloc((size_t)places.n * AGENT_PERF_EVENTS + 1, sizeof(*events));
    if (events == NULL)
        return -ENOMEM;
    for (unsigned p = 0; p < places.n; p++) {
        for (size_t e = 0; e < perf->pmu.n_events; e++) {
            const struct agent_perf_event *what = &perf->pmu.events[e];
            if (what->kind == AGENT_DOMAIN_PLATFORM && p > 0)
                continue;
            events[n++] = (struct event){
                .what = what,
                .package_id = places.items[p].package_id,
                .die = places.items[p].die,
                .cpu = places.items[p].cpu,
                .fd = -EAGAIN,
                .num = what->kind == AGENT_DOMAIN_DRAM && mistaken ? what->num * DRAM_UNIT_FACTOR
                                                                   : what->num,
                .den = what->den,
            };
        }
    }
    *ret = events;
    *ret_n = n;
    *ret_out = places.left_out;
    return 0;
}

/** Names a domain as powercap does, but for memory, which has its package's number. */
static void name_domain(const struct event *events, size_t n, const struct event *event, char *out,
                        size_t size)
{
    const char *kind = event->what->kind == AGENT_DOMAIN_CPU ? "package" : "dram";
    bool parted = false;

    for (size_t i = 0; i < n; i++)
        parted =
            parted || (events[i].what == event->what && events[i].package_id == event->package_id &&
                       events[i].die != event->die);
    if (event->what->kind == AGENT_DOMAIN_PLATFORM)
        (void)snprintf(out, size, "psys");
    else if (parted)
        (void)snprintf(out, size, "%s-%u-die-%d", kind, event->package_id, event->die);
    else
        (void)snprintf(out, size, "%s-%u", kind, event->package_id);
}

/** Describes the events as domains; those of packages there is no number for are left out. */
static int describe(const struct perf *perf, struct event *events, size_t *n, size_t *left_out,
                    struct agent_domain **ret)
{
    struct agent_package_numbers numbers = {0};
    struct agent_domain *domains = calloc(*n + 1, sizeof(*domains));
    size_t kept = 0;

    if (domains == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < *n; i++) {
        const struct event *event = &events[i];
        struct agent_domain domain = {
            .kind = event->what->kind,
            .package_id = event->package_id,
            .max_mw = 2 * agent_domain_bound_mw(event->what->kind),
        };
        char below[64];
        if (agent_package_number(&numbers, &perf->topology, event->package_id, &domain.package) <
            0) {
            ++*left_out;
            continue;
        }
        name_domain(events, *n, event, domain.name, sizeof(domain.name));
        (void)snprintf(below, sizeof(below), "power/%s/%u", event->what->name, event->package_id);
        agent_domain_set_path(&domain, "perf:", below);
        domains[kept] = domain;
        events[kept++] = *event;
    }
    *n = kept;
    *ret = domains;
    return 0;
}

/** Reads a domain's counter. @return 0 or -errno. */
static int read_event(const struct perf *perf, struct event *event, uint64_t now_ns)
{
    uint64_t values[3] = {0};

    if (event->fd < 0)
        return event->fd;
    ssize_t n = perf->port->read(perf->port->user, event->fd, values);
    if (n < 0)
        return (int)n;
    bool first = event->read_ns == 0;
    if (n < (ssize_t)sizeof(values) ||
        (!first && values[1] <= event->enabled_ns && now_ns - event->read_ns >= ALIVE_AFTER_NS))
        return -ENODEV;
    unsigned __int128 uj = (unsigned __int128)values[0] * event->num / event->den + event->base_uj;
    if (uj > UINT64_MAX)
        return -ERANGE;
    event->last_uj = (uint64_t)uj;
    event->enabled_ns = values[1];
    event->read_ns = now_ns;
    return 0;
}

/** Takes over what is still counting, and opens the rest. */
static void open_events(struct perf *perf, struct event *events, size_t n)
{
    uint64_t now_ns = kw_now_ns();

    for (size_t i = 0; i < n; i++) {
        struct event *event = &events[i];
        for (size_t k = 0; k < perf->n; k++) {
            struct event *old = &perf->events[k];
            if (old->what != event->what || old->package_id != event->package_id ||
                old->die != event->die)
                continue;
            event->base_uj = event->last_uj = old->last_uj;
            /* the kernel moves a living event itself; it goes on wherever it is */
            if (read_event(perf, old, now_ns) == 0) {
                *event = *old;
                old->fd = -ENODEV;
            }
        }
        if (event->fd < 0)
            event->fd =
                perf->port->open(perf->port->user, perf->pmu.type, event->what->config, event->cpu);
    }
}

/** Lists, opens, and puts in place. @return 0, *ret_changed set; -errno with nothing changed. */
static int scan(struct perf *perf, bool *ret_changed)
{
    struct event *events = NULL;
    struct agent_domain *domains = NULL;
    size_t n = 0, left_out = 0;
    int rc = list_events(perf, &events, &n, &left_out);

    if (rc < 0)
        return rc;
    rc = describe(perf, events, &n, &left_out, &domains);
    if (rc < 0) {
        free(events);
        return rc;
    }
    *ret_changed = n != perf->n;
    for (size_t i = 0; i < n && !*ret_changed; i++)
        *ret_changed = !agent_domain_same(&domains[i], &perf->domains[i]);
    open_events(perf, events, n);
    if (!*ret_changed) {
        /* who reads us holds the old ones */
        free(domains);
        domains = KW_TAKE_PTR(perf->domains);
    }
    drop_events(perf);
    perf->events = events;
    perf->domains = domains;
    perf->n = n;
    perf->left_out = left_out;
    return 0;
}

/** Why no package can be counted. */
static int explain(const struct perf *perf, struct kw_err *err)
{
    int error = -ENODEV;

    for (size_t i = 0; i < perf->n; i++) {
        if (perf->domains[i].kind == AGENT_DOMAIN_CPU && perf->events[i].fd < 0)
            error = perf->events[i].fd;
    }
    if (error == -EACCES || error == -EPERM)
        return kw_err_set(err, error,
                          "perf: events of the power PMU are not allowed; run as root or with "
                          "CAP_PERFMON, and let a container's seccomp profile allow "
                          "perf_event_open");
    if (error == -ENOENT || error == -ENODEV)
        return kw_err_set(err, -ENODEV,
                          "perf: the power PMU counts no package on this machine's CPUs");
    return kw_err_set(err, error, "perf: the power PMU: %s", kw_errno_text(error));
}

static int perf_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    struct perf *perf = calloc(1, sizeof(*perf));
    void *owned = perf;
    bool changed, usable = false;

    if (perf == NULL)
        return kw_err_set(err, -ENOMEM, "perf: out of memory");
    perf->topology = *conf->topology;
    perf->port = conf->perf != NULL ? conf->perf : &agent_perf_kernel;
    perf->sysfs_root = strdup(conf->sysfs_root);
    int rc = perf->sysfs_root == NULL ? kw_err_set(err, -ENOMEM, "perf: out of memory")
                                      : agent_perf_pmu_read(conf->sysfs_root, &perf->pmu, err);
    if (rc == 0) {
        rc = scan(perf, &changed);
        if (rc < 0)
            (void)kw_err_set(err, rc, "perf: cpumask of the power PMU: %s", kw_errno_text(rc));
    }
    for (size_t i = 0; rc == 0 && i < perf->n; i++)
        usable = usable || (perf->domains[i].kind == AGENT_DOMAIN_CPU &&
                            read_event(perf, &perf->events[i], kw_now_ns()) == 0);
    if (rc == 0 && !usable)
        rc = explain(perf, err);
    if (rc < 0) {
        perf_close(&owned);
        return rc;
    }
    *ret = perf;
    return 0;
}

static size_t perf_domains(const void *self, const struct agent_domain **ret)
{
    const struct perf *perf = self;

    *ret = perf->domains;
    return perf->n;
}

static int perf_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    struct perf *perf = self;
    int first_error = -ENODEV;
    bool any = false;

    (void)load;
    for (size_t i = 0; i < perf->n; i++) {
        uint64_t now_ns = kw_now_ns();
        int rc = read_event(perf, &perf->events[i], now_ns);
        ret[i] = (struct agent_reading){
            .error = rc, .counter_uj = rc == 0 ? perf->events[i].last_uj : 0, .t_ns = kw_now_ns()};
        any = any || rc == 0;
        if (rc < 0)
            first_error = rc;
    }
    return any ? 0 : first_error;
}

static bool perf_rescan(void *self)
{
    struct perf *perf = self;
    bool changed = false;

    /* a PMU that is gone (its module was removed) leaves events that say so themselves */
    return scan(perf, &changed) == 0 && changed;
}

static size_t perf_left_out(const void *self)
{
    const struct perf *perf = self;

    return perf->left_out;
}

const struct agent_meter_ops agent_meter_perf = {
    .name = "perf",
    .open = perf_open,
    .domains = perf_domains,
    .read = perf_read,
    .rescan = perf_rescan,
    .left_out = perf_left_out,
    .close = perf_close,
};
