/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node-agent/cgroup_mounts.h"

/* Numbers out of a cgroup's own files. */

/**
 * Value of "KEY NUMBER" in a flat keyed file (cpu.stat, memory.stat) (pure).
 * @param text `len` bytes that need no terminator.
 * @return 0; -ENODATA no such line; -EBADMSG no number there. *ret untouched on error.
 */
int agent_cgroup_stat_find(const char *text, size_t len, const char *key, uint64_t *ret);

/**
 * Sums busy time over the "cpuN" lines of /proc/stat by package (pure): user, nice, system, irq and
 * softirq (guest time is in user already; steal is another machine's).
 * @param tick_ns one clock tick. @param cpu_package n_cpus entries. @param ret n_packages sums in
 * nanoseconds, set to 0 first.
 * @return 0; -EBADMSG where a line is damaged or there is none; *ret then holds the lines before
 * it.
 */
int agent_proc_stat_busy(const char *text, size_t len, uint64_t tick_ns, const uint8_t *cpu_package,
                         unsigned n_cpus, unsigned n_packages, uint64_t *ret);

/**
 * Working set of a cgroup: what it uses without its inactive file cache, as the kubelet counts it.
 * @param path below the mounts. @return 0; -ENOENT where no memory controller has that path;
 * -errno.
 */
int agent_cgroup_memory_read(const struct agent_cgroup_mounts *mounts, const char *path,
                             uint64_t *ret);
