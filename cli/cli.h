/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/** Where a subcommand reads its environment and writes. */
struct cli_io {
    FILE *out;         /**< results: tables and JSON */
    FILE *err;         /**< everything else */
    char *const *envp; /**< as main's */
};

/**
 * Subcommands. argv[0] is the subcommand's name. @return exit status: 0; 1 what was asked could not
 * be done (the cause and the remedy are on io->err); 2 bad arguments.
 */
int cli_up(const struct cli_io *io, int argc, char **argv);
int cli_top(const struct cli_io *io, int argc, char **argv);
int cli_check(const struct cli_io *io, int argc, char **argv);
int cli_scheduler_config(const struct cli_io *io, int argc, char **argv);
int cli_explain(const struct cli_io *io, int argc, char **argv);
int cli_replay(const struct cli_io *io, int argc, char **argv);
int cli_train(const struct cli_io *io, int argc, char **argv);
int cli_simulate(const struct cli_io *io, int argc, char **argv);

/** Value of an environment variable; NULL where unset or empty. */
const char *cli_env(const struct cli_io *io, const char *name);

/**
 * A standard stream that is closed would be given to the next file opened, and a table would be
 * written into it. Puts /dev/null there, read-only, so that writing fails as it should.
 */
void cli_keep_standard_streams(void);
