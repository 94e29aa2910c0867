/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hull is Andrew's monotone chain over at most eleven knots, once per changed curve. Its knots
 * are the efficient fill levels of the machine. Between two of them all loads have one slope, so
 * that nothing says which of two equal nodes to fill, while the curve lies above: two nodes at the
 * middle draw more than one at the knot and one that is idle. So a part of the curve's own slope is
 * mixed in: where a node has climbed the curve's bulge, filling it on is cheaper than beginning
 * another, and where hull and curve are one (a steep top) nothing changes. The part is small, so
 * that no node is filled beyond a knot whose next slope is a third dearer.
 *
 * A node that may sleep has its sleep watts at load 0; waking jumps to the curve at once, and that
 * jump is in the first segment's slope. It is paid by the first pod and saved with the last, so the
 * lean is twice as much where the segment begins and none where it ends: of nodes with little to do
 * one is filled and the others drain. With one price for all of the segment three of ten nodes
 * stood at 5 % for hours, in the simulator, and a tenth of the saving was lost. What waking costs
 * is spread over EXT_SLEEPS_S of sleep. A node that saves less by sleeping than it costs to wake
 * stays on for its hull, and while it is nearly empty a pod saves what its waking would cost.
 *
 * Where the curve is its own hull (it bends upward), nodes of one kind are best filled evenly.
 * There they are priced by the mean load of their peers, as long as they are near it: the price of
 * their kind is right, and among them the scheduler's own plugins decide. Where all nodes are of
 * one kind, near is everywhere. On a straight line it is all the same, and the fuller wins.
 *
 * The slope of the hull is the price of a node that will be filled. Where the cluster has less work
 * than that, it ends at the load that all of its work would make there, and begins anew behind it:
 * else little work goes where much would be cheap, and on unlike machines at 2 % of load that drew
 * 1.5 % more than spreading, in the simulator. A node that may sleep has its whole hull: to wake it
 * costs nearly all that a little work does, and with all of that in the price nothing was left to
 * say which of those awake to fill; some fleets saved a tenth of what they save so.
 *
 * Beyond the capacity more work draws no more watts, since it is not done. Pods that use more than
 * they request lead there, so it has a price far above all others.
 *
 * Evaluation adds slope x overlap over the segments that the pod's work spans: at most ten steps,
 * usually one, no division and no difference of two large numbers, so that equal machines give
 * bit-identical prices.
 */
#include "extender/hull.h"

#include <math.h>
#include <string.h>

/** Whether knot b lies on or above the line from a to c, so that the lower hull leaves it out. */
static bool is_above(const struct kw_curve_knot *a, const struct kw_curve_knot *b,
                     const struct kw_curve_knot *c)
{
    int64_t left = ((int64_t)b->mw - a->mw) * ((int64_t)c->load_permille - a->load_permille);
    int64_t right = ((int64_t)c->mw - a->mw) * ((int64_t)b->load_permille - a->load_permille);

    return left >= right;
}

/** Slope from one knot to another, in milliwatts for each thousandth of load. */
static double slope(const struct kw_curve_knot *from, const struct kw_curve_knot *to)
{
    return ((double)to->mw - (double)from->mw) / (double)(to->load_permille - from->load_permille);
}

/** Slope of the hull between a knot of it and the next. */
static double hull_slope(const struct kw_curve_knot *knots, const uint32_t *chain, uint32_t i)
{
    return slope(&knots[chain[i]], &knots[chain[i + 1]]);
}

/**
 * How far prices between two neighbours on the hull lean to the curve: EXT_LEAN, or as far as they
 * stay between the hull's slopes before and after. A node that sleeps when it is empty may look
 * dearer than those: what it costs to wake is worth some steepness elsewhere.
 * @param chain indices of the n knots on the hull. @param i the first of the two.
 */
