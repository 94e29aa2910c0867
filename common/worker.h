/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A thread that works in rounds with waits in between, and ends when told to. Signals belong to the
 * owner's loop: the thread has all of them blocked.
 */
struct kw_worker {
    pthread_t thread;
    pthread_mutex_t mutex; /**< also for what the owner shares with the thread */
    pthread_cond_t wake;
    atomic_bool stop;
};

/** Before everything else. */
void kw_worker_init(struct kw_worker *worker);

/** @param name of the thread, at most 15 bytes. @return 0 or -errno. */
int kw_worker_start(struct kw_worker *worker, const char *name, void *(*run)(void *user),
                    void *user);

/** Whether the thread was told to end. */
bool kw_worker_stopped(const struct kw_worker *worker);

/** On the thread: waits, or until it is told to end. */
void kw_worker_wait_ns(struct kw_worker *worker, uint64_t ns);

/** Tells it to end. What it blocks in is the caller's to interrupt. */
void kw_worker_stop(struct kw_worker *worker);

/** Waits for the end of a thread that was started. */
void kw_worker_join(struct kw_worker *worker);

/** After everything else. */
void kw_worker_destroy(struct kw_worker *worker);
