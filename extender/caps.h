/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "extender/cap_tree.h"
#include "extender/growth.h"
#include "extender/node_table.h"
#include "extender/watts.h"

/*
 * Which nodes have room under which caps. Built with each snapshot, beside it; requests compare a
 * pod with rooms and compute nothing else. Pure: the owner locks and says what time it is.
 *
 * Predicted power of a node is what it draws, what is in flight on it, and the pod, each by the
 * dearest slope of its curve that it can meet; of a domain, the sum over its nodes. To both is
 * added what they may draw for a moment, `sigmas` standard deviations of what they run. Under a
 * node's own cap a single pod that was not measured yet counts for what one in thousands uses,
 * since there nothing makes up for it. A silent node counts by its last figures and what was let in
 * since, one that was never heard of by the mean of the others. One that may run what nobody tells
 * of, when this program has just started, counts as full.
 *
 * Hard: a pod that would not fit is refused. A cap that is passed by what runs already closes, and
 * opens again below its soft threshold only, so that it does not flap. Soft: what would pass it is
 * made less attractive.
 */

/** Why a node was not passed. Each has one text, since the scheduler counts nodes by text. */
enum ext_cap_verdict {
    EXT_CAP_PASSES,
    EXT_CAP_NODE,    /**< its own cap: evicting may help */
    EXT_CAP_DOMAIN,  /**< that of a power domain: evicting here does not help */
    EXT_CAP_CLUSTER, /**< that of the cluster */
    EXT_CAP_ASLEEP,  /**< it is being put to sleep */
    EXT_CAP_UNSEEN,  /**< of any: what it may run already would not leave room */
    EXT_CAP__MAX
};

/** "passes", "node", "domain", "cluster", "sleep", "start": for metrics and /explain. */
extern const char *const ext_cap_names[EXT_CAP__MAX];
/** What the scheduler is told; nothing in it that JSON escapes. */
extern const char *const ext_cap_texts[EXT_CAP__MAX];

/** What a request reads of a node. */
struct ext_cap_node {
    _Atomic double hard_mw, soft_mw; /**< rooms under its own cap; infinite: none, or nothing was
                                        ever heard of it */
    _Atomic double room_mcpu;        /**< to the next knot of its curve */
    double mw_per_mcpu;              /**< up to there */
    double beyond_mw_per_mcpu;       /**< the dearest from there on */
    _Atomic double alone_mcpu;       /**< kept free in hard_mw for the one in flight that may use
                                        most beyond what counts of it */
    double most_mw;                  /**< most that a single pod needs there that could be nowhere
                                        else */
    double band_mw;                  /**< from its soft to its hard threshold */
    uint32_t domain;                 /**< index plus 1; 0: no cap but its own holds */
    bool closed;                     /**< until it is below its soft threshold */
    bool asleep;
    bool unseen; /**< counts as full */
};

/** What a request reads of a domain; its rooms are those of the tightest it lies in. */
struct ext_cap_domain {
    _Atomic double hard_mw, soft_mw;
    _Atomic double own_hard_mw, own_soft_mw; /**< under its own cap */
    double mw_per_mcpu;                      /**< the dearest of any of its nodes */
    double band_mw;
    double watts_mw; /**< of its nodes, in flight included */
    double risk_mw;  /**< that the sum may go above that for a moment */
    uint32_t n_nodes, n_stale, n_unknown, n_unseen;
    bool own_closed;
    bool closed; /**< it or one that it lies in */
};

struct ext_caps {
    size_t n_nodes, n_unseen;
    double sigmas;                  /**< of the policy */
    struct ext_use use;             /**< what pods count as; as expected, until the owner says */
    struct ext_cap_node *nodes;     /**< as in the snapshot */
    struct ext_cap_tree *tree;      /**< shared with its maker */
    struct ext_cap_domain *domains; /**< as in the tree */
};

struct ext_cap_policy {
    double sigmas;          /**< standard deviations of use that a prediction is raised by */
    unsigned soft_permille; /**< soft threshold of a node's cap */
};

/** One node's figures, in the order of the snapshot. */
struct ext_cap_input {
    const struct ext_watts *watts;
    double used_mcpu, held_mcpu; /**< measured; in flight and by no sample seen whole */
    double held_mw;              /**< in flight, of pods that say their watts */
    double held_variance_mcpu2;  /**< of the use of those in flight */
    double alone_mcpu;           /**< what one of them may use beyond all that */
    bool stale;
    bool unseen; /**< it may run what nobody tells of */
};

/** Whether there is any cap, or a node that falls asleep: without, nothing is built. */
bool ext_caps_any(const struct ext_cap_tree *tree, const struct ext_node_table *table);

/** What caps are made of. */
struct ext_caps_sources {
    const struct ext_cap_policy *policy;
    struct ext_cap_tree *tree;
    const struct ext_node_table *table;
    const struct ext_cap_input *inputs; /**< n of them */
    size_t n;
    /** Where a node of the table stands among the inputs, or SIZE_MAX. */
    size_t (*index_of)(const void *user, const char *name);
    const struct ext_caps *before; /**< the caps before these, for what was closed; NULL: none */
    /** Where a node stood in those, or SIZE_MAX. */
    size_t (*before_of)(const void *user, size_t index);
    const void *user;
};

/** @return NULL on ENOMEM. */
struct ext_caps *ext_caps_build(const struct ext_caps_sources *sources);
void ext_caps_free(struct ext_caps **caps);

/** A pod was placed: while requests read, rooms shrink. One thread at a time.
 * @param mcpu expected. @param variance_mcpu2 of its use. */
void ext_caps_move(struct ext_caps *caps, size_t index, double mcpu, double mw,
                   double variance_mcpu2);

/** Variance of the use of a pod that was expected to be `mcpu`: as is known of it, and no less than
 * was learnt of all. */
double ext_caps_variance_mcpu2(const struct ext_caps *caps, double mcpu, double variance_mcpu2);

/** What a single pod may use beyond what it counts as and the deviations of all. */
static inline double ext_caps_alone_mcpu(const struct ext_use *use, double sigmas, double mcpu,
                                         double variance_mcpu2)
{
    double alone = mcpu * (use->alone - use->flight) - sigmas * sqrt(variance_mcpu2);

    return alone > 0 ? alone : 0;
}

/** What a pod needs, and what others may take that were let in and not seen since. */
struct ext_cap_need {
    double mcpu;               /**< 0 where mw is given */
    double mw;                 /**< that it is said to draw */
    double held_mcpu, held_mw; /**< of the others; what all may use beyond that for a moment is in
                                  held_mcpu */
    double alone_mcpu;         /**< ext_caps_alone_mcpu */
    bool nowhere_else;         /**< no candidate has room for that: a node that runs next to nothing
                                  need not have */
    bool critical;
};

static inline double ext_cap_price_mw(const struct ext_cap_node *node, double mcpu)
{
    double room = node->room_mcpu;
    double here = mcpu < room ? mcpu : room > 0 ? room : 0;

    return here * node->mw_per_mcpu + (mcpu - here) * node->beyond_mw_per_mcpu;
}

/** Whether a pod may go to a node. */
enum ext_cap_verdict ext_caps_check(const struct ext_caps *caps, size_t index,
                                    const struct ext_cap_need *need);

/** Levels of 0..10 that a node loses for a pod that would pass a soft threshold there. */
unsigned ext_caps_penalty(const struct ext_caps *caps, size_t index,
                          const struct ext_cap_need *need);

/** Room that is left on a node for a pod, in milliwatts; infinite where no cap holds, 0 where one
 * is closed. */
double ext_caps_headroom_mw(const struct ext_caps *caps, size_t index);
