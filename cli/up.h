/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/address.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/source.h"
#include "cli/state.h"
#include "cli/supervisor.h"
#include "common/conf.h"
#include "common/loop.h"

/*
 * `kwatt up`, shared by its files: up_options.c (the table), up_start.c (folder, ports, programs),
 * up_show.c (reading and showing), up.c (its life). Not for others.
 */

struct cli_up_settings {
    char *state_dir;
    uint64_t for_ns; /**< 0: until interrupted */
    bool json;
    unsigned sort; /**< enum cli_sort */
    char *agent_listen, *extender_listen, *recommender_listen;
    struct kw_redis_access redis;
    char *kubeconfig;
    uint64_t interval_ns;
    char *node_name, *meter, *accounting, *attribution, *idle_watts, *full_watts;
    char *sysfs, *procfs, *cgroup_root;
};

extern const struct kw_conf_program cli_up_program;

struct cli_up {
    const struct cli_io *io;
    struct cli_up_settings settings;
    struct cli_screen screen;
    struct kw_loop *loop;

    char dir[PATH_MAX]; /**< state folder */
    int lock_fd;
    struct cli_running running;
    struct cli_address agent_address, extender_address, recommender_address;
    char **envp; /**< of the programs */

    struct cli_supervisor supervisor;
    struct cli_child *redis, *agent; /**< NULL: not ours; not found */
    bool redis_missing;              /**< no redis-server installed, none named */
    bool programs_started;
    uint64_t redis_deadline_ns; /**< the programs are started then at the latest */
    struct kw_redis *redis_client;
    struct kw_http_client *agent_client;

    uint64_t start_ns; /**< when the agent was started first */
    uint64_t next_read_ns;
    bool has_view, has_before;
    struct kw_node_view view, before;
    struct cli_advices advices;
    uint64_t view_ns;        /**< when the view came */
    char problem[512];       /**< why there is no newer view; "" none */
    char redis_problem[256]; /**< why Redis gave no advices; "" none */
    bool problem_said;
    int exit_code;
    bool done; /**< the result was printed, or never will be */
};

/** Folder, lock, ports, Redis: all that must hold before a program is started. @return 0; -errno
 * after err was filled. */
int cli_up_prepare(struct cli_up *up, struct kw_err *err);

/** Starts the programs once Redis answers or its time is over; called on each tick until then. */
void cli_up_start_programs(struct cli_up *up, uint64_t now_ns);

/** Reads the agent's view and the advices, and shows them. */
void cli_up_refresh(struct cli_up *up);

/** Draws the live table again: another window, news, or an agent that is silent. */
void cli_up_redraw(struct cli_up *up);

/** Whether the time of --for is over. */
bool cli_up_time_is_over(const struct cli_up *up, uint64_t now_ns);

/** Prints the JSON document or the final table. Sets exit_code. */
void cli_up_finish(struct cli_up *up, uint64_t now_ns);
