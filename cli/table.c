/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table is a row of columns, each with a width, an order of importance and a function that writes
 * a cell. The name takes what the others leave. While the name would have less than NAME_LEAST
 * columns, the least important column goes. So a narrow terminal shows fewer columns, and never a
 * broken line.
 */
#include "cli/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/quantity.h"
#include "cli/text.h"
#include "common/cleanup.h"

/** A name cut to less tells little. */
#define NAME_LEAST 18
#define GAP        2
#define BAR        10

#define BOLD  "\033[1m"
#define DIM   "\033[2m"
#define RESET "\033[0m"

/** What a cell may need beside its row. */
struct context {
    uint64_t active_mw; /**< of all rows: the whole of the share */
};

struct column {
    const char *title;
    unsigned width;
    unsigned importance; /**< 1 goes first; 0 never */
    void (*cell)(struct kw_buf *out, const struct cli_row *row, const struct context *context,
                 unsigned width);
};

static void cell_kind(struct kw_buf *out, const struct cli_row *row, const struct context *context,
                      unsigned width)
{
    (void)context;
    cli_text_fit(out, row->running ? row->kind : "ended", width, false);
}

static void cell_cores(struct kw_buf *out, const struct cli_row *row, const struct context *context,
                       unsigned width)
{
    char text[CLI_NUMBER_MAX];

    (void)context;
    cli_text_cores(text, row->used_mcpu);
    cli_text_fit(out, text, width, true);
}

static void cell_watts(struct kw_buf *out, const struct cli_row *row, const struct context *context,
                       unsigned width)
{
    char text[CLI_NUMBER_MAX];

    (void)context;
    cli_text_watts(text, row->active_mw);
    cli_text_fit(out, text, width, true);
}

static void cell_share(struct kw_buf *out, const struct cli_row *row, const struct context *context,
                       unsigned width)
{
    uint64_t filled = 0;

    if (context->active_mw > 0)
        filled =
            (uint64_t)((unsigned __int128)row->active_mw * width * 2 / context->active_mw + 1) / 2;
    for (unsigned i = 0; i < width; i++)
        (void)kw_buf_add(out, i < filled ? "#" : ".", 1);
}

static void cell_joules(struct kw_buf *out, const struct cli_row *row,
                        const struct context *context, unsigned width)
{
    char text[CLI_NUMBER_MAX];

    (void)context;
    cli_text_joules(text, row->active_uj);
    cli_text_fit(out, text, width, true);
}

static void cell_memory(struct kw_buf *out, const struct cli_row *row,
                        const struct context *context, unsigned width)
{
    char text[CLI_NUMBER_MAX] = "-"; /* no memory controller there */

    (void)context;
    if (row->memory_bytes > 0)
        cli_text_bytes(text, row->memory_bytes);
    cli_text_fit(out, text, width, true);
}

static void cell_advice_cpu(struct kw_buf *out, const struct cli_row *row,
                            const struct context *context, unsigned width)
{
    char text[KW_QUANTITY_MAX] = "-";

    (void)context;
    if (row->has_advice)
        kw_quantity_format_mcpu(text, row->advice_mcpu);
    cli_text_fit(out, text, width, true);
}

static void cell_advice_memory(struct kw_buf *out, const struct cli_row *row,
                               const struct context *context, unsigned width)
{
    char text[CLI_NUMBER_MAX] = "-";

    (void)context;
    if (row->has_advice && row->advice_bytes > 0) /* 0: never measured */
        cli_text_bytes(text, row->advice_bytes);
    cli_text_fit(out, text, width, true);
}

static const struct column columns[] = {
    {"KIND", 9, 4, cell_kind},
    {"CORES", 7, 0, cell_cores},
    {"WATTS", 8, 0, cell_watts},
    {"SHARE", BAR, 1, cell_share},
    {"JOULES", 7, 6, cell_joules},
    {"MEMORY", 7, 5, cell_memory},
    {"ADVISED-CPU", 11, 3, cell_advice_cpu},
    {"ADVISED-MEM", 11, 2, cell_advice_memory},
};

/** Chooses the columns of a width. @return what is left for the name. */
static unsigned choose(unsigned width, bool chosen[KW_ARRAY_SIZE(columns)])
{
    unsigned used = 0;

    for (size_t i = 0; i < KW_ARRAY_SIZE(columns); i++) {
        chosen[i] = true;
        used += columns[i].width + GAP;
    }
    for (unsigned level = 1; used + NAME_LEAST > width && level < 7; level++) {
        for (size_t i = 0; i < KW_ARRAY_SIZE(columns); i++) {
            if (columns[i].importance == level) {
                chosen[i] = false;
                used -= columns[i].width + GAP;
            }
        }
    }
    return width > used ? width - used : 1;
}

