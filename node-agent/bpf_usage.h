/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/accounting.h"

/*
 * Reads the map of the accounting's BPF side into a reading, each CPU's values going to that CPU's
 * package.
 */
struct agent_bpf_usage {
    int map_fd;
    int spill_fd;                  /**< of cgroups that came while the other was full */
    const volatile __u64 *spilled; /**< entries that were ever made there */
    unsigned n_cpus;               /**< values of one entry: possible CPUs */
    const uint8_t *package;        /**< n_cpus: place of a value -> dense package */
    size_t value_bytes;            /**< of one CPU: what the map holds of struct kw_sched_value */
    uint64_t *keys;                /**< batch_cap */
    uint8_t *values;               /**< batch_cap x n_cpus x value_bytes */
    unsigned batch_cap;
    bool no_batch;         /**< this kernel reads one by one */
    uint64_t spilled_seen; /**< as of the last reading */
    size_t n_spilled;      /**< entries that it found there */
};

/** Makes room for a batch. The fields above it are set by the caller. @return 0 or -ENOMEM. */
int agent_bpf_usage_init(struct agent_bpf_usage *reader);
/** Frees the memory, not the struct. */
void agent_bpf_usage_free(struct agent_bpf_usage *reader);

/** Puts in an entry of zeros that is always there. @return 0 or -errno. */
int agent_bpf_usage_insert(struct agent_bpf_usage *reader, uint64_t key);

/** Takes out an entry, wherever it is, unless it is always there. */
void agent_bpf_usage_delete(const struct agent_bpf_usage *reader, uint64_t key);

/**
 * Fills a reading. Allocates only to grow.
 * @param rows expected; @param n_packages, features of the reading.
 * @return 0 or -errno; the reading is of no use then.
 */
int agent_bpf_usage_read(struct agent_bpf_usage *reader, size_t rows, unsigned n_packages,
                         unsigned features, struct agent_usage *ret);

/** Whether the running kernel's maps can allocate entries inside the scheduler. */
bool agent_bpf_allocates_in_tracing(void);
