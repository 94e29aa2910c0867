/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters are remembered by path and name, and found again when the meter lists its domains anew.
 * A zone that goes away and comes back (the last CPU of its package was taken offline, its module
 * was loaded again) goes on from where it was: the hardware counted meanwhile. Where it did not,
 * the counter's own rules say reset.
 *
 * Not so where another zone has stood in for it (a twin, or the same counter under another number):
 * that one has counted what was drawn meanwhile, and the old value would count it again. Whoever
 * comes makes those of its kind and package that are gone forgotten, and what was drawn between the
 * two is a gap.
 */
#include "node-agent/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/quality.h"
#include "common/cleanup.h"
#include "node-agent/aside.h"

/* A reading that is made aside is as old as a period, and as long as it takes: three are late. */
#define LATE_PERIODS 3

/* A domain that was ever listed. */
struct memory {
    char path[256];
    char name[64];
    enum agent_domain_kind kind;
    uint32_t package_id;
    struct agent_counter counter;
    uint32_t series;
    uint64_t moved_ns;
    bool listed;   /* now */
    bool came;     /* with the list of now */
    bool stood_in; /* for another one, and was not read since */
};

struct agent_source {
    const struct agent_meter_ops *ops;
    void *self;                /* of a meter that is read with the sample */
    struct agent_aside *aside; /* of one that is not */
    size_t n;
    const struct agent_domain *domains;
    size_t *memory_of;               /* n: each domain's memory */
    struct agent_reading *readings;  /* n */
    struct agent_source_step *steps; /* n */
    size_t n_memories;
    struct memory *memories;
    bool laid_out; /* the arrays above fit the meter's domains */
};

const struct agent_meter_ops *agent_source_ops(const struct agent_source *source)
{
    return source->ops;
}

/** The memory of a domain; source->n_memories where there is none. */
static size_t recall(const struct agent_source *source, const struct agent_domain *domain)
{
    size_t i = 0;

    while (i < source->n_memories && (strcmp(source->memories[i].path, domain->path) != 0 ||
                                      strcmp(source->memories[i].name, domain->name) != 0))
        i++;
    return i;
}

/** Notes that a domain is listed; there must be room for a memory. */
static void remember(struct agent_source *source, const struct agent_domain *domain)
{
    size_t i = recall(source, domain);
    struct memory *memory = &source->memories[i];

    if (i == source->n_memories) {
        source->n_memories++;
        *memory =
            (struct memory){.kind = domain->kind, .package_id = domain->package_id, .came = true};
        (void)snprintf(memory->path, sizeof(memory->path), "%s", domain->path);
        (void)snprintf(memory->name, sizeof(memory->name), "%s", domain->name);
    }
    memory->listed = true;
}

/** Whether one that came takes the place of one that is gone. */
static bool replaces(const struct memory *came, const struct memory *gone)
{
    return came->came && !gone->listed && came->kind == gone->kind &&
           came->package_id == gone->package_id;
}

static void forget_replaced(struct agent_source *source)
{
    size_t kept = 0;

    for (size_t i = 0; i < source->n_memories; i++) {
        bool replaced = false;
        for (size_t k = 0; k < source->n_memories; k++) {
            struct memory *came = &source->memories[k];
            if (!replaces(came, &source->memories[i]))
                continue;
            replaced = true;
            came->stood_in = came->stood_in || source->memories[i].counter.primed;
        }
        if (!replaced)
            source->memories[kept++] = source->memories[i];
    }
    source->n_memories = kept;
}

/** Lays counters and readings beside the domains that the meter now has. @return 0 or -ENOMEM (then
 * the meter must not be read). */
static int take_domains(struct agent_source *source)
{
    const struct agent_domain *domains = NULL;
    size_t n = agent_source_domains(source, &domains);
    kw_cleanup_free struct agent_reading *readings = calloc(n + 1, sizeof(*readings));
    kw_cleanup_free struct agent_source_step *steps = calloc(n + 1, sizeof(*steps));
    kw_cleanup_free size_t *memory_of = calloc(n + 1, sizeof(*memory_of));
    struct memory *memories =
        reallocarray(source->memories, source->n_memories + n + 1, sizeof(*memories));

    source->laid_out = false;
    source->n = 0;
    if (memories != NULL)
        source->memories = memories;
    if (readings == NULL || steps == NULL || memory_of == NULL || memories == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < source->n_memories; i++) {
        memories[i].came = !memories[i].listed;
        memories[i].listed = false;
    }
    for (size_t i = 0; i < n; i++)
        remember(source, &domains[i]);
    for (size_t i = 0; i < source->n_memories; i++)
        memories[i].came = memories[i].came && memories[i].listed;
    forget_replaced(source);
    for (size_t i = 0; i < n; i++) {
        memory_of[i] = recall(source, &domains[i]);
        steps[i].domain = &domains[i];
    }
    free(source->readings);
    free(source->steps);
    free(source->memory_of);
    source->readings = KW_TAKE_PTR(readings);
    source->steps = KW_TAKE_PTR(steps);
    source->memory_of = KW_TAKE_PTR(memory_of);
    source->domains = domains;
    source->n = n;
    source->laid_out = true;
    return 0;
}

