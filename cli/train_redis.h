/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "cli/recording.h"
#include "common/redis.h"

/*
 * What kwatt train learns from what agents of nodes with a meter published: the feeds in Redis keep
 * the last of it (api/README.md), and can be followed for a while.
 */

struct cli_train_redis {
    const struct kw_redis_access *access;
    const char *nodes; /**< names separated by commas; NULL: all that have a meter */
    uint64_t follow_s; /**< how long to follow the feeds, beyond what they keep */
};

/**
 * Adds rows, each node a group. Says on io->out what came of each node. Nodes of different machines
 * are refused: a model is of one.
 * @param ret_threads hardware threads of a node; untouched where they are not known.
 * @return 0; -errno with the cause.
 */
int cli_train_add_redis(const struct cli_io *io, const struct cli_train_redis *from,
                        struct cli_recording *recording, uint32_t *ret_threads, struct kw_err *err);
