/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observation of --for begins with the agent's epoch and ends with the first sample that is
 * that long after it: energies and duration then belong to the same window. Its length is taken
 * from the samples; an agent that was started again begins anew, and the duration says so. When no
 * such sample comes, the time ends GRACE_NS late with what there is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/report.h"
#include "cli/text.h"
#include "cli/up.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/version.h"

/** Start of the agent, its first sample, and a slow machine. */
#define GRACE_NS (15 * KW_NS_PER_S)

/** A silence of the agent that a table in a pipe tells of: more than a restart takes. */
#define SILENCE_NS (5 * KW_NS_PER_S)

/** A table shorter than this tells too little: then the addresses go. */
#define ROWS_LEAST 5

/** Header and "... and N more". */
#define TABLE_LINES 2

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

static const char *text_of(const struct kw_buf *buf)
{
    return buf->data != NULL ? buf->data : "";
}

static void say_problem(struct cli_up *up, const char *what, const char *why)
{
    char text[640];

    (void)snprintf(text, sizeof(text), "%s (%s); measuring goes on", what, why);
    cli_screen_say(&up->screen, text);
}

static void read_advices(struct cli_up *up)
{
    struct cli_advices fresh = {0};
    struct kw_err err = {0};
    bool was_well = up->redis_problem[0] == '\0';

    if (up->redis_missing)
        return;
    /* the last advices stay while Redis is away; of the errors the first one is the cause */
    if (cli_source_advices(up->redis_client, up->view.sample.node, &fresh, &err) < 0) {
        if (was_well)
            (void)snprintf(up->redis_problem, sizeof(up->redis_problem), "%.255s", err.text);
        if (was_well && up->settings.json)
            say_problem(up, "no Redis: scores are neutral, nothing is recommended", err.text);
        return;
    }
    up->redis_problem[0] = '\0';
    cli_advices_clear(&up->advices);
    up->advices = fresh;
}

/** Something that is amiss while the table goes on. */
__attribute__((format(printf, 3, 4))) static void add_note(struct kw_buf *out,
                                                           const struct cli_table_style *style,
                                                           const char *format, ...)
{
    kw_cleanup_free char *text = NULL;
    va_list args;

    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        text = NULL;
    else
        cli_text_wrap(out, text, style->columns);
}

static void add_notes(const struct cli_up *up, const struct cli_table_style *style,
                      struct kw_buf *out)
{
    if (up->redis_missing)
        add_note(out, style, "No redis-server: scores are neutral, nothing is recommended.");
    if (up->redis_problem[0] != '\0')
        add_note(out, style, "No Redis: scores are neutral, nothing is recommended (%s).",
                 up->redis_problem);
    if (up->has_view && up->problem[0] != '\0')
        add_note(out, style, "No word from the agent for %" PRIu64 " s (%s).",
                 (kw_now_ns() - up->view_ns) / KW_NS_PER_S, up->problem);
}

static void add_footer(const struct cli_up *up, struct kw_buf *out)
{
    char extender[CLI_ADDRESS_MAX];

    cli_address_url(&up->extender_address, extender);
    (void)kw_buf_addf(out, "agent %s   extender %s   recommender %s\n", up->running.agent,
                      up->running.extender, up->running.recommender);
    (void)kw_buf_addf(out, "kube-scheduler: kwatt scheduler-config --extender-url %s\n", extender);
    if (up->settings.for_ns == 0)
        (void)kw_buf_adds(out, "Ctrl-C stops what was started here.\n");
}

/** How a program gets a cgroup of its own here. */
static const char *cgroup_example(void)
{
    if (access("/run/systemd/system", F_OK) == 0)
        return "systemd-run --scope PROGRAM, or run it in a container";
    if (access("/sys/fs/cgroup/cgroup.procs", W_OK) == 0)
        return "make a folder in /sys/fs/cgroup and write its pid into cgroup.procs there";
    if (access("/sys/fs/cgroup/unified/cgroup.procs", W_OK) == 0)
        return "make a folder in /sys/fs/cgroup/unified and write its pid into cgroup.procs there";
    return "run it in a container";
}

