/* SPDX-License-Identifier: Apache-2.0 */
#include "common/conf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/conf_internal.h"
#include "common/file.h"
#include "common/version.h"
#include "common/yaml.h"

/*
 * Loading keeps one text for each option, with its source, until everything was read and checked:
 * the settings are filled in one go at the end, so that a failure leaves nothing behind, and
 * --dump-config prints what was written instead of something formatted back.
 *
 * Order of reading: flags (they name the file), environment, file; each only fills what a stronger
 * source left open. Order of strength is the same. Empty environment variables count as not set, as
 * the templates of charts and units leave them behind.
 */

/* Of a configuration file; ours have a few kB. */
#define FILE_BYTES (1U << 20)

#define CONFIG_VARIABLE "KWATT_CONFIG"

static const char *env_get(char *const *envp, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; envp != NULL && envp[i] != NULL; i++) {
        if (strncmp(envp[i], name, len) == 0 && envp[i][len] == '=')
            return envp[i][len + 1] != '\0' ? envp[i] + len + 1 : NULL;
    }
    return NULL;
}

static int read_env(const struct kw_conf_program *program, char *const *envp,
                    struct kw_conf_value *values, struct kw_err *err)
{
    for (size_t i = 0; i < program->n_options; i++) {
        const struct kw_conf_option *option = &program->options[i];
        const char *text = option->env != NULL ? env_get(envp, option->env) : NULL;
        if (text == NULL)
            continue;
        union kw_conf_parsed parsed;
        int rc = kw_conf_parse_value(option, text, option->env, &parsed, err);
        if (rc < 0)
            return rc;
        if (values[i].source == KW_CONF_FROM_DEFAULT)
            values[i] = (struct kw_conf_value){.text = text, .source = KW_CONF_FROM_ENV};
    }
    return 0;
}

/* @param ret_doc the values' texts live in it */
static int read_file(const struct kw_conf_program *program, const char *path, const char *named_by,
                     struct kw_conf_value *values, struct kw_yaml **ret_doc, struct kw_err *err)
{
    kw_cleanup_free char *bytes = NULL;
    size_t len = 0;
    int rc = kw_file_slurp(path, FILE_BYTES, &bytes, &len);
    if (rc == -EFBIG)
        return kw_err_set(err, -EINVAL, "%s %.200s: larger than 1 MiB", named_by, path);
    if (rc < 0)
        return kw_err_set(err, rc, "%s %.200s: cannot read it: %s", named_by, path,
                          kw_errno_text(rc));
    rc = kw_yaml_parse(path, bytes, len, ret_doc, err);
    if (rc < 0)
        return rc;
    return kw_conf_read_yaml(program, path, *ret_doc, values, err);
}

/* Of a field in the settings; every member of the union starts at its address. */
static size_t field_size(enum kw_conf_type type)
{
    static const size_t sizes[] = {
        [KW_CONF_BOOL] = sizeof(bool),
        [KW_CONF_STRING] = sizeof(char *),
        [KW_CONF_U64] = sizeof(uint64_t),
        [KW_CONF_DOUBLE] = sizeof(double),
        [KW_CONF_DURATION_NS] = sizeof(uint64_t),
        [KW_CONF_BYTES] = sizeof(uint64_t),
        [KW_CONF_CHOICE] = sizeof(unsigned),
    };
    _Static_assert(sizeof(sizes) / sizeof(sizes[0]) == KW_CONF__MAX, "every type has a size");
    return sizes[type];
}

bool kw_conf_same(const struct kw_conf_option *option, const void *settings, const void *others)
{
    const char *a = (const char *)settings + option->offset;
    const char *b = (const char *)others + option->offset;

    if (option->type != KW_CONF_STRING)
        return memcmp(a, b, field_size(option->type)) == 0;
    const char *text = *(char *const *)a;
    const char *other = *(char *const *)b;
    return text == NULL || other == NULL ? text == other : strcmp(text, other) == 0;
}

