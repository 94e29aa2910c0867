/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/http_server.h"
#include "tests/support/cmocka.h"
#include "tests/support/http_raw.h"

/* Well above what is answered on a thread of the library. */
#define LARGE_BYTES ((size_t)3 << 20)

/* The first byte of a body says whose it is. A large one is held until `go`. */
struct held {
    atomic_bool go;
    atomic_uint begun;
    char order[16]; /* in which large ones were answered */
    unsigned n;
};

static void answer(void *user, const struct kw_http_request *request,
                   struct kw_http_response *response)
{
    struct held *held = user;

    if (request->body_len >= LARGE_BYTES) {
        (void)atomic_fetch_add(&held->begun, 1);
        while (!atomic_load(&held->go))
            (void)poll(NULL, 0, 5);
        held->order[held->n++] = request->body[0];
        (void)kw_buf_addf(response->body, "query=%s ", kw_http_request_query(request, "q"));
    }
    (void)kw_buf_addf(response->body, "%s %s %zu:%c", request->method, request->path,
                      request->body_len, request->body[0]);
}

/* One thread of the library, so that whatever held it would hold everyone. */
static struct kw_http_server *start(struct held *held)
{
    const struct kw_http_route routes[] = {{"POST", "/x", answer, held}};
    struct kw_http_server_conf conf = {.listen = "127.0.0.1:0",
                                       .threads = 1,
                                       .max_body_bytes = LARGE_BYTES + 1,
                                       .max_header_bytes = 4096,
                                       .timeout_s = 60,
                                       .max_connections = 64,
                                       .routes = routes,
                                       .n_routes = 1};
    struct kw_http_server *server = NULL;

    kwt_http_secure(&conf);
    assert_int_equal(kw_http_server_start(&conf, &server, NULL), 0);
    return server;
}

/* A large body of this letter, and further requests behind it. */
static void send_large(int fd, char letter, const char *more)
{
    kw_cleanup_free char *bytes = malloc(LARGE_BYTES);
    char head[128];

    assert_non_null(bytes);
    memset(bytes, letter, LARGE_BYTES);
    (void)snprintf(head, sizeof(head),
                   "POST /x?q=%c HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", letter,
                   LARGE_BYTES);
    kwt_http_send(fd, head, strlen(head));
    kwt_http_send(fd, bytes, LARGE_BYTES);
    kwt_http_send(fd, more, strlen(more));
}

static void wait_until_begun(struct held *held, unsigned n)
{
    while (atomic_load(&held->begun) < n)
        (void)poll(NULL, 0, 5);
}

#define SMALL "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\ns"
#define LAST  "POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nl"

/* Others are answered while large bodies are worked on, which come one after the other. */
static void test_others_are_answered_beside_large_ones(void **state)
{
    struct held held = {0};
    struct kw_http_server *server = start(&held);
    struct kw_buf got = {0};
    int fds[4];
    char expected[128];

    (void)state;
    for (unsigned i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        fds[i] = kwt_http_dial(server);
        send_large(fds[i], (char)('a' + i), LAST);
    }
    wait_until_begun(&held, 1);
    for (unsigned i = 0; i < 50; i++)
        kwt_http_check(server, LAST, "200", "\r\n\r\nPOST /x 1:l");
    assert_int_equal(atomic_load(&held.begun), 1);
    atomic_store(&held.go, true);
    for (unsigned i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        kwt_http_receive(fds[i], &got);
        (void)snprintf(expected, sizeof(expected), "\r\n\r\nquery=%c POST /x %zu:%cHTTP/1.1 200",
                       'a' + i, LARGE_BYTES, 'a' + i);
        assert_non_null(strstr(got.data, expected));
        assert_non_null(strstr(got.data, "\r\n\r\nPOST /x 1:l"));
        (void)close(fds[i]);
    }
    assert_int_equal(held.n, KW_ARRAY_SIZE(fds));
    kw_buf_free(&got);
    kw_http_server_free(&server);
}

/* A client that ends its side early gets its answer, and one that goes away does no harm. */
static void test_half_closed_and_gone_clients(void **state)
{
    struct held held = {0};
    struct kw_http_server *server = start(&held);
    struct kw_buf got = {0};
    int half = kwt_http_dial(server), gone = kwt_http_dial(server);
    int late = kwt_http_dial(server);

    (void)state;
    send_large(half, 'h', "");
    (void)shutdown(half, SHUT_WR);
    wait_until_begun(&held, 1);
    send_large(gone, 'g', SMALL);
    (void)close(gone);
    send_large(late, 'l', "");
    kwt_http_check(server, LAST, "200", "POST /x 1:l");
    (void)shutdown(late, SHUT_WR);
    atomic_store(&held.go, true);
    kwt_http_receive(half, &got);
    assert_non_null(strstr(got.data, "\r\n\r\nquery=h POST /x "));
    kwt_http_receive(late, &got);
    assert_non_null(strstr(got.data, "\r\n\r\nquery=l POST /x "));
    kwt_http_check(server, LAST, "200", "POST /x 1:l");
    (void)close(half);
    (void)close(late);
    kw_buf_free(&got);
    kw_http_server_free(&server);
}

static void *free_server(void *arg)
{
    kw_http_server_free(arg);
    return NULL;
}

/* What waits when the server is told to stop is still answered. */
static void test_stopping_answers_large_ones(void **state)
{
    struct held held = {0};
    struct kw_http_server *server = start(&held);
    struct kw_buf got = {0};
    pthread_t thread;
    int fds[3];

    (void)state;
    for (unsigned i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        fds[i] = kwt_http_dial(server);
        send_large(fds[i], 's', "");
    }
    wait_until_begun(&held, 1);
    assert_int_equal(pthread_create(&thread, NULL, free_server, &server), 0);
    (void)poll(NULL, 0, 100);
    atomic_store(&held.go, true);
    for (unsigned i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        kwt_http_receive(fds[i], &got);
        assert_non_null(strstr(got.data, "\r\n\r\nquery=s POST /x "));
        assert_non_null(strstr(got.data, "Connection: close"));
        (void)close(fds[i]);
    }
    (void)pthread_join(thread, NULL);
    assert_null(server);
    kw_buf_free(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_are_answered_beside_large_ones),
        cmocka_unit_test(test_half_closed_and_gone_clients),
        cmocka_unit_test(test_stopping_answers_large_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
