/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/curve.h"
#include "api/node_info.h"
#include "api/pod_record.h"
#include "api/sample.h"
#include "node-agent/label.h"
#include "node-agent/ledger.h"
#include "node-agent/names.h"
#include "node-agent/processes.h"

/*
 * What one sample found, immutable once published: HTTP handlers and the publisher read it while
 * the next one is made. Snapshots are recycled through a pool, so that sampling allocates nothing
 * once the machine's workloads are known.
 */

struct agent_container_row {
    struct agent_label *label;
    struct agent_names *names; /**< NULL: unknown */
    bool ended;
    uint64_t cpu_ns, active_uj, dram_uj, memory_bytes, requests;
    uint64_t cpu_mw, dram_mw;
};

struct agent_row {
    struct agent_label *label;
    struct agent_names *names; /**< NULL: unknown */
    int64_t ended_unix_ms;
    uint64_t cpu_ns, cpu_uj, dram_uj, idle_uj, sigma_uj;
    uint64_t cpu_mw, dram_mw, sigma_mw;
    struct agent_counts counts; /**< beside CPU time, since the epoch began */
    struct kw_intensity cpu_intensity, dram_intensity;
    uint64_t idle_equal_mw, idle_requests_mw; /**< as in its record */
    uint64_t memory_bytes;
    uint64_t requests; /**< in AGENT_REQUESTS_UNIT, where the snapshot counts_requests */
    uint64_t responses[AGENT_REQUESTS_CLASSES];
    size_t first_container, n_containers; /**< in the snapshot's containers */
};

struct agent_process_row {
    pid_t pid;
    struct agent_process_text *text; /**< NULL: unknown */
    struct agent_label *owner;       /**< NULL: the system's */
    struct agent_label *container;   /**< NULL outside containers */
    struct agent_names *names;       /**< of the owner; NULL unknown */
    uint64_t cpu_ns, cpu_uj, dram_uj;
    uint64_t cpu_mw, dram_mw;
};

/** A domain as its meter calls it. */
struct agent_slot_name {
    bool present;
    char path[256];
};

struct agent_snapshot_pool;

struct agent_snapshot {
    struct kw_sample sample;
    struct kw_curve curve;
    uint64_t departed_uj, departed_idle_uj;
    bool counts_requests;
    uint64_t quality_windows[KW_QUALITY__MAX]; /**< windows of the epoch with each flag */
    uint64_t slot_mw[AGENT_SLOTS_MAX];         /**< mean measured power of the window */
    uint64_t slot_idle_mw[AGENT_SLOTS_MAX];    /**< mean idle power of the window */
    uint64_t limit_uw; /**< what the packages' power limits add up to, where the agent sets them; 0:
                          it does not, or not all can be read */
    struct agent_slot_name slots[AGENT_SLOTS_MAX];
    size_t n_rows, cap_rows;
    struct agent_row *rows;
    size_t n_containers, cap_containers;
    struct agent_container_row *containers;
    bool has_processes; /**< they were looked at */
    size_t n_processes, cap_processes;
    struct agent_process_row *processes; /**< those listed */
    size_t processes_seen;               /**< those not listed included */
    uint64_t unlisted_uj[2];             /**< of those; of CPU and DRAM domains */
    uint64_t ended_uj[2]; /**< of ended ones, and of those too short to be seen: all that workloads
                             and the system drew, less what the others have */
    struct agent_snapshot_pool *pool;
    struct agent_snapshot *next; /**< in the pool's list */
};

/** @return 0 or -ENOMEM. */
int agent_snapshot_pool_new(struct agent_snapshot_pool **ret);

/** Every snapshot must have been recycled. */
void agent_snapshot_pool_free(struct agent_snapshot_pool **pool);

/** An empty snapshot; allocates only where the pool has none. @return 0 or -ENOMEM. */
int agent_snapshot_take(struct agent_snapshot_pool *pool, struct agent_snapshot **ret);

/** Copies the workloads of the ledger. @return 0 or -ENOMEM (the snapshot can then only be
 * recycled). */
int agent_snapshot_fill(struct agent_snapshot *snapshot, const struct agent_ledger *ledger);

/** Copies the first `n_listed` of `n` processes, and sums up the rest. @param drawn_uj what
 * workloads and the system drew since the epoch began, of CPU and DRAM domains. @return 0 or
 * -ENOMEM (then it has none). */
int agent_snapshot_fill_processes(struct agent_snapshot *snapshot,
                                  const struct agent_process *const *processes, size_t n,
                                  size_t n_listed, const uint64_t drawn_uj[2]);

/** Gives a snapshot back to its pool, on the sampling thread; fits kw_snapshot_free_fn. */
void agent_snapshot_recycle(void *snapshot);
