/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "node-agent/label.h"
#include "node-agent/names.h"

/**
 * A number that workloads of one kind of work have in common, the same in every life of the agent:
 * pods of one owner (of a Job's CronJob, a ReplicaSet's Deployment), or of one name where nobody
 * made them; a unit, VM or plain cgroup and the one that takes its place; containers of one name.
 * @param names NULL: unknown. @return 0: nothing is known that says it.
 */
uint64_t agent_kin_of(const struct agent_label *label, const struct agent_names *names);

/** Number of a workload of a kind and an id: the same in every life of the agent, so that what was
 * learnt of it lasts. @return 1..2^53-1; 0 is the system's. */
uint64_t agent_number_of(enum kw_workload_kind kind, const char *id);
