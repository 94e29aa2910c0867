/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
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
    double mcpu;                 /**< its expected CPU use, > 0; work, where machines are unlike */
    double expected_mw;          /**< what it is said to draw; 0: not said */
    double life_s;               /**< what waking a node is spread over; 0: KW_LIFE_ASSUMED_S */
    bool lasting;                /**< what is scored for outlives the pod: by less of a root */
    enum kw_placement placement; /**< KW_PLACEMENT_OFF: every candidate is neutral */
};

/** What a candidate is scored by; its content means nothing to the caller, who may copy it. */
struct ext_score_scratch {
    float value; /**< cost in milliwatts (efficient) or crowding (performance); -1: unknown; -2:
                    asleep, and the pod too short to wake it */
    float fill;  /**< used / capacity, 0 where the pod would fill the node too much for a tie */
};

/** A scoring under way. Fields are private. */
struct ext_score {
    struct ext_score_pod pod;
    struct ext_score_scratch *scratch;
    double wakes_per_ms;
    bool shuns_sleep;
    size_t n, known;
    double min, max; /* of the known values, once it has ended */
};

/** Score of every candidate where nothing tells them apart: the middle of 0..10. */
#define EXT_SCORE_NEUTRAL 5

/** Starts on a pod. @param scratch the caller's, one for each candidate that will be taken. */
void ext_score_begin(struct ext_score *score, const struct ext_score_pod *pod,
                     struct ext_score_scratch *scratch);

/** Takes the next n candidates, each given by where its node stands, NULL for an unknown or stale
 * one. Places need not outlive the call: a few at a time are read while they are in the caches. */
void ext_score_take(struct ext_score *score, const struct ext_place *const *places, size_t n);

/** Where the next candidates are put: ext_score_take writes there what it finds of each. */
static inline struct ext_score_scratch *ext_score_next(const struct ext_score *score)
{
    return score->scratch + score->n;
}

/** Takes the next n candidates by what was found of them before, for a pod of the same demand, life
 * and placement; the caller has put it to ext_score_next. */
static inline void ext_score_take_again(struct ext_score *score, size_t n)
{
    score->n += n;
}

/** A pod that lives shorter wakes no node: it would wait for the boot as long as it runs. */
#define EXT_WAKES_FROM_S 600.0

/**
 * Scores all that were taken: 10 for the cheapest, less for each price that is dearer by more than
 * the noise, down to 0; of those that cost the same but for the noise, less for the emptier.
 * Unknown ones get the median of the known; sleeping ones that the pod is too short for, 0. A node
 * that costs less by more than the noise never scores lower than another.
 * @param ret_scores one for each candidate, 0..10.
 * @return how many candidates were known, 0 where the pod's placement is off.
 */
size_t ext_score_end(struct ext_score *score, uint8_t *ret_scores);
