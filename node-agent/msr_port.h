/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/** How registers of a CPU are reached; a test has its own. */
struct agent_msr_port {
    void *user;
    /** @return a descriptor for one CPU, to be closed; -errno. */
    int (*open)(void *user, const char *dev_root, unsigned cpu);
    /** @return 0; -errno. */
    int (*read)(void *user, int fd, uint32_t reg, uint64_t *ret);
};
