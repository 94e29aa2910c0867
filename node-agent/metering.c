/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters are remembered by path and name, and found again when the meter lists its domains anew.
 * A zone that goes away and comes back (the last CPU of its package was taken offline, its module
 * was loaded again) goes on from where it was: the hardware counted meanwhile. Where it did not,
 * the counter's own rules say reset.
 *
 * After an error, and every RESCAN_NS, the meter looks for zones again. Where the operator left the
 * choice free, the same rhythm tries the meters that are preferred to the one in use (a kernel
 * module may be loaded later) and moves on to the next one where no zone is left. The energy of one
 * window is the price of a change, and the sample says which meter it comes from.
 */
#include "node-agent/metering.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/quality.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/counter.h"

/* Zones come and go with CPU hotplug and module loads: rarely, and a scan reads a few files per
 * zone. */
#define RESCAN_NS (60 * KW_NS_PER_S)

/* A counter may stand still in one window by chance (1 J steps, readings once a second); not in
 * three, over three seconds, while others move. */
#define FROZEN_WINDOWS   3
#define FROZEN_BESIDE_NS (3 * KW_NS_PER_S)
/* Hardware counts every millisecond, and a virtual machine's is fed every few seconds: a package
 * that drew nothing for so long has a counter that does not count, also where it is the only one.
 */
#define FROZEN_ALONE_NS  (10 * KW_NS_PER_S)

#define METERS_MAX 8

/* A zone that was ever listed. */
struct zone_memory {
    char path[256];
    char name[64];
    struct agent_counter counter;
    uint64_t moved_ns; /* of the caller's clock: when the counter was last seen to move */
    bool listed;       /* now */
};

struct agent_metering {
    bool free_choice;
    struct agent_meter_conf conf;
    char *sysfs_root;
    struct agent_topology topology;
    size_t index; /* of the meter in use, in agent_meters */
    void *meter;
    size_t n;
    const struct agent_domain *domains;
    size_t *memory_of;              /* n: each domain's memory */
    struct agent_reading *readings; /* n */
    size_t n_memories;
    struct zone_memory *memories;
    bool laid_out; /* the arrays above fit the meter's domains */
    uint64_t next_scan_ns;
    uint64_t platform_mw, platform_t_ns;
    char platform_source[64];
    struct agent_meter_reason reasons[METERS_MAX];
    size_t n_reasons;
    bool changed;
};

const struct agent_meter_ops *agent_metering_ops(const struct agent_metering *metering)
{
    return agent_meters[metering->index];
}

size_t agent_metering_reasons(const struct agent_metering *metering,
                              const struct agent_meter_reason **ret)
{
    *ret = metering->reasons;
    return metering->n_reasons;
}

/** The memory of a domain, made where there is none; there must be room. */
static size_t remember(struct agent_metering *metering, const struct agent_domain *domain)
{
    size_t i = 0;

    while (i < metering->n_memories && (strcmp(metering->memories[i].path, domain->path) != 0 ||
                                        strcmp(metering->memories[i].name, domain->name) != 0))
        i++;
    if (i == metering->n_memories) {
        struct zone_memory *memory = &metering->memories[metering->n_memories++];
        *memory = (struct zone_memory){0};
        (void)snprintf(memory->path, sizeof(memory->path), "%s", domain->path);
        (void)snprintf(memory->name, sizeof(memory->name), "%s", domain->name);
    }
    metering->memories[i].listed = true;
    return i;
}

/** Lays counters and readings beside the domains that the meter now has. @return 0 or -ENOMEM (then
 * the meter must not be read). */
static int take_domains(struct agent_metering *metering)
{
    const struct agent_domain *domains = NULL;
    size_t n = agent_metering_ops(metering)->domains(metering->meter, &domains);
    struct agent_reading *readings = calloc(n + 1, sizeof(*readings));
    size_t *memory_of = calloc(n + 1, sizeof(*memory_of));
    struct zone_memory *memories =
        reallocarray(metering->memories, metering->n_memories + n + 1, sizeof(*memories));

    metering->laid_out = false;
    metering->n = 0;
    if (memories != NULL)
        metering->memories = memories;
    if (readings == NULL || memory_of == NULL || memories == NULL) {
        free(readings);
        free(memory_of);
        return -ENOMEM;
    }
    for (size_t i = 0; i < metering->n_memories; i++)
        memories[i].listed = false;
    for (size_t i = 0; i < n; i++)
        memory_of[i] = remember(metering, &domains[i]);
    free(metering->readings);
    free(metering->memory_of);
    metering->readings = readings;
    metering->memory_of = memory_of;
    metering->domains = domains;
    metering->n = n;
    metering->laid_out = true;
    return 0;
}

