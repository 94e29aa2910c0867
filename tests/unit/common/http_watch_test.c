/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/http_watch.h"
#include "tests/support/cmocka.h"

/* The end of a stream and each shutdown make up to three edges, so that this many take two of the
 * watch's own at least: at 10 and at 30 ms. On a slow machine they come later, never earlier. */
#define EDGES       8
#define EARLIEST_MS 30

static void test_its_own_edges_are_no_news(void **state)
{
    struct kw_http_watch *watch = NULL;
    struct kw_http_peer peer = {0};
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    int fds[2], server = epoll_create1(EPOLL_CLOEXEC);

    (void)state;
    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(kw_http_watch_start(3600, NULL, NULL, &watch), 0);
    peer.fd = fds[0];
    kw_http_peer_phase(&peer, KW_HTTP_WAITING);
    assert_int_equal(kw_http_watch_add(watch, &peer), 0);
    assert_return_code(epoll_ctl(server, EPOLL_CTL_ADD, peer.fd, &event), 0);
    uint64_t begin_ns = kw_now_ns();
    assert_return_code(shutdown(fds[1], SHUT_WR), 0);
    for (unsigned i = 0; i < EDGES; i++)
        assert_int_equal(epoll_wait(server, &event, 1, -1), 1);
    assert_true(kw_now_ns() - begin_ns >= EARLIEST_MS * KW_NS_PER_MS);
    kw_http_watch_remove(watch, &peer);
    kw_http_watch_free(&watch);
    (void)close(server);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* Nobody wakes the thread for the second one. */
static void test_deadlines_of_all_are_kept(void **state)
{
    struct kw_http_watch *watch = NULL;
    struct kw_http_peer peers[2] = {{0}, {0}};
    int fds[2][2];
    char byte;

    (void)state;
    assert_int_equal(kw_http_watch_start(1, NULL, NULL, &watch), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[i]), 0);
        peers[i].fd = fds[i][0];
        kw_http_peer_phase(&peers[i], KW_HTTP_WAITING);
        assert_int_equal(kw_http_watch_add(watch, &peers[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(recv(fds[i][1], &byte, 1, 0), 0);
    for (unsigned i = 0; i < 2; i++) {
        kw_http_watch_remove(watch, &peers[i]);
        (void)close(fds[i][0]);
        (void)close(fds[i][1]);
    }
    kw_http_watch_free(&watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_own_edges_are_no_news),
        cmocka_unit_test(test_deadlines_of_all_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
