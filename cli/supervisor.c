/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children are waited for by their own pids, so that nothing else that this process may start is
 * taken. While stopping, nothing is started again, and Redis gets its SIGTERM when the others are
 * gone: their last publish still arrives. A child's whole process group is killed, never anything
 * else.
 */
#include "cli/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/clock.h"

/** Longer than any of the programs takes to end (they close their servers within 5 s only under
 * load). */
#define STOP_NS  (5 * KW_NS_PER_S)
/** A life shorter than this was a failed start: its log is shown. */
#define EARLY_NS (10 * KW_NS_PER_S)

#define LOG_LINES 10

static void say(struct cli_supervisor *supervisor, const struct kw_buf *text)
{
    if (text->data != NULL)
        supervisor->say(supervisor->user, text->data);
}

int cli_supervisor_start(struct cli_supervisor *supervisor, struct cli_child *child,
                         uint64_t now_ns, struct kw_err *err)
{
    struct kw_buf text = {0};
    int rc = cli_child_start(child, now_ns, err);

    if (rc == 0)
        return 0;
    child->started_ns = now_ns;
    (void)cli_child_ended(child, now_ns);
    (void)kw_buf_addf(&text, "%s; next try in %" PRIu64 " s", err->text,
                      child->backoff_ns / KW_NS_PER_S);
    say(supervisor, &text);
    kw_buf_free(&text);
    return rc;
}

static void describe_end(struct kw_buf *text, const struct cli_child *child, int status)
{
    if (WIFSIGNALED(status))
        (void)kw_buf_addf(text, "%s was ended by signal %d (%s)", child->name, WTERMSIG(status),
                          sigdescr_np(WTERMSIG(status)));
    else
        (void)kw_buf_addf(text, "%s ended with status %d", child->name, WEXITSTATUS(status));
}

void cli_supervisor_reap(struct cli_supervisor *supervisor, uint64_t now_ns)
{
    for (unsigned i = 0; i < supervisor->n; i++) {
        struct cli_child *child = &supervisor->children[i];
        struct kw_buf text = {0};
        int status = 0;

        if (child->pid == 0 || waitpid(child->pid, &status, WNOHANG) != child->pid)
            continue;
        uint64_t lived_ns = cli_child_ended(child, now_ns);
        child->last_status = status;
        if (supervisor->stopping) {
            child->restart_at_ns = 0;
            continue;
        }
        describe_end(&text, child, status);
        if (cli_child_refused(child)) {
            child->restart_at_ns = 0;
            (void)kw_buf_adds(&text, ": it refuses its options, and is not started again");
        } else {
            (void)kw_buf_addf(&text, " after %" PRIu64 " s; starting it again in %" PRIu64 " s",
                              lived_ns / KW_NS_PER_S, child->backoff_ns / KW_NS_PER_S);
        }
        if (lived_ns < EARLY_NS && WIFEXITED(status)) {
            (void)kw_buf_addf(&text, "; the last lines of %s:\n", child->log_path);
            cli_child_log_tail(child, LOG_LINES, "    ", &text);
            while (text.len > 0 && text.data[text.len - 1] == '\n')
                text.data[--text.len] = '\0';
        }
        say(supervisor, &text);
        kw_buf_free(&text);
    }
}

/** While stopping: Redis after the others, force after the time given. */
static void go_on_stopping(struct cli_supervisor *supervisor, uint64_t now_ns)
{
    struct cli_child *redis = &supervisor->children[0];
    unsigned others = cli_supervisor_alive(supervisor) - (redis->pid != 0);

    if (others == 0 && redis->pid != 0)
        (void)kill(redis->pid, SIGTERM);
    if (now_ns < supervisor->kill_at_ns)
        return;
    for (unsigned i = 0; i < supervisor->n; i++) {
        if (supervisor->children[i].pid != 0)
            (void)kill(-supervisor->children[i].pid, SIGKILL);
    }
}

void cli_supervisor_tick(struct cli_supervisor *supervisor, uint64_t now_ns)
{
    if (supervisor->stopping) {
        go_on_stopping(supervisor, now_ns);
        return;
    }
    for (unsigned i = 0; i < supervisor->n; i++) {
        struct cli_child *child = &supervisor->children[i];
        struct kw_err err = {0};
        char text[128];

        cli_child_bound_log(child);
        if (child->pid != 0 || child->restart_at_ns == 0 || now_ns < child->restart_at_ns)
            continue;
        if (cli_supervisor_start(supervisor, child, now_ns, &err) < 0)
            continue;
        (void)snprintf(text, sizeof(text), "%s was started again (pid %d)", child->name,
                       (int)child->pid);
        supervisor->say(supervisor->user, text);
    }
}

void cli_supervisor_stop(struct cli_supervisor *supervisor, uint64_t now_ns)
{
    if (supervisor->stopping) {
        supervisor->kill_at_ns = now_ns;
    } else {
        supervisor->stopping = true;
        supervisor->kill_at_ns = now_ns + STOP_NS;
        for (unsigned i = 1; i < supervisor->n; i++) {
            if (supervisor->children[i].pid != 0)
                (void)kill(supervisor->children[i].pid, SIGTERM);
        }
    }
    go_on_stopping(supervisor, now_ns);
}

unsigned cli_supervisor_alive(const struct cli_supervisor *supervisor)
{
    unsigned alive = 0;

    for (unsigned i = 0; i < supervisor->n; i++)
        alive += supervisor->children[i].pid != 0;
    return alive;
}

void cli_supervisor_clear(struct cli_supervisor *supervisor)
{
    for (unsigned i = 0; i < supervisor->n; i++) {
        struct cli_child *child = &supervisor->children[i];
        if (child->pid != 0) {
            (void)kill(-child->pid, SIGKILL);
            (void)waitpid(child->pid, NULL, 0);
        }
        cli_child_clear(child);
    }
    supervisor->n = 0;
}
