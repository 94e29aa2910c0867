/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Power curve of a node: watts against load, piecewise linear, never falling. Written by the agent
 * from what it saw; the extender prices a pod with it.
 */

#define KW_CURVE_KNOTS 11

struct kw_curve_knot {
    uint32_t load_permille; /**< 0..1000 of capacity, strictly ascending; first 0, last 1000 */
    uint32_t mw;            /**< never below the knot before */
    uint32_t confidence_permille; /**< 0: nothing seen near it; 1000: seen often and lately */
};

/** Power of the whole machine at the knots' loads, as its own meter shows it. */
struct kw_curve_platform {
    bool present;
    uint32_t mw[KW_CURVE_KNOTS];                  /**< never below the one before */
    uint32_t confidence_permille[KW_CURVE_KNOTS]; /**< as of a knot */
};

struct kw_curve {
    uint64_t capacity_mcpu; /**< what 1000 permille means; > 0 */
    bool by_core; /**< load and capacity are work: of two busy threads of a core each does less than
                     one alone (api/README.md "work"); else time on threads */
    bool estimated;    /**< the watts come from a model */
    char machine[128]; /**< model of its processors: nodes that have it and the capacity in common
                          learn together; "": unknown, it learns alone */
    uint32_t n;        /**< 2..KW_CURVE_KNOTS */
    struct kw_curve_knot knots[KW_CURVE_KNOTS];
    struct kw_curve_platform platform;
    bool has_sleep;    /**< what it draws asleep was seen */
    uint32_t sleep_mw; /**< by the meter that the curve is of */
    bool has_wake;     /**< what waking it takes was seen */
    uint64_t wake_uj;  /**< energy of a boot above idle, at most KW_CURVE_WAKE_UJ_MAX */
};

/** No boot takes more: a megajoule is half an hour at half a kilowatt. */
#define KW_CURVE_WAKE_UJ_MAX UINT64_C(1000000000000)

/** Whether every rule stated above holds. @return NULL, or a static text naming the rule broken. */
const char *kw_curve_check(const struct kw_curve *curve);

/** Power at a load, linear between knots; clamped to the ends. */
uint64_t kw_curve_mw_at(const struct kw_curve *curve, uint64_t mcpu);

/** Encode and decode as in api/sample.h; a curve that kw_curve_check refuses is -EBADMSG. */
int kw_curve_encode(const struct kw_curve *curve, char **ret, size_t *ret_len);
int kw_curve_decode(const char *json, size_t len, struct kw_curve *ret, const char **ret_why);
