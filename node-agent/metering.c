/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After an error, and every RESCAN_NS, meters look for zones again. Where the operator left the
 * choice free, the same rhythm tries the meters that are preferred to the one in use (a kernel
 * module may be loaded later) and moves on to the next one where no zone is left, or where no
 * package has counted for LEAVE_NS: some kernels list a meter that does not work. Such a meter is
 * not tried again for DISTRUST_NS. The energy of one window is the price of a change, and the
 * sample says which meter it comes from.
 *
 * Platform power is the best of what platform meters and the CPU meter (psys) show; the others are
 * read all the same, and take its place when it goes silent.
 */
#include "node-agent/metering.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/quality.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/doubt.h"
#include "node-agent/source.h"

/* Zones come and go with CPU hotplug and module loads: rarely, and a scan reads a few files per
 * zone. */
#define RESCAN_NS     (60 * KW_NS_PER_S)
#define ERROR_WAIT_NS KW_NS_PER_S

/* A counter may stand still in one window by chance (1 J steps, readings once a second); not in
 * three, over three seconds, while others move. */
#define FROZEN_WINDOWS   3
#define FROZEN_BESIDE_NS (3 * KW_NS_PER_S)
/* Hardware counts every millisecond, and a virtual machine's is fed every few seconds: a package
 * that drew nothing for so long has a counter that does not count, also where it is the only one.
 */
#define FROZEN_ALONE_NS  (10 * KW_NS_PER_S)

/* A meter of which no package counts for so long, in so many windows, is left for the next one; it
 * may have been repaired after so much longer. */
#define LEAVE_NS      (30 * KW_NS_PER_S)
#define LEAVE_WINDOWS 10
#define DISTRUST_NS   (600 * KW_NS_PER_S)

/* A platform reading older than this is the past. */
#define PLATFORM_OLD_NS (30 * KW_NS_PER_S)

#define METERS_MAX    12
#define PLATFORMS_MAX 4

/* Windows may be short, and some counters count whole joules: platform power is a mean over so
 * long. */
#define PLATFORM_MEAN_NS KW_NS_PER_S

/* Power of the whole machine as one meter shows it. */
struct platform {
    uint64_t mw, t_ns;       /* t_ns 0: nothing yet */
    uint64_t sum_uj, sum_ns; /* towards the next mean */
    char source[64];
};

struct agent_metering {
    bool free_choice;
    struct agent_meter_conf conf;
    char *sysfs_root, *dev_root;
    struct agent_topology topology;
    size_t index; /* of the meter in use, in conf.meters */
    struct agent_source *source;
    uint64_t next_scan_ns, error_wait_ns;
    uint64_t counted_ns; /* when a package last counted */
    unsigned dead_windows;
    uint64_t distrust_until_ns[METERS_MAX];
    struct agent_source *platforms[PLATFORMS_MAX]; /* as conf.platforms; NULL: did not open */
    struct platform shown[PLATFORMS_MAX + 1];      /* theirs, then the CPU meter's own */
    struct agent_doubt doubt;
    struct agent_meter_reason reasons[METERS_MAX + PLATFORMS_MAX];
    size_t n_meters, n_platforms;
    bool changed;
};

const struct agent_meter_ops *agent_metering_ops(const struct agent_metering *metering)
{
    return metering->conf.meters[metering->index];
}

size_t agent_metering_reasons(const struct agent_metering *metering,
                              const struct agent_meter_reason **ret)
{
    *ret = metering->reasons;
    return metering->n_meters + metering->n_platforms;
}

void agent_metering_explain(const struct agent_metering *metering, struct kw_buf *out)
{
    const struct agent_domain *unused = NULL;

    for (size_t i = 0; i < metering->n_meters + metering->n_platforms; i++) {
        const char *name = metering->reasons[i].meter, *text = metering->reasons[i].text;
        size_t len = strlen(name);
        if (strncmp(text, name, len) == 0 && text[len] == ':') /* causes begin with it */
            text += len + 2;
        (void)kw_buf_addf(out, "%s%s: %s", i > 0 ? " | " : "", name, text);
        if (i == metering->index)
            (void)kw_buf_addf(out, ", %zu domains",
                              agent_source_domains(metering->source, &unused));
    }
}

