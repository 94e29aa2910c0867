/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node-agent/label.h"

/*
 * Finds a position by kind and id: open addressing with linear probing. Positions are the caller's
 * (indexes of its array), texts its too. Pure.
 */

struct agent_workload_index {
    size_t n, n_slots; /**< slots: a power of two, or 0 while empty */
    struct agent_workload_slot *slots;
};

struct agent_workload_slot {
    const struct agent_label *label; /**< NULL: free */
    void *value;
};

/** Frees the slots; leaves it empty. */
void agent_workload_index_clear(struct agent_workload_index *index);

/** @param label not in it; stays the caller's as long as it is. @return 0 or -ENOMEM. */
int agent_workload_index_add(struct agent_workload_index *index, const struct agent_label *label,
                             void *value);

/** @return NULL: none. */
void *agent_workload_index_find(const struct agent_workload_index *index,
                                enum kw_workload_kind kind, const char *id);

/** Takes out what has this very label. Gives memory back where most of it is empty. */
void agent_workload_index_remove(struct agent_workload_index *index,
                                 const struct agent_label *label);
