/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/booking.h"
#include "node-agent/node_snapshot.h"
#include "node-agent/processes.h"

/*
 * Sees the processes of this machine's cgroups, on demand only: it costs three system calls for
 * each process, which nothing else here does.
 */

struct agent_process_watch;

/** @param procfs_root borrowed. @param part what is outside of the tree of cgroups is not of this
 * node. @param listed how many snapshots show, of those that draw most. @return 0 or -ENOMEM. */
int agent_process_watch_new(const char *procfs_root, bool part, size_t listed,
                            struct agent_process_watch **ret);
void agent_process_watch_free(struct agent_process_watch **watch);

/**
 * A round: sees all that are there, divides what workloads and the system drew since the last, and
 * puts it into a snapshot. On the sampling thread. @param boot_ns CLOCK_BOOTTIME now.
 */
void agent_process_watch_show(struct agent_process_watch *watch,
                              const struct agent_cgroups *cgroups,
                              const struct agent_booking *booking, struct agent_ledger *ledger,
                              uint64_t boot_ns, struct agent_snapshot *snapshot);
