/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "extender/score.h"

/*
 * The passes over all candidates of a request, for score.c and its tests only. There are two ways:
 * one for any machine, and one with AVX2. Both find the same, to the bit.
 */

/** Of ext_score_scratch.value: not known; asleep, and the pod too short to wake it. */
#define EXT_SCORE_UNKNOWN (-1.0F)
#define EXT_SCORE_SHUNNED (-2.0F)

/** Buckets of costs, and one that is of none. */
#define EXT_BUCKETS   64
#define EXT_NO_BUCKET EXT_BUCKETS

/** Below any fill and its negative. */
#define EXT_NO_FILL (-3.0F)

/** What a pod's cost depends on beside a node. */
struct ext_demand {
    double mcpu;
    double wakes_per_ms;
    float wake_max_uj; /**< nodes that cost more to wake are shunned */
};

/** Of the known values. */
struct ext_survey {
    uint32_t known; /**< how many */
    float min, max; /**< set where there is one */
};

/** Between which fills the candidates of each bucket lie: the greatest fill and the greatest of
 * their negatives; EXT_NO_FILL where it holds none. */
struct ext_spans {
    float ends[EXT_BUCKETS + 1][2];
};

/** What a bucket's candidates score: `best` for the fullest. */
struct ext_score_tariff {
    float best, fullest, lost_per_fill, tie_lost;
};

struct ext_score_rows {
    /** Costs and fills of the nodes that stand at `places`, NULL for an unknown one. */
    void (*costs)(const struct ext_demand *demand, const struct ext_place *const *places, size_t n,
                  struct ext_score_scratch *ret);
    void (*survey)(const struct ext_score_scratch *scratch, size_t n, struct ext_survey *ret);
    /** The bucket of each candidate's cost. @param least of the costs. @param base added to each,
     * > 0. */
    void (*buckets)(const struct ext_score_scratch *scratch, size_t n, float base, float least,
                    uint8_t *ret);
    void (*spans)(const struct ext_score_scratch *scratch, const uint8_t *buckets, size_t n,
                  struct ext_spans *ret);
    /** Turns buckets into scores. @param tariffs EXT_BUCKETS + 1; the last of zeros. */
    void (*charge)(const struct ext_score_scratch *scratch, const struct ext_score_tariff *tariffs,
                   size_t n, uint8_t *scores);
};

extern const struct ext_score_rows ext_score_rows_plain;
/** Only where ext_score_rows gives it. */
extern const struct ext_score_rows ext_score_rows_wide;

/** The way for this machine. */
const struct ext_score_rows *ext_score_rows(void);
