/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node's past stands at its place in the snapshot; where other nodes are there, it moves along.
 * Ages are two sums for each node, out of which a part passes by with time, and not a list of pods:
 * pods that came hours ago cost nothing.
 */
#include "extender/uptake.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/clock.h"

/** Length of a step. Over a shorter one, that a sample covers a pod some seconds earlier or later
 * than is known, and how the use of others wanders, outweigh what the pod brings. */
#define STEP_S     60.0
/** Loads further apart than this say nothing of each other. */
#define STEP_MAX_S 150.0

/** Of a node nearly full the load cannot show what its pods would use. */
#define FULL 0.95

/** Weight of a sample in a node's level. */
#define LEVEL_WEIGHT (1.0F / 16)

/** A node's past. */
struct past {
    int64_t covered_ns; /**< of its latest sample; 0: none was seen */
    int64_t begun_ns;   /**< of the one that its step began with */
    float before_mcpu;  /**< load at that */
    float level_mcpu;   /**< load without how it wanders, lately; what it was when the step began */
    float before_level_mcpu;
    float fresh_mcpu, settling_mcpu; /**< expected of the pods of each age */
    /* in the step so far */
    float seen_mcpu, seen_square_mcpu2;
    float past_fresh_mcpu, past_settling_mcpu; /**< expected of those that left the ages */
    bool blind; /**< of a node nearly full, or of which it is not known how full it is */
};

struct ext_uptake {
    struct ext_growth growth;
    struct past *pasts; /**< of the nodes of a snapshot */
    uint64_t names_id;  /**< of that */
    int64_t aged_ns;    /**< latest sample that was seen */
};

struct ext_uptake *ext_uptake_new(void)
{
    struct ext_uptake *uptake = calloc(1, sizeof(*uptake));

    if (uptake != NULL)
        ext_growth_init(&uptake->growth);
    return uptake;
}

void ext_uptake_free(struct ext_uptake **uptake)
{
    if (*uptake == NULL)
        return;
    free((*uptake)->pasts);
    free(*uptake);
    *uptake = NULL;
}

/** Brings the pasts to where the nodes stand in a snapshot. */
static int follow(struct ext_uptake *uptake, const struct ext_snapshot *snapshot,
                  const struct ext_snapshot *before)
{
    if (uptake->pasts != NULL && uptake->names_id == snapshot->names_id)
        return 0;
    struct past *pasts = calloc(snapshot->n + 1, sizeof(*pasts));
    bool known = before != NULL && uptake->pasts != NULL && before->names_id == uptake->names_id;

    if (pasts == NULL)
        return -ENOMEM;
    for (size_t i = 0; known && i < snapshot->n; i++) {
        const struct ext_node *node = &snapshot->nodes[i];
        const struct ext_node *old = ext_snapshot_find(before, node->name, node->name_len);
        if (old != NULL)
            pasts[i] = uptake->pasts[old - before->nodes];
    }
    free(uptake->pasts);
    uptake->pasts = pasts;
    uptake->names_id = snapshot->names_id;
    return 0;
}

static void begin_step(struct past *past, const struct ext_node *node)
{
    past->begun_ns = node->covered_ns;
    past->before_mcpu = (float)node->used_mcpu;
    past->before_level_mcpu = past->level_mcpu;
    past->seen_mcpu = past->seen_square_mcpu2 = 0;
    past->past_fresh_mcpu = past->past_settling_mcpu = 0;
    past->blind = false;
}

/** Pods grow older, and new ones have come. */
static void take_ages(struct past *past, double seconds, double seen_mcpu)
{
    double fresh = exp(-seconds / EXT_GROWTH_FRESH_S);
    double settling = exp(-seconds / EXT_GROWTH_SETTLING_S);
    /* of those that were fresh, who is settling now: what comes into a decay by a faster one */
    double between =
        EXT_GROWTH_SETTLING_S / (EXT_GROWTH_SETTLING_S - EXT_GROWTH_FRESH_S) * (settling - fresh);
    double left_fresh = (double)past->fresh_mcpu * fresh;
    double left_settling =
        (double)past->settling_mcpu * settling + (double)past->fresh_mcpu * between;

    past->past_fresh_mcpu += past->fresh_mcpu - (float)left_fresh;
    past->past_settling_mcpu +=
        past->settling_mcpu + past->fresh_mcpu - (float)(left_fresh + left_settling);
    past->fresh_mcpu = (float)(left_fresh + seen_mcpu);
    past->settling_mcpu = (float)left_settling;
}