static struct agent_counter *counter_of(const struct agent_metering *metering, size_t i)
{
    return &metering->memories[metering->memory_of[i]].counter;
}

/** Opens agent_meters[index] in place of the meter in use. @return 0 or its error, with the present
 * one untouched. */
static int use_meter(struct agent_metering *metering, size_t index, struct kw_err *err)
{
    void *meter = NULL;
    int rc = agent_meters[index]->open(&metering->conf, &meter, err);

    if (rc < 0)
        return rc;
    if (metering->meter != NULL)
        agent_metering_ops(metering)->close(&metering->meter);
    metering->meter = meter;
    metering->index = index;
    metering->n_memories = 0; /* nothing of the old meter's counters means anything here */
    metering->platform_t_ns = 0;
    metering->changed = true;
    return take_domains(metering);
}

static void note_reason(struct agent_metering *metering, size_t index, const struct kw_err *err)
{
    if (metering->n_reasons == METERS_MAX)
        return;
    struct agent_meter_reason *reason = &metering->reasons[metering->n_reasons++];
    reason->meter = agent_meters[index]->name;
    (void)snprintf(reason->text, sizeof(reason->text), "%.300s", err->text);
}

int agent_metering_new(const char *meter, const struct agent_meter_conf *conf,
                       struct agent_metering **ret, struct kw_err *err)
{
    struct agent_metering *metering = calloc(1, sizeof(*metering));
    int rc = -EINVAL;

    if (metering == NULL)
        return kw_err_set(err, -ENOMEM, "meter: out of memory");
    metering->conf = *conf;
    metering->topology = *conf->topology;
    metering->conf.topology = &metering->topology;
    metering->sysfs_root = strdup(conf->sysfs_root);
    metering->conf.sysfs_root = metering->sysfs_root;
    metering->free_choice = meter == NULL;
    if (metering->sysfs_root == NULL) {
        agent_metering_free(&metering);
        return kw_err_set(err, -ENOMEM, "meter: out of memory");
    }
    (void)kw_err_set(err, rc, "no meter is called %s", meter != NULL ? meter : "auto");
    for (size_t i = 0; agent_meters[i] != NULL && rc < 0; i++) {
        struct kw_err cause = {0};
        if (meter != NULL && strcmp(meter, agent_meters[i]->name) != 0)
            continue;
        rc = use_meter(metering, i, &cause);
        if (rc < 0) {
            note_reason(metering, i, &cause);
            (void)kw_err_set(err, rc, "%s", cause.text);
        }
    }
    if (rc < 0) {
        agent_metering_free(&metering);
        return rc;
    }
    metering->changed = false;
    *ret = metering;
    return 0;
}

void agent_metering_free(struct agent_metering **metering)
{
    struct agent_metering *owned = KW_TAKE_PTR(*metering);

    if (owned == NULL)
        return;
    if (owned->meter != NULL)
        agent_metering_ops(owned)->close(&owned->meter);
    free(owned->sysfs_root);
    free(owned->readings);
    free(owned->memory_of);
    free(owned->memories);
    free(owned);
}

/** Takes one domain's reading into its slot. @return whether its counter moved. */
static bool take_reading(struct agent_metering *metering, size_t i, uint64_t slept_ns,
                         struct agent_metering_window *ret)
{
    const struct agent_domain *domain = &metering->domains[i];
    const struct agent_reading *reading = &metering->readings[i];
    struct agent_counter_limits limits = {.modulus_uj = domain->range_uj, .max_mw = domain->max_mw};
    struct agent_counter_step step = {0};
    bool platform = domain->kind == AGENT_DOMAIN_PLATFORM;

    if (reading->error != 0)
        agent_counter_miss(counter_of(metering, i), slept_ns);
    else
        agent_counter_take(counter_of(metering, i), &limits, reading->counter_uj, reading->t_ns,
                           slept_ns, &step);
    if (platform) {
        if (step.interval_ns == 0 || (step.quality & ~KW_QUALITY_BIT(KW_QUALITY_WRAPPED)) != 0)
            return false;
        uint64_t mw = (uint64_t)((unsigned __int128)step.delta_uj * 1000000 / step.interval_ns);
        /* several roots of one machine add up */
        metering->platform_mw =
            metering->platform_t_ns == ret->platform_t_ns ? metering->platform_mw + mw : mw;
        metering->platform_t_ns = reading->t_ns;
        ret->platform_t_ns = reading->t_ns;
        (void)snprintf(metering->platform_source, sizeof(metering->platform_source), "%s",
                       domain->name);
        return false;
    }
    struct agent_slot_window *slot = &ret->slots[agent_slot(domain->package, domain->kind)];
    slot->metered = true;
    slot->domain = domain;
    slot->package_id = domain->package_id;
    slot->delta_uj += step.delta_uj;
    if (step.interval_ns > slot->interval_ns)
        slot->interval_ns = step.interval_ns;
    if (domain->package + 1 > ret->n_packages)
        ret->n_packages = domain->package + 1;
    ret->quality |= step.quality;
    if (reading->error != 0)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_STALE);
    return step.delta_uj > 0;
}

