/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/err.h"
#include "common/log.h"
#include "extender/options.h"

/** Owner of everything that kwatt-extender has while it runs. */
struct ext_state;

/** Where settings are from, for SIGHUP. */
struct ext_launch {
    int argc;
    char **argv, **envp;
};

/**
 * Starts serving and reading Redis; Redis need not be there. Blocks SIGTERM, SIGINT, SIGHUP and
 * SIGPIPE in the calling thread. @param settings, launch, log outlive the state. @return 0 or
 * -errno with the cause.
 */
int ext_state_new(const struct ext_settings *settings, const struct ext_launch *launch,
                  struct kw_log *log, struct ext_state **ret, struct kw_err *err);

/** Runs until SIGTERM or SIGINT, then lets answers at hand end. At SIGHUP reads the settings again
 * and takes over those that it can while it serves (extender/reload.h); says which it cannot.
 * @return 0 or -errno. */
int ext_state_run(struct ext_state *state);
void ext_state_free(struct ext_state **state);
