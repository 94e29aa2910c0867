/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampling thread makes a line and appends it to what is pending; the writer takes all of that
 * at once and writes it. Lines are whole in both, so that after kill -9 the file is good up to the
 * last newline. Memory: two buffers of AGENT_RECORDER_PENDING_MAX and a line.
 *
 * A window that is left out (the writer lags, no memory) keeps its ended workloads for the next
 * line, and nothing that it would have told of a workload counts as told.
 */
#include "node-agent/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/worker.h"
#include "node-agent/recording_parties.h"

#define STOP_NS (2 * KW_NS_PER_S)
#define POLL_MS 100

struct agent_recorder {
    char *path;
    int fd;
    bool regular;
    uint64_t limit_bytes;
    struct kw_log *log;
    const struct agent_attribution_ops *method;
    void *state;
    /* the sampling thread's */
    struct agent_recorded_window window; /* being collected */
    struct kw_buf line;
    struct agent_recording_parties *told; /* workloads, with the kin that was written */
    unsigned has_told;
    uint64_t begin_ns, accepted_bytes, windows, lost_windows;
    bool failed; /* a window is incomplete for want of memory */
    bool running;
    struct kw_worker worker;
    /* under its mutex */
    struct kw_buf pending;
    bool full;             /* the limit is reached */
    int broken;            /* -errno of a write; nothing is written any more */
    struct kw_buf writing; /* the writer's */
};

static int open_path(const char *path)
{
    /* not to wait for a pipe's reader */
    int fd = strcmp(path, "-") == 0
                 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);

    return fd >= 0 ? fd : -errno;
}

int agent_recorder_open(const char *path, uint64_t limit_bytes, struct agent_recorder **ret,
                        struct kw_err *err)
{
    if (path == NULL)
        return 0;
    kw_cleanup(agent_recorder_close) struct agent_recorder *recorder = calloc(1, sizeof(*recorder));
    struct stat status;

