/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How many cgroups the BPF accounting keeps apart. Pure. There are two maps: the first is read at
 * each window and therefore no larger than the machine's own cgroups ask for; the second takes what
 * a storm of short ones leaves over, is read only while it holds any, and is bounded by memory.
 */

/** Keys that are always there: of the system, of kernel threads, and of what did not fit. */
#define AGENT_BPF_ROOM_FIXED 3

struct agent_bpf_room_ask {
    size_t n_cgroups;      /**< that are there now */
    unsigned n_cpus;       /**< possible ones: an entry has a value for each */
    size_t value_bytes;    /**< of one CPU */
    uint64_t memory_bytes; /**< of the machine */
    bool allocates;        /**< entries can be allocated when they are used, and are freed again */
    unsigned first_cgroups, max_cgroups; /**< as in agent_accounting_conf; 0: not asked for */
};

struct agent_bpf_room {
    uint32_t first;   /**< entries of the first map, the fixed ones included */
    uint32_t second;  /**< 0: there is none */
    bool first_grows; /**< entries are allocated when they are used; else all from the start. The
                         second one's are wherever they can be */
};

/** Room for a machine, or what was asked for. Never less than 4096 unasked. */
struct agent_bpf_room agent_bpf_room_for(const struct agent_bpf_room_ask *ask);
