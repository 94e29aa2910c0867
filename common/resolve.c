/* SPDX-License-Identifier: Apache-2.0 */
#include "common/resolve.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"

/*
 * getaddrinfo() takes no deadline: with a name server that is gone, the system's resolver waits
 * half a minute by default, and nothing can stop it. So it runs on a thread. Both sides hold the
 * job; who comes last frees it. A thread that was left behind ends with the resolver's own
 * time-out, so that callers who wait between their tries leave few of them.
 */

struct job {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool ended, abandoned;
    int rc; /* of getaddrinfo */
    struct addrinfo *list;
    char port[8];
    char host[]; /* flexible */
};

static void free_job(struct job *job)
{
    if (job->list != NULL)
        freeaddrinfo(job->list);
    (void)pthread_mutex_destroy(&job->lock);
    (void)pthread_cond_destroy(&job->done);
    free(job);
}

static void *run(void *arg)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    struct job *job = arg;
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(job->host, job->port, &hints, &list);

    (void)pthread_mutex_lock(&job->lock);
    bool abandoned = job->abandoned;
    job->ended = true;
    job->rc = rc;
    job->list = rc == 0 ? list : NULL;
    (void)pthread_cond_signal(&job->done);
    (void)pthread_mutex_unlock(&job->lock);
    if (abandoned)
        free_job(job);
    return NULL;
}

static struct job *new_job(const char *host, const char *port)
{
    size_t size = strlen(host) + 1;
    struct job *job = calloc(1, sizeof(*job) + size);
    pthread_condattr_t monotonic;

    if (job == NULL)
        return NULL;
    memcpy(job->host, host, size);
    (void)snprintf(job->port, sizeof(job->port), "%s", port);
    (void)pthread_mutex_init(&job->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&job->done, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return job;
}

static int start(struct job *job)
{
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all;
    sigset_t before;

    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    int rc = pthread_create(&thread, &detached, run, job);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&detached);
    return -rc;
}

/* Waits for the job and takes its result; the job is gone afterwards. */
static int finish(struct job *job, uint64_t deadline_ns, struct addrinfo **ret_list,
                  const char **ret_cause)
{
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / KW_NS_PER_S),
                                   .tv_nsec = (long)(deadline_ns % KW_NS_PER_S)};
    int late = 0;

    (void)pthread_mutex_lock(&job->lock);
    while (!job->ended && late == 0)
        late = pthread_cond_timedwait(&job->done, &job->lock, &until);
    bool ended = job->ended;
    job->abandoned = !ended;
    (void)pthread_mutex_unlock(&job->lock);
    if (!ended) {
        *ret_cause = "the name was not resolved in time";
        return -ETIMEDOUT;
    }
    int rc = job->rc;
    *ret_list = job->list;
    job->list = NULL;
    free_job(job);
    if (rc == 0)
        return 0;
    *ret_cause = gai_strerror(rc);
    return rc == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
}

int kw_resolve(const char *host, uint16_t port, uint64_t deadline_ns, struct addrinfo **ret_list,
               const char **ret_cause)
{
    const struct addrinfo numeric = {.ai_family = AF_UNSPEC,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char text[8];

    (void)snprintf(text, sizeof(text), "%u", port);
    int rc = getaddrinfo(host, text, &numeric, &list);
    if (rc == 0) {
        *ret_list = list;
        return 0;
    }
    if (rc != EAI_NONAME) {
        *ret_cause = gai_strerror(rc);
        return rc == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
    }
    struct job *job = new_job(host, text);
    if (job == NULL) {
        *ret_cause = "out of memory";
        return -ENOMEM;
    }
    rc = start(job);
    if (rc == 0)
        return finish(job, deadline_ns, ret_list, ret_cause);
    free_job(job);
    *ret_cause = "no thread to resolve the name";
    return rc;
}