static void add_line_end(struct kw_buf *out, const struct cli_table_style *style, bool styled)
{
    if (styled && style->color)
        (void)kw_buf_adds(out, RESET);
    (void)kw_buf_add(out, "\n", 1);
}

static void add_name(struct kw_buf *out, const struct cli_row *row, unsigned width)
{
    struct kw_buf name = {0};

    if (row->namespace_[0] != '\0') {
        (void)kw_buf_adds(&name, row->namespace_);
        (void)kw_buf_add(&name, "/", 1);
    }
    (void)kw_buf_adds(&name, row->name);
    if (row->image != NULL && row->image[0] != '\0')
        (void)kw_buf_addf(&name, " (%s)", row->image);
    cli_text_fit(out, name.data != NULL ? name.data : "", width, false);
    kw_buf_free(&name);
}

void cli_table_workloads(struct kw_buf *out, const struct cli_row *rows, size_t n,
                         const struct cli_table_style *style)
{
    bool chosen[KW_ARRAY_SIZE(columns)];
    unsigned name_width = choose(style->columns, chosen);
    size_t shown = style->rows > 0 && n > style->rows ? style->rows : n;
    struct context context = {0};

    for (size_t i = 0; i < n; i++)
        context.active_mw += rows[i].active_mw;
    if (style->color)
        (void)kw_buf_adds(out, BOLD);
    cli_text_fit(out, "WORKLOAD", name_width, false);
    for (size_t c = 0; c < KW_ARRAY_SIZE(columns); c++) {
        if (!chosen[c])
            continue;
        cli_text_fit(out, "", GAP, false);
        bool left = columns[c].cell == cell_kind || columns[c].cell == cell_share;
        cli_text_fit(out, columns[c].title, columns[c].width, !left);
    }
    add_line_end(out, style, true);
    for (size_t i = 0; i < shown; i++) {
        bool dim = style->color && !rows[i].running;
        if (dim)
            (void)kw_buf_adds(out, DIM);
        add_name(out, &rows[i], name_width);
        for (size_t c = 0; c < KW_ARRAY_SIZE(columns); c++) {
            if (!chosen[c])
                continue;
            cli_text_fit(out, "", GAP, false);
            columns[c].cell(out, &rows[i], &context, columns[c].width);
        }
        add_line_end(out, style, dim);
    }
    if (n == 0)
        (void)kw_buf_adds(out, "(no workloads seen yet)\n");
    if (shown < n)
        (void)kw_buf_addf(out, "... and %zu more\n", n - shown);
}

/** Ends the line at hand, cut to the width where even one piece does not fit. */
static void end_line(struct kw_buf *out, struct kw_buf *line, const struct cli_table_style *style)
{
    if (line->len == 0)
        return;
    if (cli_text_width(line->data) <= style->columns)
        cli_text_add(out, line->data);
    else
        cli_text_fit(out, line->data, style->columns, false);
    (void)kw_buf_add(out, "\n", 1);
    kw_buf_reset(line);
}

/** Adds a piece to the line at hand, or to a new one where it would not fit. */
__attribute__((format(printf, 4, 5))) static void add_piece(struct kw_buf *out, struct kw_buf *line,
                                                            const struct cli_table_style *style,
                                                            const char *format, ...)
{
    static const char between[] = "   ";
    kw_cleanup_free char *piece = NULL;
    va_list args;

    va_start(args, format);
    int len = vasprintf(&piece, format, args);
    va_end(args);
    if (len < 0) {
        piece = NULL;
        return;
    }
    if (line->len > 0 &&
        cli_text_width(line->data) + sizeof(between) - 1 + cli_text_width(piece) > style->columns)
        end_line(out, line, style);
    if (line->len > 0)
        (void)kw_buf_adds(line, between);
    (void)kw_buf_adds(line, piece);
}

void cli_table_summary(struct kw_buf *out, const struct cli_summary *summary,
                       const struct cli_table_style *style)
{
    char measured[CLI_NUMBER_MAX], idle[CLI_NUMBER_MAX], pods[CLI_NUMBER_MAX],
        system_watts[CLI_NUMBER_MAX], rest[CLI_NUMBER_MAX], used[CLI_NUMBER_MAX],
        all[CLI_NUMBER_MAX], joules[CLI_NUMBER_MAX];
    struct kw_buf line = {0};

    add_piece(out, &line, style, "node %s", summary->node);
    add_piece(out, &line, style, "meter %s (%s)", summary->meter,
              summary->estimated ? "estimated" : "measured");
    add_piece(out, &line, style, "accounting %s", summary->accounting);
    add_piece(out, &line, style, "method %s", summary->method);
    end_line(out, &line, style);
    cli_text_watts(measured, summary->measured_mw);
    cli_text_watts(idle, summary->idle_mw);
    cli_text_watts(pods, summary->pods_mw);
    cli_text_watts(system_watts, summary->system_mw);
    cli_text_watts(rest, summary->unattributed_mw);
    cli_text_cores(used, summary->used_mcpu);
    cli_text_cores(all, summary->allocatable_mcpu);
    cli_text_joules(joules, summary->measured_uj);
    add_piece(out, &line, style, "watts %s = idle %s + workloads %s + system %s%s%s", measured,
              idle, pods, system_watts, summary->unattributed_mw > 0 ? " + unattributed " : "",
              summary->unattributed_mw > 0 ? rest : "");
    add_piece(out, &line, style, "cores %s of %s", used, all);
    add_piece(out, &line, style, "%s J so far", joules);
    end_line(out, &line, style);
    if (summary->estimated)
        add_piece(out, &line, style, "Watts are estimated: no power meter (kwatt check).");
    end_line(out, &line, style);
    kw_buf_free(&line);
}

