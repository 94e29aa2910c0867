/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/bpf_room.h"

/* 4096 with those that are always there: of one more the kernel would make 8192 buckets, and a
 * reading walks them all. */
#define FIRST_MIN          (4096 - AGENT_BPF_ROOM_FIXED)
/* Room for cgroups to come, and for those that ended and are not yet booked. */
#define FIRST_PER_CGROUP   4
/* 2^20 cgroups: no kernel runs that many, and it bounds what a caller can ask for. */
#define FIRST_MAX          (1u << 20)
/* 16 MiB hold 4096 cgroups on 512 CPUs; unswappable, so no more is taken unasked. */
#define PREALLOC_BYTES_MAX (UINT64_C(16) << 20)

/* Six times the pods that were ever tried on a node, all replaced between two looks; its buckets
 * are 1 MiB. */
#define SECOND_MAX       (1u << 16)
/* Beside its values: struct htab_elem, the key, the pointer to the values, the allocator's. */
#define ENTRY_BYTES      96
/* What a storm may take of the machine's memory: a 4096th, or 16 MiB where that is no more than a
 * 256th. */
#define SHARE            4096
#define SHARE_AT_LEAST   (UINT64_C(16) << 20)
#define SHARE_OF_A_SMALL 256

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t largest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t first_for(const struct agent_bpf_room_ask *ask)
{
    uint64_t entries = ask->first_cgroups;

    if (entries == 0)
        entries = largest((uint64_t)ask->n_cgroups * FIRST_PER_CGROUP, FIRST_MIN);
    if (ask->max_cgroups != 0)
        entries = least(entries, ask->max_cgroups);
    return least(entries, FIRST_MAX);
}

static uint64_t second_for(const struct agent_bpf_room_ask *ask, uint64_t first)
{
    uint64_t entry_bytes = ENTRY_BYTES + ask->n_cpus * ask->value_bytes;
    uint64_t bytes = largest(ask->memory_bytes / SHARE,
                             least(ask->memory_bytes / SHARE_OF_A_SMALL, SHARE_AT_LEAST));

    if (ask->max_cgroups != 0)
        return least(ask->max_cgroups - least(ask->max_cgroups, first), SECOND_MAX);
    return least(bytes / entry_bytes, SECOND_MAX);
}

struct agent_bpf_room agent_bpf_room_for(const struct agent_bpf_room_ask *ask)
{
    uint64_t entry_bytes = ask->n_cpus * ask->value_bytes;
    uint64_t first = first_for(ask);
    bool large = (first + AGENT_BPF_ROOM_FIXED) * entry_bytes > PREALLOC_BYTES_MAX;

    if (large && !ask->allocates && ask->first_cgroups == 0 && ask->max_cgroups == 0)
        first = largest(PREALLOC_BYTES_MAX / entry_bytes, FIRST_MIN + AGENT_BPF_ROOM_FIXED) -
                AGENT_BPF_ROOM_FIXED;
    return (struct agent_bpf_room){
        .first = (uint32_t)first + AGENT_BPF_ROOM_FIXED,
        .second = (uint32_t)second_for(ask, first),
        .first_grows = large && ask->allocates,
    };
}
