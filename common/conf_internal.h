/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/conf.h"

/*
 * What the files of the configuration mechanism share: conf.c (precedence, settings), conf_flags.c,
 * conf_yaml.c (two of the sources), conf_value.c (types), conf_help.c and conf_dump.c (printing).
 * Not for others.
 */

enum kw_conf_source {
    KW_CONF_FROM_DEFAULT,
    KW_CONF_FROM_FILE,
    KW_CONF_FROM_ENV,
    KW_CONF_FROM_FLAG,
    KW_CONF_FROM__MAX
};

/** The text in force for one option, and who said it. */
struct kw_conf_value {
    const char *text; /**< borrowed from the table, argv, envp or the YAML tree; NULL: a string
                         without default */
    enum kw_conf_source source;
    unsigned line; /**< of the file; 0: the file does not have it */
};

/** What the flags asked for beside values. */
struct kw_conf_command {
    bool help;
    bool version;
    bool dump;
    bool options;
    const char *config; /**< --config FILE; NULL: not given */
    size_t first_positional;
};

/** A value of any type; strings are borrowed. */
union kw_conf_parsed {
    bool boolean;
    const char *string;
    uint64_t u64;
    double real;
    unsigned choice;
};

/**
 * Parses and checks one value.
 * @param where "--redis", "KWATT_REDIS" or "kwatt.yaml:12: redis.url": first words of the error.
 * @return 0; -EINVAL with `err`.
 */
int kw_conf_parse_value(const struct kw_conf_option *option, const char *text, const char *where,
                        union kw_conf_parsed *ret, struct kw_err *err);

/** Writes the allowed values in words, such as "100ms to 60s"; empty where all are allowed. */
void kw_conf_range_text(const struct kw_conf_option *option, char *out, size_t size);

/** The text among n that looks most like `text`, or NULL where none is near. @param get the i-th
 * text, may give NULL. */
const char *kw_conf_nearest(const char *text, const char *(*get)(const void *user, size_t i),
                            const void *user, size_t n);

/**
 * Reads the flags into `values` and sorts argv (see kw_conf_load). Stops at --help, --version and
 * --dump-options.
 * @return 0; -EINVAL with `err`; -ENOMEM.
 */
int kw_conf_read_flags(const struct kw_conf_program *program, int argc, char **argv,
                       struct kw_conf_value *values, struct kw_conf_command *ret,
                       struct kw_err *err);

struct kw_yaml;

/** Reads a parsed file into `values` (those not set by flag or environment) and checks all of it.
 * @return 0; -EINVAL with `err`. */
int kw_conf_read_yaml(const struct kw_conf_program *program, const char *name,
                      const struct kw_yaml *doc, struct kw_conf_value *values, struct kw_err *err);

/** Prints the values in force as YAML. @param file name of the configuration file, NULL without. */
void kw_conf_dump(const struct kw_conf_program *program, const struct kw_conf_value *values,
                  const char *file, FILE *out);

/** Prints the table of options as one JSON object (see conf.h). @return 0 or -ENOMEM. */
int kw_conf_dump_options(const struct kw_conf_program *program, FILE *out);
