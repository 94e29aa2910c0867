/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "node-agent/options.h"

/** Everything that runs in one agent: meter, accounting, sampler, publisher, HTTP, loop. */
struct agent;

/**
 * Opens everything, gives up privileges, and starts the threads; says once in the log what is used
 * and why not something better. @param options borrowed for the life of the agent.
 * @param out where --once prints.
 * @return 0; -errno with the cause.
 */
int agent_new(const struct agent_options *options, FILE *out, struct agent **ret,
              struct kw_err *err);

/** Samples until SIGTERM or SIGINT (or one sample with --once). @return exit code. */
int agent_run(struct agent *agent);

/** Publishes a last sample, ends the threads, frees. */
void agent_free(struct agent **agent);