static double lean_of(const struct kw_curve_knot *knots, const uint32_t *chain, uint32_t n,
                      uint32_t i, bool sleepable)
{
    double hull = hull_slope(knots, chain, i);
    double below = i > 0 ? hull_slope(knots, chain, i - 1) : 0;
    double above = i + 2 < n && !(sleepable && i == 0)
                       ? fmax(EXT_LEAN_BELOW * hull_slope(knots, chain, i + 1), hull)
                       : (double)INFINITY;
    double lean = EXT_LEAN;

    for (uint32_t k = chain[i]; k < chain[i + 1]; k++) {
        double own = slope(&knots[k], &knots[k + 1]);
        if (own > hull)
            lean = fmin(lean, (above - hull) / (own - hull));
        else if (own < hull)
            lean = fmin(lean, (hull - below) / (hull - own));
    }
    return lean;
}

/** Whether a curve is its hull between two knots of it, as far as meters can tell. */
static bool is_straight(const struct kw_curve_knot *knots, uint32_t from, uint32_t to)
{
    double per_permille = slope(&knots[from], &knots[to]);

    for (uint32_t k = from + 1; k < to; k++) {
        double hull =
            knots[from].mw + per_permille * (knots[k].load_permille - knots[from].load_permille);
        if (knots[k].mw > (1 + EXT_STRAIGHT) * hull)
            return false;
    }
    return true;
}

/** What a node draws while it sleeps, its waking included. @return infinite: it stays on. */
static double sleeping(const struct ext_pricing *pricing)
{
    if (pricing == NULL || !pricing->sleepable)
        return (double)INFINITY;
    double wake_uj = isfinite(pricing->wake_uj) ? (double)pricing->wake_uj : 0;
    return pricing->sleep_mw + wake_uj / EXT_SLEEPS_S / 1000;
}

/** What work beyond the capacity costs at least. */
static uint8_t over_of(const struct kw_curve *curve, double mcpu_per_permille)
{
    double mean = curve->knots[curve->n - 1].mw / (1000 * mcpu_per_permille);

    return (uint8_t)fmin(ceil(EXT_OVER * mean / EXT_OVER_MW), UINT8_MAX);
}

/** Lower hull of the knots from one to another. @param ret indices of those on it. @return how
 * many. */
static uint32_t chain_of(const struct kw_curve_knot *knots, uint32_t first, uint32_t last,
                         uint32_t ret[KW_CURVE_KNOTS])
{
    uint32_t n = 0;

    for (uint32_t i = first; i <= last; i++) {
        while (n >= 2 && is_above(&knots[ret[n - 2]], &knots[ret[n - 1]], &knots[i]))
            n--;
        ret[n++] = i;
    }
    return n;
}

/** Steps from a knot to the next in which nodes are best filled evenly, as bits: the curve is its
 * own hull there, and not one line from end to end. */
static uint32_t even_steps(const struct kw_curve_knot *knots, const uint32_t *chain, uint32_t n,
                           bool sleepable)
{
    uint32_t even = 0;

    for (uint32_t i = sleepable ? 1 : 0; n > 2 && i + 1 < n; i++) {
        if (is_straight(knots, chain[i], chain[i + 1]))
            even |= (1u << chain[i + 1]) - (1u << chain[i]);
    }
    return even;
}

/** Adds the segments of a chain: prices by its slopes, leaning to the curve. @param even steps that
 * are best filled evenly. */
