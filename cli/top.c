/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading is a list of views: one from an agent, or one for each node out of Redis. A table of
 * one node shows its workloads, a table of several shows the nodes. The views of the reading before
 * are kept for rates. A single reading (--once) shows the means since each agent's start, and says
 * so.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/report.h"
#include "cli/cli.h"
#include "cli/origin.h"
#include "cli/screen.h"
#include "cli/source.h"
#include "cli/text.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/conf.h"
#include "common/http_rows.h"
#include "common/redis_rows.h"
#include "common/version.h"

/** Summary, header, "and more", a note. */
#define OTHER_LINES   8
/** What failed, in a window of 80 columns. */
#define PROBLEM_LINES 4

struct settings {
    bool once, json;
    unsigned sort;
    struct kw_redis_access redis;
    struct kw_http_client_tls tls;
    char *node, *agent, *state_dir;
    uint64_t interval_ns;
};

/** Views of one reading. */
struct reading {
    size_t n;
    struct kw_node_view *views;
    struct cli_advices advices; /**< of the only node; none for several */
};

struct top {
    const struct cli_io *io;
    struct settings settings;
    struct cli_screen screen;
    struct cli_origin origin;
    char problem[512]; /**< why the last reading failed; "" it did not */
    struct reading now, before;
};

#define AT(field) offsetof(struct settings, field)

static const struct kw_conf_option rows[] = {
    {.flag = "sort",
     .type = KW_CONF_CHOICE,
     .offset = AT(sort),
     .def = "watts",
     .choices = cli_sort_names,
     .metavar = "COLUMN",
     .group = "Output",
     .help = "order of the table"},
    {.flag = "once",
     .type = KW_CONF_BOOL,
     .offset = AT(once),
     .def = "false",
     .group = "Output",
     .help = "print one table, of the means since the agent's start, and end"},
    {.flag = "json",
     .type = KW_CONF_BOOL,
     .offset = AT(json),
     .def = "false",
     .group = "Output",
     .help = "print one JSON document and end; with --redis and several nodes an array of them"},
    {.flag = "interval",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(interval_ns),
     .def = "2s",
     .min = 100000000,
     .max = UINT64_C(3600000000000),
     .metavar = "DURATION",
     .group = "Output",
     .help = "time between drawings"},
    {.flag = "agent",
     .env = "KWATT_AGENT",
     .type = KW_CONF_STRING,
     .offset = AT(agent),
     .check = cli_source_check,
     .metavar = "URL",
     .group = "Source",
     .help = "agent to ask; default: that of the kwatt up that runs, else " CLI_DEFAULT_AGENT},
    KW_HTTP_CLIENT_TLS_ROWS(struct settings, tls, "Source", "the agent's")
        KW_REDIS_ROWS(struct settings, redis, "Source", NULL,
                      "show what the nodes of a cluster publish there: " KW_REDIS_URL_FORMS){
            .flag = "node",
            .type = KW_CONF_STRING,
            .offset = AT(node),
            .metavar = "NAME",
            .group = "Source",
            .help = "with --redis: the workloads of this node"},
    {.flag = "state-dir",
     .env = "KWATT_STATE_DIR",
     .type = KW_CONF_STRING,
     .offset = AT(state_dir),
     .metavar = "DIR",
     .group = "Source",
     .help = "state folder of the kwatt up to look for"},
};

static const struct kw_conf_program program = {
    .name = "kwatt top",
    .synopsis = "[options]",
    .summary = "Shows what draws power: the workloads of one machine, or the nodes of a cluster.",
    .examples = "  kwatt top                               the kwatt up that runs here\n"
                "  kwatt top --once --sort joules\n"
                "  kwatt top --redis redis://redis:6379 --node worker-1\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
};

static void reading_clear(struct reading *reading)
{
    for (size_t i = 0; i < reading->n; i++)
        kw_node_view_clear(&reading->views[i]);
    free(reading->views);
    cli_advices_clear(&reading->advices);
    *reading = (struct reading){0};
}

/** Sets up Redis or the agent to ask. */
static int open_source(struct top *top, struct kw_err *err)
{
    const struct settings *settings = &top->settings;
    struct cli_origin_choice choice = {.redis = &settings->redis,
                                       .tls = &settings->tls,
                                       .agent = settings->agent,
                                       .state_dir = settings->state_dir};

    if (settings->node != NULL && (settings->redis.url == NULL || settings->agent != NULL))
        return kw_err_set(err, -EINVAL, "--node needs --redis: an agent knows its own node only");
    return cli_origin_open(top->io, &choice, &top->origin, err);
}

