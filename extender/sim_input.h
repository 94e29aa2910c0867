/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "extender/sim.h"

/*
 * Fleets and pods of operators, as CSV (common/csv.h): a row of names, then the others. Columns
 * stand in any order, unknown ones are passed over (docs/placement.md lists them). Pure.
 */

/** Largest file that is read. */
#define EXT_SIM_FILE_MAX (256u << 20)

#define EXT_SIM_NODES_MAX     20000
#define EXT_SIM_PODS_MAX      2000000
#define EXT_SIM_WORKLOADS_MAX 1000

/**
 * Reads machines: node, work_units, load_pct, watts, a line for each point of each machine's curve,
 * from 0 to 100 %; where known cores, memory_gib, max_pods, sleep_watts, wake_joules, energy_price.
 * @param csv `len` bytes that need no terminator. @param input has no nodes yet.
 * @return 0; -EBADMSG with line, column and value, or what is missing; -ENOMEM.
 */
int ext_sim_read_fleet(const char *csv, size_t len, struct ext_sim_input *input,
                       struct kw_err *err);

/**
 * Reads pods, and sorts them by arrival: pod, arrival_s, end_s, request_cores, use; where known
 * request_memory_gib, workload. @return as ext_sim_read_fleet.
 */
int ext_sim_read_pods(const char *csv, size_t len, struct ext_sim_input *input, struct kw_err *err);
