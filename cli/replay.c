/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent splits the energy of a recording itself (kwatt-node-agent --replay): what is shown is
 * what the real code says, and takes this program's place.
 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/programs.h"
#include "common/cleanup.h"
#include "common/conf.h"

struct settings {
    char *attribution;
    bool json;
};

#define AT(field) offsetof(struct settings, field)

static const struct kw_conf_option rows[] = {
    {.flag = "attribution",
     .type = KW_CONF_STRING,
     .offset = AT(attribution),
     .min = 1,
     .max = 63,
     .metavar = "METHOD",
     .group = "Replay",
     .help = "how energy above idle is split: a method of kwatt-node-agent --attribution, or all;\n"
             "default: as when it was recorded"},
    {.flag = "json",
     .type = KW_CONF_BOOL,
     .offset = AT(json),
     .def = "false",
     .group = "Output",
     .help = "print one JSON document"},
};

static const struct kw_conf_program program = {
    .name = "kwatt replay",
    .synopsis = "[options] FILE",
    .summary =
        "Splits the energy of a recording (kwatt-node-agent --record FILE) as the agent would:\n"
        "the same file gives the same energies, to the microjoule. Shows what each domain drew,\n"
        "and what each workload got of it with its standard deviation; where the recording has a\n"
        "truth, how far each method is from it. FILE may be -, standard input.",
    .examples = "  kwatt replay case.jsonl\n"
                "  kwatt replay case.jsonl --attribution all\n"
                "  zcat case.jsonl.gz | kwatt replay - --json\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
    .positionals = true,
};

/** Becomes the agent. @return only where that fails: -errno. */
static int become_agent(const struct cli_io *io, const struct settings *settings, const char *file,
                        struct kw_err *err)
{
    char own_dir[PATH_MAX] = "/", path[PATH_MAX], replay[PATH_MAX + 16], method[96],
         json[] = "--json";
    char *argv[5] = {path, replay};
    size_t argc = 2;

    (void)cli_programs_own_dir(own_dir);
    if (cli_programs_find(io, own_dir, "kwatt-node-agent", path) < 0)
        return kw_err_set(err, -ENOENT,
                          "kwatt-node-agent is neither beside kwatt nor in PATH; install it there");
    if (snprintf(replay, sizeof(replay), "--replay=%s", file) >= (int)sizeof(replay))
        return kw_err_set(err, -ENAMETOOLONG, "the file's name is too long");
    if (settings->attribution != NULL) {
        (void)snprintf(method, sizeof(method), "--replay-method=%s", settings->attribution);
        argv[argc++] = method;
    }
    if (settings->json)
        argv[argc++] = json;
    (void)execve(path, argv, io->envp);
    return kw_err_set(err, -errno, "%s cannot be run: %s", path, kw_errno_text(errno));
}

int cli_replay(const struct cli_io *io, int argc, char **argv)
{
    struct settings settings = {0};
    struct kw_err err = {0};
    size_t first = 0;
    int rc = kw_conf_load(&program, argc, argv, io->envp, &settings, io->out, &first, &err);
    int status = 2;

    if (rc == KW_CONF_DONE)
        return 0;
    if (rc == 0 && (size_t)argc != first + 1)
        rc = kw_err_set(&err, -EINVAL,
                        "one recording is needed: kwatt replay FILE, or - for "
                        "standard input");
    if (rc == 0 && argv[first][0] == '\0')
        rc = kw_err_set(&err, -EINVAL, "the file's name is empty");
    if (rc == 0) {
        status = 1;
        (void)become_agent(io, &settings, argv[first], &err);
    }
    (void)fprintf(io->err, "kwatt replay: %s\n", err.text);
    kw_conf_free(&program, &settings);
    return status;
}
