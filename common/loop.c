/* SPDX-License-Identifier: Apache-2.0 */
#include "common/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

/*
 * One epoll descriptor; every source is one descriptor in it, and epoll hands back the source's
 * address.
 *
 * A callback may free any source, also one that still has an event in the batch at hand. Freeing
 * therefore has two halves: the descriptor goes out of epoll and is closed at once and the source
 * is marked dead; the memory goes when the batch is done. A dead source's pending events are
 * dropped. A new source made in the same batch may get the same descriptor number: that is
 * harmless, since events carry addresses.
 *
 * Sources that own their descriptor (timer, signals, wake-up) read it before the callback, and skip
 * the callback when there is nothing to read: a timer re-armed by an earlier callback of the batch,
 * for one.
 *
 * Cost: one epoll_wait for up to BATCH ready sources, one read more for those that own their
 * descriptor.
 */

/* Events taken by one epoll_wait: bounds how long a stop request waits, and what sits on the stack.
 */
#define BATCH 64

enum source_kind { SOURCE_FD, SOURCE_TIMER, SOURCE_SIGNALS, SOURCE_WAKEUP };

struct kw_source {
    struct kw_loop *loop;
    struct kw_source *prev, *next; /* in loop->live; next also links loop->dead */
    enum source_kind kind;
    int fd; /* SOURCE_FD: the caller's; else our own */
    bool dead;
    union {
        kw_fd_fn on_fd;
        kw_timer_fn on_timer;
        kw_signal_fn on_signal;
        kw_wakeup_fn on_wakeup;
    };
    void *user;
};

struct kw_loop {
    int epoll_fd;
    bool dispatching; /* a batch is at hand: freed sources go to `dead` */
    struct kw_source *live;
    struct kw_source *dead;
    struct kw_source *stop_wakeup; /* ends epoll_wait; its event itself says nothing */
    atomic_bool stopping;
    atomic_bool stop_claimed; /* the first kw_loop_stop gives the code */
    atomic_int stop_code;
};

static void bury_dead(struct kw_loop *loop)
{
    while (loop->dead != NULL) {
        struct kw_source *source = loop->dead;
        loop->dead = source->next;
        free(source);
    }
}

void kw_source_free(struct kw_source **source)
{
    struct kw_source *s = *source;
    *source = NULL;
    if (s == NULL || s->dead)
        return;

    struct kw_loop *loop = s->loop;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL); /* EBADF: closed before us */
    if (s->kind != SOURCE_FD)
        (void)close(s->fd);
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        loop->live = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;

    if (!loop->dispatching) {
        free(s);
        return;
    }
    s->dead = true;
    s->next = loop->dead;
    loop->dead = s;
}

/* On failure an owned descriptor is closed. */
static int add_source(struct kw_loop *loop, enum source_kind kind, int fd, uint32_t events,
                      void *user, struct kw_source **ret)
{
    struct kw_source *source = calloc(1, sizeof(*source));
    int rc = source == NULL ? -ENOMEM : 0;
    if (rc == 0) {
        *source = (struct kw_source){.loop = loop, .kind = kind, .fd = fd, .user = user};
        struct epoll_event event = {.events = events, .data.ptr = source};
        if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
            rc = -errno;
    }
    if (rc < 0) {
        if (kind != SOURCE_FD)
            (void)close(fd);
        free(source);
        return rc;
    }
    source->next = loop->live;
    if (loop->live != NULL)
        loop->live->prev = source;
    loop->live = source;
    *ret = source;
    return 0;
}

int kw_loop_add_fd(struct kw_loop *loop, int fd, uint32_t events, kw_fd_fn fn, void *user,
                   struct kw_source **ret)
{
    struct kw_source *source;
    int rc = add_source(loop, SOURCE_FD, fd, events, user, &source);
    if (rc < 0)
        return rc;
    source->on_fd = fn;
    *ret = source;
    return 0;
}

int kw_source_set_events(struct kw_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(source->loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) < 0)
        return -errno;
    return 0;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / KW_NS_PER_S),
                             .tv_nsec = (long)(ns % KW_NS_PER_S)};
}

static int arm(int fd, uint64_t first_ns, uint64_t interval_ns)
{
    struct itimerspec spec = {
        /* a value of 0 would disarm; 1 ns is "at once" */
        .it_value = to_timespec(first_ns > 0 ? first_ns : 1),
        .it_interval = to_timespec(interval_ns),
    };
    if (timerfd_settime(fd, 0, &spec, NULL) < 0)
        return -errno;
    return 0;
}