static void set_reason(struct agent_meter_reason *reason, bool used, const char *text)
{
    reason->used = used;
    (void)snprintf(reason->text, sizeof(reason->text), "%.300s", text);
}

/** Opens conf.meters[index] in place of the meter in use. @return 0 or its error, with the present
 * one untouched. */
static int use_meter(struct agent_metering *metering, size_t index, struct kw_err *err)
{
    struct agent_source *source = NULL;
    int rc = agent_source_open(metering->conf.meters[index], &metering->conf, &source, err);

    if (rc < 0)
        return rc;
    /* nothing of the old meter's counters means anything here */
    agent_source_close(&metering->source);
    metering->source = source;
    metering->index = index;
    metering->shown[PLATFORMS_MAX] = (struct platform){0};
    metering->counted_ns = 0;
    metering->dead_windows = 0;
    metering->changed = true;
    set_reason(&metering->reasons[index], true, "in use");
    for (size_t i = index + 1; i < metering->n_meters; i++) {
        char text[128];
        (void)snprintf(text, sizeof(text),
                       metering->free_choice ? "not needed: %s is preferred"
                                             : "not asked for: --meter %s",
                       metering->conf.meters[index]->name);
        set_reason(&metering->reasons[i], false, text);
    }
    return 0;
}

/** Tries a meter that nobody asked for by name. @return 0 or -errno, with the reason noted. */
static int try_meter(struct agent_metering *metering, size_t index)
{
    struct kw_err cause = {0};

    if (metering->conf.meters[index]->on_request) {
        (void)kw_err_set(&cause, -EPERM, "only used where it is asked for by name; --meter %s",
                         metering->conf.meters[index]->name);
    } else {
        (void)use_meter(metering, index, &cause);
    }
    if (cause.code != 0)
        set_reason(&metering->reasons[index], false, cause.text);
    return cause.code;
}

/** Opens the first meter that works, or the one asked for. */
static int choose(struct agent_metering *metering, const char *meter, struct kw_err *err)
{
    int rc = -EINVAL;

    for (size_t i = 0; i < metering->n_meters && rc < 0; i++) {
        struct kw_err cause = {0};
        if (meter == NULL) {
            rc = try_meter(metering, i);
            (void)kw_err_set(err, rc, "%s", metering->reasons[i].text);
            continue;
        }
        if (strcmp(meter, metering->conf.meters[i]->name) != 0) {
            (void)snprintf(cause.text, sizeof(cause.text), "not asked for: --meter %s", meter);
            set_reason(&metering->reasons[i], false, cause.text);
            continue;
        }
        rc = use_meter(metering, i, &cause);
        if (rc < 0)
            return kw_err_set(err, rc, "%s", cause.text);
    }
    if (rc == -EINVAL && meter != NULL)
        return kw_err_set(err, rc, "no meter is called %s", meter);
    return rc;
}

static void open_platforms(struct agent_metering *metering)
{
    for (size_t i = 0; i < metering->n_platforms; i++) {
        struct agent_meter_reason *reason = &metering->reasons[metering->n_meters + i];
        struct kw_err cause = {0};
        if (metering->platforms[i] != NULL)
            continue;
        if (agent_source_open(metering->conf.platforms[i], &metering->conf, &metering->platforms[i],
                              &cause) < 0)
            set_reason(reason, false, cause.text);
        else
            set_reason(reason, true, "in use");
    }
}

