/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * The one thread of a program that does things: epoll, with timers (timerfd), signals (signalfd)
 * and wake-ups from other threads (eventfd) as sources. Everything but kw_loop_wakeup_send and
 * kw_loop_stop belongs to the loop's own thread.
 */

struct kw_loop;
struct kw_source; /* one registered thing; freed by kw_source_free or with its loop */

typedef void (*kw_fd_fn)(void *user, uint32_t epoll_events);
typedef void (*kw_timer_fn)(void *user, uint64_t expirations);
typedef void (*kw_signal_fn)(void *user, int signal_number);
typedef void (*kw_wakeup_fn)(void *user);

/** @return 0 or -errno. */
int kw_loop_new(struct kw_loop **ret);
void kw_loop_free(struct kw_loop **loop);

/** Runs until kw_loop_stop. @return the code given to kw_loop_stop, or -errno. */
int kw_loop_run(struct kw_loop *loop);

/** Ends kw_loop_run after the callbacks at hand; from any thread. */
void kw_loop_stop(struct kw_loop *loop, int code);

/** Watches a descriptor that stays the caller's. @param events EPOLLIN... @return 0 or -errno. */
int kw_loop_add_fd(struct kw_loop *loop, int fd, uint32_t events, kw_fd_fn fn, void *user,
                   struct kw_source **ret);

/** Changes the events of a source of kw_loop_add_fd. @return 0 or -errno. */
int kw_source_set_events(struct kw_source *source, uint32_t events);

/**
 * Periodic (interval_ns > 0) or single (0) timer on CLOCK_MONOTONIC, first due after `first_ns`
 * (0 = at once; UINT64_MAX = never, until re-armed). Missed periods come as `expirations` > 1, not
 * as a burst of calls. @return 0 or -errno.
 */
int kw_loop_add_timer(struct kw_loop *loop, uint64_t first_ns, uint64_t interval_ns, kw_timer_fn fn,
                      void *user, struct kw_source **ret);

/** Descriptor that can be read while the source has something to deliver: to poll it elsewhere,
 * never to read it. Valid until the source is freed. */
int kw_source_fd(const struct kw_source *source);

/** Re-arms a timer. @return 0 or -errno. */
int kw_source_set_timer(struct kw_source *source, uint64_t first_ns, uint64_t interval_ns);

/**
 * Blocks the signals in the calling thread (call before threads are made) and delivers them to
 * `fn`. They stay blocked after kw_source_free, so that one that is pending does not kill the
 * program on its way out; a child process must unblock them before exec.
 * @param signals ends with 0. @return 0 or -errno.
 */
int kw_loop_add_signals(struct kw_loop *loop, const int *signals, kw_signal_fn fn, void *user,
                        struct kw_source **ret);

/** A source that other threads trigger by kw_loop_wakeup_send; several sends may become one call.
 * @return 0 or -errno. */
int kw_loop_add_wakeup(struct kw_loop *loop, kw_wakeup_fn fn, void *user, struct kw_source **ret);

/** From any thread. */
void kw_loop_wakeup_send(struct kw_source *source);

/**
 * Removes a source (not the caller's descriptor, which must still be open); NULL-safe; allowed
 * inside any callback, its own included: no callback of the source follows.
 */
void kw_source_free(struct kw_source **source);
