/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some counters move in steps of a joule, and those of virtual machines once in seconds: a window
 * of 100 ms then shows nothing or far too much. Leaving the empty ones out would make the node
 * dearer than it is, so windows are gathered until a second is full and energy has come. A reading
 * that is late by a part of a window is late by little of a second.
 *
 * A curve is of one basis. A model's windows never go into a measured curve, which is kept and ages
 * where the meter is lost; measured ones end a model's curve at once. Any other change (domains,
 * the machine's size) may be a fault that passes: only after OTHER_NS does a new curve begin. Until
 * then windows are left out.
 *
 * The machine's own meter averages over a second or more, and lags: its readings count where the
 * load was steady. What it shows beyond the domains (losses of the power supply, fans, disks) is a
 * curve of its own, which never falls either, and goes on level where nothing was seen.
 */
#include "node-agent/curve_feed.h"

#include "node-agent/period.h"

/* Longer than any reading is late. */
#define POINT_NS UINT64_C(1000000000)

/* Domains that cannot be read are looked for again within a minute. */
#define OTHER_NS UINT64_C(60000000000)

/* More work than the node can do, by this, is of CPUs that are not known of. Less is the
 * inexactness of the two readings. */
#define LOAD_MAX_PERMILLE 1050

/* Load of two points in a row: steady, for a meter that lags by one. */
#define STEADY_PERMILLE 50

void agent_curve_feed_init(struct agent_curve_feed *feed, uint64_t prior_idle_mw,
                           uint64_t prior_full_mw)
{
    *feed = (struct agent_curve_feed){0};
    agent_curve_init(&feed->curve, prior_idle_mw, prior_full_mw);
    agent_curve_init(&feed->excess, 0, 0);
}

static bool is_same(const struct agent_curve_basis *a, const struct agent_curve_basis *b)
{
    return a->domains == b->domains && a->capacity_mcpu == b->capacity_mcpu &&
           a->by_core == b->by_core && a->estimated == b->estimated;
}

void agent_curve_feed_age(struct agent_curve_feed *feed, uint64_t passed_ns)
{
    agent_curve_age(&feed->curve, passed_ns);
    agent_curve_age(&feed->excess, passed_ns);
}

static void pass(struct agent_curve_feed *feed, const struct agent_curve_window *window)
{
    agent_curve_feed_age(feed, feed->gathered_ns);
    agent_curve_feed_age(feed, window->interval_ns);
    agent_curve_feed_age(feed, window->slept_ns);
    feed->gathered_uj = feed->gathered_work_ns = feed->gathered_ns = 0;
}

/** Whether the curve is of the window's basis, now that it was seen. */
static bool settle(struct agent_curve_feed *feed, const struct agent_curve_window *window)
{
    bool worse = window->basis.estimated && !feed->basis.estimated;

    if (is_same(&feed->basis, &window->basis)) {
        feed->other_ns = 0;
        return true;
    }
    feed->other_ns += window->interval_ns;
    if (feed->basis.capacity_mcpu != 0 &&
        (worse || (feed->other_ns < OTHER_NS && feed->basis.estimated == window->basis.estimated)))
        return false;
    agent_curve_feed_init(feed, (uint64_t)feed->curve.prior_idle_mw,
                          (uint64_t)feed->curve.prior_full_mw);
    feed->basis = window->basis;
    return true;
}

/** Takes in what the machine drew beyond its domains at a point. */
static void observe_excess(struct agent_curve_feed *feed, const struct agent_curve_window *window,
                           uint32_t permille, uint64_t mw)
{
    uint32_t before = feed->before_permille;
    bool steady = (permille > before ? permille - before : before - permille) <= STEADY_PERMILLE;

    feed->before_permille = permille;
    if (window->platform_t_ns <= feed->platform_t_ns || !steady || window->platform_mw < mw ||
        window->basis.estimated) {
        agent_curve_age(&feed->excess, feed->gathered_ns);
        return;
    }
    feed->platform_t_ns = window->platform_t_ns;
    feed->has_excess = true;
    agent_curve_observe(&feed->excess, permille, window->platform_mw - mw, feed->gathered_ns);
}

