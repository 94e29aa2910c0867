/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/conf_internal.h"

/*
 * The command line. Long flags only: --flag=value or --flag value; truth values are --x, --no-x or
 * --x=false, and never take the next argument. A flag given twice: the last one wins, and both are
 * checked. What begins with "--" is never taken as a value by position: a forgotten value would
 * otherwise swallow the next flag; --flag=--text says it on purpose.
 */

static const char *const common_flags[] = {"config", "dump-config", "dump-options", "help",
                                           "version"};

static const char *flag_at(const void *user, size_t i)
{
    const struct kw_conf_program *program = user;
    return i < program->n_options ? program->options[i].flag : common_flags[i - program->n_options];
}

static int unknown_flag(const struct kw_conf_program *program, const char *argument,
                        const char *name, struct kw_err *err)
{
    const char *near =
        kw_conf_nearest(name, flag_at, program, program->n_options + KW_ARRAY_SIZE(common_flags));
    if (near != NULL)
        return kw_err_set(err, -EINVAL, "unknown option \"%.80s\"; did you mean --%s?", argument,
                          near);
    return kw_err_set(err, -EINVAL, "unknown option \"%.80s\"", argument);
}

static bool is_name(const char *text, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(text, name, len) == 0;
}

static const struct kw_conf_option *find_flag(const struct kw_conf_program *program,
                                              const char *name, size_t len)
{
    for (size_t i = 0; i < program->n_options; i++) {
        if (program->options[i].flag != NULL && is_name(name, len, program->options[i].flag))
            return &program->options[i];
    }
    return NULL;
}

struct scan {
    const struct kw_conf_program *program;
    char **argv;
    int argc;
    int at; /* the argument at hand */
    struct kw_conf_value *values;
    struct kw_conf_command *command;
    struct kw_err *err;
};

/* The value of the flag at hand: after '=', or the next argument (which is then consumed). */
static int flag_value(struct scan *scan, const char *name, size_t len, const char *metavar,
                      const char **ret)
{
    if (name[len] == '=') {
        *ret = name + len + 1;
        return 0;
    }
    if (scan->at + 1 >= scan->argc || strncmp(scan->argv[scan->at + 1], "--", 2) == 0)
        return kw_err_set(scan->err, -EINVAL, "--%.*s needs a value: --%.*s %s", (int)len, name,
                          (int)len, name, metavar != NULL ? metavar : "VALUE");
    *ret = scan->argv[++scan->at];
    return 0;
}

static int option_flag(struct scan *scan, const struct kw_conf_option *option, const char *name,
                       size_t len)
{
    const char *text = "true";
    int rc = 0;
    if (option->type != KW_CONF_BOOL)
        rc = flag_value(scan, name, len, option->metavar, &text);
    else if (name[len] == '=')
        text = name + len + 1;
    if (rc < 0)
        return rc;

    char where[80];
    (void)snprintf(where, sizeof(where), "--%s", option->flag);
    union kw_conf_parsed parsed;
    rc = kw_conf_parse_value(option, text, where, &parsed, scan->err);
    if (rc < 0)
        return rc;
    scan->values[option - scan->program->options] =
        (struct kw_conf_value){.text = text, .source = KW_CONF_FROM_FLAG};
    return 0;
}

/* --help, --version, --dump-config, --dump-options, --config; *ret_known false: none of them. */
static int common_flag(struct scan *scan, const char *name, size_t len, bool *ret_known)
{
    struct kw_conf_command *command = scan->command;
    *ret_known = true;
    if (is_name(name, len, "config"))
        return flag_value(scan, name, len, "FILE", &command->config);
    bool *asked = is_name(name, len, "help")           ? &command->help
                  : is_name(name, len, "version")      ? &command->version
                  : is_name(name, len, "dump-config")  ? &command->dump
                  : is_name(name, len, "dump-options") ? &command->options
                                                       : NULL;
    if (asked == NULL) {
        *ret_known = false;
        return 0;
    }
    if (name[len] == '=')
        return kw_err_set(scan->err, -EINVAL, "--%.*s takes no value", (int)len, name);
    *asked = true;
    return 0;
}

static int scan_flag(struct scan *scan, const char *argument)
{
    if (strcmp(argument, "-h") == 0) {
        scan->command->help = true;
        return 0;
    }
    if (argument[1] != '-')
        return unknown_flag(scan->program, argument, argument + 1, scan->err);

    const char *name = argument + 2;
    size_t len = strcspn(name, "=");
    const struct kw_conf_option *option = find_flag(scan->program, name, len);
    if (option != NULL)
        return option_flag(scan, option, name, len);

    bool known = false;
    int rc = common_flag(scan, name, len, &known);
    if (rc < 0 || known)
        return rc;

    if (len > 3 && memcmp(name, "no-", 3) == 0) {
        option = find_flag(scan->program, name + 3, len - 3);
        if (option != NULL && option->type == KW_CONF_BOOL) {
            if (name[len] == '=')
                return kw_err_set(scan->err, -EINVAL, "--%.*s takes no value", (int)len, name);
            scan->values[option - scan->program->options] =
                (struct kw_conf_value){.text = "false", .source = KW_CONF_FROM_FLAG};
            return 0;
        }
    }
    char bare[80];
    (void)snprintf(bare, sizeof(bare), "%.*s", (int)(len < 79 ? len : 79), name);
    return unknown_flag(scan->program, argument, bare, scan->err);
}

int kw_conf_read_flags(const struct kw_conf_program *program, int argc, char **argv,
                       struct kw_conf_value *values, struct kw_conf_command *ret,
                       struct kw_err *err)
{
    *ret = (struct kw_conf_command){.first_positional = (size_t)argc};
    kw_cleanup_free char **positionals = calloc((size_t)argc + 1, sizeof(*positionals));
    if (positionals == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");

    struct scan scan = {.program = program,
                        .argv = argv,
                        .argc = argc,
                        .at = 1,
                        .values = values,
                        .command = ret,
                        .err = err};
    size_t n_positionals = 0;
    size_t kept = 1; /* options move to the front; never past scan.at */
    bool only_positionals = false;
    for (; scan.at < argc; scan.at++) {
        char *argument = argv[scan.at];
        if (only_positionals || argument[0] != '-' || argument[1] == '\0') {
            if (!program->positionals)
                return kw_err_set(err, -EINVAL, "unexpected argument \"%.80s\"", argument);
            positionals[n_positionals++] = argument;
            continue;
        }
        int first = scan.at;
        if (strcmp(argument, "--") == 0) {
            only_positionals = true;
        } else {
            int rc = scan_flag(&scan, argument);
            if (rc < 0)
                return rc;
            if (ret->help || ret->version || ret->options)
                return 0;
        }
        for (int i = first; i <= scan.at; i++)
            argv[kept++] = argv[i];
    }
    if (argc > 0) {
        ret->first_positional = kept;
        memcpy(argv + kept, positionals, n_positionals * sizeof(*positionals));
    }
    return 0;
}
