/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "common/cleanup.h"

/** An agent has about fifteen lines; more than this is something else. */
#define FINDINGS_MAX 256

const char *const cli_state_of_names[] = {
    [CLI_OK] = "ok", [CLI_DEGRADED] = "degraded", [CLI_MISSING] = "missing"};
_Static_assert(KW_ARRAY_SIZE(cli_state_of_names) == CLI_STATE_OF__MAX, "a state has no name");

void cli_findings_clear(struct cli_findings *findings)
{
    for (size_t i = 0; i < findings->n; i++) {
        free(findings->items[i].item);
        free(findings->items[i].detail);
        free(findings->items[i].remedy);
    }
    free(findings->items);
    *findings = (struct cli_findings){0};
}

static int add_spans(struct cli_findings *findings, enum cli_state_of state,
                     const char *const spans[3], const size_t lens[3])
{
    struct cli_finding *items =
        realloc(findings->items, (findings->n + 1) * sizeof(*findings->items));

    if (items == NULL)
        return -ENOMEM;
    findings->items = items;
    struct cli_finding *finding = &items[findings->n];
    *finding = (struct cli_finding){.state = state,
                                    .item = strndup(spans[0], lens[0]),
                                    .detail = strndup(spans[1], lens[1]),
                                    .remedy = strndup(spans[2], lens[2])};
    if (finding->item == NULL || finding->detail == NULL || finding->remedy == NULL) {
        free(finding->item);
        free(finding->detail);
        free(finding->remedy);
        return -ENOMEM;
    }
    findings->n++;
    return 0;
}

int cli_findings_add(struct cli_findings *findings, enum cli_state_of state, const char *item,
                     const char *detail, const char *remedy)
{
    return add_spans(findings, state, (const char *const[3]){item, detail, remedy},
                     (const size_t[3]){strlen(item), strlen(detail), strlen(remedy)});
}

/** One line without its end. @return 1 where it was added; 0 of another form; -ENOMEM. */
static int parse_line(struct cli_findings *findings, const char *line, size_t len)
{
    const char *spans[4];
    size_t lens[4], n = 0;

    while (n < 4) {
        const char *tab = n < 3 ? memchr(line, '\t', len) : NULL;
        spans[n] = line;
        lens[n] = tab != NULL ? (size_t)(tab - line) : len;
        if (tab == NULL) {
            n++;
            break;
        }
        line = tab + 1;
        len -= lens[n] + 1;
        n++;
    }
    if (n < 3)
        return 0;
    if (n == 3) {
        spans[3] = "";
        lens[3] = 0;
    }
    for (unsigned state = 0; state < CLI_STATE_OF__MAX; state++) {
        if (strlen(cli_state_of_names[state]) == lens[0] &&
            memcmp(cli_state_of_names[state], spans[0], lens[0]) == 0) {
            int rc = add_spans(findings, (enum cli_state_of)state, spans + 1, lens + 1);
            return rc < 0 ? rc : 1;
        }
    }
    return 0;
}

int cli_findings_parse(struct cli_findings *findings, const char *text, size_t len, size_t *ret_n)
{
    size_t added = 0;

    while (len > 0 && findings->n < FINDINGS_MAX) {
        const char *end = memchr(text, '\n', len);
        size_t line_len = end != NULL ? (size_t)(end - text) : len;
        int rc = parse_line(findings, text, line_len);
        if (rc < 0)
            return rc;
        added += (size_t)rc;
        size_t used = line_len + (end != NULL);
        text += used;
        len -= used;
    }
    *ret_n = added;
    return 0;
}

void cli_findings_table(const struct cli_findings *findings, bool color, struct kw_buf *out)
{
    static const char *const colors[] = {
        [CLI_OK] = "\033[32m", [CLI_DEGRADED] = "\033[33m", [CLI_MISSING] = "\033[31m"};
    const unsigned state_width = 10, item_width = 18;

    for (size_t i = 0; i < findings->n; i++) {
        const struct cli_finding *finding = &findings->items[i];
        if (color)
            (void)kw_buf_adds(out, colors[finding->state]);
        cli_text_fit(out, cli_state_of_names[finding->state], state_width, false);
        if (color)
            (void)kw_buf_adds(out, "\033[0m");
        cli_text_fit(out, finding->item, item_width, false);
        cli_text_add(out, finding->detail);
        (void)kw_buf_add(out, "\n", 1);
        if (finding->remedy[0] == '\0' || finding->state == CLI_OK)
            continue;
        cli_text_fit(out, "", state_width + item_width, false);
        (void)kw_buf_adds(out, "-> ");
        cli_text_add(out, finding->remedy);
        (void)kw_buf_add(out, "\n", 1);
    }
}

static void add_member(struct kw_buf *out, const char *key, const char *value, const char *end)
{
    (void)kw_buf_addf(out, "\"%s\": ", key);
    (void)kw_buf_add_json(out, value, strlen(value));
    (void)kw_buf_adds(out, end);
}

void cli_findings_json(const struct cli_findings *findings, struct kw_buf *out)
{
    (void)kw_buf_adds(out, "{\"checks\": [");
    for (size_t i = 0; i < findings->n; i++) {
        const struct cli_finding *finding = &findings->items[i];
        (void)kw_buf_adds(out, i > 0 ? ",\n  {" : "\n  {");
        add_member(out, "state", cli_state_of_names[finding->state], ", ");
        add_member(out, "item", finding->item, ", ");
        add_member(out, "detail", finding->detail, ", ");
        add_member(out, "remedy", finding->remedy, "}");
    }
    (void)kw_buf_adds(out, "\n]}\n");
}