int agent_source_open(const struct agent_meter_ops *ops, const struct agent_meter_conf *conf,
                      struct agent_source **ret, struct kw_err *err)
{
    kw_cleanup(agent_source_close) struct agent_source *source = calloc(1, sizeof(*source));

    if (source == NULL)
        return kw_err_set(err, -ENOMEM, "%s: out of memory", ops->name);
    source->ops = ops;
    int rc = ops->period_ns > 0 ? agent_aside_open(ops, conf, &source->aside, err)
                                : ops->open(conf, &source->self, err);
    if (rc < 0)
        return rc;
    if (take_domains(source) < 0)
        return kw_err_set(err, -ENOMEM, "%s: out of memory", ops->name);
    *ret = KW_TAKE_PTR(source);
    return 0;
}

void agent_source_close(struct agent_source **source)
{
    struct agent_source *owned = KW_TAKE_PTR(*source);

    if (owned == NULL)
        return;
    agent_aside_close(&owned->aside);
    if (owned->self != NULL)
        owned->ops->close(&owned->self);
    free(owned->readings);
    free(owned->steps);
    free(owned->memory_of);
    free(owned->memories);
    free(owned);
}

/** Takes one reading into its counter. */
static void take_reading(struct agent_source *source, size_t i, uint64_t now_ns, uint64_t slept_ns)
{
    const struct agent_domain *domain = &source->domains[i];
    const struct agent_reading *reading = &source->readings[i];
    struct memory *memory = &source->memories[source->memory_of[i]];
    struct agent_counter_limits limits = {.modulus_uj = domain->range_uj, .max_mw = domain->max_mw};
    struct agent_source_step *step = &source->steps[i];
    uint64_t late_ns = LATE_PERIODS * source->ops->period_ns;

    step->step = (struct agent_counter_step){0};
    step->error = reading->error;
    if (reading->error != 0) {
        agent_counter_miss(&memory->counter, slept_ns);
    } else {
        bool anew = memory->counter.primed && reading->series != memory->series;
        if (anew)
            memory->counter = (struct agent_counter){0};
        memory->series = reading->series;
        agent_counter_take(&memory->counter, &limits, reading->counter_uj, reading->t_ns, slept_ns,
                           &step->step);
        bool gap = anew || memory->stood_in;
        memory->stood_in = false;
        if (gap)
            step->step.quality |= KW_QUALITY_BIT(KW_QUALITY_GAP);
    }
    if (memory->counter.still_windows == 0)
        memory->moved_ns = now_ns;
    step->t_ns = memory->counter.primed ? memory->counter.prev_t_ns : 0;
    step->stale = reading->error != 0 ||
                  (late_ns > 0 && now_ns > reading->t_ns && now_ns - reading->t_ns > late_ns);
    step->still_windows = memory->counter.still_windows;
    step->moved_ns = memory->moved_ns;
}

int agent_source_read(struct agent_source *source, const struct agent_meter_load *load,
                      uint64_t now_ns, uint64_t slept_ns)
{
    int rc = source->laid_out ? 0 : take_domains(source);

    if (rc == 0)
        rc = source->aside != NULL ? agent_aside_read(source->aside, source->readings)
                                   : source->ops->read(source->self, load, source->readings);
    for (size_t i = 0; i < source->n_memories; i++) {
        if (!source->memories[i].listed)
            agent_counter_miss(&source->memories[i].counter, slept_ns);
    }
    for (size_t i = 0; i < source->n; i++)
        take_reading(source, i, now_ns, slept_ns);
    return rc;
}

size_t agent_source_steps(const struct agent_source *source, const struct agent_source_step **ret)
{
    *ret = source->steps;
    return source->n;
}

void agent_source_rescan(struct agent_source *source)
{
    bool changed = source->aside != NULL
                       ? agent_aside_rescan(source->aside)
                       : source->ops->rescan != NULL && source->ops->rescan(source->self);

    if (changed)
        (void)take_domains(source);
}

size_t agent_source_domains(const struct agent_source *source, const struct agent_domain **ret)
{
    return source->aside != NULL ? agent_aside_domains(source->aside, ret)
                                 : source->ops->domains(source->self, ret);
}

size_t agent_source_left_out(const struct agent_source *source)
{
    if (source->aside != NULL)
        return agent_aside_left_out(source->aside);
    return source->ops->left_out != NULL ? source->ops->left_out(source->self) : 0;
}