/** Copies what outlives the caller's settings. @return 0 or -ENOMEM. */
static int take_conf(struct agent_metering *metering, const struct agent_meter_conf *conf)
{
    metering->conf = *conf;
    metering->topology = *conf->topology;
    metering->conf.topology = &metering->topology;
    metering->sysfs_root = strdup(conf->sysfs_root);
    metering->dev_root = strdup(conf->dev_root != NULL ? conf->dev_root : "/dev");
    metering->conf.sysfs_root = metering->sysfs_root;
    metering->conf.dev_root = metering->dev_root;
    if (conf->meters == NULL)
        metering->conf.meters = agent_meters;
    if (conf->platforms == NULL)
        metering->conf.platforms = agent_platform_meters;
    while (metering->n_meters < METERS_MAX && metering->conf.meters[metering->n_meters] != NULL) {
        metering->reasons[metering->n_meters].meter =
            metering->conf.meters[metering->n_meters]->name;
        metering->n_meters++;
    }
    while (metering->n_platforms < PLATFORMS_MAX &&
           metering->conf.platforms[metering->n_platforms] != NULL) {
        metering->reasons[metering->n_meters + metering->n_platforms].meter =
            metering->conf.platforms[metering->n_platforms]->name;
        metering->n_platforms++;
    }
    return metering->sysfs_root != NULL && metering->dev_root != NULL ? 0 : -ENOMEM;
}

int agent_metering_new(const char *meter, const struct agent_meter_conf *conf,
                       struct agent_metering **ret, struct kw_err *err)
{
    kw_cleanup(agent_metering_free) struct agent_metering *metering = calloc(1, sizeof(*metering));

    if (metering == NULL || take_conf(metering, conf) < 0)
        return kw_err_set(err, -ENOMEM, "meter: out of memory");
    metering->free_choice = meter == NULL;
    metering->error_wait_ns = ERROR_WAIT_NS;
    int rc = choose(metering, meter, err);
    if (rc < 0)
        return rc;
    open_platforms(metering);
    metering->changed = false;
    *ret = KW_TAKE_PTR(metering);
    return 0;
}

void agent_metering_free(struct agent_metering **metering)
{
    struct agent_metering *owned = KW_TAKE_PTR(*metering);

    if (owned == NULL)
        return;
    agent_source_close(&owned->source);
    for (size_t i = 0; i < PLATFORMS_MAX; i++)
        agent_source_close(&owned->platforms[i]);
    free(owned->sysfs_root);
    free(owned->dev_root);
    free(owned);
}

/** Takes the power of a window of all platform domains of a meter: several roots of one machine add
 * up, and a sum of some of them would be too little. @param name NULL: the domain's. */
static void take_platform(struct platform *shown, const char *name,
                          const struct agent_source_step *steps, size_t n)
{
    uint64_t uj = 0, ns = 0, t_ns = 0;

    for (size_t i = 0; i < n; i++) {
        const struct agent_counter_step *window = &steps[i].step;
        if (steps[i].domain->kind != AGENT_DOMAIN_PLATFORM)
            continue;
        if (window->interval_ns == 0 ||
            (window->quality & ~KW_QUALITY_BIT(KW_QUALITY_WRAPPED)) != 0)
            return;
        uj += window->delta_uj;
        ns = window->interval_ns;
        t_ns = steps[i].t_ns;
        (void)snprintf(shown->source, sizeof(shown->source), "%s",
                       name != NULL ? name : steps[i].domain->name);
    }
    shown->sum_uj += uj;
    shown->sum_ns += ns;
    if (t_ns == 0 || (shown->t_ns != 0 && shown->sum_ns < PLATFORM_MEAN_NS))
        return;
    shown->mw = (uint64_t)((unsigned __int128)shown->sum_uj * 1000000 / shown->sum_ns);
    shown->t_ns = t_ns;
    shown->sum_uj = shown->sum_ns = 0;
}

static void take_slot(const struct agent_source_step *step, struct agent_metering_window *ret)
{
    const struct agent_domain *domain = step->domain;
    struct agent_slot_window *slot = &ret->slots[agent_slot(domain->package, domain->kind)];

    slot->metered = true;
    slot->domain = domain;
    slot->package_id = domain->package_id;
    slot->delta_uj += step->step.delta_uj;
    if (step->step.interval_ns > slot->interval_ns)
        slot->interval_ns = step->step.interval_ns;
    if (domain->package + 1 > ret->n_packages)
        ret->n_packages = domain->package + 1;
    ret->quality |= step->step.quality;
    if (step->stale)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_STALE);
    if (domain->integrated)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_INTEGRATED);
}

