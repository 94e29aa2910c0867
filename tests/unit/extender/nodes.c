/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/extender/nodes.h"

#include <string.h>

uint64_t kwt_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

struct kw_curve kwt_server_curve(uint64_t capacity_mcpu)
{
    static const uint32_t watts[KW_CURVE_KNOTS] = {128, 257, 300, 340, 378, 410,
                                                   442, 498, 577, 697, 817};
    struct kw_curve curve = {.capacity_mcpu = capacity_mcpu, .n = KW_CURVE_KNOTS};

    for (uint32_t i = 0; i < KW_CURVE_KNOTS; i++)
        curve.knots[i] = (struct kw_curve_knot){.load_permille = i * 100, .mw = watts[i] * 1000};
    return curve;
}

struct kw_curve kwt_random_curve(uint64_t *state)
{
    struct kw_curve curve = {.capacity_mcpu = 1 + kwt_next(state) % 1000000,
                             .n = 2 + (uint32_t)(kwt_next(state) % (KW_CURVE_KNOTS - 1))};
    uint32_t mw = (uint32_t)(kwt_next(state) % 200000);
    uint32_t load = 0;

    for (uint32_t i = 0; i < curve.n; i++) {
        curve.knots[i] = (struct kw_curve_knot){.load_permille = load, .mw = mw};
        load += 1 + (uint32_t)(kwt_next(state) % (1000 / curve.n));
        if (kwt_next(state) % 4 != 0)
            mw += (uint32_t)(kwt_next(state) % 150000);
    }
    curve.knots[curve.n - 1].load_permille = 1000;
    return curve;
}

struct ext_node kwt_node(const char *name, const struct kw_curve *curve, double used_mcpu)
{
    struct ext_node node = {.name = name,
                            .name_len = (uint16_t)strlen(name),
                            .used_mcpu = used_mcpu,
                            .interval_ns = 1000000000};

    if (curve != NULL) {
        node.has_curve = true;
        node.capacity_mcpu = (float)curve->capacity_mcpu;
        ext_hull_build(curve, NULL, &node.hull);
    }
    return node;
}
