/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/conf_internal.h"
#include "common/utf8.h"
#include "common/version.h"

/*
 * The settings in force as YAML. Rows are printed in table order; a row whose key has dots opens
 * its group at the first row of it and pulls the others of the group there, since a map may stand
 * in a file only once. Values are printed as they were written: checked texts of numbers, durations
 * and choices need no quotes, strings get them always. Rows that have no key or no value become
 * comments.
 */

struct dump {
    const struct kw_conf_program *program;
    const struct kw_conf_value *values;
    const char *file;
    FILE *out;
};

static void print_string(const char *text, FILE *out)
{
    size_t len = strlen(text);
    (void)fputc('"', out);
    for (size_t i = 0; i < len;) {
        uint32_t code_point = 0xfffd; /* for a byte that is no UTF-8: YAML cannot carry it */
        size_t width = kw_utf8_next(text + i, len - i, &code_point);
        bool plain = width > 0 && code_point >= 0x20 && code_point != '"' && code_point != '\\' &&
                     (code_point < 0x7f || code_point >= 0xa0) && code_point != 0xfeff &&
                     code_point != 0x2028 && code_point != 0x2029 && code_point != 0xfffe &&
                     code_point != 0xffff;
        if (plain)
            (void)fwrite(text + i, 1, width, out);
        else if (code_point == '"' || code_point == '\\')
            (void)fprintf(out, "\\%c", (int)code_point);
        else
            (void)fprintf(out, "\\u%04x", code_point);
        i += width > 0 ? width : 1;
    }
    (void)fputc('"', out);
}

static void print_source(const struct dump *dump, const struct kw_conf_option *option,
                         const struct kw_conf_value *value)
{
    switch (value->source) {
    case KW_CONF_FROM_FILE:
        /* a line feed in the name would end the comment */
        (void)fprintf(dump->out, "%.*s:%u", (int)strcspn(dump->file, "\r\n"), dump->file,
                      value->line);
        break;
    case KW_CONF_FROM_ENV: (void)fputs(option->env, dump->out); break;
    case KW_CONF_FROM_FLAG: (void)fprintf(dump->out, "--%s", option->flag); break;
    case KW_CONF_FROM_DEFAULT:
    case KW_CONF_FROM__MAX: (void)fputs("default", dump->out); break;
    }
}

static void print_value(const struct dump *dump, size_t i, const char *name, int indent)
{
    const struct kw_conf_option *option = &dump->program->options[i];
    const struct kw_conf_value *value = &dump->values[i];
    (void)fprintf(dump->out, "%*s%s%s:", indent, "", value->text == NULL ? "# " : "", name);
    if (value->text != NULL) {
        (void)fputc(' ', dump->out);
        if (option->type == KW_CONF_STRING)
            print_string(value->text, dump->out);
        else
            (void)fputs(value->text, dump->out);
    }
    (void)fputs(" # ", dump->out);
    print_source(dump, option, value);
    (void)fputc('\n', dump->out);
}

/* Bytes of `key` up to the end of its segment after `prefix_len` bytes. */
static size_t segment_end(const char *key, size_t prefix_len)
{
    return prefix_len + strcspn(key + prefix_len, ".");
}

static bool shares(const char *key, const char *other, size_t len)
{
    return other != NULL && strncmp(key, other, len) == 0 &&
           (other[len] == '.' || other[len] == '\0');
}

/* Prints every row whose key starts with the first prefix_len bytes of `prefix` (which end in '.').
 */
static void print_level(const struct dump *dump, const char *prefix, size_t prefix_len, int indent)
{
    const struct kw_conf_option *options = dump->program->options;
    for (size_t i = 0; i < dump->program->n_options; i++) {
        const char *key = options[i].key;
        if (key == NULL || strncmp(key, prefix, prefix_len) != 0)
            continue;
        size_t end = segment_end(key, prefix_len);
        if (key[end] == '\0') {
            print_value(dump, i, key + prefix_len, indent);
            continue;
        }
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = !shares(key, options[k].key, end);
        if (!first)
            continue;
        (void)fprintf(dump->out, "%*s%.*s:\n", indent, "", (int)(end - prefix_len),
                      key + prefix_len);
        print_level(dump, key, end + 1, indent + 2);
    }
}

