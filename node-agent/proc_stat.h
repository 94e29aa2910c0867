/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** A worker of the kernel is shown with what it does: so long. */
#define AGENT_COMM_MAX 64

/** What /proc/PID/stat says of a process. */
struct agent_proc_stat {
    char comm[AGENT_COMM_MAX]; /**< bytes as they are; of a kworker without what it does just now */
    uint64_t used_ticks;       /**< user and system time of all its threads, ended ones included */
    uint64_t start_ticks;      /**< since boot; with its number, this is who it is */
};

/** Reads the text of the file (pure). @return 0; -EBADMSG and *ret untouched. */
int agent_proc_stat_parse(const char *text, size_t len, struct agent_proc_stat *ret);