/** Whether a counter stands still: a few windows beside another one that moves, or, as a package's,
 * longer than a machine can draw nothing. */
static bool any_frozen(struct agent_metering *metering, bool any_moved, uint64_t now_ns)
{
    bool frozen = false;

    for (size_t i = 0; i < metering->n; i++) {
        struct zone_memory *memory = &metering->memories[metering->memory_of[i]];
        if (memory->counter.still_windows == 0)
            memory->moved_ns = now_ns;
        if (metering->domains[i].kind == AGENT_DOMAIN_PLATFORM || metering->readings[i].error != 0)
            continue;
        uint64_t still_ns = now_ns > memory->moved_ns ? now_ns - memory->moved_ns : 0;
        frozen = frozen ||
                 (any_moved && memory->counter.still_windows >= FROZEN_WINDOWS &&
                  still_ns >= FROZEN_BESIDE_NS) ||
                 (metering->domains[i].kind == AGENT_DOMAIN_CPU && still_ns >= FROZEN_ALONE_NS);
    }
    return frozen;
}

/** Baseline of a meter that was just taken: what it drew before is not ours. */
static void take_baseline(struct agent_metering *metering)
{
    struct agent_metering_window unused = {0};

    if (!metering->laid_out ||
        agent_metering_ops(metering)->read(metering->meter, NULL, metering->readings) < 0)
        return;
    for (size_t i = 0; i < metering->n; i++)
        (void)take_reading(metering, i, 0, &unused);
}

static void look_again(struct agent_metering *metering, uint64_t now_ns)
{
    const struct agent_meter_ops *ops = agent_metering_ops(metering);
    size_t index = metering->index;

    metering->next_scan_ns = now_ns + RESCAN_NS;
    if (ops->rescan != NULL && ops->rescan(metering->meter))
        (void)take_domains(metering);
    if (!metering->free_choice)
        return;
    for (size_t i = 0; i < index; i++) {
        if (use_meter(metering, i, NULL) == 0) {
            take_baseline(metering);
            return;
        }
    }
    for (size_t i = index + 1; metering->laid_out && metering->n == 0 && agent_meters[i] != NULL;
         i++) {
        if (use_meter(metering, i, NULL) == 0)
            take_baseline(metering);
    }
}

int agent_metering_read(struct agent_metering *metering, const struct agent_meter_load *load,
                        uint64_t now_ns, uint64_t slept_ns, struct agent_metering_window *ret)
{
    bool any_moved = false, any_error = false;

    memset(ret, 0, sizeof(*ret));
    if (metering->next_scan_ns == 0)
        metering->next_scan_ns = now_ns + RESCAN_NS;
    else if (now_ns >= metering->next_scan_ns)
        look_again(metering, now_ns);
    ret->changed = metering->changed;
    metering->changed = false;

    const struct agent_meter_ops *ops = agent_metering_ops(metering);
    int rc = metering->laid_out ? 0 : take_domains(metering);
    if (rc == 0)
        rc = ops->read(metering->meter, load, metering->readings);
    for (size_t i = 0; i < metering->n_memories; i++) {
        if (!metering->memories[i].listed)
            agent_counter_miss(&metering->memories[i].counter, slept_ns);
    }
    for (size_t i = 0; i < metering->n; i++) {
        any_error = any_error || metering->readings[i].error != 0;
        any_moved = take_reading(metering, i, slept_ns, ret) || any_moved;
    }
    if (any_frozen(metering, any_moved, now_ns))
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_FROZEN);
    if (rc < 0)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_STALE);
    if (ops->estimated)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_ESTIMATED);
    ret->has_platform = metering->platform_t_ns != 0;
    ret->platform_mw = metering->platform_mw;
    ret->platform_t_ns = metering->platform_t_ns;
    ret->platform_source = metering->platform_source;
    /* an error may mean that zones moved: look at the next reading, but no more than once a second
     */
    if ((any_error || rc < 0) && metering->next_scan_ns > now_ns + KW_NS_PER_S)
        metering->next_scan_ns = now_ns + KW_NS_PER_S;
    return rc;
}
