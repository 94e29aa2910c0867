/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_aside.h"

#include <errno.h>
#include <stdlib.h>

#include "common/worker.h"

/*
 * A connection whose request is answered here is suspended. One that is resumed is read from at
 * once if it was suspended while it was read from, and where the client has ended its side by then,
 * libmicrohttpd (0.9.75 and 1.0 alike) takes that for a client that has gone. A call that neither
 * queues an answer nor suspends puts an end to reading, and comes again in the next turn of its
 * loop: so the first call does nothing, and the second suspends.
 *
 * The thread starts with the first job: most servers never see one.
 */

struct kw_http_aside {
    void (*suspend)(void *connection);
    void (*resume)(void *connection);
    struct kw_worker worker; /* its mutex guards what follows */
    struct kw_http_job *first, **end;
    bool started;
};

static struct kw_http_job *take(struct kw_http_aside *aside)
{
    struct kw_http_job *job = aside->first;

    if (job == NULL)
        return NULL;
    aside->first = job->next;
    if (aside->first == NULL)
        aside->end = &aside->first;
    return job;
}

static void *run(void *user)
{
    struct kw_http_aside *aside = user;
    struct kw_worker *worker = &aside->worker;

    (void)pthread_mutex_lock(&worker->mutex);
    while (aside->first != NULL || !kw_worker_stopped(worker)) {
        struct kw_http_job *job = take(aside);

        if (job == NULL) {
            (void)pthread_cond_wait(&worker->wake, &worker->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&worker->mutex);
        job->run(job);
        job->stage = KW_HTTP_JOB_DONE;
        aside->resume(job->connection); /* the job may be gone from here on */
        (void)pthread_mutex_lock(&worker->mutex);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

int kw_http_aside_new(void (*suspend)(void *connection), void (*resume)(void *connection),
                      struct kw_http_aside **ret)
{
    struct kw_http_aside *aside = calloc(1, sizeof(*aside));

    if (aside == NULL)
        return -ENOMEM;
    aside->suspend = suspend;
    aside->resume = resume;
    aside->end = &aside->first;
    kw_worker_init(&aside->worker);
    *ret = aside;
    return 0;
}

static bool put(struct kw_http_aside *aside, struct kw_http_job *job)
{
    struct kw_worker *worker = &aside->worker;

    (void)pthread_mutex_lock(&worker->mutex);
    if (!aside->started && !kw_worker_stopped(worker))
        aside->started = kw_worker_start(worker, "http-large", run, aside) == 0;
    bool open = aside->started && !kw_worker_stopped(worker);
    if (open) {
        aside->suspend(job->connection);
        job->stage = KW_HTTP_JOB_QUEUED;
        job->next = NULL;
        *aside->end = job;
        aside->end = &job->next;
        (void)pthread_cond_signal(&worker->wake);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return open;
}

bool kw_http_aside_step(struct kw_http_aside *aside, struct kw_http_job *job)
{
    if (job->stage == KW_HTTP_JOB_NONE) {
        job->stage = KW_HTTP_JOB_SEEN;
        return false;
    }
    if (job->stage == KW_HTTP_JOB_SEEN) {
        if (put(aside, job))
            return false;
        job->run(job);
        job->stage = KW_HTTP_JOB_DONE;
    }
    return job->stage == KW_HTTP_JOB_DONE;
}

void kw_http_aside_stop(struct kw_http_aside *aside)
{
    kw_worker_stop(&aside->worker);
    if (aside->started)
        kw_worker_join(&aside->worker);
}

void kw_http_aside_free(struct kw_http_aside **aside)
{
    if (*aside == NULL)
        return;
    kw_worker_destroy(&(*aside)->worker);
    free(*aside);
    *aside = NULL;
}
