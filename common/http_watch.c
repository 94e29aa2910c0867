/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

/*
 * libmicrohttpd's own time-out starts anew with every byte, so a client that sends a byte now and
 * then holds a connection for ever. One thread looks at all connections once a second and shuts
 * down those whose present phase (waiting for a request line, receiving the rest, sending the
 * answer) is too old; the server's thread then sees the end of the stream and frees the connection.
 * The lock is taken once per connection by the server's threads, never per request.
 *
 * The same thread drains sockets that were answered before their request was read whole.
 */

#define LOOK_MS 1000

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

struct kw_http_watch {
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    uint64_t timeout_ns;
    struct kw_http_peer *peers;
    struct lingering lingering[LINGER_MAX];
    unsigned n_lingering;
    bool stopping;
    int wake_fd;
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

/* One look at everything; the lock is held. */
static void look(struct kw_http_watch *watch)
{
    uint64_t now_ns = kw_now_ns();

    for (struct kw_http_peer *peer = watch->peers; peer != NULL; peer = peer->next) {
        uint64_t phase_ns = atomic_load_explicit(&peer->phase_ns, memory_order_relaxed);

        if (now_ns > phase_ns && now_ns - phase_ns > watch->timeout_ns)
            (void)shutdown(peer->fd, SHUT_RDWR);
    }
    for (unsigned i = 0; i < watch->n_lingering;) {
        struct lingering *at = &watch->lingering[i];

        if (drain(at->fd) && now_ns - at->since_ns <= LINGER_NS) {
            i++;
            continue;
        }
        (void)close(at->fd);
        *at = watch->lingering[--watch->n_lingering];
    }
}

/* What to wait for; the lock is held. @return time-out for poll. */
static int prepare(const struct kw_http_watch *watch, struct pollfd *fds, nfds_t *ret_n)
{
    *ret_n = 1 + (nfds_t)watch->n_lingering;
    fds[0] = (struct pollfd){.fd = watch->wake_fd, .events = POLLIN};
    for (unsigned i = 0; i < watch->n_lingering; i++)
        fds[1 + i] = (struct pollfd){.fd = watch->lingering[i].fd, .events = POLLIN};
    return watch->peers == NULL && watch->n_lingering == 0 ? -1 : LOOK_MS;
}

static void *run(void *arg)
{
    struct kw_http_watch *watch = arg;
    struct pollfd fds[1 + LINGER_MAX];
    uint64_t count;

    (void)pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        nfds_t n;
        int timeout_ms = prepare(watch, fds, &n);

        (void)pthread_mutex_unlock(&watch->lock);
        (void)poll(fds, n, timeout_ms);
        if ((fds[0].revents & POLLIN) != 0)
            (void)!read(watch->wake_fd, &count, sizeof(count));
        (void)pthread_mutex_lock(&watch->lock);
        look(watch);
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return NULL;
}

int kw_http_watch_start(unsigned timeout_s, struct kw_http_watch **ret)
{
    kw_cleanup_free struct kw_http_watch *watch = calloc(1, sizeof(*watch));
    sigset_t all;
    sigset_t before;
    int rc;

    if (watch == NULL)
        return -ENOMEM;
    watch->timeout_ns = timeout_s * KW_NS_PER_S;
    watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->wake_fd < 0)
        return -errno;
    (void)pthread_mutex_init(&watch->lock, NULL);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    rc = pthread_create(&watch->thread, NULL, run, watch);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        (void)close(watch->wake_fd);
        (void)pthread_mutex_destroy(&watch->lock);
        return -rc;
    }
    *ret = KW_TAKE_PTR(watch);
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
    (void)close(w->wake_fd);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
    *watch = NULL;
}

void kw_http_watch_add(struct kw_http_watch *watch, struct kw_http_peer *peer)
{
    bool first;

    (void)pthread_mutex_lock(&watch->lock);
    first = watch->peers == NULL;
    peer->prev = NULL;
    peer->next = watch->peers;
    if (peer->next != NULL)
        peer->next->prev = peer;
    watch->peers = peer;
    (void)pthread_mutex_unlock(&watch->lock);
    if (first)
        wake(watch);
}

void kw_http_watch_remove(struct kw_http_watch *watch, struct kw_http_peer *peer)
{
    (void)pthread_mutex_lock(&watch->lock);
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
    (void)pthread_mutex_lock(&watch->lock);
    if (watch->n_lingering < LINGER_MAX && !watch->stopping) {
        watch->lingering[watch->n_lingering++] = (struct lingering){copy, kw_now_ns()};
        kept = true;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    if (kept)
        wake(watch);
    else
        (void)close(copy);
}