/** Whether a counter stands still: a few windows beside another one that moves, or, as a package's,
 * longer than a machine can draw nothing. */
static bool is_frozen(const struct agent_source_step *step, bool any_moved, uint64_t now_ns)
{
    uint64_t still_ns = now_ns > step->moved_ns ? now_ns - step->moved_ns : 0;

    if (step->error != 0)
        return false;
    return (any_moved && step->still_windows >= FROZEN_WINDOWS && still_ns >= FROZEN_BESIDE_NS) ||
           (step->domain->kind == AGENT_DOMAIN_CPU && still_ns >= FROZEN_ALONE_NS);
}

static bool in_slot(const struct agent_source_step *step)
{
    return step->domain->kind == AGENT_DOMAIN_CPU || step->domain->kind == AGENT_DOMAIN_DRAM;
}

/** Takes the windows of the CPU meter's domains. @return whether a domain could not be read. */
static bool take_steps(struct agent_metering *metering, uint64_t now_ns,
                       struct agent_metering_window *ret)
{
    const struct agent_source_step *steps = NULL;
    size_t n = agent_source_steps(metering->source, &steps);
    bool any_moved = false, any_error = false, counted = false;

    take_platform(&metering->shown[PLATFORMS_MAX], NULL, steps, n);
    for (size_t i = 0; i < n; i++) {
        any_error = any_error || steps[i].error != 0;
        if (!in_slot(&steps[i]))
            continue;
        take_slot(&steps[i], ret);
        any_moved = any_moved || steps[i].step.delta_uj > 0;
        counted = counted || (steps[i].domain->kind == AGENT_DOMAIN_CPU && steps[i].error == 0 &&
                              steps[i].still_windows == 0);
    }
    for (size_t i = 0; i < n; i++) {
        if (in_slot(&steps[i]) && is_frozen(&steps[i], any_moved, now_ns))
            ret->quality |= KW_QUALITY_BIT(KW_QUALITY_FROZEN);
    }
    if (counted || metering->counted_ns == 0) {
        metering->counted_ns = now_ns;
        metering->dead_windows = 0;
    } else {
        metering->dead_windows++;
    }
    return any_error;
}

static void read_platforms(struct agent_metering *metering, uint64_t now_ns, uint64_t slept_ns,
                           struct agent_metering_window *ret)
{
    const struct platform *best = NULL;

    for (size_t i = 0; i < metering->n_platforms; i++) {
        const struct agent_source_step *steps = NULL;
        if (metering->platforms[i] == NULL)
            continue;
        (void)agent_source_read(metering->platforms[i], NULL, now_ns, slept_ns);
        size_t n = agent_source_steps(metering->platforms[i], &steps);
        take_platform(&metering->shown[i], metering->conf.platforms[i]->name, steps, n);
    }
    for (size_t i = 0; i <= PLATFORMS_MAX; i++) {
        const struct platform *shown = &metering->shown[i];
        bool fresh =
            shown->t_ns != 0 && (now_ns < shown->t_ns || now_ns - shown->t_ns <= PLATFORM_OLD_NS);
        if (fresh && (best == NULL || best->t_ns == 0))
            best = shown;
    }
    /* what is old is better than nothing, since it says how old it is */
    for (size_t i = 0; i <= PLATFORMS_MAX && best == NULL; i++) {
        if (metering->shown[i].t_ns != 0)
            best = &metering->shown[i];
    }
    ret->has_platform = best != NULL;
    ret->platform_mw = best != NULL ? best->mw : 0;
    ret->platform_t_ns = best != NULL ? best->t_ns : 0;
    ret->platform_source = best != NULL ? best->source : "";
}

