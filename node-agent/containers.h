/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/ledger.h"

/** The containers of a workload: a part of node-agent/ledger.c, and for no other. Pure. */

/** Frees them all. */
void agent_containers_clear(struct agent_workload *workload);

/** @return the container of an id; NULL: none. */
struct agent_container *agent_containers_find(struct agent_workload *workload, const char *id);

/** The container behind a reference. @return NULL where it is none or no longer listed. */
struct agent_container *agent_containers_of(struct agent_workload *workload,
                                            const struct agent_label *label);

/** Adds one in order of ids. One that does not fit is not listed; its pod has its energy all the
 * same. @return 0 or -ENOMEM. */
int agent_containers_add(struct agent_workload *workload, const struct agent_identity *identity,
                         const char *path, int64_t now_unix_ms);

/** Divides what the workload got in the window among them. @param interval_ns of the window; 0:
 * powers stay as they are. @param keep the part of the averages before that stays. */
void agent_containers_share(struct agent_workload *workload, uint64_t interval_ns, double keep);

/** Takes a window into an average of power. */
void agent_containers_smooth(double *mw, uint64_t gained_uj, uint64_t interval_ns, double keep);

/** Drops those of a living pod that ended long ago; their energy stays the pod's. */
void agent_containers_expire(struct agent_workload *workload, uint64_t now_ns);