/** The table of what is at hand. @param before NULL: means since the agent's start. */
static void show(struct cli_up *up, const struct kw_node_view *before, bool footer)
{
    struct cli_table_style style = cli_screen_style(&up->screen);
    struct cli_summary summary = cli_summary_make(&up->view, before);
    struct cli_row *rows = NULL;
    size_t n = 0;
    struct kw_buf text = {0}, below = {0}, addresses = {0};

    if (cli_rows_make(&up->view, before, up->advices.items, up->advices.n, &rows, &n) < 0)
        return;
    cli_rows_sort(rows, n, (enum cli_sort)up->settings.sort);
    cli_table_summary(&text, &summary, &style);
    if (up->settings.cgroup_root == NULL)
        cli_table_hint(&below, rows, n, cgroup_example(), &style);
    add_notes(up, &style, &below);
    if (footer)
        add_footer(up, &addresses);
    unsigned others = TABLE_LINES + cli_screen_lines(&up->screen, text_of(&text)) +
                      cli_screen_lines(&up->screen, text_of(&below));
    unsigned footer_lines = cli_screen_lines(&up->screen, text_of(&addresses));
    if (up->screen.live && cli_screen_rows(&up->screen, others + footer_lines) < ROWS_LEAST)
        kw_buf_reset(&addresses);
    else
        others += footer_lines;
    style.rows = up->screen.live ? cli_screen_rows(&up->screen, others) : footer ? PLAIN_ROWS : 0;
    cli_table_workloads(&text, rows, n, &style);
    (void)kw_buf_adds(&text, text_of(&below));
    (void)kw_buf_adds(&text, text_of(&addresses));
    cli_screen_draw(&up->screen, &text);
    kw_buf_free(&text);
    kw_buf_free(&below);
    kw_buf_free(&addresses);
    free(rows);
}

void cli_up_redraw(struct cli_up *up)
{
    struct kw_buf text = {0};

    if (!up->screen.live)
        return;
    if (up->has_view) {
        show(up, up->has_before ? &up->before : NULL, true);
        return;
    }
    (void)kw_buf_adds(&text, "Waiting for the agent's first sample.\n");
    cli_screen_draw(&up->screen, &text);
    kw_buf_free(&text);
}

/** No view came: tells it where that lasts. */
static void note_silence(struct cli_up *up, const char *why, uint64_t now_ns)
{
    (void)snprintf(up->problem, sizeof(up->problem), "%s", why);
    up->screen.dirty = true; /* the seconds of its silence go on */
    if (up->screen.live || !up->has_view || up->problem_said ||
        now_ns - up->view_ns < up->settings.interval_ns + SILENCE_NS)
        return;
    up->problem_said = true;
    say_problem(up, "no word from the agent", why);
}

void cli_up_refresh(struct cli_up *up)
{
    struct kw_node_view fresh = {0};
    struct kw_err err = {0};
    int rc = cli_source_agent_view(up->agent_client, &fresh, &err);

    if (rc < 0) {
        note_silence(up, err.text, kw_now_ns());
        return;
    }
    up->problem[0] = '\0';
    up->problem_said = false;
    if (!take_view(up, &fresh))
        return;
    up->view_ns = kw_now_ns();
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
        (void)fprintf(up->io->err, "kwatt: cannot write the report: %s\n", kw_errno_text(rc));
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

    if (up->agent != NULL && cli_child_refused(up->agent))
        (void)kw_buf_adds(&text, "nothing is measured without the agent");
    else
        (void)kw_buf_addf(&text, "the agent gave no sample: %s",
                          up->problem[0] != '\0' ? up->problem : "it did not answer");
    if (up->agent != NULL && !cli_child_refused(up->agent)) {
        (void)kw_buf_addf(&text, "; its log %s ends:\n", up->agent->log_path);
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
        up->exit_code = up->agent != NULL && cli_child_refused(up->agent) ? 2 : 1;
    } else if (up->settings.json) {
        up->exit_code = print_report(up, now_ns);
    } else if (up->settings.for_ns > 0) {
        cli_screen_leave(&up->screen);
        (void)fprintf(up->io->out, "\nMeans over %.1f s:\n",
                      (double)observed_ns(up, now_ns) / (double)KW_NS_PER_S);
        show(up, NULL, false);
        if (fflush(up->io->out) != 0 || ferror(up->io->out)) {
            (void)fprintf(up->io->err, "kwatt: cannot write to stdout\n");
            up->exit_code = 1;
        }
    }
}
