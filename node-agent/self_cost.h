/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/** CPU time of this process, user and system, in nanoseconds. */
uint64_t agent_self_cpu_ns(void);

/** CPU time of the calling thread, in nanoseconds. */
uint64_t agent_thread_cpu_ns(void);

/** Resident memory of this process in bytes; 0 where /proc cannot be read. Allocates nothing. */
uint64_t agent_self_rss_bytes(void);
