/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of `kwatt up`: one loop with signals and one tick. The tick starts the programs once Redis
 * answers, starts again what died, reads the agent once an interval, and ends the run when its time
 * is over. Ending means: print the result, ask the programs to end, leave the loop when the last
 * one is gone.
 *
 * Nothing outlives this process: the kernel kills the programs when it dies (cli/spawn.c), and the
 * lock goes with its descriptor. Requests to the agent are short and local; while one waits,
 * signals wait with it, 2 s at most.
 */
#include "cli/up.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"

/** Four wake-ups a second: Redis' start and a restart are noticed without being felt. */
#define TICK_NS         (250 * KW_NS_PER_MS)
/** An agent that ended this often before its first sample will not come up. */
#define HOPELESS_STARTS 3

static void begin_stop(struct cli_up *up)
{
    uint64_t now_ns = kw_now_ns();

    cli_up_finish(up, now_ns);
    cli_supervisor_stop(&up->supervisor, now_ns);
    if (cli_supervisor_alive(&up->supervisor) == 0)
        kw_loop_stop(up->loop, 0);
}

static void on_signal(void *user, int signal_number)
{
    struct cli_up *up = user;

    if (signal_number == SIGCHLD) {
        cli_supervisor_reap(&up->supervisor, kw_now_ns());
        if (up->supervisor.stopping) {
            cli_supervisor_tick(&up->supervisor, kw_now_ns());
            if (cli_supervisor_alive(&up->supervisor) == 0)
                kw_loop_stop(up->loop, 0);
        }
        return;
    }
    if (signal_number == SIGCONT || signal_number == SIGWINCH) {
        if (signal_number == SIGCONT)
            cli_screen_restart(&up->screen); /* the shell wrote below the last table */
        cli_up_redraw(up);
        return;
    }
    if (!up->supervisor.stopping && up->settings.for_ns == 0)
        up->done = true; /* interrupted on purpose: the last table stands, nothing to print */
    cli_screen_leave(&up->screen);
    if (!up->supervisor.stopping)
        cli_screen_say(&up->screen, "stopping; press Ctrl-C again to end at once");
    begin_stop(up);
}

/** Whether the agent will not come up, so that waiting on is of no use. */
static bool hopeless(const struct cli_up *up)
{
    const struct cli_child *agent = up->agent;

    if (up->has_view || agent == NULL || agent->pid != 0 || agent->starts == 0)
        return false;
    return cli_child_refused(agent) || (up->settings.json && agent->starts >= HOPELESS_STARTS);
}

/** How long until the agent is asked again: a new sample is to be seen within a second; each tick
 * before the first. */
static uint64_t read_interval_ns(const struct cli_up *up)
{
    if (!up->has_view)
        return TICK_NS;
    return up->settings.interval_ns < KW_NS_PER_S ? up->settings.interval_ns : KW_NS_PER_S;
}

static void on_tick(void *user, uint64_t expirations)
{
    struct cli_up *up = user;
    uint64_t now_ns = kw_now_ns();

    (void)expirations;
    cli_supervisor_tick(&up->supervisor, now_ns);
    if (up->supervisor.stopping) {
        if (cli_supervisor_alive(&up->supervisor) == 0)
            kw_loop_stop(up->loop, 0);
        return;
    }
    cli_up_start_programs(up, now_ns);
    if (up->programs_started && now_ns >= up->next_read_ns) {
        up->next_read_ns = now_ns + read_interval_ns(up) - TICK_NS / 2;
        cli_up_refresh(up);
    }
    if (up->screen.dirty)
        cli_up_redraw(up);
    if (hopeless(up) || cli_up_time_is_over(up, kw_now_ns()))
        begin_stop(up);
}

static void say(void *user, const char *text)
{
    struct cli_up *up = user;

    cli_screen_say(&up->screen, text);
}

static int run(struct cli_up *up, struct kw_err *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH, SIGCONT, 0};
    struct kw_source *signal_source = NULL, *tick_source = NULL;
    int rc = kw_loop_new(&up->loop);

    /* before the first child: its end must not be missed */
    if (rc == 0)
        rc = kw_loop_add_signals(up->loop, signals, on_signal, up, &signal_source);
    if (rc < 0)
        return kw_err_set(err, rc, "cannot make the event loop: %s", kw_errno_text(rc));
    rc = cli_up_prepare(up, err);
    if (rc < 0)
        return rc;
    rc = kw_loop_add_timer(up->loop, TICK_NS / 5, TICK_NS, on_tick, up, &tick_source);
    if (rc == 0)
        rc = kw_loop_run(up->loop);
    if (rc < 0)
        return kw_err_set(err, rc, "event loop: %s", kw_errno_text(rc));
    return 0;
}

static void up_clear(struct cli_up *up)
{
    cli_supervisor_clear(&up->supervisor);
    kw_loop_free(&up->loop);
    kw_http_client_free(&up->agent_client);
    kw_redis_free(&up->redis_client);
    cli_advices_clear(&up->advices);
    kw_node_view_clear(&up->view);
    kw_node_view_clear(&up->before);
    free(up->envp);
    if (up->lock_fd >= 0)
        (void)close(up->lock_fd);
    kw_conf_free(&cli_up_program, &up->settings);
}

int cli_up(const struct cli_io *io, int argc, char **argv)
{
    struct cli_up up = {.io = io, .lock_fd = -1};
    struct kw_err err = {0};
    int rc = kw_conf_load(&cli_up_program, argc, argv, io->envp, &up.settings, io->out, NULL, &err);

    if (rc == KW_CONF_DONE)
        return 0;
    if (rc >= 0 && up.settings.json && up.settings.for_ns == 0) {
        (void)kw_conf_free(&cli_up_program, &up.settings);
        rc = kw_err_set(&err, -EINVAL,
                        "--json needs --for DURATION: the document is printed at the end of it");
    }
    if (rc < 0) {
        (void)fprintf(io->err, "kwatt up: %s\n", err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    cli_screen_init(&up.screen, io, !up.settings.json);
    up.supervisor.say = say;
    up.supervisor.user = &up;
    rc = run(&up, &err);
    if (rc < 0) {
        (void)fprintf(io->err, "kwatt up: %s\n", err.text);
        up.exit_code = rc == -EINVAL ? 2 : 1;
    }
    up_clear(&up);
    return up.exit_code;
}
