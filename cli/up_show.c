/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observation of --for begins with the agent's epoch and ends with the first sample that is
 * that long after it: energies and duration then belong to the same window. Its length is taken
 * from the samples; an agent that was started again begins anew, and the duration says so. When no
 * such sample comes, the time ends GRACE_NS late with what there is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "api/report.h"
#include "cli/scheduler_config.h"
#include "cli/up.h"
#include "common/clock.h"
#include "common/version.h"

/** Start of the agent, its first sample, and a slow machine. */
#define GRACE_NS (15 * KW_NS_PER_S)

/** Lines around the workloads' rows: summary 5, header, "and more", addresses 3, hint, and one of
 * news. */
#define OTHER_LINES 12

/** Of one of many tables in a file or a pipe; the last one, and kwatt top --once, show all. */
#define PLAIN_ROWS 20

/** Takes a view that is newer than the one at hand. @return whether it was. */
static bool take_view(struct cli_up *up, struct kw_node_view *fresh)
{
    if (up->has_view && fresh->sample.epoch == up->view.sample.epoch &&
        fresh->sample.seq == up->view.sample.seq) {
        kw_node_view_clear(fresh);
        return false;
    }
    kw_node_view_clear(&up->before);
    up->before = up->view;
    up->has_before = up->has_view;
    up->view = *fresh;
    up->has_view = true;
    return true;
}

static void read_advices(struct cli_up *up)
{
    struct cli_advices fresh = {0};
    struct kw_err err = {0};

    /* the last advices stay while Redis is away */
    if (cli_source_advices(up->redis_client, up->view.sample.node, &fresh, &err) < 0)
        return;
    cli_advices_clear(&up->advices);
    up->advices = fresh;
}

static void add_footer(const struct cli_up *up, struct kw_buf *out)
{
    char agent[CLI_ADDRESS_MAX], extender[CLI_ADDRESS_MAX], recommender[CLI_ADDRESS_MAX];

    cli_address_url(&up->agent_address, agent);
    cli_address_url(&up->extender_address, extender);
    cli_address_url(&up->recommender_address, recommender);
    (void)kw_buf_addf(out, "agent %s   extender %s   recommender %s\n", agent, extender,
                      recommender);
    (void)kw_buf_addf(out,
                      "kube-scheduler: extenders: [{urlPrefix: \"%s\", prioritizeVerb: prioritize, "
                      "weight: " CLI_SCHEDULER_WEIGHT ", httpTimeout: " CLI_SCHEDULER_HTTP_TIMEOUT
                      ", "
                      "nodeCacheCapable: true, ignorable: true}]\n",
                      extender);
    if (up->redis_missing)
        (void)kw_buf_adds(out, "No redis-server: scores are neutral, nothing is recommended.\n");
    if (up->settings.for_ns == 0)
        (void)kw_buf_adds(out, "Ctrl-C stops what was started here.\n");
}

/** The table of what is at hand. @param before NULL: means since the agent's start. */
static void show(struct cli_up *up, const struct kw_node_view *before, bool footer)
{
    struct cli_table_style style = cli_screen_style(&up->screen);
    struct cli_summary summary = cli_summary_make(&up->view, before);
    struct cli_row *rows = NULL;
    size_t n = 0;
    struct kw_buf text = {0};

    style.rows = cli_screen_rows(&up->screen, OTHER_LINES);
    if (!up->screen.live && footer)
        style.rows = PLAIN_ROWS;
    if (cli_rows_make(&up->view, before, up->advices.items, up->advices.n, &rows, &n) < 0)
        return;
    cli_rows_sort(rows, n, (enum cli_sort)up->settings.sort);
    cli_table_summary(&text, &summary, &style);
    cli_table_workloads(&text, rows, n, &style);
    if (footer)
        add_footer(up, &text);
    cli_screen_draw(&up->screen, &text);
    kw_buf_free(&text);
    free(rows);
}

