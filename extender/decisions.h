/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/extender.h"
#include "api/names.h"
#include "common/buf.h"
#include "extender/caps.h"
#include "extender/outlook.h"
#include "extender/zones.h"

/*
 * The last decisions, so that an operator can ask why a pod went where it went. A request writes
 * one in its turn without waiting: where somebody reads just that place, this decision is not kept.
 */

/** How many are kept: some minutes of a busy scheduler, three quarters of a megabyte. */
#define EXT_DECISIONS 256

/** How many of the best candidates are kept of each. */
#define EXT_BEST 4

/** A candidate as it was seen. */
struct ext_candidate {
    char node[KW_NODE_NAME_MAX + 1];
    double mw;        /**< that the pod would add there */
    double fill;      /**< used / capacity before it, pods in flight included */
    double used_mcpu; /**< the same in milli-cores */
    double wake_uj;   /**< energy of waking it; 0: it is awake */
    uint8_t score;
    char zone[EXT_ZONE_MAX + 1]; /**< "": unknown, and priced as the median */
    double zone_value;           /**< of its zone, in the decision's unit */
};

/** What /prioritize answered, and from what; or /filter, where caps left something out. */
struct ext_decision {
    int64_t t_unix_ms;
    bool filter;                       /**< of /filter */
    char uid[KW_POD_UID_MAX];          /**< "" where the pod has none */
    uint64_t capped[EXT_CAP__MAX];     /**< candidates of /filter by verdict */
    uint64_t penalised;                /**< candidates that lost levels to a soft threshold */
    char chosen[KW_NODE_NAME_MAX + 1]; /**< node that the pod was bound to; "": not seen yet */
    bool priced;                       /**< chosen_mw is known */
    double chosen_mw;                  /**< that it added there, as expected */
    char ns[KW_NAMESPACE_MAX];
    char pod[KW_POD_NAME_MAX];
    enum kw_placement placement;
    bool exempt; /**< a pod of kwatt's, or a mirror pod: neutral, whatever its placement */
    bool dry;    /**< the scheduler was told 5 for each (--dry-run) */
    struct kw_top_owner owner;
    struct ext_outlook outlook;
    uint64_t candidates;
    uint64_t known;        /**< of them, scored from a curve */
    double min_mw, max_mw; /**< over the known, for KW_PLACEMENT_EFFICIENT; else 0; with zones, by
                              their prices relative to the median */
    struct {
        char unit[EXT_ZONES_TEXT_MAX + 1]; /**< "": there were none */
        char source[EXT_ZONES_TEXT_MAX + 1];
        double median;
    } zones;
    int64_t data_age_ms; /**< since the nodes were last read from Redis; < 0: never */
    bool unseen;         /**< the API server had ceased to tell of pods that start */
    size_t n_best;
    struct ext_candidate best[EXT_BEST]; /**< of the highest score; in the scheduler's order */
};

struct ext_decisions;

/** @return 0 or -ENOMEM. */
int ext_decisions_new(struct ext_decisions **ret);
void ext_decisions_free(struct ext_decisions **decisions);

/** The place for the next decision, zeroed; to be given back with ext_decisions_done. From any
 * thread, never waits. @return NULL where it is being read: the decision is not kept. */
struct ext_decision *ext_decisions_next(struct ext_decisions *decisions);

/** It is written. */
void ext_decisions_done(struct ext_decisions *decisions, struct ext_decision *decision);

/**
 * A pod was bound: its last decision learns where. From any thread.
 * @param mw that the pod adds there, as expected; < 0: unknown.
 * @param ret_saved_mw of a dry run: what the best node would have saved against that one.
 * @return whether ret_saved_mw is set.
 */
bool ext_decisions_bound(struct ext_decisions *decisions, const char *uid, const char *node,
                         double mw, double *ret_saved_mw);

/**
 * Copies the next decision that was made since `*seen`, and moves it on.
 * @param seen 0 at first. @return false: there is none.
 */
bool ext_decisions_follow(struct ext_decisions *decisions, uint64_t *seen,
                          struct ext_decision *ret);

/** How decisions are shown. */
enum ext_form {
    EXT_FORM_JSON, /**< {"decisions":[...]} */
    EXT_FORM_TEXT, /**< for people; printable ASCII and line feeds alone */
};

/** What a dry run has come to since the extender's start. */
struct ext_dry_run {
    uint64_t pods;    /**< whose binding was seen, and that could be compared */
    int64_t saved_mw; /**< that kwatt's best nodes would have saved with them, all together */
};

/**
 * Writes the decisions on a pod, or on all, the latest first.
 * @param pod "namespace/name", or a name in any namespace; NULL: all.
 * @param dry_run its sum stands in JSON, and in the text of all pods; NULL: it is none.
 * @return how many, or -ENOMEM.
 */
int ext_decisions_page(struct ext_decisions *decisions, const char *pod, enum ext_form form,
                       const struct ext_dry_run *dry_run, struct kw_buf *out);
