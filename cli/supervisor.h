/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/child.h"

/*
 * The programs of one `kwatt up`. Owner of its children; the caller's loop calls in: on SIGCHLD, on
 * a tick, and to stop.
 */

#define CLI_CHILDREN_MAX 4

/** Told each thing worth saying, as lines without a newline at the end. */
typedef void (*cli_say_fn)(void *user, const char *text);

struct cli_supervisor {
    struct cli_child children[CLI_CHILDREN_MAX];
    unsigned n;
    bool stopping;
    uint64_t kill_at_ns; /**< while stopping */
    cli_say_fn say;
    void *user;
};

/** Starts a child for the first time. @return 0 or -errno (then it is tried again with the
 * back-off). */
int cli_supervisor_start(struct cli_supervisor *supervisor, struct cli_child *child,
                         uint64_t now_ns, struct kw_err *err);

/** Reaps children that ended, says so, and plans their next start. */
void cli_supervisor_reap(struct cli_supervisor *supervisor, uint64_t now_ns);

/** Starts what is due, bounds the logs; while stopping, kills what is overdue. */
void cli_supervisor_tick(struct cli_supervisor *supervisor, uint64_t now_ns);

/**
 * Asks all children to end (SIGTERM), the first one (Redis, when there is one) after the others;
 * after 5 s they are killed. A second call kills at once.
 */
void cli_supervisor_stop(struct cli_supervisor *supervisor, uint64_t now_ns);

/** Children running. */
unsigned cli_supervisor_alive(const struct cli_supervisor *supervisor);

/** Kills and reaps what still runs, frees all. */
void cli_supervisor_clear(struct cli_supervisor *supervisor);