    if (recorder == NULL)
        return kw_err_set(err, -ENOMEM, "--record: out of memory");
    recorder->fd = -1;
    kw_worker_init(&recorder->worker);
    recorder->limit_bytes = limit_bytes;
    recorder->path = strdup(path);
    if (recorder->path == NULL || agent_recording_parties_new(&recorder->told) < 0)
        return kw_err_set(err, -ENOMEM, "--record: out of memory");
    recorder->fd = open_path(path);
    if (recorder->fd == -ENXIO)
        return kw_err_set(err, -ENXIO, "--record: %s is a pipe that nobody reads", path);
    if (recorder->fd < 0 || fstat(recorder->fd, &status) < 0)
        return kw_err_set(err, recorder->fd < 0 ? recorder->fd : -errno, "--record: %s: %s", path,
                          kw_errno_text(recorder->fd < 0 ? recorder->fd : errno));
    recorder->regular = S_ISREG(status.st_mode);
    if (recorder->regular && status.st_size > 0 && strcmp(path, "-") != 0)
        return kw_err_set(err, -EEXIST,
                          "--record: %s is not empty, and is not written over; choose another file",
                          path);
    if (recorder->regular && flock(recorder->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return kw_err_set(err, -EBUSY, "--record: another agent is recording into %s", path);
    *ret = KW_TAKE_PTR(recorder);
    return 0;
}

/* ---- the writer ---- */

/** Writes all; of a pipe, only what it has room for at once. @return 0 or -errno. */
static int write_all(struct agent_recorder *recorder)
{
    const char *at = recorder->writing.data;
    size_t left = recorder->writing.len;
    uint64_t until_ns = 0;

    while (left > 0) {
        struct pollfd room = {.fd = recorder->fd, .events = POLLOUT};
        size_t part = recorder->regular || left < PIPE_BUF ? left : PIPE_BUF;
        if (!recorder->regular && poll(&room, 1, POLL_MS) == 0) {
            if (kw_worker_stopped(&recorder->worker) && until_ns == 0)
                until_ns = kw_now_ns() + STOP_NS;
            if (until_ns != 0 && kw_now_ns() > until_ns)
                return -ETIMEDOUT;
            continue;
        }
        ssize_t n = write(recorder->fd, at, part);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
    return 0;
}

/** Waits for something to write. @return false: there will be nothing more. */
static bool take_pending(struct agent_recorder *recorder, bool *ret_full)
{
    struct kw_worker *worker = &recorder->worker;

    (void)pthread_mutex_lock(&worker->mutex);
    while (recorder->pending.len == 0 && !recorder->full && !kw_worker_stopped(worker))
        (void)pthread_cond_wait(&worker->wake, &worker->mutex);
    struct kw_buf taken = recorder->pending;
    recorder->pending = recorder->writing;
    recorder->writing = taken;
    kw_buf_reset(&recorder->pending);
    *ret_full = recorder->full;
    (void)pthread_mutex_unlock(&worker->mutex);
    return recorder->writing.len > 0;
}

static void *run(void *user)
{
    struct agent_recorder *recorder = user;
    bool full = false;
    int rc = 0;

    while (rc == 0 && take_pending(recorder, &full))
        rc = write_all(recorder);
    if (rc < 0) {
        (void)pthread_mutex_lock(&recorder->worker.mutex);
        recorder->broken = rc;
        (void)pthread_mutex_unlock(&recorder->worker.mutex);
        kw_log_error(recorder->log, "the recording ends: it cannot be written; sampling goes on",
                     kw_str("file", recorder->path), kw_errno(rc));
    } else if (full) {
        kw_log_warn(recorder->log, "the recording ends: it has reached its limit; sampling goes on",
                    kw_str("file", recorder->path), kw_u64("limit_bytes", recorder->limit_bytes));
    }
    return NULL;
}

int agent_recorder_start(struct agent_recorder *recorder,
                         const struct agent_recording_header *header,
                         const struct agent_topology *topology, struct kw_log *log)
{
    recorder->log = log;
    recorder->has_told = header->has;
    agent_recording_put_header(&recorder->pending, header, topology);
    if (recorder->pending.failed)
        return -ENOMEM;
    recorder->accepted_bytes = recorder->pending.len;
    int rc = kw_worker_start(&recorder->worker, "kwatt-record", run, recorder);
    recorder->running = rc == 0;
    if (rc == 0)
        kw_log_info(log, "recording", kw_str("file", recorder->path),
                    kw_u64("limit_bytes", recorder->limit_bytes));
    return rc;
}

/* ---- between the ledger and the method ---- */

void agent_recorder_stand_before(struct agent_recorder *recorder,
                                 const struct agent_attribution_ops *method, void *state)
{
    recorder->method = method;
    recorder->state = state;
}

static bool reserve_rows(struct agent_recorded_window *window, size_t n)
{
    if (window->n + n <= window->cap)
        return true;
    size_t cap = window->n + n + n / 4 + 64;
    struct agent_features *features = reallocarray(window->features, cap, sizeof(*features));
    if (features == NULL)
        return false;
    window->features = features;
    window->cap = cap;
    return true;
}

/** The package that a domain is of; its rows are taken with its first domain. @return NULL: no
 * memory. */
static struct agent_recorded_package *package_of(struct agent_recorder *recorder,
                                                 const struct agent_window *asked)
{
    struct agent_recorded_window *window = &recorder->window;
    unsigned number = asked->domain / 2;

    for (size_t i = 0; i < window->n_packages; i++) {
        if (window->packages[i].package == number)
            return &window->packages[i];
    }
    if (window->n_packages == AGENT_PACKAGES_MAX || !reserve_rows(window, asked->n))
        return NULL;
    struct agent_recorded_package *package = &window->packages[window->n_packages++];
    *package = (struct agent_recorded_package){.package = number,
                                               .mhz = asked->mhz,
                                               .usage_known = asked->n > 0,
                                               .first = window->n,
                                               .n = asked->n};
    if (asked->n > 0)
        memcpy(window->features + window->n, asked->features, asked->n * sizeof(*asked->features));
    window->n += asked->n;
    return package;
}

static void recorder_split(void *self, const struct agent_window *asked, struct agent_split *ret)
{
    struct agent_recorder *recorder = self;
    struct agent_recorded_package *package = package_of(recorder, asked);

    recorder->failed = recorder->failed || package == NULL;
    recorder->window.has = asked->has;
    if (package != NULL)
        package->domains[asked->dram ? AGENT_DOMAIN_DRAM : AGENT_DOMAIN_CPU] =
            (struct agent_recorded_domain){.present = true,
                                           .uj = asked->measured_uj,
                                           .interval_ns = asked->interval_ns,
                                           .idle_prior_mw = asked->idle_prior_mw};
    recorder->method->split(recorder->state, asked, ret);
}

static void recorder_forget(void *self, uint64_t workload)
{
    struct agent_recorder *recorder = self;
    struct agent_recorded_window *window = &recorder->window;

    if (window->n_ended == window->cap_ended) {
        size_t cap = window->cap_ended == 0 ? 64 : 2 * window->cap_ended;
        uint64_t *ended = reallocarray(window->ended, cap, sizeof(*ended));
        if (ended != NULL) {
            window->ended = ended;
            window->cap_ended = cap;
        }
    }
    if (window->n_ended < window->cap_ended)
        window->ended[window->n_ended++] = workload;
    recorder->method->forget(recorder->state, workload);
}

const struct agent_attribution_ops agent_recorder_ops = {
    .name = "recorder",
    .split = recorder_split,
    .forget = recorder_forget,
};

/* ---- lines ---- */

/** What is to be told of a row's workload, and notes that it was told. @param workload its place in
 * the ledger; NULL: it has none. @return false: no memory. */
static bool news_of(struct agent_recorder *recorder, const struct agent_features *features,
                    const struct agent_workload *workload, struct agent_recording_new *ret)
{
    const struct agent_recording_party *unused = NULL;
    struct agent_recording_party *party = NULL;
    size_t before = agent_recording_parties_all(recorder->told, &unused);

    *ret = (struct agent_recording_new){0};
    if (agent_recording_parties_meet(recorder->told, features->workload, &party) < 0)
        return false;
    ret->is_new = agent_recording_parties_all(recorder->told, &unused) > before;
    ret->kin_is_new = party->kin != features->kin;
    party->kin = features->kin;
    if (workload == NULL)
        return true;
    ret->kind = workload->label->kind;
    ret->id = workload->label->id;
    ret->name = workload->names != NULL ? workload->names->name : workload->label->name;
    return true;
}

/** @return false: no memory. */
static bool put_rows(struct agent_recorder *recorder, const struct agent_ledger *ledger,
                     const struct agent_recorded_package *package)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads), at = 0;

    for (size_t i = 0; i < package->n; i++) {
        const struct agent_features *features = &recorder->window.features[package->first + i];
        struct agent_recording_new news;
        /* rows come in the order of the ledger */
        while (i > 0 && at < n && workloads[at]->number != features->workload)
            at++;
        if (!news_of(recorder, features, i > 0 && at < n ? workloads[at] : NULL, &news))
            return false;
        agent_recording_put_row(&recorder->line, features, NULL, &news, i == 0);
    }
    return true;
}

/** All that was told is told again from now on. */
static void tell_again(struct agent_recorder *recorder)
{
    struct agent_recording_parties *fresh = NULL;

    if (agent_recording_parties_new(&fresh) < 0)
        return;
    agent_recording_parties_free(&recorder->told);
    recorder->told = fresh;
    recorder->has_told = ~0u;
}

static bool make_line(struct agent_recorder *recorder, const struct agent_ledger *ledger)
{
    const struct agent_recording_party *unused = NULL;
    const struct agent_recorded_window *window = &recorder->window;
    bool made = true;

    /* what came and went would only ever grow */
    if (agent_recording_parties_all(recorder->told, &unused) > 4 * (size_t)AGENT_WORKLOADS_MAX)
        tell_again(recorder);
    kw_buf_reset(&recorder->line);
    agent_recording_put_begin(&recorder->line, window, window->has != recorder->has_told);
    for (size_t i = 0; i < window->n_packages && made; i++) {
        agent_recording_put_package(&recorder->line, &window->packages[i], i == 0);
        made = put_rows(recorder, ledger, &window->packages[i]);
        agent_recording_put_package_end(&recorder->line, &window->packages[i]);
    }
    agent_recording_put_end(&recorder->line);
    recorder->has_told = window->has;
    return made && !recorder->line.failed;
}

/** Whether another line is wanted now. @param ret_over there will be no further one. */
static bool has_room(struct agent_recorder *recorder, bool *ret_over)
{
    (void)pthread_mutex_lock(&recorder->worker.mutex);
    *ret_over = recorder->full || recorder->broken < 0;
    bool room = recorder->pending.len < AGENT_RECORDER_PENDING_MAX;
    (void)pthread_mutex_unlock(&recorder->worker.mutex);
    return room && !*ret_over;
}

/** @return 0; -ENOSPC: the limit is reached; -ENOMEM. */
static int hand_over(struct agent_recorder *recorder)
{
    int rc = 0;

    if (recorder->accepted_bytes + recorder->line.len > recorder->limit_bytes)
        rc = -ENOSPC;
    (void)pthread_mutex_lock(&recorder->worker.mutex);
    if (rc == 0)
        rc = kw_buf_reserve(&recorder->pending, recorder->line.len);
    if (rc == 0)
        rc = kw_buf_add(&recorder->pending, recorder->line.data, recorder->line.len);
    recorder->full = rc == -ENOSPC;
    (void)pthread_cond_signal(&recorder->worker.wake);
    (void)pthread_mutex_unlock(&recorder->worker.mutex);
    if (rc == 0)
        recorder->accepted_bytes += recorder->line.len;
    return rc;
}

/** @return 0; -errno: it is left out. */
static int write_window(struct agent_recorder *recorder, const struct agent_ledger *ledger)
{
    if (!make_line(recorder, ledger)) {
        tell_again(recorder);
        return -ENOMEM;
    }
    int rc = hand_over(recorder);
    if (rc < 0)
        tell_again(recorder);
    return rc;
}

void agent_recorder_window(struct agent_recorder *recorder, const struct agent_ledger *ledger,
                           uint64_t end_ns, uint64_t interval_ns)
{
    struct agent_recorded_window *window = &recorder->window;
    bool over = false, room = has_room(recorder, &over);

    if (recorder->begin_ns == 0)
        recorder->begin_ns = end_ns - interval_ns;
    uint64_t t_ns = end_ns - recorder->begin_ns;
    window->t_ns = t_ns > window->t_ns ? t_ns : window->t_ns + 1;
    window->interval_ns = interval_ns;
    int rc = room && !recorder->failed ? write_window(recorder, ledger) : -EAGAIN;
    over = over || rc == -ENOSPC;
    if (rc == 0 || over)
        window->n_ended = 0;
    window->lost = rc == 0 ? 0 : window->lost + 1;
    recorder->windows += rc == 0;
    recorder->lost_windows += rc < 0 && !over;
    window->n = window->n_packages = 0;
    recorder->failed = false;
}

void agent_recorder_close(struct agent_recorder **recorder)
{
    struct agent_recorder *owned = KW_TAKE_PTR(*recorder);

    if (owned == NULL)
        return;
    if (owned->running) {
        kw_worker_stop(&owned->worker);
        kw_worker_join(&owned->worker);
        kw_log_info(owned->log, "recording closed", kw_str("file", owned->path),
                    kw_u64("windows", owned->windows), kw_u64("left_out", owned->lost_windows),
                    kw_u64("bytes", owned->accepted_bytes));
    }
    kw_worker_destroy(&owned->worker);
    /* an agent that could not start leaves nothing in the way of the next one */
    if (owned->running && owned->regular && owned->windows == 0 && ftruncate(owned->fd, 0) < 0)
        kw_log_warn(owned->log, "recording without windows stays", kw_str("file", owned->path),
                    kw_errno(errno));
    if (owned->fd >= 0)
        (void)close(owned->fd);
    agent_recording_parties_free(&owned->told);
    kw_buf_free(&owned->line);
    kw_buf_free(&owned->pending);
    kw_buf_free(&owned->writing);
    free(owned->window.features);
    free(owned->window.ended);
    free(owned->path);
    free(owned);
}