/** Whether the system hides what draws the power: 9 tenths of the CPU time or more, and enough of
 * it to be more than the kernel's own work. */
static bool hidden_in_system(const struct cli_row *rows, size_t n)
{
    uint64_t system_mcpu = 0, all_mcpu = 0;
    size_t n_system = 0;

    for (size_t i = 0; i < n; i++) {
        all_mcpu += rows[i].used_mcpu;
        if (strcmp(rows[i].kind, "system") == 0) {
            system_mcpu += rows[i].used_mcpu;
            n_system++;
        }
    }
    return n == n_system || (system_mcpu >= 50 && system_mcpu >= all_mcpu - all_mcpu / 10);
}

void cli_table_hint(struct kw_buf *out, const struct cli_row *rows, size_t n, const char *example,
                    const struct cli_table_style *style)
{
    struct kw_buf text = {0};

    if (!hidden_in_system(rows, n))
        return;
    (void)kw_buf_addf(&text,
                      "Programs without a cgroup of their own count as system. To see one by name: "
                      "%s",
                      example);
    cli_text_wrap(out, text.data != NULL ? text.data : "", style->columns);
    kw_buf_free(&text);
}

/** What a node's line says of its meter. */
static void add_meter(struct kw_buf *out, const struct cli_node_line *node, unsigned width)
{
    struct kw_buf text = {0};

    (void)kw_buf_adds(&text, node->summary.meter);
    /* 30 s: as the extender calls a node stale */
    if (node->age_ms > 30000)
        (void)kw_buf_addf(&text, " (silent %" PRIu64 " s)", node->age_ms / 1000);
    else if (node->summary.estimated)
        (void)kw_buf_adds(&text, " (estimated)");
    cli_text_fit(out, text.data != NULL ? text.data : "", width, false);
    kw_buf_free(&text);
}

void cli_table_nodes(struct kw_buf *out, const struct cli_node_line *nodes, size_t n,
                     const struct cli_table_style *style)
{
    static const char *const titles[] = {"WATTS", "IDLE", "ACTIVE", "CORES", "RUNNING"};
    const unsigned number_width = 7; /* "RUNNING" and 9999.99 */
    const unsigned meter_width = 20; /* "model (silent 999 s)" */
    const unsigned fixed =
        (unsigned)KW_ARRAY_SIZE(titles) * (number_width + GAP) + meter_width + GAP;
    unsigned name_width = style->columns > fixed + 8 ? style->columns - fixed : 8;

    cli_text_fit(out, "NODE", name_width, false);
    for (size_t i = 0; i < KW_ARRAY_SIZE(titles); i++) {
        cli_text_fit(out, "", GAP, false);
        cli_text_fit(out, titles[i], number_width, true);
    }
    (void)kw_buf_adds(out, "  METER\n");
    for (size_t i = 0; i < n; i++) {
        const struct cli_summary *summary = &nodes[i].summary;
        char numbers[KW_ARRAY_SIZE(titles)][CLI_NUMBER_MAX];
        cli_text_watts(numbers[0], summary->measured_mw);
        cli_text_watts(numbers[1], summary->idle_mw);
        cli_text_watts(numbers[2], summary->pods_mw);
        cli_text_cores(numbers[3], summary->used_mcpu);
        (void)snprintf(numbers[4], CLI_NUMBER_MAX, "%zu", nodes[i].n_running);
        cli_text_fit(out, summary->node, name_width, false);
        for (size_t c = 0; c < KW_ARRAY_SIZE(numbers); c++) {
            cli_text_fit(out, "", GAP, false);
            cli_text_fit(out, numbers[c], number_width, true);
        }
        cli_text_fit(out, "", GAP, false);
        add_meter(out, &nodes[i], meter_width);
        (void)kw_buf_add(out, "\n", 1);
    }
    if (n == 0)
        (void)kw_buf_adds(out, "(no node has published yet)\n");
}
