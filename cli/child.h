/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"

/*
 * One supervised program: started, reaped, started again after a back-off. Its output goes to a log
 * file of bounded size. Does not say anything itself.
 */

#define CLI_CHILD_ARGS_MAX   32
/** Back-off: doubles from the first to the last, and is forgotten after a good life. */
#define CLI_BACKOFF_FIRST_NS UINT64_C(1000000000)
#define CLI_BACKOFF_LAST_NS  UINT64_C(30000000000)
#define CLI_GOOD_LIFE_NS     UINT64_C(60000000000)

struct cli_child {
    const char *name;
    char *argv[CLI_CHILD_ARGS_MAX + 1]; /**< owned; argv[0] is the program's path */
    unsigned argc;
    char *const *envp; /**< borrowed */
    char log_path[PATH_MAX];
    pid_t pid; /**< 0: not running */
    uint64_t started_ns;
    uint64_t restart_at_ns; /**< 0: not to be started */
    uint64_t backoff_ns;    /**< before the next start */
    int64_t log_from_bytes; /**< where the log of the present life begins */
    unsigned starts;
    int last_status; /**< of its last end, as waitpid gives it */
};

/** Appends a formatted argument. @return 0; -E2BIG; -ENOMEM. */
int cli_child_arg(struct cli_child *child, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Frees the arguments; the program must have ended. */
void cli_child_clear(struct cli_child *child);

/** Starts the program. @param now_ns CLOCK_MONOTONIC. @return 0 or -errno with the cause. */
int cli_child_start(struct cli_child *child, uint64_t now_ns, struct kw_err *err);

/** Takes note of its end: sets when to start it again. @return how long it lived. */
uint64_t cli_child_ended(struct cli_child *child, uint64_t now_ns);

/** Whether it last ended with status 2, which is how our programs refuse their options. */
bool cli_child_refused(const struct cli_child *child);

/** Cuts a log that grew too long to its last part. */
void cli_child_bound_log(const struct cli_child *child);

/** Appends the last lines (at most `lines`) that the present life wrote, each after `prefix`. */
void cli_child_log_tail(const struct cli_child *child, unsigned lines, const char *prefix,
                        struct kw_buf *out);
