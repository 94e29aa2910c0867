/* SPDX-License-Identifier: Apache-2.0 */
/* Sentinels and servers that are none: each says what a test scripts. A real failover:
 * e2e/redis_sentinel_test.py. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/redis.h"
#include "tests/support/cmocka.h"

#define MASTER_ROLE "*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n"
#define SLAVE_ROLE  "*5\r\n$5\r\nslave\r\n$1\r\nx\r\n:1\r\n$9\r\nconnected\r\n:1\r\n"

/* Answers ROLE, GET-MASTER-ADDR-BY-NAME and everything else, on one connection after the other. */
struct peer {
    int fd;
    uint16_t port;
    _Atomic(const char *) role, other; /* NULL: no answer */
    _Atomic(uint16_t) names;           /* port of the master that it names; 0: it knows none */
    atomic_uint asked;                 /* connections */
    atomic_bool stop;
    pthread_t thread;
};

static void answer(struct peer *peer, const char *request, int fd)
{
    const char *role = atomic_load(&peer->role), *other = atomic_load(&peer->other);
    char text[96];

    if (strstr(request, "GET-MASTER-ADDR-BY-NAME") != NULL) {
        char port[8];
        (void)snprintf(port, sizeof(port), "%u", atomic_load(&peer->names));
        (void)snprintf(text, sizeof(text), "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port),
                       port);
        other = atomic_load(&peer->names) != 0 ? text : "*-1\r\n";
        role = NULL;
    } else if (strstr(request, "ROLE") != NULL) {
        other = role;
    }
    if (other != NULL)
        (void)send(fd, other, strlen(other), MSG_NOSIGNAL);
}

static void *serve(void *user)
{
    struct peer *peer = user;
    int fd = -1;

    while (!atomic_load(&peer->stop)) {
        struct pollfd pfds[] = {{.fd = peer->fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        char request[1024];
        if (poll(pfds, 2, 20) <= 0)
            continue;
        if (pfds[0].revents != 0) {
            if (fd >= 0)
                (void)close(fd);
            fd = accept4(peer->fd, NULL, NULL, SOCK_CLOEXEC);
            atomic_fetch_add(&peer->asked, 1);
            continue;
        }
        ssize_t n = recv(fd, request, sizeof(request) - 1, 0);
        if (n <= 0) {
            (void)close(fd);
            fd = -1;
            continue;
        }
        request[n] = '\0';
        answer(peer, request, fd);
    }
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

static void start(struct peer *peer)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);

    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(peer->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(peer->fd, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(listen(peer->fd, 8), 0);
    peer->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&peer->thread, NULL, serve, peer), 0);
}

static void end(struct peer *peer)
{
    atomic_store(&peer->stop, true);
    (void)pthread_join(peer->thread, NULL);
    (void)close(peer->fd);
}

static int ping(struct kw_redis *redis, struct kw_err *err)
{
    *err = (struct kw_err){0};
    assert_int_equal(kw_redis_queue_texts(redis, "PING", NULL), 0);
    kw_redis_retry_now(redis);
    return kw_redis_exec(redis, NULL, err);
}

static struct kw_redis *client(const struct peer *a, const struct peer *b, uint32_t timeout_ms)
{
    struct kw_redis_conf conf = {.connect_timeout_ms = timeout_ms};
    struct kw_redis *redis = NULL;
    char url[128];

    (void)snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/m", a->port,
                   b->port);
    conf.access.url = url;
    assert_int_equal(kw_redis_new(&conf, &redis, NULL), 0);
    return redis;
}

/* A sentinel that was cut off names a former master for ever: the next one is asked next time, and
 * is asked first from then on. */
static void a_stale_sentinel(void **state)
{
    struct peer stale = {0}, fresh = {0}, master = {.role = MASTER_ROLE, .other = "+PONG\r\n"};
    struct peer replica = {.role = SLAVE_ROLE, .other = "+PONG\r\n"};
    struct kw_err err;
    (void)state;

    start(&stale);
    start(&fresh);
    start(&master);
    start(&replica);
    atomic_store(&stale.names, replica.port);
    atomic_store(&fresh.names, master.port);
    kw_cleanup(kw_redis_free) struct kw_redis *redis = client(&stale, &fresh, 60000);
    assert_int_equal(ping(redis, &err), -EROFS);
    assert_non_null(strstr(err.text, "no master but a slave"));
    assert_non_null(strstr(err.text, kw_redis_name(redis)));
    assert_int_equal(ping(redis, &err), 0);
    assert_int_equal(atomic_load(&stale.asked), 1);

    /* a server that refuses to write is left at once, and the same sentinel is asked again */
    atomic_store(&master.other, "-READONLY You can't write against a read only replica.\r\n");
    assert_int_equal(ping(redis, &err), -EREMOTEIO);
    atomic_store(&fresh.names, replica.port);
    atomic_store(&replica.role, MASTER_ROLE);
    assert_int_equal(ping(redis, &err), 0);
    assert_int_equal(atomic_load(&fresh.asked), 2);
    assert_int_equal(atomic_load(&stale.asked), 1);
    end(&stale);
    end(&fresh);
    end(&master);
    end(&replica);
}

/* One that accepts and says nothing costs its own time-out, and not that of the others. */
static void a_sentinel_that_hangs(void **state)
{
    struct peer silent = {0}, knows = {0}, master = {.role = MASTER_ROLE, .other = "+PONG\r\n"};
    struct kw_err err;
    (void)state;

    silent.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    assert_int_equal(bind(silent.fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(silent.fd, 8), 0);
    assert_int_equal(getsockname(silent.fd, (struct sockaddr *)&address, &len), 0);
    silent.port = ntohs(address.sin_port);
    start(&knows);
    start(&master);
    atomic_store(&knows.names, master.port);
    kw_cleanup(kw_redis_free) struct kw_redis *redis = client(&silent, &knows, 2000);
    assert_int_equal(ping(redis, &err), 0);
    end(&knows);
    end(&master);
    (void)close(silent.fd);
}

/* Nobody helps: what each said is in the error. */
static void no_sentinel_helps(void **state)
{
    struct peer ignorant = {0}, other = {.other = "-ERR go away\r\n"};
    struct kw_err err;
    char url[128];
    (void)state;

    start(&ignorant);
    start(&other);
    kw_cleanup(kw_redis_free) struct kw_redis *redis = client(&ignorant, &other, 60000);
    assert_int_equal(ping(redis, &err), -ENOENT);
    (void)snprintf(url, sizeof(url), "sentinel 127.0.0.1:%u: knows no master of this name",
                   ignorant.port);
    assert_non_null(strstr(err.text, url));
    (void)snprintf(url, sizeof(url), "sentinel 127.0.0.1:%u: knows no master", other.port);
    assert_non_null(strstr(err.text, url));
    end(&ignorant);
    end(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stale_sentinel),
        cmocka_unit_test(a_sentinel_that_hangs),
        cmocka_unit_test(no_sentinel_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