void cli_up_refresh(struct cli_up *up)
{
    struct kw_node_view fresh = {0};
    struct kw_err err = {0};
    int rc = cli_source_agent_view(up->agent_client, &fresh, &err);

    if (rc < 0) {
        (void)snprintf(up->problem, sizeof(up->problem), "%s", err.text);
        return;
    }
    up->problem[0] = '\0';
    if (!take_view(up, &fresh))
        return;
    if (up->running.node[0] == '\0') {
        (void)snprintf(up->running.node, sizeof(up->running.node), "%s", up->view.sample.node);
        (void)cli_state_announce(up->lock_fd, &up->running, &err);
    }
    read_advices(up);
    if (!up->settings.json)
        show(up, up->has_before ? &up->before : NULL, true);
}

/** Length of the window that the view's counters cover, by the agent's own clock. */
static uint64_t observed_ns(const struct cli_up *up, uint64_t now_ns)
{
    int64_t ms = up->view.sample.t_unix_ms - (int64_t)up->view.sample.epoch;
    uint64_t elapsed_ns = now_ns - up->start_ns;

    /* a wall clock that was set meanwhile tells nothing; ours runs evenly */
    if (ms <= 0 || (uint64_t)ms > elapsed_ns / KW_NS_PER_MS + 1000)
        return elapsed_ns;
    return (uint64_t)ms * KW_NS_PER_MS;
}

bool cli_up_time_is_over(const struct cli_up *up, uint64_t now_ns)
{
    if (up->settings.for_ns == 0 || !up->programs_started)
        return false;
    if (up->has_view && observed_ns(up, now_ns) >= up->settings.for_ns)
        return true;
    return now_ns - up->start_ns >= up->settings.for_ns + GRACE_NS + up->settings.interval_ns;
}

static int print_report(struct cli_up *up, uint64_t now_ns)
{
    struct kw_report report = {
        .version = kw_version(),
        .duration_s = (double)observed_ns(up, now_ns) / (double)KW_NS_PER_S,
        .view = &up->view,
        .advices = up->advices.items,
        .n_advices = up->advices.n,
    };
    char *text = NULL;
    size_t len = 0;
    int rc = kw_report_encode(&report, &text, &len);

    if (rc < 0) {
        (void)fprintf(up->io->err, "kwatt: cannot write the report: %s\n", strerrordesc_np(-rc));
        return 1;
    }
    size_t written = fwrite(text, 1, len, up->io->out);
    free(text);
    if (written != len || fflush(up->io->out) != 0) {
        (void)fprintf(up->io->err, "kwatt: cannot write to stdout: %m\n");
        return 1;
    }
    return 0;
}

/** Why nothing was read: the agent's own words where it ended. */
static void explain_failure(struct cli_up *up)
{
    struct kw_buf text = {0};

    (void)kw_buf_addf(&text, "the agent gave no sample: %s",
                      up->problem[0] != '\0' ? up->problem : "it did not answer");
    if (up->agent != NULL) {
        (void)kw_buf_addf(&text, "; its log %s ends:\n", up->agent->log_path);
        up->agent->log_from_bytes = 0;
        cli_child_log_tail(up->agent, 5, "    ", &text);
        while (text.len > 0 && text.data[text.len - 1] == '\n')
            text.data[--text.len] = '\0';
    }
    cli_screen_leave(&up->screen);
    cli_screen_say(&up->screen, text.data != NULL ? text.data : "out of memory");
    kw_buf_free(&text);
}

void cli_up_finish(struct cli_up *up, uint64_t now_ns)
{
    if (up->done)
        return;
    up->done = true;
    if (!up->has_view) {
        explain_failure(up);
        up->exit_code = 1;
    } else if (up->settings.json) {
        up->exit_code = print_report(up, now_ns);
    } else if (up->settings.for_ns > 0) {
        cli_screen_leave(&up->screen);
        (void)fprintf(up->io->out, "\nMeans over %.1f s:\n",
                      (double)observed_ns(up, now_ns) / (double)KW_NS_PER_S);
        show(up, NULL, false);
    }
}
