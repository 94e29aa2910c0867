/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/curve.h"

/*
 * What the extender prices pods with: the lower convex hull of a node's power curve, leaning a
 * little to the curve itself. Real curves are S-shaped (a jump on waking, a flat middle, a steep
 * top), so the slope at the present load is a bad guide: it fills nodes into their steep top
 * because waking another looks dearer. The slope of the hull is the long-run price of work on the
 * node; the lean is what filling one node brings before another is begun.
 */

/** Most of the curve's own slope in a price; the rest is the hull's. In the cluster simulator 0.3
 * to 0.4 save the most; at 0 equal nodes are filled side by side, where the curve lies far above
 * its hull, and at 1 the steep top is filled. */
#define EXT_LEAN       0.3
/** What a price may come to by leaning, of the hull's next slope: an empty node never looks dearer
 * than the steep part of a full one, or one would stay empty where the others are driven up. */
#define EXT_LEAN_BELOW 0.98

/** How far a node's load is taken to be nearer to the mean of its peers', of its capacity, where
 * filling them evenly is best. The scheduler's own plugins do that by requests, which are exact;
 * loads that come late, rarely or wrong are no reason to do otherwise. In the simulator, without it
 * such loads cost 0.1 % against spreading on equal machines; from 0.15 on nothing. At 0.3, 3 % were
 * lost where pods are large, use little of what they request, and curves are steep. */
#define EXT_PEERS_BAND 0.15

/** What work beyond the capacity costs, of what a core draws on the mean at full load: it is not
 * done, and what is there already is slowed down. In the simulator, pods that use twice what they
 * request lose a fifth of their work at 0, a hundredth at 1, and no more than by spreading at 4. */
#define EXT_OVER    4
/** Step of ext_hull.over. */
#define EXT_OVER_MW 0.25

/** How long a node is taken to sleep: what waking costs is spread over that, and where it eats up
 * what sleep saves, the node is no one to be emptied. */
#define EXT_SLEEPS_S 3600.0

/** How much a curve may lie above its hull, of the watts there, and count as one with it: filling
 * one node before another gains half of that at most. */
#define EXT_STRAIGHT 0.01

/** Of its capacity, below which a node is taken to fall asleep soon. */
#define EXT_EMPTY 0.05

/** What changes a node's prices beside its curve. Zeros: nothing does. */
struct ext_pricing {
    double work_per_mcpu; /**< work that a milli-core does, in that of the reference machine, so
                             that unlike machines compare; 0: 1 */
    float energy_price;   /**< of a joule at the node (carbon or money), relative to the other
                             zones'; 0: 1; EXT_FACTOR_MIN..EXT_FACTOR_MAX */
    float risk;           /**< ext_risk: how close its cap is; 0: 1 */
    float wake_uj;        /**< energy of waking it, beyond that of its load; 0: none; infinite:
                             unknown, no pod is worth it while it sleeps */
    uint32_t sleep_mw;    /**< what it draws asleep */
    bool sleepable;       /**< empty, it goes to sleep: its idle watts can be saved */
    bool asleep;          /**< now: its last sample is none to place by */
    uint8_t reach;        /**< knot of the curve up to which all work of the cluster would fill it;
                             0: the last */
};

/** Bounds of energy_price and risk. */
#define EXT_FACTOR_MIN 0.001
#define EXT_FACTOR_MAX 65.0

/** Prepared for evaluation: segments from left to right. Only differences matter, so no watts are
 * kept. Work is in milli-cores of the reference machine: those of the node's own where
 * work_per_mcpu is not set. */
struct ext_hull {
    uint8_t n;      /**< segments, 1..KW_CURVE_KNOTS - 1 */
    uint8_t over;   /**< least price of a milli-core beyond the capacity, in EXT_OVER_MW */
    uint16_t plain; /**< bits of segments in which the curve is its hull, and filled evenly best;
                       that behind the last is what lies beyond the capacity */
    float drain_mw_per_mcpu; /**< how much dearer the first segment is where it begins, and cheaper
                                where it ends: a node that may sleep and has little to do drains, or
                                is filled before another is. Else 0; negative: it may sleep, but
                                that saves less than waking it costs */
    double end_mcpu[KW_CURVE_KNOTS - 1];    /**< right end of each; the last is the capacity */
    double mw_per_mcpu[KW_CURVE_KNOTS - 1]; /**< price in the segment, never negative */
};