static void add_segments(const struct kw_curve_knot *knots, const uint32_t *chain, uint32_t n,
                         bool sleepable, uint32_t even, double mcpu_per_permille,
                         struct ext_hull *ret)
{
    for (uint32_t i = 0; i + 1 < n; i++) {
        double hull = hull_slope(knots, chain, i);
        double lean = lean_of(knots, chain, n, i, sleepable);
        for (uint32_t k = chain[i]; k < chain[i + 1]; k++) {
            double own = slope(&knots[k], &knots[k + 1]);
            double price = (hull + lean * (own - hull)) / mcpu_per_permille;
            bool own_segment = ret->n == 0 || price != ret->mw_per_mcpu[ret->n - 1];
            ret->n = (uint8_t)(ret->n + own_segment); /* equal prices: one */
            ret->end_mcpu[ret->n - 1] = (double)knots[k + 1].load_permille * mcpu_per_permille;
            ret->mw_per_mcpu[ret->n - 1] = price;
            ret->plain = (uint16_t)(ret->plain | (even >> k & 1u) << (ret->n - 1u));
        }
        if (sleepable && i == 0)
            ret->drain_mw_per_mcpu = (float)fmax(ret->mw_per_mcpu[0] - hull / mcpu_per_permille, 0);
    }
}

void ext_hull_build(const struct kw_curve *curve, const struct ext_pricing *pricing,
                    struct ext_hull *ret)
{
    struct kw_curve_knot knots[KW_CURVE_KNOTS];
    uint32_t chain[KW_CURVE_KNOTS];
    double work = pricing == NULL || pricing->work_per_mcpu <= 0 ? 1 : pricing->work_per_mcpu;
    double mcpu_per_permille = (double)curve->capacity_mcpu * work / 1000.0;
    double sleeping_mw = sleeping(pricing);
    bool sleepable = sleeping_mw <= curve->knots[0].mw;
    uint32_t last = curve->n - 1, n;

    memcpy(knots, curve->knots, sizeof(knots));
    if (sleepable)
        knots[0].mw = (uint32_t)sleeping_mw;
    n = chain_of(knots, 0, last, chain);
    uint32_t even = even_steps(knots, chain, n, sleepable);
    bool bounded = pricing != NULL && pricing->reach > 0 && pricing->reach < last && !sleepable;
    uint32_t reach = bounded ? pricing->reach : last;
    *ret = (struct ext_hull){.over = over_of(curve, mcpu_per_permille)};
    n = chain_of(knots, 0, reach, chain);
    add_segments(knots, chain, n, sleepable, even, mcpu_per_permille, ret);
    n = chain_of(knots, reach, last, chain);
    add_segments(knots, chain, n, false, even, mcpu_per_permille, ret);
    uint32_t top = (uint32_t)ret->plain >> (ret->n - 1u) & 1u;
    ret->plain = (uint16_t)(ret->plain | top << ret->n);
    if (pricing != NULL && pricing->sleepable && !sleepable)
        ret->drain_mw_per_mcpu = -1;
}

/** Segment that a load lies in; their number beyond the capacity. */
static uint32_t segment_at(const struct ext_hull *hull, double mcpu)
{
    uint32_t i = 0;

    while (i < hull->n && mcpu >= hull->end_mcpu[i])
        i++;
    return i;
}

/** Whether prices fall within a segment. */
static bool drains(const struct ext_hull *hull, uint32_t segment)
{
    return segment == 0 && hull->drain_mw_per_mcpu > 0;
}

/** Price where a load stands in its segment. */
static double price_at(const struct ext_hull *hull, uint32_t segment, double mcpu)
{
    if (segment == hull->n)
        return fmax(hull->over * EXT_OVER_MW, hull->mw_per_mcpu[segment - 1]);
    double price = hull->mw_per_mcpu[segment];

    if (!drains(hull, segment))
        return price;
    return price + (double)hull->drain_mw_per_mcpu * fmax(1 - 2 * mcpu / hull->end_mcpu[0], -1);
}

double ext_hull_marginal_mw(const struct ext_hull *hull, double used_mcpu, double added_mcpu)
{
    double at = used_mcpu;
    double left = added_mcpu;
    double mw = 0;
    uint32_t i = segment_at(hull, used_mcpu);

    for (; i < hull->n && left > hull->end_mcpu[i] - at; i++) {
        double part = hull->end_mcpu[i] - at;
        mw += part * price_at(hull, i, at + part / 2);
        left -= part;
        at = hull->end_mcpu[i];
    }
    return mw + left * price_at(hull, i, at + left / 2);
}

