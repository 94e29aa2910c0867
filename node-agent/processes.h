/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "node-agent/label.h"
#include "node-agent/names.h"
#include "node-agent/proc_stat.h"

/*
 * Energy of workloads divided among their processes. Pure. A process is its number and its start:
 * a number that is used again is another one. Each round sees the processes that there are, and
 * gives them what their workload drew since the last, by the CPU time that each used; what ended
 * ones and those too short to be seen used is nobody's.
 */

/** More are not told apart. */
#define AGENT_PROCESSES_MAX 65536

/** The party that is no workload: the system. */
#define AGENT_PARTY_SYSTEM 0

/** Texts of a process, shared with the snapshots that show it; counted as struct agent_label is. */
struct agent_process_text {
    unsigned refs;
    char *comm;
    char *exe; /**< "" unknown */
};

/** Copies the texts, made UTF-8; one reference is the caller's. @return 0 or -ENOMEM. */
int agent_process_text_new(const char *comm, const char *exe, struct agent_process_text **ret);

/** One more reference. @param text may be NULL. @return text. */
struct agent_process_text *agent_process_text_ref(struct agent_process_text *text);

/** Drops a reference; the last one frees. NULL-safe; nulls. */
void agent_process_text_unref(struct agent_process_text **text);

struct agent_process {
    pid_t pid;
    uint64_t party; /**< number of its workload, or AGENT_PARTY_SYSTEM */
    struct agent_proc_stat stat;
    struct agent_process_text *text; /**< NULL until it is told */
    struct agent_label *owner;       /**< of the workload; NULL: the system's */
    struct agent_label *container;   /**< NULL outside containers */
    struct agent_names *names;       /**< of the workload; NULL unknown */
    uint64_t cpu_ns;                 /**< since it was first seen, or since its start */
    uint64_t cpu_uj, dram_uj;
    uint64_t cpu_mw, dram_mw; /**< in the last round */
    uint64_t round_ns;        /**< CPU time in the present round */
    size_t order;             /**< in which it was seen */
    bool taken;               /**< into the next round */
};

/** What a workload, or the system, used and drew in a round. */
struct agent_party {
    uint64_t number;
    uint64_t cpu_ns, cpu_uj, dram_uj;
};

struct agent_processes;

/** @param tick_ns one clock tick of the kernel's. @return 0 or -ENOMEM. */
int agent_processes_new(uint64_t tick_ns, struct agent_processes **ret);
void agent_processes_free(struct agent_processes **processes);

/** Starts a round. @param boot_ns CLOCK_BOOTTIME: one that started later than this in the last
 * round is new, and all its time counts. */
void agent_processes_begin(struct agent_processes *processes, uint64_t boot_ns);

/**
 * A process is there. Seen twice in a round, the first counts (the second may be answered so).
 * @param seen pid, party, stat, owner, container and names; references are taken.
 * @param ret for its text, where that is NULL; valid until the next call.
 * @return 0; -EEXIST; -ENOSPC; -ENOMEM.
 */
int agent_processes_see(struct agent_processes *processes, const struct agent_process *seen,
                        struct agent_process **ret);

/** Ends a round. @param parties in any order; sorted here. @param interval_ns since the last; 0:
 * powers are 0. @return 0; -ENOMEM: nothing was divided, and it is nobody's. */
int agent_processes_share(struct agent_processes *processes, struct agent_party *parties, size_t n,
                          uint64_t interval_ns);

/** All that are there, most power first. @return their number. */
size_t agent_processes_list(struct agent_processes *processes,
                            const struct agent_process *const **ret);
