/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator is part of the extender, since it runs the code that scores; this finds the
 * extender's program and becomes it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/programs.h"
#include "common/err.h"

static const char usage[] =
    "Usage: kwatt simulate placement --fleet FILE --pods FILE [options]\n\n"
    "Says what a cluster would draw under several schedulers, kwatt among them.\n"
    "kwatt simulate placement --help lists the options.\n";

int cli_simulate(const struct cli_io *io, int argc, char **argv)
{
    char own_dir[PATH_MAX] = "/", path[PATH_MAX], mode[] = "simulate-placement";

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)fputs(usage, io->out);
        return 0;
    }
    if (argc < 2 || strcmp(argv[1], "placement") != 0) {
        (void)fprintf(io->err, "kwatt simulate: %s%.100s%s\n%s",
                      argc < 2 ? "what? There is" : "there is no \"", argc < 2 ? "" : argv[1],
                      argc < 2 ? " placement" : "\"; there is placement", usage);
        return 2;
    }
    (void)cli_programs_own_dir(own_dir);
    if (cli_programs_find(io, own_dir, "kwatt-extender", path) < 0) {
        (void)fprintf(io->err, "kwatt simulate: kwatt-extender is neither beside kwatt nor in "
                               "PATH: install it beside kwatt\n");
        return 1;
    }
    argv[0] = path;
    argv[1] = mode;
    (void)execve(path, argv, io->envp);
    (void)fprintf(io->err, "kwatt simulate: cannot run %s: %s\n", path, kw_errno_text(-errno));
    return 1;
}
