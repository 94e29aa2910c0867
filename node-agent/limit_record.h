/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "node-agent/topology.h"

/*
 * The limits that were in force before the agent's, in a small file: an agent that is killed cannot
 * restore them, its successor can. The file is of one boot; after the next one the firmware's
 * limits are in force again. It is locked while an agent has limits to restore, so that a second
 * one does not take the first one's limits for the machine's.
 */

#define AGENT_LIMIT_RECORD_SIZE 8192 /* 64 packages, 80 bytes each */

struct agent_former_limit {
    char name[64]; /**< of the zone */
    uint64_t uw;
};

struct agent_former_limits {
    size_t n;
    struct agent_former_limit items[AGENT_PACKAGES_MAX];
};

/** Writes the file's text. @return 0; -EINVAL a name with a blank; -ENOMEM. */
int agent_former_limits_encode(const struct agent_former_limits *limits, const char *boot_id,
                               struct kw_buf *out);

/**
 * Reads the file's text. Total and pure.
 * @param ret untouched on failure; empty where the text is empty, or of another boot.
 * @return 0; -EBADMSG cut off or no such file.
 */
int agent_former_limits_decode(const char *text, size_t len, const char *boot_id,
                               struct agent_former_limits *ret);

/**
 * Opens and locks the file, made where there is none, with its folder.
 * @param ret_fd closing it unlocks.
 * @return 0; -EBUSY another agent has it; -errno, with the cause.
 */
int agent_limit_record_open(const char *path, int *ret_fd, struct kw_err *err);

/** Reads the open file. @return as agent_former_limits_decode; -errno. */
int agent_limit_record_read(int fd, const char *boot_id, struct agent_former_limits *ret);

/** Writes the open file anew; no limits leave it empty. @return 0 or -errno. */
int agent_limit_record_write(int fd, const char *boot_id, const struct agent_former_limits *limits);