/** Load that a node among peers is priced at: nearer to theirs. @return negative where evenly
 * filled is not best between the two. */
static double load_among(const struct ext_hull *hull, double used_mcpu, double capacity_mcpu,
                         double peers_mcpu, double band)
{
    uint32_t a = segment_at(hull, used_mcpu), b = segment_at(hull, peers_mcpu);
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    uint32_t between = (2u << high) - (1u << low);
    double band_mcpu = band * capacity_mcpu;

    if ((hull->plain & between) != between)
        return -1;
    return fmin(fmax(peers_mcpu, used_mcpu - band_mcpu), used_mcpu + band_mcpu);
}

/** @param at_mcpu load to be priced at. */
static struct ext_place place_at(const struct ext_hull *hull, double at_mcpu)
{
    uint32_t last = hull->n; /* what lies beyond the capacity */
    uint32_t i = segment_at(hull, at_mcpu);
    uint32_t next = i < last ? i + 1 : i;
    double price = price_at(hull, i, at_mcpu);
    float next_room_mcpu =
        next < last ? nextafterf((float)(hull->end_mcpu[next] - at_mcpu), 0) : INFINITY;
    if (drains(hull, i))
        next_room_mcpu = -1; /* two slopes do not tell its prices: the hull does */

    return (struct ext_place){
        .room_mcpu = i < last ? hull->end_mcpu[i] - at_mcpu : (double)INFINITY,
        .mw_per_mcpu = price,
        .next_mw_per_mcpu = next > i ? price_at(hull, next, 0) : price,
        .at_mcpu = at_mcpu,
        .hull = hull,
        .next_room_mcpu = next_room_mcpu,
        .price_permille = 1000,
        .risk_permille = 1000,
    };
}

/** Whether nothing is gained by filling a node on before another. */
static bool is_plain(const struct ext_hull *hull, double mcpu)
{
    return (uint32_t)hull->plain >> segment_at(hull, mcpu) & 1u;
}

struct ext_place ext_place_of(const struct ext_hull *hull, double used_mcpu, double capacity_mcpu,
                              double peers_fill, double band)
{
    double peers_mcpu = peers_fill * capacity_mcpu;
    double at_mcpu =
        peers_fill < 0 ? -1 : load_among(hull, used_mcpu, capacity_mcpu, peers_mcpu, band);
    struct ext_place place = place_at(hull, at_mcpu < 0 ? used_mcpu : at_mcpu);

    place.fill = (float)(used_mcpu / capacity_mcpu);
    place.tie = at_mcpu >= 0 ? (float)peers_fill : is_plain(hull, used_mcpu) ? 0 : place.fill;
    place.capacity_mcpu = (float)capacity_mcpu;
    return place;
}

static uint16_t permille(double factor)
{
    if (!(factor > 0))
        return 1000;
    return (uint16_t)(fmin(fmax(factor, EXT_FACTOR_MIN), EXT_FACTOR_MAX) * 1000 + 0.5);
}

void ext_place_price(struct ext_place *place, const struct ext_pricing *pricing)
{
    bool kept = place->fill < EXT_EMPTY && place->hull->drain_mw_per_mcpu < 0;

    place->wake_uj = kept && isfinite(pricing->wake_uj) ? -pricing->wake_uj : 0;
    if (pricing->asleep)
        place->wake_uj = (float)fmax(pricing->wake_uj, 1); /* never 0: it tells those that sleep */
    place->price_permille = permille(pricing->energy_price);
    place->risk_permille = permille(pricing->risk);
}

double ext_risk(double room_mw, double z_sigma_mw, double band_mw)
{
    double left_mw = room_mw - z_sigma_mw;

    if (left_mw >= band_mw)
        return 1;
    if (!(left_mw > 0)) /* also without a band */
        return EXT_RISK_MAX;
    return EXT_RISK_MAX - (EXT_RISK_MAX - 1) * left_mw / band_mw;
}
