/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/ledger.h"
#include "node-agent/pod_directory.h"

/**
 * Gives pods and their containers the names that the directory has for them, and brings up to date
 * what changed there. Names that came once stay when the pod leaves the directory. Pure; allocates
 * only where something is new.
 * @return whether a list that is newer than the last one may know more: pods or containers are
 *         without a name, and were not asked for too lately or too often.
 */
bool agent_naming_pods(struct agent_pod_directory *directory,
                       struct agent_workload *const *workloads, size_t n, uint64_t now_ns);
