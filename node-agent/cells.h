/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/accounting.h"
#include "node-agent/ledger.h"
#include "node-agent/requests.h"

/*
 * Table from an accounting key (a cgroup) to the workload it belongs to and the CPU time already
 * booked. Pure.
 */

struct agent_cell {
    uint64_t key;
    bool used;                       /**< slot of the table is taken */
    bool known;                      /**< the cgroup tree had it: `workload` is settled */
    bool homeless;                   /**< there was no room for its workload */
    struct agent_workload *workload; /**< NULL: the system */
    struct agent_label *container;   /**< a reference; NULL outside containers */
    unsigned gone_sweeps;            /**< samples since its directory was seen gone */
    uint64_t moved_ns;               /**< when its CPU time last grew */
    uint64_t *prev_ns;               /**< per package, cumulative CPU time booked so far */
    struct agent_served served;      /**< requests booked so far */
    struct agent_more *prev_more;    /**< the same for what else is counted; NULL until it is */
};

struct agent_cells;

/** @return 0 or -ENOMEM. */
int agent_cells_new(unsigned n_packages, struct agent_cells **ret);
void agent_cells_free(struct agent_cells **cells);

/** @return the cell of a key, NULL where there is none; valid until the next add or remove. */
struct agent_cell *agent_cells_find(struct agent_cells *cells, uint64_t key);

/** Adds an empty cell for a key that has none. @return 0 or -ENOMEM. */
int agent_cells_add(struct agent_cells *cells, uint64_t key, struct agent_cell **ret);

/** Removes a key; one that is not there is ignored. Pointers to other cells do not outlive it. */
void agent_cells_remove(struct agent_cells *cells, uint64_t key);
