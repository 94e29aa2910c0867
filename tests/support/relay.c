/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/relay.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static int dial(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static bool send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

static void pass_on(struct kwt_relay *relay, int near, int far)
{
    size_t passed = 0;
    char bytes[16384];

    while (!atomic_load(&relay->stop)) {
        struct pollfd pfds[] = {{.fd = near, .events = POLLIN},
                                {.fd = relay->piece_bytes > 0 ? far : -1, .events = POLLIN}};
        if (poll(pfds, 2, 20) <= 0)
            continue;
        if (pfds[0].revents != 0) {
            ssize_t n = recv(near, bytes, sizeof(bytes), 0);
            if (n <= 0 || !send_all(far, bytes, (size_t)n))
                return;
        }
        if (pfds[1].revents != 0) {
            ssize_t n = recv(far, bytes, relay->piece_bytes, 0);
            if (n <= 0 || !send_all(near, bytes, (size_t)n))
                return;
            passed += (size_t)n;
            if (relay->stop_after > 0 && passed >= relay->stop_after)
                return;
            if (relay->pause_ms > 0)
                (void)poll(NULL, 0, relay->pause_ms);
        }
    }
}

static void *run_relay(void *user)
{
    struct kwt_relay *relay = user;

    while (!atomic_load(&relay->stop)) {
        struct pollfd pfd = {.fd = relay->listener, .events = POLLIN};
        if (poll(&pfd, 1, 20) <= 0)
            continue;
        kw_cleanup_close int near = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
        if (near < 0)
            continue;
        kw_cleanup_close int far = dial(relay->to);
        int one = 1;
        (void)setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        pass_on(relay, near, far);
    }
    return NULL;
}

void kwt_relay_start(struct kwt_relay *relay, uint16_t to)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);

    relay->to = to;
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(relay->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(relay->listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(listen(relay->listener, 8), 0);
    relay->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&relay->thread, NULL, run_relay, relay), 0);
}

void kwt_relay_end(struct kwt_relay *relay)
{
    atomic_store(&relay->stop, true);
    (void)pthread_join(relay->thread, NULL);
    (void)close(relay->listener);
}
