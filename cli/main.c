/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/version.h"

static const struct {
    const char *name, *help;
    int (*run)(const struct cli_io *io, int argc, char **argv);
} commands[] = {
    {"up", "run everything on this machine, with a live table of watts", cli_up},
    {"top", "show what draws power on a machine or in a cluster", cli_top},
    {"check", "say what this machine offers for measuring, and what would help", cli_check},
    {"scheduler-config", "print the configuration that makes kube-scheduler ask kwatt",
     cli_scheduler_config},
    {"explain", "say why a pod is where it is, and where its watts come from", cli_explain},
    {"replay", "split the energy of a recording again, by any method", cli_replay},
    {"train", "make a power model for machines without a meter", cli_train},
    {"simulate", "say what placement would save on a fleet", cli_simulate},
};

static void print_help(FILE *out)
{
    (void)fprintf(
        out, "Usage: kwatt COMMAND [options]\n\n"
             "Measures what workloads cost in watts, places and sizes them by it.\n\nCommands:\n");
    for (size_t i = 0; i < KW_ARRAY_SIZE(commands); i++)
        (void)fprintf(out, "  %-16s %s\n", commands[i].name, commands[i].help);
    (void)fprintf(out, "  help             explain a command: kwatt help up\n\nExamples:\n"
                       "  kwatt up                          live table until Ctrl-C\n"
                       "  kwatt up --for 30s --json         one JSON document on stdout\n"
                       "  kwatt top --once --sort joules    one table of the kwatt up that runs\n"
                       "  kwatt top --redis redis://HOST    the nodes of a cluster\n"
                       "  kwatt check                       what this machine offers\n"
                       "  kwatt scheduler-config            how kube-scheduler comes to ask kwatt\n"
                       "  kwatt explain shop/web-5d8        what spoke for its node\n"
                       "  kwatt explain --pod shop/web-5d8  where its watts come from\n"
                       "  kwatt replay case.jsonl           who drew what in a recording\n"
                       "  kwatt simulate placement --help   what placement would save\n\n"
                       "kubectl kwatt COMMAND is the same. kwatt --version prints the version.\n");
}

int main(int argc, char **argv, char **envp)
{
    const struct cli_io io = {.out = stdout, .err = stderr, .envp = envp};
    char *help[] = {NULL, (char[]){"--help"}, NULL};
    const char *name = argc > 1 ? argv[1] : "";
    int wanted = argc - 1;
    char **arguments = argv + 1;

    cli_keep_standard_streams();
    if (strcmp(name, "help") == 0 && argc > 2) {
        name = argv[2];
        help[0] = argv[2];
        wanted = 2;
        arguments = help;
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
               strcmp(name, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        (void)printf("kwatt %s\n", kw_version_text());
        return 0;
    }
    for (size_t i = 0; i < KW_ARRAY_SIZE(commands); i++) {
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(&io, wanted, arguments);
    }
    if (argc < 2)
        print_help(stderr);
    else
        (void)fprintf(stderr, "kwatt: no command \"%.100s\"; kwatt --help lists them\n", name);
    return 2;
}
