/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node-agent/cgroups.h"
#include "node-agent/ledger.h"

/**
 * Reads the memory of some workloads: new ones at once and the others in turn, each once in 15 s;
 * one that did not run since, once in a minute. Memory changes slowly and costs two file reads per
 * cgroup. Allocates nothing.
 * @param cursor where the turn stands; the caller keeps it.
 * @param now_ns CLOCK_MONOTONIC. @param interval_ns since the last call.
 */
void agent_working_sets_read(struct agent_ledger *ledger, struct agent_cgroups *cgroups,
                             size_t *cursor, uint64_t now_ns, uint64_t interval_ns);
