/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_input.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/programs.h"
#include "cli/spawn.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#define AGENT      "kwatt-node-agent"
#define POLL_NS    (100 * KW_NS_PER_MS)
#define END_NS     (30 * KW_NS_PER_S) /* that an agent may take to end when it is asked to */
#define LIVE_GROUP "this machine"
#define DESCRIPTOR 64 /* bytes of /proc/PID/fd/N */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/** Starts the agent. @param argv argv[0] becomes its path. */
static int start_agent(const struct cli_io *io, char **argv, int out_fd, pid_t *ret_pid,
                       struct kw_err *err)
{
    char own_dir[PATH_MAX] = "/", path[PATH_MAX];

    (void)cli_programs_own_dir(own_dir);
    if (cli_programs_find(io, own_dir, AGENT, path) < 0)
        return kw_err_set(err, -ENOENT,
                          AGENT " is neither beside kwatt nor in PATH; install it there");
    argv[0] = path;
    (void)fflush(io->err);
    int rc = cli_spawn(argv, io->envp, out_fd, fileno(stderr), ret_pid);
    return rc == 0 ? 0 : kw_err_set(err, rc, "%s cannot be run: %s", path, kw_errno_text(rc));
}

static int judge_end(int status, struct kw_err *err)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : kw_err_set(err, -ECHILD, AGENT " says why it cannot be used");
}

/** A file without a name, and the path under which an agent finds it. */
static int make_file(char path[DESCRIPTOR])
{
    int fd = memfd_create("kwatt-train", MFD_CLOEXEC);

    if (fd >= 0)
        (void)snprintf(path, DESCRIPTOR, "/proc/%ld/fd/%d", (long)getpid(), fd);
    return fd >= 0 ? fd : -errno;
}

/** Adds a recording, by the rows that the agent makes of it. */
static int add_recording(const struct cli_io *io, const char *path, const char *group,
                         struct cli_recording *recording, struct kw_err *err)
{
    kw_cleanup_free char *csv = NULL;
    char replay[PATH_MAX + 16], rows_path[DESCRIPTOR];
    char *argv[] = {NULL, replay, (char[]){"--replay-rows"}, NULL};
    size_t len = 0;
    pid_t pid = 0;
    int status = 0;

    if (snprintf(replay, sizeof(replay), "--replay=%s", path) >= (int)sizeof(replay))
        return kw_err_set(err, -ENAMETOOLONG, "the file's name is too long");
    kw_cleanup_close int rows = make_file(rows_path);
    if (rows < 0)
        return kw_err_set(err, rows, "no file for rows: %s", kw_errno_text(rows));
    int rc = start_agent(io, argv, rows, &pid, err);
    if (rc < 0)
        return rc;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    rc = judge_end(status, err);
    if (rc < 0)
        return rc;
    rc = kw_file_slurp(rows_path, CLI_RECORDING_FILE_MAX, &csv, &len);
    if (rc < 0)
        return kw_err_set(err, rc, "its rows: %s", kw_errno_text(rc));
    recording->timed = true;
    return cli_recording_add(recording, csv, len, NULL, group, err);
}

/** Whether a byte is one of the mark with which some programs begin a text in UTF-8. */
static bool is_mark(int byte)
{
    return byte == 0xef || byte == 0xbb || byte == 0xbf;
}

/** What a file's rows are called: by its name, or its path where another one has that name. */
static const char *group_name(const struct cli_recording *recording, const char *path)
{
    const char *name = base_name(path);
    size_t len = strlen(path);
    bool taken = false;

    for (size_t i = 0; i < recording->n_groups; i++)
        taken = taken || strncmp(recording->groups[i], name, KW_MODEL_NAME_MAX) == 0;
    if (!taken)
        return name;
    return len > KW_MODEL_NAME_MAX ? path + len - KW_MODEL_NAME_MAX : path;
}

int cli_train_check_files(char **paths, size_t n, struct kw_err *err)
{
    struct stat files[KW_MODEL_GROUPS_MAX];

    for (size_t i = 0; i < n && i < KW_MODEL_GROUPS_MAX; i++) {
        if (stat(paths[i], &files[i]) < 0)
            return kw_err_set(err, -ENOENT, "%s: %s", paths[i], kw_errno_text(errno));
        for (size_t k = 0; k < i; k++) {
            if (files[k].st_dev == files[i].st_dev && files[k].st_ino == files[i].st_ino)
                return kw_err_set(err, -EINVAL,
                                  "%s is given twice: a model would be asked what it was taught",
                                  paths[i]);
        }
    }
    return 0;
}

/** Whether a file is a recording of the agent: it begins with an object. */
static int is_recording(const char *path, bool *ret)
{
    kw_cleanup_file FILE *file = fopen(path, "re");
    int first = ' ';

    if (file == NULL)
        return -errno;
    while (first == ' ' || first == '\n' || first == '\r' || first == '\t' || is_mark(first))
        first = fgetc(file);
    *ret = first == '{';
    return ferror(file) != 0 ? -errno : 0;
}

int cli_train_add_file(const struct cli_io *io, const char *path, const char *group_column,
                       struct cli_recording *recording, struct kw_err *err)
{
    kw_cleanup_free char *csv = NULL;
    bool recorded = false;
    size_t len = 0;
    int rc = is_recording(path, &recorded);

    if (rc == 0 && !recorded)
        rc = kw_file_slurp(path, CLI_RECORDING_FILE_MAX, &csv, &len);
    if (rc < 0)
        return kw_err_set(err, rc, "%s: %s", path, kw_errno_text(rc));
    if (recorded && group_column != NULL)
        rc = kw_err_set(err, -EINVAL, "--group-by is for CSV: a recording has no such column");
    else if (recorded)
        rc = add_recording(io, path, group_name(recording, path), recording, err);
    else
        rc = cli_recording_add(recording, csv, len, group_column, group_name(recording, path), err);
    return rc < 0 ? kw_err_wrap(err, "%s", path) : 0;
}

/** Waits for its end. @return whether it ended. */
static bool wait_for(pid_t pid, uint64_t ns, int *ret_status)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    uint64_t until_ns = kw_now_ns() + ns;

    while (waitpid(pid, ret_status, WNOHANG) == 0) {
        if (kw_now_ns() >= until_ns)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

int cli_train_add_live(const struct cli_io *io, uint64_t seconds, struct cli_recording *recording,
                       struct kw_err *err)
{
    char *argv[] = {NULL,
                    (char[]){"--record=-"},
                    (char[]){"--interval=1s"},
                    (char[]){"--redis="},
                    (char[]){"--listen="},
                    (char[]){"--log-level=warn"},
                    NULL};
    char path[DESCRIPTOR];
    pid_t pid = 0;
    int status = 0;

    kw_cleanup_close int file = make_file(path);
    if (file < 0)
        return kw_err_set(err, file, "no file for a recording: %s", kw_errno_text(file));
    int rc = start_agent(io, argv, file, &pid, err);
    if (rc < 0)
        return rc;
    if (!wait_for(pid, seconds * KW_NS_PER_S, &status)) {
        (void)kill(pid, SIGTERM);
        if (!wait_for(pid, END_NS, &status)) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
        }
    }
    rc = judge_end(status, err);
    if (rc == 0)
        rc = add_recording(io, path, LIVE_GROUP, recording, err);
    return rc < 0 ? kw_err_wrap(err, "--live") : 0;
}
