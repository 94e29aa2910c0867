/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a host or path to a connected, non-blocking socket before a deadline. A host name may have
 * several addresses, of which the first may swallow packets without an answer (an IPv6 route that
 * leads nowhere): each gets its share of the time that is left, and so does the resolver.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/redis_impl.h"
#include "common/resolve.h"

/* A unix socket's connect gives EAGAIN while the server's backlog is full: ask again so often. */
#define BACKLOG_RETRY_MS 10

int kw_redis_wait(int fd, short events, int cancel_fd, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd pfds[] = {{.fd = fd, .events = events}, {.fd = cancel_fd, .events = POLLIN}};
        uint64_t now = kw_now_ns();
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        uint64_t left = deadline_ns - now;
        struct timespec ts = {.tv_sec = (time_t)(left / KW_NS_PER_S),
                              .tv_nsec = (long)(left % KW_NS_PER_S)};
        int n = ppoll(pfds, cancel_fd > 0 ? 2 : 1, &ts, NULL);
        if (n > 0 && pfds[1].revents != 0)
            return -ECANCELED;
        if (n > 0)
            return pfds[0].revents;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

/* @return 0 or -errno */
static int connect_to(const struct sockaddr *address, socklen_t len, int cancel_fd,
                      uint64_t deadline_ns, int *ret_fd)
{
    int one = 1;
    int cause = 0;
    socklen_t cause_len = sizeof(cause);
    kw_cleanup_close int fd =
        socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (address->sa_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    while (connect(fd, address, len) < 0) {
        if (errno == EINPROGRESS || errno == EINTR) {
            int r = kw_redis_wait(fd, POLLOUT, cancel_fd, deadline_ns);
            if (r < 0)
                return r;
            if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &cause_len) < 0)
                return -errno;
            if (cause != 0)
                return -cause;
            break;
        }
        if (errno != EAGAIN)
            return -errno;
        if (kw_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
        (void)poll(NULL, 0, BACKLOG_RETRY_MS);
    }
    *ret_fd = KW_TAKE_FD(fd);
    return 0;
}

static int connect_unix(const char *path, int cancel_fd, uint64_t deadline_ns, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    /* kw_redis_url_parse checked the length */
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect_to((const struct sockaddr *)&address, sizeof(address), cancel_fd, deadline_ns,
                      ret_fd);
}

static int connect_tcp(const struct kw_redis_host *host, int cancel_fd, uint64_t deadline_ns,
                       int *ret_fd, const char **ret_cause)
{
    struct addrinfo *list = NULL;
    unsigned left = 0;
    int r = kw_resolve(host->name, host->port, deadline_ns, &list, ret_cause);

    if (r < 0)
        return r;
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
        left++;
    r = -EHOSTUNREACH;
    for (const struct addrinfo *a = list; a != NULL && r < 0 && r != -ECANCELED;
         a = a->ai_next, left--) {
        uint64_t now = kw_now_ns();
        uint64_t share = deadline_ns > now ? (deadline_ns - now) / left : 0;
        r = connect_to(a->ai_addr, a->ai_addrlen, cancel_fd, now + share, ret_fd);
    }
    freeaddrinfo(list);
    return r;
}

int kw_redis_connect(const struct kw_redis_place *place, int cancel_fd, uint64_t deadline_ns,
                     int *ret_fd, const char **ret_cause)
{
    return place->path != NULL
               ? connect_unix(place->path, cancel_fd, deadline_ns, ret_fd)
               : connect_tcp(place->host, cancel_fd, deadline_ns, ret_fd, ret_cause);
}
