/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "cli/recording.h"

/*
 * What kwatt train learns from: CSV, recordings of the agent (docs/recording.md), and this machine
 * while one waits. The last two are read by the agent's own code (kwatt-node-agent --replay-rows),
 * which then comes the same way as CSV.
 */

/** Consecutive parts that one recording is cut into where there is no other. */
#define CLI_TRAIN_PARTS 10

/** Whether each file is there and given once. @return 0; -ENOENT; -EINVAL: one is given twice. */
int cli_train_check_files(char **paths, size_t n, struct kw_err *err);

/**
 * Adds a file: CSV, or a recording where its first character is "{".
 * @param group_column of CSV; NULL: a file is one group.
 * @return 0; -errno with the file's name. What a recording lacks is said by the agent on stderr.
 */
int cli_train_add_file(const struct cli_io *io, const char *path, const char *group_column,
                       struct cli_recording *recording, struct kw_err *err);

/** Records this machine for so many seconds with an agent of its own, and adds that. */
int cli_train_add_live(const struct cli_io *io, uint64_t seconds, struct cli_recording *recording,
                       struct kw_err *err);