/** Makes a point of what was gathered. */
static void observe(struct agent_curve_feed *feed, const struct agent_curve_window *window)
{
    uint64_t used_mcpu = agent_period_mcpu(feed->gathered_work_ns, feed->gathered_ns);
    uint64_t mw = agent_period_mw(feed->gathered_uj, feed->gathered_ns);
    unsigned __int128 permille = (unsigned __int128)used_mcpu * 1000 / feed->basis.capacity_mcpu;

    if (permille > LOAD_MAX_PERMILLE) {
        agent_curve_feed_age(feed, feed->gathered_ns);
        return;
    }
    agent_curve_observe(&feed->curve, (uint32_t)permille, mw, feed->gathered_ns);
    observe_excess(feed, window, (uint32_t)permille, mw);
}

void agent_curve_feed_take(struct agent_curve_feed *feed, const struct agent_curve_window *window)
{
    if (!window->fit || window->slept_ns != 0 || window->basis.domains == 0 ||
        window->basis.capacity_mcpu == 0 || !settle(feed, window)) {
        pass(feed, window);
        return;
    }
    feed->gathered_uj += window->measured_uj;
    feed->gathered_work_ns += window->work_ns;
    feed->gathered_ns += window->interval_ns;
    if (feed->gathered_ns < POINT_NS || feed->gathered_uj == 0)
        return;
    observe(feed, window);
    feed->gathered_uj = feed->gathered_work_ns = feed->gathered_ns = 0;
}

void agent_curve_feed_archive(struct agent_curve_feed *feed, struct agent_archive *archive)
{
    uint64_t by_core = feed->basis.by_core, estimated = feed->basis.estimated;
    uint64_t has_excess = feed->has_excess;

    agent_archive_u64(archive, &feed->basis.domains, UINT64_MAX, "");
    agent_archive_u64(archive, &feed->basis.capacity_mcpu, AGENT_CPUS_MAX * UINT64_C(1000),
                      "its curve is of more CPUs than there can be");
    agent_archive_u64(archive, &by_core, 1, "its curve is of no known kind");
    agent_archive_u64(archive, &estimated, 1, "its curve is of no known kind");
    feed->basis.by_core = by_core != 0;
    feed->basis.estimated = estimated != 0;
    agent_curve_archive(&feed->curve, archive);
    agent_curve_archive(&feed->excess, archive);
    agent_archive_u64(archive, &has_excess, 1, "its curve is of no known kind");
    feed->has_excess = has_excess != 0;
    if (archive->loading)
        feed->gathered_uj = feed->gathered_work_ns = feed->gathered_ns = feed->other_ns = 0;
}

void agent_curve_feed_get(const struct agent_curve_feed *feed, const struct agent_curve_basis *now,
                          struct kw_curve *ret)
{
    const struct agent_curve_basis *basis = feed->basis.capacity_mcpu != 0 ? &feed->basis : now;
    struct kw_curve excess;

    agent_curve_get(&feed->curve, basis->capacity_mcpu, basis->estimated, ret);
    ret->by_core = basis->by_core;
    if (!feed->has_excess)
        return;
    agent_curve_get(&feed->excess, basis->capacity_mcpu, false, &excess);
    ret->platform.present = true;
    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        ret->platform.mw[k] = ret->knots[k].mw + excess.knots[k].mw; /* a megawatt each at most */
        ret->platform.confidence_permille[k] = excess.knots[k].confidence_permille;
    }
}

uint64_t agent_curve_domain(uint64_t domains, unsigned slot)
{
    /* powers of an odd number: sums of two sets are hardly ever the same */
    uint64_t mark = UINT64_C(0x9e3779b97f4a7c15);

    for (unsigned i = 0; i < slot; i++)
        mark *= UINT64_C(0xd6e8feb86659fd93);
    return domains + mark;
}

uint64_t agent_work_ns(uint64_t cpu_ns, uint64_t shared_ns)
{
    uint64_t shared = shared_ns < cpu_ns ? shared_ns : cpu_ns;

    return cpu_ns -
           (uint64_t)((unsigned __int128)shared * (1000 - AGENT_WORK_SHARED_PERMILLE) / 1000);
}

uint64_t agent_work_capacity_mcpu(const struct agent_topology *topology, bool by_core)
{
    uint64_t mcpu = (uint64_t)topology->n_online * 1000;

    for (unsigned cpu = 0; by_core && cpu < AGENT_CPUS_MAX; cpu++) {
        if (topology->cpu_sibling[cpu] != 0 && mcpu > 1000)
            mcpu -= 1000 - AGENT_WORK_SHARED_PERMILLE;
    }
    return mcpu;
}