static int fill_option(const struct kw_conf_option *option, const struct kw_conf_value *value,
                       char *settings, struct kw_err *err)
{
    char *field = settings + option->offset;
    if (value->text == NULL)
        return 0; /* a string without default: NULL, as the caller zeroed it */

    char where[80];
    (void)snprintf(where, sizeof(where), "default of --%s", option->flag);
    union kw_conf_parsed parsed;
    int rc = kw_conf_parse_value(option, value->text, where, &parsed, err);
    if (rc < 0)
        return rc; /* only a default was not parsed before */
    if (option->type == KW_CONF_STRING) {
        parsed.string = strdup(parsed.string);
        if (parsed.string == NULL)
            return kw_err_set(err, -ENOMEM, "out of memory");
    }
    memcpy(field, &parsed, field_size(option->type));
    return 0;
}

/* Leaves the settings as they came: zeroed. */
static void clear(const struct kw_conf_program *program, void *settings)
{
    kw_conf_free(program, settings);
    for (size_t i = 0; i < program->n_options; i++) {
        const struct kw_conf_option *option = &program->options[i];
        memset((char *)settings + option->offset, 0, field_size(option->type));
    }
}

static int fill(const struct kw_conf_program *program, const struct kw_conf_value *values,
                void *settings, struct kw_err *err)
{
    for (size_t i = 0; i < program->n_options; i++) {
        int rc = fill_option(&program->options[i], &values[i], settings, err);
        if (rc < 0) {
            clear(program, settings);
            return rc;
        }
    }
    return 0;
}

/* What was printed must have arrived: --dump-config > file on a full disk is an error. */
static int printed(FILE *out, struct kw_err *err)
{
    if (fflush(out) != 0 || ferror(out))
        return kw_err_set(err, -EIO, "cannot write the output");
    return KW_CONF_DONE;
}

static int load(const struct kw_conf_program *program, int argc, char **argv, char *const *envp,
                void *settings, FILE *out, size_t *ret_first_positional, struct kw_err *err)
{
    kw_cleanup_free struct kw_conf_value *values = calloc(program->n_options + 1, sizeof(*values));
    if (values == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < program->n_options; i++)
        values[i].text = program->options[i].def;

    struct kw_conf_command command;
    int rc = kw_conf_read_flags(program, argc, argv, values, &command, err);
    if (rc < 0)
        return rc;
    if (command.help) {
        kw_conf_help(program, out);
        return printed(out, err);
    }
    if (command.version) {
        (void)fprintf(out, "%s %s\n", program->name, kw_version_text());
        return printed(out, err);
    }
    if (command.options) {
        rc = kw_conf_dump_options(program, out);
        return rc < 0 ? kw_err_set(err, rc, "out of memory") : printed(out, err);
    }

    rc = read_env(program, envp, values, err);
    if (rc < 0)
        return rc;
    const char *named_by = command.config != NULL ? "--config" : CONFIG_VARIABLE;
    const char *path = command.config != NULL ? command.config : env_get(envp, CONFIG_VARIABLE);
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc = NULL;
    if (path != NULL)
        rc = read_file(program, path, named_by, values, &doc, err);
    if (rc == 0)
        rc = fill(program, values, settings, err);
    if (rc < 0)
        return rc;
    if (command.dump) {
        clear(program, settings);
        kw_conf_dump(program, values, path, out);
        return printed(out, err);
    }
    if (ret_first_positional != NULL)
        *ret_first_positional = command.first_positional;
    return KW_CONF_RUN;
}

int kw_conf_load(const struct kw_conf_program *program, int argc, char **argv, char *const *envp,
                 void *settings, FILE *out, size_t *ret_first_positional, struct kw_err *err)
{
    int rc = load(program, argc, argv, envp, settings, out, ret_first_positional, err);
    if (rc == -EINVAL && err != NULL) {
        size_t len = strlen(err->text);
        (void)snprintf(err->text + len, sizeof(err->text) - len, " (see %s --help)", program->name);
    }
    return rc;
}

void kw_conf_free(const struct kw_conf_program *program, void *settings)
{
    for (size_t i = 0; i < program->n_options; i++) {
        if (program->options[i].type != KW_CONF_STRING)
            continue;
        char *field = (char *)settings + program->options[i].offset;
        char *text = NULL;
        memcpy(&text, field, sizeof(text));
        free(text);
        text = NULL;
        memcpy(field, &text, sizeof(text));
    }
}
