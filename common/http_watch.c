/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

/*
 * libmicrohttpd's own time-out starts anew with every byte, so a client that sends a byte now and
 * then holds a connection for ever. One thread shuts down connections whose present phase (waiting
 * for a request line, receiving the rest, sending the answer) is too old; the server's thread then
 * sees the end of the stream and frees the connection. It sleeps until the next deadline at the
 * earliest that there is: a phase that begins meanwhile only ends later.
 * The lock is taken a few times per connection, never per request.
 *
 * libmicrohttpd 0.9.75 also misses the end of a stream that arrives together with the last bytes:
 * it reads once per edge of its epoll, and there is no second edge. The thread has an epoll of its
 * own for that event and makes the missing edge: shutdown(SHUT_RD) changes nothing on a stream that
 * has ended but wakes all who poll it, this thread too, which must not take its own edge for news.
 * The first waits a moment, since nearly always the server sees the end by itself, and may still
 * come too early (the bytes not read yet), so it is repeated at growing intervals.
 *
 * The same thread drains sockets that were answered before their request was read whole.
 *
 * Events carry a number, not a pointer: the connection may be gone by the time its event is looked
 * at.
 */

/* Between two ticks, and between two attempts on a connection that does not go. */
#define LOOK_NS KW_NS_PER_S

/* A handshake: as long as Go's clients wait for one. */
#define GREETING_NS (10 * KW_NS_PER_S)

/* A connection without a request for so long is closed when the server stops. */
#define QUIET_NS (500 * KW_NS_PER_MS)

/* Sockets that linger at a time, and for how long: enough for an honest client to read its answer.
 */
#define LINGER_MAX 64
#define LINGER_NS  (2 * KW_NS_PER_S)

/* Reads per round and socket: a fast sender must not keep the thread. */
#define DRAIN_ROUNDS 16

struct lingering {
    int fd;
    uint64_t since_ns;
};

#define NUDGE_NS (10 * KW_NS_PER_MS)

/* Number of the wake-up and of lingering sockets in events; connections start behind it. */
#define NO_ID UINT64_C(0)

struct kw_http_watch {
    pthread_t thread;
    int epoll_fd;
    int wake_fd;
    uint64_t timeout_ns;
    void (*tick)(void *user);
    void *tick_user;
    uint64_t ticked_ns;   /* the thread's own */
    pthread_mutex_t lock; /* guards what follows */
    uint64_t last_id;
    struct kw_http_peer *peers;
    struct lingering lingering[LINGER_MAX];
    unsigned n_lingering;
    bool draining;
    bool stopping;
};

static void wake(const struct kw_http_watch *watch)
{
    const uint64_t one = 1;

    (void)!write(watch->wake_fd, &one, sizeof(one));
}

/* Reads and drops what is there. @return false at the end of the stream. */
static bool drain(int fd)
{
    char bytes[16384];

    for (unsigned i = 0; i < DRAIN_ROUNDS; i++) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n < 0)
            break;
    }
    return true;
}

/* The client of this connection has ended its stream; the lock is held. */
static void half_closed(struct kw_http_watch *watch, uint64_t id, uint64_t now_ns)
{
    for (struct kw_http_peer *peer = watch->peers; peer != NULL; peer = peer->next) {
        if (peer->id != id)
            continue;
        if (peer->nudge_ns == 0) { /* else the news is our own shutdown */
            peer->interval_ns = NUDGE_NS;
            peer->nudge_ns = now_ns + NUDGE_NS;
        }
        return;
    }
}

