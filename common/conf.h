/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

/*
 * Options as rows. One table per program parses flags, environment and YAML file, validates, prints
 * --help, dumps the effective configuration, and feeds the chart's schema (--dump-options).
 * Precedence: flag, then environment, then file, then default. Of a flag given twice the last
 * counts; an empty environment variable counts as not set, and so does a key of the file without a
 * value. What a stronger source overrides is checked all the same. Secrets are never values of
 * options: a password is read from a file, whose name is the option.
 *
 * Every program gets for free: --help, --version, --config FILE (YAML; also KWATT_CONFIG),
 * --dump-config (prints the effective configuration as YAML that --config accepts, and where each
 * value came from as a comment), --dump-options (prints the table as JSON: {"program", "version",
 * "options": [{"flag", "env", "key", "type", "default", "min", "max", "choices", "metavar", "help",
 * "group"}]}; what a row does not have is left out; types are bool, string, integer, number,
 * duration, size and choice, min and max of a duration are nanoseconds).
 */

enum kw_conf_type {
    KW_CONF_BOOL,   /**< bool; flags: --x, --x=false, --no-x */
    KW_CONF_STRING, /**< char *, owned by the settings; NULL where default is NULL; min, max: bytes
                     */
    KW_CONF_U64,    /**< uint64_t */
    KW_CONF_DOUBLE, /**< double; min and max rows are whole numbers */
    KW_CONF_DURATION_NS, /**< uint64_t nanoseconds, written "5s" */
    KW_CONF_BYTES,       /**< uint64_t, written "64Mi" */
    KW_CONF_CHOICE,      /**< unsigned: index into choices */
    KW_CONF__MAX
};

struct kw_conf_option {
    const char *flag; /**< long flag without dashes, kebab-case: "state-dir" */
    const char *env;  /**< "KWATT_STATE_DIR"; NULL: not from the environment */
    const char *key;  /**< YAML key, camelCase, dots nest: "redis.url"; NULL: not from the file */
    enum kw_conf_type type;
    size_t offset;              /**< offsetof(struct settings, field) */
    const char *def;            /**< default, in the text form of its type; NULL only for strings */
    uint64_t min, max;          /**< inclusive, in the unit of the type; both 0: unchecked */
    const char *const *choices; /**< KW_CONF_CHOICE: ends with NULL */
    const char *metavar;        /**< "URL"; NULL for bool */
    const char *help;           /**< one or two lines; says the unit and what the default means */
    const char *group;          /**< heading in --help; consecutive rows share one */
    /** Of a string that is not empty: 0, or -errno with the cause in `err`. NULL: any will do. */
    int (*check)(const char *text, struct kw_err *err);
};

struct kw_conf_program {
    const char *name;     /**< "kwatt-extender" or "kwatt up" */
    const char *synopsis; /**< after the name: "[options]" */
    const char *summary;  /**< what it does, a few lines */
    const char *examples; /**< printed under "Examples:" as it is */
    const struct kw_conf_option *options;
    size_t n_options;
    bool positionals; /**< arguments that are no options are allowed */
};

enum kw_conf_outcome {
    KW_CONF_RUN,  /**< settings are filled */
    KW_CONF_DONE, /**< --help, --version or --dump-config was printed: exit 0 */
};

/**
 * Fills *settings (zeroed by the caller before) from defaults, file, environment and flags.
 * @param argv argv[0] is skipped.
 * @param envp environment, as main's; NULL for none.
 * @param out where help, version and dump go.
 * @param ret_first_positional index in argv of the first argument that is no option (argc if
 *        none); options may follow positionals; after "--" everything is positional. argv is
 *        permuted so that positionals come last. May be NULL.
 * @return enum kw_conf_outcome; -EINVAL with `err` naming flag, variable, or file, line and key,
 *         the value and what is allowed (exit 2; the text ends with a hint at --help); -errno
 *         otherwise. On error and after KW_CONF_DONE *settings is zeroed.
 */
int kw_conf_load(const struct kw_conf_program *program, int argc, char **argv, char *const *envp,
                 void *settings, FILE *out, size_t *ret_first_positional, struct kw_err *err);

/** Whether an option has the same value in two settings that kw_conf_load has filled. */
bool kw_conf_same(const struct kw_conf_option *option, const void *settings, const void *others);

/** Frees the strings that kw_conf_load put into *settings and nulls them. */
void kw_conf_free(const struct kw_conf_program *program, void *settings);

/** Prints --help. */
void kw_conf_help(const struct kw_conf_program *program, FILE *out);
