/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "cli/cli.h"

/** Folder of the running program with '/' at its end, from /proc/self/exe. @return 0 or -errno. */
int cli_programs_own_dir(char out[PATH_MAX]);

/**
 * Finds one of our programs: beside `own_dir`, then in the build tree's sibling folder, then in
 * PATH.
 * @param own_dir as cli_programs_own_dir gives it. @return 0 or -ENOENT.
 */
int cli_programs_find(const struct cli_io *io, const char *own_dir, const char *name,
                      char out[PATH_MAX]);

/** Finds any program in PATH. @return 0 or -ENOENT. */
int cli_programs_in_path(const struct cli_io *io, const char *name, char out[PATH_MAX]);