/** @param at_once part of what is expected of pods that they use at once. */
static void take_load(struct past *past, const struct ext_node *node, const struct ext_held *held,
                      double at_once)
{
    past->seen_mcpu += (float)held->seen_mcpu;
    past->seen_square_mcpu2 += (float)held->seen_square_mcpu2;
    past->level_mcpu += (float)(at_once * held->seen_mcpu);
    past->level_mcpu += LEVEL_WEIGHT * ((float)node->used_mcpu - past->level_mcpu);
    past->blind = past->blind || !node->has_curve || node->used_mcpu > FULL * node->capacity_mcpu;
    past->covered_ns = node->covered_ns;
}

static double seconds_of(int64_t ns)
{
    return (double)ns / (double)KW_NS_PER_S;
}

static void take_sample(struct ext_uptake *uptake, const struct ext_node *node, struct past *past,
                        const struct ext_held *held)
{
    int64_t since_ns = node->covered_ns - past->covered_ns;

    take_ages(past, since_ns > 0 ? seconds_of(since_ns) : 0, held->seen_mcpu);
    take_load(past, node, held, uptake->growth.mean[0]);
    double seconds = seconds_of(node->covered_ns - past->begun_ns);
    if (seconds >= 0 && seconds < STEP_S)
        return;
    const struct ext_growth_step step = {.seconds = seconds,
                                         .before_mcpu = (double)past->before_mcpu,
                                         .after_mcpu = node->used_mcpu,
                                         .level_mcpu = (double)past->before_level_mcpu,
                                         .seen_mcpu = (double)past->seen_mcpu,
                                         .seen_square_mcpu2 = (double)past->seen_square_mcpu2,
                                         .fresh_mcpu = (double)past->past_fresh_mcpu,
                                         .settling_mcpu = (double)past->past_settling_mcpu};
    if (seconds > 0 && seconds <= STEP_MAX_S && !past->blind)
        ext_growth_take(&uptake->growth, &step);
    begin_step(past, node);
}

static void learn(struct ext_uptake *uptake, const struct ext_snapshot *snapshot,
                  const struct ext_held *held)
{
    int64_t latest_ns = uptake->aged_ns;

    for (size_t i = 0; i < snapshot->n; i++) {
        const struct ext_node *node = &snapshot->nodes[i];
        struct past *past = &uptake->pasts[i];
        if (past->covered_ns == 0) {
            *past =
                (struct past){.covered_ns = node->covered_ns, .level_mcpu = (float)node->used_mcpu};
            begin_step(past, node);
        } else if (past->covered_ns != node->covered_ns) {
            take_sample(uptake, node, past, &held[i]);
        }
        if (node->covered_ns > latest_ns)
            latest_ns = node->covered_ns;
    }
    if (uptake->aged_ns > 0)
        ext_growth_age(&uptake->growth, seconds_of(latest_ns - uptake->aged_ns));
    uptake->aged_ns = latest_ns;
}

static double greater(double a, double b)
{
    return a > b ? a : b;
}

int ext_uptake_settle(struct ext_uptake *uptake, const struct ext_snapshot *snapshot,
                      const struct ext_snapshot *before, double sigmas, struct ext_held *held,
                      struct ext_use *ret)
{
    int rc = follow(uptake, snapshot, before);

    if (rc < 0)
        return rc;
    learn(uptake, snapshot, held);
    ext_growth_use(&uptake->growth, sigmas, ret);
    for (size_t i = 0; i < snapshot->n; i++) {
        const struct past *past = &uptake->pasts[i];
        held[i].variance_mcpu2 =
            greater(held[i].variance_mcpu2, held[i].square_mcpu2 * ret->spread * ret->spread);
        held[i].alone_mcpu =
            ext_caps_alone_mcpu(ret, sigmas, held[i].most_mcpu, held[i].variance_mcpu2);
        held[i].mcpu = held[i].mcpu * ret->flight + (double)past->fresh_mcpu * ret->fresh +
                       (double)past->settling_mcpu * ret->settling;
    }
    return 0;
}
