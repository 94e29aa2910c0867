/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "common/err.h"

/*
 * State folder of `kwatt up`: lock file, Redis socket, logs of the programs. The lock (flock) is
 * held as long as its `kwatt up` lives, and goes with it however it ends; what the file says is
 * only read while it is held.
 */

/** What a running `kwatt up` says of itself. Empty texts: not there. */
struct cli_running {
    pid_t pid;
    char agent[300]; /**< listen address */
    char extender[300];
    char recommender[300];
    char redis[300]; /**< URL */
    char node[256];  /**< as the agent names it; "" before it answered */
};

/** Default folder: KWATT_STATE_DIR, /run/kwatt for root, else $XDG_RUNTIME_DIR/kwatt or
 * /tmp/kwatt-UID. @return 0 or -ENAMETOOLONG. */
int cli_state_default_dir(const struct cli_io *io, char *out, size_t size);

/**
 * Makes the folder (0700) where missing and checks that it is ours and nobody else's, and that
 * something can be written there. @return 0 or -errno; err says cause and remedy.
 */
int cli_state_prepare(const char *dir, struct kw_err *err);

/**
 * Takes the lock. @param ret_fd held until closed. @param ret_other filled with -EBUSY.
 * @return 0; -EBUSY another `kwatt up` runs there; -errno with cause and remedy.
 */
int cli_state_lock(const char *dir, int *ret_fd, struct cli_running *ret_other, struct kw_err *err);

/**
 * Folder that is used where the one asked for cannot be written (full, read-only, not permitted):
 * /dev/shm/kwatt-UID-N, then /tmp/kwatt-UID-N, where N stands for the folder asked for.
 * @param n 0, 1: first and second choice. @return 0; -ENOENT no further choice; -ENAMETOOLONG.
 */
int cli_state_fallback_dir(const char *dir, unsigned n, char *out, size_t size);

/** Writes what runs into the lock file. @return 0 or -errno. */
int cli_state_announce(int fd, const struct cli_running *running, struct kw_err *err);

/** Who runs there. @return 0; -ENOENT nobody; -errno. */
int cli_state_find(const char *dir, struct cli_running *ret);

/** Parses the lock file's "key=value" lines; unknown keys and malformed lines are passed over.
 * @return 0; -EBADMSG without a pid. */
int cli_state_parse(const char *text, size_t len, struct cli_running *ret);
