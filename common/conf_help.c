/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/conf_internal.h"

/* The text of --help: one paragraph for each row, under the heading of its group. */

#define WIDTH  90 /* readable on every terminal; wider lines are hard to follow */
#define INDENT 8

/* Prints words with line breaks at WIDTH. A line feed in the text is where the source was wrapped
 * and counts as a blank, an empty line starts a paragraph, a tab is a blank that holds together. */
static void print_wrapped(FILE *out, const char *text, int indent)
{
    int column = 0;
    while (*text != '\0') {
        size_t blanks = strspn(text, " \n");
        if (column > 0 && text[blanks] != '\0' && memmem(text, blanks, "\n\n", 2) != NULL) {
            (void)fputs("\n\n", out);
            column = 0;
        }
        text += blanks;
        int len = (int)strcspn(text, " \n");
        if (len == 0)
            break;
        if (column > 0 && column + 1 + len > WIDTH) {
            (void)fputc('\n', out);
            column = 0;
        }
        if (column == 0)
            column = indent;
        else
            column++;
        (void)fprintf(out, "%*s", column == indent ? indent : 1, "");
        for (int i = 0; i < len; i++)
            (void)fputc(text[i] == '\t' ? ' ' : text[i], out);
        column += len;
        text += len;
    }
    if (column > 0)
        (void)fputc('\n', out);
}

/* "[default: 2s; allowed: 100ms to 60s; env: KWATT_X; file: x.y]" */
static void print_facts(const struct kw_conf_option *option, FILE *out)
{
    char range[200];
    char line[600];
    kw_conf_range_text(option, range, sizeof(range));
    bool show_range = range[0] != '\0' && option->type != KW_CONF_BOOL;
    const char *def = option->def != NULL && option->def[0] != '\0' ? option->def : "none";
    (void)snprintf(line, sizeof(line), "[default:\t%s%s%s%s%s%s%s]", def,
                   show_range ? "; allowed:\t" : "", show_range ? range : "",
                   option->env != NULL ? "; env:\t" : "", option->env != NULL ? option->env : "",
                   option->key != NULL ? "; file:\t" : "", option->key != NULL ? option->key : "");
    print_wrapped(out, line, INDENT);
}

static void print_option(const struct kw_conf_option *option, FILE *out)
{
    if (option->type == KW_CONF_BOOL)
        (void)fprintf(out, "  --[no-]%s\n", option->flag);
    else
        (void)fprintf(out, "  --%s %s\n", option->flag,
                      option->metavar != NULL ? option->metavar : "VALUE");
    print_wrapped(out, option->help, INDENT);
    print_facts(option, out);
}

void kw_conf_help(const struct kw_conf_program *program, FILE *out)
{
    (void)fprintf(out, "Usage: %s %s\n\n", program->name,
                  program->synopsis != NULL ? program->synopsis : "[options]");
    if (program->summary != NULL)
        print_wrapped(out, program->summary, 0);

    const char *group = NULL;
    for (size_t i = 0; i < program->n_options; i++) {
        const struct kw_conf_option *option = &program->options[i];
        const char *own = option->group != NULL ? option->group : "Options";
        if (group == NULL || strcmp(group, own) != 0)
            (void)fprintf(out, "\n%s:\n", own);
        group = own;
        print_option(option, out);
    }

    (void)fprintf(out, "\nGeneral:\n"
                       "  --config FILE\n");
    print_wrapped(
        out,
        "YAML file with the keys shown as \"file:\". Flags override environment variables, "
        "these override the file. [default: none; env: KWATT_CONFIG]",
        INDENT);
    (void)fprintf(out, "  --dump-config\n");
    print_wrapped(out,
                  "Print the settings in force as YAML that --config accepts, with the source of "
                  "each, and exit.",
                  INDENT);
    (void)fprintf(out, "  --dump-options\n        Print this list of options as JSON and exit.\n");
    (void)fprintf(out, "  --help\n        Print this text and exit.\n"
                       "  --version\n        Print the version and exit.\n");
    if (program->examples != NULL) {
        size_t len = strlen(program->examples);
        (void)fprintf(out, "\nExamples:\n%s%s", program->examples,
                      len > 0 && program->examples[len - 1] == '\n' ? "" : "\n");
    }
}
