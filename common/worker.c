/* SPDX-License-Identifier: Apache-2.0 */
#include "common/worker.h"

#include <signal.h>
#include <time.h>

#include "common/clock.h"

void kw_worker_init(struct kw_worker *worker)
{
    pthread_condattr_t attributes;

    atomic_init(&worker->stop, false);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&worker->mutex, NULL);
    (void)pthread_cond_init(&worker->wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

int kw_worker_start(struct kw_worker *worker, const char *name, void *(*run)(void *user),
                    void *user)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&worker->thread, NULL, run, user);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        (void)pthread_setname_np(worker->thread, name);
    return -r;
}

bool kw_worker_stopped(const struct kw_worker *worker)
{
    return atomic_load(&worker->stop);
}

void kw_worker_wait_ns(struct kw_worker *worker, uint64_t ns)
{
    uint64_t until = kw_now_ns() + ns;
    struct timespec ts = {.tv_sec = (time_t)(until / KW_NS_PER_S),
                          .tv_nsec = (long)(until % KW_NS_PER_S)};

    (void)pthread_mutex_lock(&worker->mutex);
    while (!atomic_load(&worker->stop) && kw_now_ns() < until)
        (void)pthread_cond_timedwait(&worker->wake, &worker->mutex, &ts);
    (void)pthread_mutex_unlock(&worker->mutex);
}

void kw_worker_stop(struct kw_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    atomic_store(&worker->stop, true);
    (void)pthread_cond_broadcast(&worker->wake);
    (void)pthread_mutex_unlock(&worker->mutex);
}

void kw_worker_join(struct kw_worker *worker)
{
    (void)pthread_join(worker->thread, NULL);
}

void kw_worker_destroy(struct kw_worker *worker)
{
    (void)pthread_mutex_destroy(&worker->mutex);
    (void)pthread_cond_destroy(&worker->wake);
}