void kw_conf_dump(const struct kw_conf_program *program, const struct kw_conf_value *values,
                  const char *file, FILE *out)
{
    struct dump dump = {.program = program, .values = values, .file = file, .out = out};
    (void)fprintf(out, "# Settings in force of %s %s; comments say where each comes from.\n",
                  program->name, kw_version());
    print_level(&dump, "", 0, 0);
    for (size_t i = 0; i < program->n_options; i++) {
        if (program->options[i].key != NULL)
            continue;
        (void)fprintf(out, "# --%s ", program->options[i].flag);
        print_string(values[i].text != NULL ? values[i].text : "", out);
        (void)fputs(" (has no key) # ", out);
        print_source(&dump, &program->options[i], &values[i]);
        (void)fputc('\n', out);
    }
}

static void add_text(struct kw_buf *out, const char *name, const char *text)
{
    if (text == NULL)
        return;
    (void)kw_buf_addf(out, ", \"%s\": ", name);
    (void)kw_buf_add_json(out, text, strlen(text));
}

/* One row of the table; the flag comes first, since every row has one. */
static void add_option(struct kw_buf *out, const struct kw_conf_option *option)
{
    static const char *const types[] = {
        [KW_CONF_BOOL] = "bool",     [KW_CONF_STRING] = "string",        [KW_CONF_U64] = "integer",
        [KW_CONF_DOUBLE] = "number", [KW_CONF_DURATION_NS] = "duration", [KW_CONF_BYTES] = "size",
        [KW_CONF_CHOICE] = "choice",
    };
    _Static_assert(KW_ARRAY_SIZE(types) == KW_CONF__MAX, "every type has a name");

    (void)kw_buf_addf(out, "{\"flag\": \"%s\"", option->flag);
    add_text(out, "env", option->env);
    add_text(out, "key", option->key);
    add_text(out, "type", types[option->type]);
    add_text(out, "default", option->def);
    if (option->min != 0 || option->max != 0)
        (void)kw_buf_addf(out, ", \"min\": %llu, \"max\": %llu", (unsigned long long)option->min,
                          (unsigned long long)option->max);
    for (size_t i = 0; option->choices != NULL && option->choices[i] != NULL; i++) {
        (void)kw_buf_adds(out, i == 0 ? ", \"choices\": [" : ", ");
        (void)kw_buf_add_json(out, option->choices[i], strlen(option->choices[i]));
        (void)kw_buf_adds(out, option->choices[i + 1] == NULL ? "]" : "");
    }
    add_text(out, "metavar", option->metavar);
    add_text(out, "help", option->help);
    add_text(out, "group", option->group);
    (void)kw_buf_adds(out, "}");
}

int kw_conf_dump_options(const struct kw_conf_program *program, FILE *out)
{
    struct kw_buf text = {0};

    (void)kw_buf_adds(&text, "{\"program\": ");
    (void)kw_buf_add_json(&text, program->name, strlen(program->name));
    add_text(&text, "version", kw_version());
    (void)kw_buf_adds(&text, ", \"options\": [");
    for (size_t i = 0; i < program->n_options; i++) {
        (void)kw_buf_adds(&text, i == 0 ? "\n  " : ",\n  ");
        add_option(&text, &program->options[i]);
    }
    (void)kw_buf_adds(&text, "\n]}\n");
    int rc = text.failed ? -ENOMEM : 0;
    if (rc == 0)
        (void)fwrite(text.data, 1, text.len, out);
    kw_buf_free(&text);
    return rc;
}
