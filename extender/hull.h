/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/curve.h"

/*
 * Lower convex hull of a node's power curve: what the extender prices pods with. Real curves are
 * S-shaped (a jump on waking, a flat middle, a steep top), so the slope at the present load is a
 * bad guide: it fills nodes into their steep top because waking another looks dearer. The slope of
 * the hull is the long-run price of work on the node.
 */

/** Prepared for evaluation: segments from left to right, slopes ascending. Only differences matter,
 * so no watts are kept. */
struct ext_hull {
    uint32_t n;                          /**< segments, 1..KW_CURVE_KNOTS - 1 */
    double end_mcpu[KW_CURVE_KNOTS - 1]; /**< right end of each segment; the last is the capacity */
    double mw_per_mcpu[KW_CURVE_KNOTS -
                       1]; /**< price of a milli-core in the segment, never negative */
};

/**
 * Where a node stands on its hull, in one cache line. A pod that stays inside this segment and the
 * next, as nearly every pod does, is priced by their slopes, and the hull itself is not read.
 */
struct ext_place {
    double room_mcpu;        /**< to the end of the segment; infinite in the last */
    double mw_per_mcpu;      /**< price of a milli-core in it */
    double next_room_mcpu;   /**< to the end of the next segment; infinite where that is the last */
    double next_mw_per_mcpu; /**< price in the next segment; in the last: its own */
    double fill;             /**< used / capacity */
    double used_mcpu;        /**< >= 0 */
    double capacity_mcpu;    /**< > 0 */
    const struct ext_hull *hull;
};

/** @param curve one that kw_curve_check accepts. */
void ext_hull_build(const struct kw_curve *curve, struct ext_hull *ret);

/**
 * Milliwatts that `added_mcpu` more cost a node that uses `used_mcpu`: hull(used + added) -
 * hull(used). Beyond the capacity the last slope goes on, so that an overloaded node never looks
 * free. Two loads inside one segment give exactly the same price. @param used_mcpu, added_mcpu >=
 * 0. @return >= 0.
 */
double ext_hull_marginal_mw(const struct ext_hull *hull, double used_mcpu, double added_mcpu);

/** @param hull outlives the place. @param used_mcpu >= 0. @param capacity_mcpu > 0. */
struct ext_place ext_place_of(const struct ext_hull *hull, double used_mcpu, double capacity_mcpu);

/** ext_hull_marginal_mw from where the node stands: the same, to the bit. */
static inline double ext_place_marginal_mw(const struct ext_place *place, double added_mcpu)
{
    /* whether a pod crosses a knot cannot be foretold: no branch for that */
    double here = added_mcpu < place->room_mcpu ? added_mcpu : place->room_mcpu;

    if (added_mcpu > place->next_room_mcpu)
        return ext_hull_marginal_mw(place->hull, place->used_mcpu, added_mcpu);
    return here * place->mw_per_mcpu + (added_mcpu - here) * place->next_mw_per_mcpu;
}
