/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/extender.h"
#include "extender/hull.h"

/*
 * From prices to the scheduler's eleven levels. Pure: the same candidates in any order get the same
 * scores.
 */

/** The pod to be placed. */
struct ext_score_pod {
    double mcpu;                 /**< its expected CPU use, > 0 */
    double expected_mw;          /**< what it is said to draw; 0: not said */
    enum kw_placement placement; /**< KW_PLACEMENT_OFF: every candidate is neutral */
};

/** Scratch of one candidate; its content means nothing to the caller. */
struct ext_score_scratch {
    double value;    /**< milliwatts (efficient) or fill (performance) */
    double fill;     /**< used / capacity, 0 where the pod would overload the node */
    uint32_t bucket; /**< prices closer than the noise share one */
    uint8_t level;   /**< 0..10 before ties are broken */
};

/** Score of every candidate where nothing tells them apart: the middle of 0..10. */
#define EXT_SCORE_NEUTRAL 5

/**
 * Scores the candidates, each given by where its node stands, NULL for an unknown or stale one: 10
 * for the cheapest, 0 for the dearest, unknown ones the median of the known. A node that costs less
 * by more than the noise never scores lower than another.
 * @param scratch n elements. @param ret_scores n elements, each 0..10.
 * @return how many candidates were known, 0 where the pod's placement is off.
 */
size_t ext_score(const struct ext_score_pod *pod, const struct ext_place *const *places, size_t n,
                 struct ext_score_scratch *scratch, uint8_t *ret_scores);