static int read_from_agent(struct top *top, struct reading *ret, struct kw_err *err)
{
    int rc;

    ret->views = calloc(1, sizeof(*ret->views));
    if (ret->views == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    rc = cli_origin_agent_view(&top->origin, &ret->views[0], err);
    if (rc < 0)
        return rc;
    ret->n = 1;
    return 0;
}

static int read_from_redis(struct top *top, struct reading *ret, struct kw_err *err)
{
    struct cli_names names = {0};
    struct kw_err skipped = {0};
    int rc = 0;

    kw_redis_retry_now(top->origin.redis);
    if (top->settings.node == NULL)
        rc = cli_source_nodes(top->origin.redis, &names, err);
    if (rc == 0) {
        ret->views = calloc(names.n + 1, sizeof(*ret->views));
        if (ret->views == NULL)
            rc = kw_err_set(err, -ENOMEM, "out of memory");
    }
    if (rc == 0 && top->settings.node != NULL) {
        rc = cli_source_redis_view(top->origin.redis, top->settings.node, &ret->views[0], err);
        ret->n = rc == 0;
    }
    for (size_t i = 0; rc == 0 && i < names.n; i++) {
        rc =
            cli_source_redis_view(top->origin.redis, names.items[i], &ret->views[ret->n], &skipped);
        ret->n += rc == 0;
        /* one node's bad record hides that node, not the others */
        if (rc == -EBADMSG || rc == -EPROTONOSUPPORT || rc == -ENOENT) {
            if (!top->screen.live)
                cli_screen_say(&top->screen, skipped.text);
            rc = 0;
        } else if (rc < 0) {
            *err = skipped;
        }
    }
    cli_names_clear(&names);
    if (rc < 0 && rc != -ENOENT && rc != -EBADMSG && rc != -EPROTONOSUPPORT)
        (void)kw_err_wrap(err, "cannot read from Redis %.100s", kw_redis_name(top->origin.redis));
    return rc;
}

static int read_all(struct top *top, struct kw_err *err)
{
    struct reading fresh = {0};
    int rc = top->origin.agent != NULL ? read_from_agent(top, &fresh, err)
                                       : read_from_redis(top, &fresh, err);

    if (rc < 0) {
        reading_clear(&fresh);
        return rc;
    }
    if (fresh.n == 1 && top->origin.redis != NULL)
        (void)cli_source_advices(top->origin.redis, fresh.views[0].sample.node, &fresh.advices,
                                 NULL);
    /* the same samples again: the rates of the window before stay */
    if (top->now.n > 0 && fresh.n == top->now.n &&
        fresh.views[0].sample.seq == top->now.views[0].sample.seq &&
        fresh.views[0].sample.epoch == top->now.views[0].sample.epoch) {
        reading_clear(&top->now);
    } else {
        reading_clear(&top->before);
        top->before = top->now;
    }
    top->now = fresh;
    return 0;
}

/** The earlier view of the same node. */
static const struct kw_node_view *earlier(const struct top *top, const struct kw_node_view *view)
{
    for (size_t i = 0; i < top->before.n; i++) {
        if (cli_rows_comparable(view, &top->before.views[i]))
            return &top->before.views[i];
    }
    return NULL;
}

static void add_problem(const struct top *top, struct kw_buf *out,
                        const struct cli_table_style *style)
{
    kw_cleanup_free char *text = NULL;

    if (top->problem[0] == '\0')
        return;
    if (asprintf(&text, "The table is an old one: %s", top->problem) < 0)
        text = NULL;
    else
        cli_text_wrap(out, text, style->columns);
}

static int show_workloads(struct top *top)
{
    const struct kw_node_view *view = &top->now.views[0], *before = earlier(top, view);
    struct cli_table_style style = cli_screen_style(&top->screen);
    struct cli_summary summary = cli_summary_make(view, before);
    struct cli_row *table = NULL;
    struct kw_buf text = {0};
    size_t n = 0;
    int rc = cli_rows_make(view, before, top->now.advices.items, top->now.advices.n, &table, &n);

    if (rc < 0)
        return rc;
    style.rows =
        cli_screen_rows(&top->screen, OTHER_LINES + (top->problem[0] != '\0' ? PROBLEM_LINES : 0));
    cli_rows_sort(table, n, (enum cli_sort)top->settings.sort);
    cli_table_summary(&text, &summary, &style);
    if (before == NULL)
        (void)kw_buf_adds(&text, "(watts and cores are means since the agent's start)\n");
    cli_table_workloads(&text, table, n, &style);
    add_problem(top, &text, &style);
    cli_screen_draw(&top->screen, &text);
    kw_buf_free(&text);
    free(table);
    return 0;
}

static uint64_t node_key(const struct cli_node_line *line, enum cli_sort sort)
{
    return sort == CLI_SORT_CPU      ? line->summary.used_mcpu
           : sort == CLI_SORT_JOULES ? line->summary.measured_uj
                                     : line->summary.measured_mw;
}

static int compare_nodes(const void *a, const void *b, void *user)
{
    const struct cli_node_line *left = a, *right = b;
    enum cli_sort sort = *(const enum cli_sort *)user;
    uint64_t left_key = node_key(left, sort), right_key = node_key(right, sort);

    if (sort != CLI_SORT_NAME && left_key != right_key)
        return left_key > right_key ? -1 : 1;
    return strcmp(left->summary.node, right->summary.node);
}

static int show_nodes(struct top *top)
{
    struct cli_table_style style = cli_screen_style(&top->screen);
    enum cli_sort sort = (enum cli_sort)top->settings.sort;
    kw_cleanup_free struct cli_node_line *lines = calloc(top->now.n + 1, sizeof(*lines));
    struct kw_buf text = {0};
    int64_t now_ms = kw_now_unix_ms();

    if (lines == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < top->now.n; i++) {
        const struct kw_node_view *view = &top->now.views[i];
        lines[i].summary = cli_summary_make(view, earlier(top, view));
        lines[i].age_ms =
            now_ms > view->sample.t_unix_ms ? (uint64_t)(now_ms - view->sample.t_unix_ms) : 0;
        for (size_t p = 0; p < view->n_pods; p++)
            lines[i].n_running += view->pods[p].ended_unix_ms == 0;
    }
    if (top->now.n > 1)
        qsort_r(lines, top->now.n, sizeof(*lines), compare_nodes, &sort);
    cli_table_nodes(&text, lines, top->now.n, &style);
    add_problem(top, &text, &style);
    cli_screen_draw(&top->screen, &text);
    kw_buf_free(&text);
    return 0;
}

/** One document, or an array of them where all nodes of a Redis were asked for. */
static int print_json(struct top *top)
{
    bool array = top->origin.agent == NULL && top->settings.node == NULL;
    int rc = 0;

    if (array)
        (void)fputs("[", top->io->out);
    for (size_t i = 0; rc == 0 && i < top->now.n; i++) {
        struct kw_report report = {.version = kw_version(),
                                   .view = &top->now.views[i],
                                   .advices = top->now.advices.items,
                                   .n_advices = top->now.advices.n};
        kw_cleanup_free char *text = NULL;
        size_t len = 0;
        rc = kw_report_encode(&report, &text, &len);
        if (rc == 0)
            (void)fprintf(top->io->out, "%s%s", i > 0 ? "," : "", text);
    }
    if (array)
        (void)fputs("]\n", top->io->out);
    return rc;
}

static int show(struct top *top)
{
    if (top->settings.json)
        return print_json(top);
    if (top->origin.agent == NULL && top->settings.node == NULL)
        return show_nodes(top);
    return show_workloads(top);
}

static int run(struct top *top, struct kw_err *err)
{
    bool once = top->settings.once || top->settings.json;
    int rc = open_source(top, err);

    cli_screen_init(&top->screen, top->io, !once);
    while (rc == 0) {
        rc = read_all(top, err);
        (void)snprintf(top->problem, sizeof(top->problem), "%.511s", rc < 0 ? err->text : "");
        if (rc < 0 && !once && top->now.n > 0)
            rc = 0; /* the last table stands until the agent or Redis is back */
        if (rc == -EAGAIN && !once)
            rc = 0; /* an agent that just started */
        else if (rc == 0 && show(top) < 0)
            rc = kw_err_set(err, -ENOMEM, "out of memory");
        if (rc == 0 && (fflush(top->io->out) != 0 || ferror(top->io->out)))
            rc = kw_err_set(err, -EIO, "cannot write to stdout");
        if (rc < 0 || once)
            break;
        (void)poll(NULL, 0, (int)(top->settings.interval_ns / KW_NS_PER_MS));
    }
    return rc;
}

int cli_top(const struct cli_io *io, int argc, char **argv)
{
    struct top top = {.io = io};
    struct kw_err err = {0};
    int rc = kw_conf_load(&program, argc, argv, io->envp, &top.settings, io->out, NULL, &err);

    if (rc == KW_CONF_DONE)
        return 0;
    if (rc >= 0) {
        rc = run(&top, &err);
        reading_clear(&top.now);
        reading_clear(&top.before);
        cli_origin_close(&top.origin);
        kw_conf_free(&program, &top.settings);
    }
    if (rc == 0)
        return 0;
    (void)fprintf(io->err, "kwatt top: %s\n", err.text);
    return rc == -EINVAL ? 2 : 1;
}