/** Whether what is read contradicts itself. An estimate contradicts nothing. */
static bool is_doubtful(struct agent_metering *metering, const struct agent_metering_window *window,
                        uint64_t now_ns)
{
    struct agent_doubt_window doubt = {.n_packages = window->n_packages,
                                       .platform_mw = window->platform_mw};

    if (agent_metering_ops(metering)->estimated)
        return false;
    for (unsigned p = 0; p < window->n_packages; p++) {
        doubt.cpu_uj[p] = window->slots[agent_slot(p, AGENT_DOMAIN_CPU)].delta_uj;
        doubt.dram_uj[p] = window->slots[agent_slot(p, AGENT_DOMAIN_DRAM)].delta_uj;
    }
    return agent_doubt_take(&metering->doubt, &doubt, now_ns);
}

/** Baseline of a meter that was just taken: what it drew before is not ours. */
static void take_baseline(struct agent_metering *metering, uint64_t now_ns)
{
    (void)agent_source_read(metering->source, NULL, now_ns, 0);
}

/** Looks for zones and for other meters. @param leave the one in use does not count. */
static void look_again(struct agent_metering *metering, uint64_t now_ns, bool leave)
{
    const struct agent_domain *domains = NULL;
    size_t index = metering->index;

    metering->next_scan_ns = now_ns + RESCAN_NS;
    agent_source_rescan(metering->source);
    for (size_t i = 0; i < metering->n_platforms; i++) {
        if (metering->platforms[i] != NULL)
            agent_source_rescan(metering->platforms[i]);
    }
    open_platforms(metering);
    if (!metering->free_choice)
        return;
    for (size_t i = 0; i < index; i++) {
        if (now_ns < metering->distrust_until_ns[i] || try_meter(metering, i) < 0)
            continue;
        take_baseline(metering, now_ns);
        return;
    }
    if (!leave && agent_source_domains(metering->source, &domains) > 0)
        return;
    for (size_t i = index + 1; i < metering->n_meters; i++) {
        if (try_meter(metering, i) < 0)
            continue;
        if (leave) {
            metering->distrust_until_ns[index] = now_ns + DISTRUST_NS;
            set_reason(&metering->reasons[index], false, "it opens, but no package counts");
        } else {
            set_reason(&metering->reasons[index], false, "its zones are gone");
        }
        take_baseline(metering, now_ns);
        return;
    }
}

/** An error may mean that zones moved: look soon, and ever more rarely while it lasts. */
static void scan_after_error(struct agent_metering *metering, bool error, uint64_t now_ns)
{
    if (!error) {
        metering->error_wait_ns = ERROR_WAIT_NS;
        return;
    }
    if (metering->next_scan_ns <= now_ns + metering->error_wait_ns)
        return;
    metering->next_scan_ns = now_ns + metering->error_wait_ns;
    metering->error_wait_ns *= 2;
}

int agent_metering_read(struct agent_metering *metering, const struct agent_meter_load *load,
                        uint64_t now_ns, uint64_t slept_ns, struct agent_metering_window *ret)
{
    bool leave = metering->free_choice && metering->dead_windows >= LEAVE_WINDOWS &&
                 now_ns - metering->counted_ns >= LEAVE_NS &&
                 !agent_metering_ops(metering)->estimated;

    memset(ret, 0, sizeof(*ret));
    if (metering->next_scan_ns == 0)
        metering->next_scan_ns = now_ns + RESCAN_NS;
    else if (now_ns >= metering->next_scan_ns || leave)
        look_again(metering, now_ns, leave);
    ret->changed = metering->changed;
    metering->changed = false;

    int rc = agent_source_read(metering->source, load, now_ns, slept_ns);
    bool any_error = take_steps(metering, now_ns, ret);
    read_platforms(metering, now_ns, slept_ns, ret);
    if (is_doubtful(metering, ret, now_ns))
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_DOUBTFUL);
    ret->left_out = agent_source_left_out(metering->source);
    if (ret->left_out > 0)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_INCOMPLETE);
    if (rc < 0)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_STALE);
    if (agent_metering_ops(metering)->estimated)
        ret->quality |= KW_QUALITY_BIT(KW_QUALITY_ESTIMATED);
    scan_after_error(metering, any_error || rc < 0, now_ns);
    return rc;
}
