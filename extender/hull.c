/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hull is Andrew's monotone chain over at most eleven knots, once per changed curve. Its knots
 * are the efficient fill levels of the machine. Evaluation adds slope x overlap over the segments
 * that the pod's work spans: at most ten steps, usually one, no division and no difference of two
 * large numbers, so that equal machines give bit-identical prices.
 */
#include "extender/hull.h"

#include <math.h>

/** Whether knot b lies on or above the line from a to c, so that the lower hull leaves it out. */
static bool is_above(const struct kw_curve_knot *a, const struct kw_curve_knot *b,
                     const struct kw_curve_knot *c)
{
    int64_t left = ((int64_t)b->mw - a->mw) * ((int64_t)c->load_permille - a->load_permille);
    int64_t right = ((int64_t)c->mw - a->mw) * ((int64_t)b->load_permille - a->load_permille);

    return left >= right;
}

void ext_hull_build(const struct kw_curve *curve, struct ext_hull *ret)
{
    const struct kw_curve_knot *chain[KW_CURVE_KNOTS];
    double mcpu_per_permille = (double)curve->capacity_mcpu / 1000.0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < curve->n; i++) {
        while (n >= 2 && is_above(chain[n - 2], chain[n - 1], &curve->knots[i]))
            n--;
        chain[n++] = &curve->knots[i];
    }
    *ret = (struct ext_hull){.n = n - 1};
    for (uint32_t i = 1; i < n; i++) {
        double width = (double)(chain[i]->load_permille - chain[i - 1]->load_permille);
        double rise = (double)chain[i]->mw - (double)chain[i - 1]->mw;
        ret->end_mcpu[i - 1] = (double)chain[i]->load_permille * mcpu_per_permille;
        ret->mw_per_mcpu[i - 1] = rise / (width * mcpu_per_permille);
    }
}

double ext_hull_marginal_mw(const struct ext_hull *hull, double used_mcpu, double added_mcpu)
{
    uint32_t last = hull->n - 1;
    double at = used_mcpu;
    double left = added_mcpu;
    double mw = 0;
    uint32_t i = 0;

    while (i < last && at >= hull->end_mcpu[i])
        i++;
    for (; i < last && left > hull->end_mcpu[i] - at; i++) {
        double part = hull->end_mcpu[i] - at;
        mw += part * hull->mw_per_mcpu[i];
        left -= part;
        at = hull->end_mcpu[i];
    }
    return mw + left * hull->mw_per_mcpu[i];
}

struct ext_place ext_place_of(const struct ext_hull *hull, double used_mcpu, double capacity_mcpu)
{
    uint32_t last = hull->n - 1;
    uint32_t i = 0;

    while (i < last && used_mcpu >= hull->end_mcpu[i])
        i++;
    uint32_t next = i < last ? i + 1 : i;
    return (struct ext_place){
        .room_mcpu = i < last ? hull->end_mcpu[i] - used_mcpu : (double)INFINITY,
        .mw_per_mcpu = hull->mw_per_mcpu[i],
        .next_room_mcpu = next < last ? hull->end_mcpu[next] - used_mcpu : (double)INFINITY,
        .next_mw_per_mcpu = hull->mw_per_mcpu[next],
        .fill = used_mcpu / capacity_mcpu,
        .used_mcpu = used_mcpu,
        .capacity_mcpu = capacity_mcpu,
        .hull = hull,
    };
}