/**
 * Where a node stands on its hull, in one cache line. A pod that stays inside this segment and the
 * next, as nearly every pod does, is priced by their slopes, and the hull itself is not read.
 */
struct ext_place {
    double room_mcpu;        /**< to the end of the segment; infinite in the last */
    double mw_per_mcpu;      /**< price of a milli-core in it */
    double next_mw_per_mcpu; /**< price in the next segment; in the last: its own */
    double at_mcpu;          /**< load that it is priced at, >= 0: what is used, or nearer to its
                                peers */
    const struct ext_hull *hull;
    float next_room_mcpu;    /**< to the end of the next segment, rounded down; infinite where that
                                is the last; negative: the hull is to be asked */
    float fill;              /**< used / capacity */
    float tie;               /**< the same, but that of its peers where filling them evenly is best:
                                what decides among equals */
    float capacity_mcpu;     /**< > 0 */
    float wake_uj;           /**< that the pod would cost by waking the node; 0: it is awake;
                                negative: that the pod saves, since without it the node would sleep
                                and not be worth waking */
    uint16_t price_permille; /**< energy_price */
    uint16_t risk_permille;  /**< risk */
};

/** @param curve one that kw_curve_check accepts. @param pricing NULL: nothing but the curve. */
void ext_hull_build(const struct kw_curve *curve, const struct ext_pricing *pricing,
                    struct ext_hull *ret);

/**
 * Milliwatts that `added_mcpu` more cost a node that uses `used_mcpu`: hull(used + added) -
 * hull(used). Beyond the capacity no work is done: EXT_OVER says what it costs, or the last slope
 * where that is more. Two loads inside one segment give exactly the same price, but in one that
 * drains.
 * @param used_mcpu, added_mcpu >= 0. @return >= 0.
 */
double ext_hull_marginal_mw(const struct ext_hull *hull, double used_mcpu, double added_mcpu);

/**
 * @param hull outlives the place. @param used_mcpu >= 0. @param capacity_mcpu > 0.
 * @param peers_fill mean fill of the nodes that have the same hull, itself included; negative:
 * there are no others. @param band EXT_PEERS_BAND; infinite where all nodes are peers, and nothing
 * but their loads can tell them apart.
 */
struct ext_place ext_place_of(const struct ext_hull *hull, double used_mcpu, double capacity_mcpu,
                              double peers_fill, double band);

/** Puts the prices of a node to its place, work units and hull excepted, which were built with
 * them. */
void ext_place_price(struct ext_place *place, const struct ext_pricing *pricing);

/**
 * How much dearer a node is because its cap is close: 1 as long as what it draws, `z_sigma_mw` of
 * doubt and `band_mw` more stay below the cap; rising in the band to EXT_RISK_MAX, and that beyond.
 * @param room_mw cap less what is drawn and promised; may be negative. @param z_sigma_mw >= 0: so
 * many standard deviations of it. @param band_mw >= 0.
 */
double ext_risk(double room_mw, double z_sigma_mw, double band_mw);

/** More than a node near its cap may cost and still be chosen before one that wakes. */
#define EXT_RISK_MAX 8.0

/** ext_hull_marginal_mw from where the node stands: the same, to the bit. */
static inline double ext_place_marginal_mw(const struct ext_place *place, double added_mcpu)
{
    /* whether a pod crosses a knot cannot be foretold: no branch for that */
    double here = added_mcpu < place->room_mcpu ? added_mcpu : place->room_mcpu;

    if (added_mcpu > (double)place->next_room_mcpu)
        return ext_hull_marginal_mw(place->hull, place->at_mcpu, added_mcpu);
    return here * place->mw_per_mcpu + (added_mcpu - here) * place->next_mw_per_mcpu;
}

/** What the pod is worth avoiding there: its watts and those of waking the node, by the price of
 * its energy and the closeness of its cap. @param wakes_per_ms of a pod that lives so long. */
static inline double ext_place_cost_mw(const struct ext_place *place, double added_mcpu,
                                       double wakes_per_ms)
{
    /* 10^6 x 10^-6 is 1: where nothing is set, the watts stay as they are, to the bit */
    double factor = (double)((uint32_t)place->price_permille * place->risk_permille) * 1e-6;
    double mw = ext_place_marginal_mw(place, added_mcpu) + (double)place->wake_uj * wakes_per_ms;

    return (mw > 0 ? mw : 0) * factor;
}