static uint64_t limit_of(const struct kw_http_watch *watch, const struct kw_http_peer *peer)
{
    return kw_http_peer_is(peer, KW_HTTP_GREETING) && watch->timeout_ns > GREETING_NS
               ? GREETING_NS
               : watch->timeout_ns;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* The server stops, and nobody asks on this connection; the lock is held. @return when to look
 * again. */
static uint64_t let_go(struct kw_http_peer *peer, uint64_t now_ns)
{
    uint64_t quiet_ns = atomic_load_explicit(&peer->phase_ns, memory_order_relaxed) + QUIET_NS;

    if (!kw_http_peer_is(peer, KW_HTTP_WAITING) || peer->nudge_ns != 0)
        return now_ns + QUIET_NS;
    if (quiet_ns > now_ns)
        return quiet_ns;
    peer->interval_ns = NUDGE_NS;
    peer->nudge_ns = now_ns; /* what has arrived is still read and answered */
    return now_ns;
}

/* Ends a phase that is too old, wakes the server for a half-closed connection; the lock is held.
 * @return when to look again. */
static uint64_t look_at(const struct kw_http_watch *watch, struct kw_http_peer *peer,
                        uint64_t now_ns)
{
    uint64_t end_ns =
        atomic_load_explicit(&peer->phase_ns, memory_order_relaxed) + limit_of(watch, peer);

    if (now_ns > end_ns) {
        (void)shutdown(peer->fd, SHUT_RDWR);
        end_ns = now_ns + LOOK_NS;
    }
    if (watch->draining)
        end_ns = earlier(end_ns, let_go(peer, now_ns));
    if (peer->nudge_ns == 0)
        return end_ns;
    if (peer->nudge_ns <= now_ns) {
        (void)shutdown(peer->fd, SHUT_RD);
        peer->nudge_ns = now_ns + peer->interval_ns;
        if (peer->interval_ns < LOOK_NS)
            peer->interval_ns *= 2;
    }
    return earlier(end_ns, peer->nudge_ns);
}

/* One look at everything; the lock is held. @return how long to sleep, as epoll_wait has it. */
static int look(struct kw_http_watch *watch)
{
    uint64_t now_ns = kw_now_ns();
    /* nobody wakes the thread for a second connection, whose deadline is as far as this */
    uint64_t next_ns = now_ns + (watch->draining       ? QUIET_NS
                                 : watch->tick != NULL ? LOOK_NS
                                                       : earlier(watch->timeout_ns, GREETING_NS));

    for (struct kw_http_peer *peer = watch->peers; peer != NULL; peer = peer->next)
        next_ns = earlier(next_ns, look_at(watch, peer, now_ns));
    for (unsigned i = 0; i < watch->n_lingering;) {
        struct lingering *at = &watch->lingering[i];

        if (drain(at->fd) && now_ns - at->since_ns <= LINGER_NS) {
            next_ns = earlier(next_ns, at->since_ns + LINGER_NS);
            i++;
            continue;
        }
        (void)close(at->fd);
        *at = watch->lingering[--watch->n_lingering];
    }
    if (watch->peers == NULL && watch->n_lingering == 0 && watch->tick == NULL)
        return -1;
    return next_ns > now_ns ? (int)((next_ns - now_ns) / KW_NS_PER_MS) + 1 : 1;
}

static void tick(struct kw_http_watch *watch)
{
    uint64_t now_ns = kw_now_ns();

    if (watch->tick == NULL || now_ns - watch->ticked_ns < LOOK_NS)
        return;
    watch->ticked_ns = now_ns;
    watch->tick(watch->tick_user);
}

static void *run(void *arg)
{
    struct kw_http_watch *watch = arg;
    struct epoll_event events[64];
    int timeout_ms = -1;

    (void)pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        uint64_t count;
        int n;

        (void)pthread_mutex_unlock(&watch->lock);
        n = epoll_wait(watch->epoll_fd, events, KW_ARRAY_SIZE(events), timeout_ms);
        (void)!read(watch->wake_fd, &count, sizeof(count));
        tick(watch);
        (void)pthread_mutex_lock(&watch->lock);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 != NO_ID)
                half_closed(watch, events[i].data.u64, kw_now_ns());
        }
        timeout_ms = look(watch);
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static int watch_fd(const struct kw_http_watch *watch, int fd, uint32_t events, uint64_t id)
{
    struct epoll_event event = {.events = events, .data.u64 = id};

    return epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int start_thread(struct kw_http_watch *watch)
{
    sigset_t all;
    sigset_t before;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    rc = pthread_create(&watch->thread, NULL, run, watch);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

static void release(struct kw_http_watch *watch)
{
    if (watch->wake_fd >= 0)
        (void)close(watch->wake_fd);
    if (watch->epoll_fd >= 0)
        (void)close(watch->epoll_fd);
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
}

int kw_http_watch_start(unsigned timeout_s, void (*on_tick)(void *user), void *user,
                        struct kw_http_watch **ret)
{
    struct kw_http_watch *watch = calloc(1, sizeof(*watch));
    int rc;

    if (watch == NULL)
        return -ENOMEM;
    watch->timeout_ns = timeout_s * KW_NS_PER_S;
    watch->tick = on_tick;
    watch->tick_user = user;
    watch->ticked_ns = kw_now_ns();
    (void)pthread_mutex_init(&watch->lock, NULL);
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = watch->epoll_fd < 0 || watch->wake_fd < 0 ? -EMFILE : 0;
    if (rc == 0)
        rc = watch_fd(watch, watch->wake_fd, EPOLLIN, NO_ID);
    if (rc == 0)
        rc = start_thread(watch);
    if (rc < 0) {
        release(watch);
        return rc;
    }
    *ret = watch;
    return 0;
}

void kw_http_watch_free(struct kw_http_watch **watch)
{
    struct kw_http_watch *w = *watch;

    if (w == NULL)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->stopping = true;
    (void)pthread_mutex_unlock(&w->lock);
    wake(w);
    (void)pthread_join(w->thread, NULL);
    for (unsigned i = 0; i < w->n_lingering; i++)
        (void)close(w->lingering[i].fd);
    release(w);
    *watch = NULL;
}

int kw_http_watch_add(struct kw_http_watch *watch, struct kw_http_peer *peer)
{
    bool first;
    int rc;

    (void)pthread_mutex_lock(&watch->lock);
    peer->id = ++watch->last_id;
    rc = watch_fd(watch, peer->fd, EPOLLRDHUP | EPOLLET, peer->id);
    first = watch->peers == NULL;
    if (rc == 0) {
        peer->prev = NULL;
        peer->next = watch->peers;
        if (peer->next != NULL)
            peer->next->prev = peer;
        watch->peers = peer;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    if (first)
        wake(watch); /* it sleeps without end while there is nobody */
    return rc;
}

void kw_http_watch_remove(struct kw_http_watch *watch, struct kw_http_peer *peer)
{
    (void)pthread_mutex_lock(&watch->lock);
    (void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    if (peer->prev != NULL)
        peer->prev->next = peer->next;
    else
        watch->peers = peer->next;
    if (peer->next != NULL)
        peer->next->prev = peer->prev;
    (void)pthread_mutex_unlock(&watch->lock);
}

void kw_http_watch_linger(struct kw_http_watch *watch, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    bool kept = false;

    if (copy < 0)
        return;
    (void)shutdown(copy, SHUT_WR); /* under TLS libmicrohttpd leaves it to its close */
    (void)pthread_mutex_lock(&watch->lock);
    if (watch->n_lingering < LINGER_MAX && !watch->stopping &&
        watch_fd(watch, copy, EPOLLIN, NO_ID) == 0) {
        watch->lingering[watch->n_lingering++] = (struct lingering){copy, kw_now_ns()};
        kept = true;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    if (kept)
        wake(watch);
    else
        (void)close(copy);
}

void kw_http_watch_drain(struct kw_http_watch *watch)
{
    (void)pthread_mutex_lock(&watch->lock);
    watch->draining = true;
    (void)pthread_mutex_unlock(&watch->lock);
    wake(watch);
}

void kw_http_watch_shut(struct kw_http_watch *watch)
{
    (void)pthread_mutex_lock(&watch->lock);
    for (struct kw_http_peer *peer = watch->peers; peer != NULL; peer = peer->next) {
        (void)shutdown(peer->fd, SHUT_RDWR);
        peer->nudge_ns = 1; /* long due */
        peer->interval_ns = NUDGE_NS;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    wake(watch);
}