int kw_loop_add_timer(struct kw_loop *loop, uint64_t first_ns, uint64_t interval_ns, kw_timer_fn fn,
                      void *user, struct kw_source **ret)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    int rc = arm(fd, first_ns, interval_ns);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    struct kw_source *source;
    rc = add_source(loop, SOURCE_TIMER, fd, EPOLLIN, user, &source);
    if (rc < 0)
        return rc;
    source->on_timer = fn;
    *ret = source;
    return 0;
}

int kw_source_fd(const struct kw_source *source)
{
    return source->fd;
}

int kw_source_set_timer(struct kw_source *source, uint64_t first_ns, uint64_t interval_ns)
{
    if (source->kind != SOURCE_TIMER)
        return -EINVAL;
    return arm(source->fd, first_ns, interval_ns);
}

int kw_loop_add_signals(struct kw_loop *loop, const int *signals, kw_signal_fn fn, void *user,
                        struct kw_source **ret)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (const int *s = signals; *s != 0; s++) {
        if (sigaddset(&set, *s) < 0)
            return -errno;
    }
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    struct kw_source *source;
    int rc = add_source(loop, SOURCE_SIGNALS, fd, EPOLLIN, user, &source);
    if (rc < 0)
        return rc;
    source->on_signal = fn;
    rc = -pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (rc < 0) {
        kw_source_free(&source);
        return rc;
    }
    *ret = source;
    return 0;
}

int kw_loop_add_wakeup(struct kw_loop *loop, kw_wakeup_fn fn, void *user, struct kw_source **ret)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    struct kw_source *source;
    int rc = add_source(loop, SOURCE_WAKEUP, fd, EPOLLIN, user, &source);
    if (rc < 0)
        return rc;
    source->on_wakeup = fn;
    *ret = source;
    return 0;
}

void kw_loop_wakeup_send(struct kw_source *source)
{
    uint64_t one = 1;
    /* EAGAIN: 2^64 - 2 sends are pending, the source is awake anyway */
    while (write(source->fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void dispatch_signals(struct kw_source *source)
{
    struct signalfd_siginfo info;
    while (!source->dead && read(source->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        source->on_signal(source->user, (int)info.ssi_signo);
}

static void dispatch(struct kw_source *source, uint32_t events)
{
    uint64_t count = 0;
    if (source->kind == SOURCE_FD) {
        source->on_fd(source->user, events);
    } else if (source->kind == SOURCE_SIGNALS) {
        dispatch_signals(source);
    } else if (read(source->fd, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
        if (source->kind == SOURCE_TIMER)
            source->on_timer(source->user, count);
        else
            source->on_wakeup(source->user);
    }
}

static void ignore_wakeup(void *user)
{
    (void)user;
}

int kw_loop_new(struct kw_loop **ret)
{
    kw_cleanup(kw_loop_free) struct kw_loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL)
        return -ENOMEM;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        return -errno;
    atomic_init(&loop->stopping, false);
    atomic_init(&loop->stop_claimed, false);
    atomic_init(&loop->stop_code, 0);
    int rc = kw_loop_add_wakeup(loop, ignore_wakeup, NULL, &loop->stop_wakeup);
    if (rc < 0)
        return rc;
    *ret = KW_TAKE_PTR(loop);
    return 0;
}

void kw_loop_free(struct kw_loop **loop)
{
    struct kw_loop *l = *loop;
    *loop = NULL;
    if (l == NULL)
        return;
    while (l->live != NULL) {
        struct kw_source *source = l->live;
        kw_source_free(&source);
    }
    if (l->epoll_fd >= 0)
        (void)close(l->epoll_fd);
    free(l);
}

int kw_loop_run(struct kw_loop *loop)
{
    struct epoll_event events[BATCH];
    int rc = 0;
    while (!atomic_load(&loop->stopping)) {
        int n = epoll_wait(loop->epoll_fd, events, BATCH, -1);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            rc = -errno;
            break;
        }
        loop->dispatching = true;
        for (int i = 0; i < n; i++) {
            struct kw_source *source = events[i].data.ptr;
            if (!source->dead)
                dispatch(source, events[i].events);
        }
        loop->dispatching = false;
        bury_dead(loop);
    }
    if (rc == 0)
        rc = atomic_load(&loop->stop_code);
    /* a loop may be run again */
    atomic_store(&loop->stopping, false);
    atomic_store(&loop->stop_claimed, false);
    return rc;
}

void kw_loop_stop(struct kw_loop *loop, int code)
{
    if (atomic_exchange(&loop->stop_claimed, true))
        return;
    atomic_store(&loop->stop_code, code);
    atomic_store(&loop->stopping, true);
    kw_loop_wakeup_send(loop->stop_wakeup);
}
