/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which workload has which state of the filter: fixed memory, no allocation per window. Also
 * remembers what the last workload of an owner or image came to, for the next one.
 */

/** States that workloads may have of their own; further ones share one. */
#define AGENT_PARTIES_MAX 1024

/** Views of the features, each with a filter of its own: without counters, and with them. */
enum { AGENT_VIEW_TIME, AGENT_VIEW_COUNTERS, AGENT_VIEWS };

struct agent_party {
    uint64_t workload; /**< number + 1; 0: free */
    uint64_t kin;
    uint32_t state;  /**< of the filter */
    double log_rate; /**< running mean of its instructions a second of a core, logarithm */
    bool paced;      /**< log_rate is known */
    double size;     /**< running mean of the energy that is expected of it, J a window */
};

struct agent_parties;

/** @return 0 or -ENOMEM. */
int agent_parties_new(struct agent_parties **ret);
void agent_parties_free(struct agent_parties **parties);

/** Forgets all workloads; what is known of owners stays. */
void agent_parties_clear(struct agent_parties *parties);

/** Workloads with a state of their own. */
size_t agent_parties_count(const struct agent_parties *parties);

/** @return NULL where the workload has no state of its own. Valid until the next add or remove. */
struct agent_party *agent_parties_find(struct agent_parties *parties, uint64_t workload);

/** @return NULL where there are AGENT_PARTIES_MAX already. */
struct agent_party *agent_parties_add(struct agent_parties *parties, uint64_t workload,
                                      uint64_t kin, uint32_t state);

/** @param workload one that is there. */
void agent_parties_remove(struct agent_parties *parties, uint64_t workload);

/** The one that has a state. @return NULL: nobody. */
struct agent_party *agent_parties_of_state(struct agent_parties *parties, uint32_t state);

/** States of workloads of an owner that are there: those of lowest number. @param max how many are
 * wanted. @return how many there are; 0 where the owner is unknown. */
size_t agent_parties_of_kin(const struct agent_parties *parties, uint64_t kin, size_t max,
                            uint32_t *ret);

/** The one of which least is expected. @return NULL: there is none. */
struct agent_party *agent_parties_smallest(struct agent_parties *parties);

/** Gives a party another state: the filter moved it. */
void agent_parties_move(struct agent_parties *parties, struct agent_party *party, uint32_t state);

/** Notes what a workload of an owner came to, in each view. @param kin 0: nothing is noted. */
void agent_parties_note(struct agent_parties *parties, uint64_t kin,
                        const double intensity[AGENT_VIEWS]);

/** @return false where nothing is known of the owner. */
bool agent_parties_recall(const struct agent_parties *parties, uint64_t kin,
                          double ret[AGENT_VIEWS]);
