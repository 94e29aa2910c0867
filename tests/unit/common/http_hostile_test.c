/* SPDX-License-Identifier: Apache-2.0 */
/* What hostile, broken and slow clients can send to the HTTP server. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/support/cmocka.h"
#include "tests/support/http_raw.h"

static void test_ambiguous_framing_is_refused(void **state)
{
    static const struct {
        const char *status, *request;
    } rows[] = {
        {"400",
         "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"},
        {"400", "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello"},
        {"400", "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
                "chunked\r\n\r\n0\r\n\r\n"},
        {"400", "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: "
                "5\r\n\r\n0\r\n\r\n"},
        {"400", "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nA: b\nTransfer-Encoding: "
                "chunked\r\n\r\n0\r\n\r\n"},
        {"400", "POST /filter HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {"501",
         "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {"501", "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n"},
        {"501",
         "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
         "chunked\r\n\r\n"},
        {"411", "POST /filter HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"411", "POST /nope HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\n: v\r\nHost: x\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\nHost: x\r\n: v\r\nA: b\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\nHost: x\r\n:\r\nA: b\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\nHost: x\n: v\nA: b\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\nHost: x\n:\r\nA: b\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\nHost:\r\n:\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\nHost: x\n:n\nA: b\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\nHost x\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\nHost: x\r\n\tContent-Length: 5\r\n\r\nhello"},
        {"400", "GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\rContent-Length: 5\r\n\r\nhello"},
        {"400", "GET /healthz HTTP/1.1\nHost: x\n\n"},
        {"400", "GET /healthz  HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"400", "GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"400", "GET /health z HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"400", "GET /healthz%00 HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"400", "GET /query?a=%00 HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"400", "GET /healthz HTTP/1.1\r\n\r\n"},
        {"400", "POST /filter HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"},
        {"400", "GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\nhost: x\r\n\r\n"},
        {"505", "GET /healthz HTTP/3.1\r\nHost: x\r\n\r\n"},
    };
    struct kw_http_server *server = kwt_http_start_default();

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++)
        kwt_http_check(server, rows[i].request, rows[i].status, "Connection: close");
    /* the same length twice is one length */
    kwt_http_check(server,
                   "POST /filter HTTP/1.0\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\n{}",
                   "200", "POST /filter 2:{}");
    kw_http_server_free(&server);
}

/* libmicrohttpd answers these before the request comes to us, and 0.9.75 then sends the head twice:
 * the status is right and the connection ends, so that is what counts. */
static void test_bad_lengths_are_refused(void **state)
{
    static const struct {
        const char *status, *length;
    } rows[] = {{"400", "5, 5"}, {"400", "+5"}, {"400", "-5"},  {"400", "0x5"},
                {"400", ""},     {"400", "x"},  {"400", "5 6"}, {"413", "99999999999999999999"}};
    struct kw_http_server *server = kwt_http_start_default();
    struct kw_buf answer = {0};

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        char request[128];
        char line[32];

        (void)snprintf(request, sizeof(request),
                       "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\nhello",
                       rows[i].length);
        (void)snprintf(line, sizeof(line), "HTTP/1.1 %s ", rows[i].status);
        kwt_http_exchange(server, request, strlen(request), &answer);
        assert_int_equal(strncmp(answer.data, line, strlen(line)), 0);
        assert_int_equal(kwt_http_count(&answer, "POST /filter"), 0);
    }
    kw_buf_free(&answer);
    kw_http_server_free(&server);
}

static void test_nul_bytes_are_refused(void **state)
{
    static const char in_value[] = "GET /healthz HTTP/1.1\r\nHost: x\0y\r\n\r\n";
    static const char in_name[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nA\0B: c\r\n\r\n";
    static const char at_start[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\0A: b\r\nC: d\r\n\r\n";
    static const char in_path[] = "GET /healthz\0.js HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char in_method[] = "GET\0 /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    struct kw_http_server *server = kwt_http_start_default();

    (void)state;
    kwt_http_check_bytes(server, in_value, sizeof(in_value) - 1, "400", "");
    kwt_http_check_bytes(server, in_name, sizeof(in_name) - 1, "400", "");
    kwt_http_check_bytes(server, at_start, sizeof(at_start) - 1, "400", "");
    kwt_http_check_bytes(server, in_path, sizeof(in_path) - 1, "400", "");
    kwt_http_check_bytes(server, in_method, sizeof(in_method) - 1, "400", "");
    kw_http_server_free(&server);
}

static void test_limits(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();
    struct kw_buf request = {0};

    (void)state;
    /* too long a head, as long as it fits libmicrohttpd's buffer and beyond it */
    for (size_t len = KWT_HTTP_MAX_HEADER; len < 40 * KWT_HTTP_MAX_HEADER; len *= 5) {
        kw_buf_reset(&request);
        (void)kw_buf_adds(&request, "GET /healthz HTTP/1.1\r\nHost: x\r\nA: ");
        for (size_t i = 0; i < len; i++)
            (void)kw_buf_adds(&request, "a");
        (void)kw_buf_adds(&request, "\r\n\r\n");
        kwt_http_check_bytes(server, request.data, request.len, "431", "Connection: close");
    }
    /* a length over the limit is refused before its body; the client still gets to read the answer
     */
    kwt_http_check(server, "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n",
                   "413", "413 the body");
    kw_buf_reset(&request);
    (void)kw_buf_adds(&request,
                      "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
    for (unsigned i = 0; i < 800000; i++)
        (void)kw_buf_adds(&request, "0123456789");
    kwt_http_check_bytes(server, request.data, request.len, "413", "413 the body");
    /* chunks over the limit */
    kw_buf_reset(&request);
    (void)kw_buf_adds(&request,
                      "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < 130; i++) {
        (void)kw_buf_adds(&request, "2710\r\n");
        for (unsigned k = 0; k < 1000; k++)
            (void)kw_buf_adds(&request, "0123456789");
        (void)kw_buf_adds(&request, "\r\n");
    }
    (void)kw_buf_adds(&request, "0\r\n\r\n");
    kwt_http_check_bytes(server, request.data, request.len, "413", "413 the body");
    /* a body of just the limit */
    kw_buf_reset(&request);
    (void)kw_buf_addf(&request, "POST /filter HTTP/1.0\r\nContent-Length: %u\r\n\r\n",
                      KWT_HTTP_MAX_BODY);
    for (unsigned i = 0; i < KWT_HTTP_MAX_BODY / 16; i++)
        (void)kw_buf_adds(&request, "0123456789abcdef");
    kwt_http_check_bytes(server, request.data, request.len, "200", "POST /filter 1048576:");
    kw_buf_free(&request);
    kw_http_server_free(&server);
}

static void test_one_byte_at_a_time(void **state)
{
    static const char request[] =
        "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    struct kw_http_server *server = kwt_http_start_default();
    struct kw_buf answer = {0};
    int fd = kwt_http_dial(server);

    (void)state;
    for (size_t i = 0; i < sizeof(request) - 1; i++) {
        kwt_http_send(fd, request + i, 1);
        (void)poll(NULL, 0, 1);
    }
    kwt_http_receive(fd, &answer);
    assert_non_null(strstr(answer.data, "POST /filter 5:hello"));
    (void)close(fd);
    kw_buf_free(&answer);
    kw_http_server_free(&server);
}

/* Sends, ends its own direction, and wants the server to close soon and not after its 60 s. */
static void check_half_closed(const struct kw_http_server *server, const char *bytes, size_t len,
                              const char *part)
{
    struct kw_buf answer = {0};
    uint64_t start_ns = kw_now_ns();
    int fd = kwt_http_dial(server);

    kwt_http_send(fd, bytes, len);
    (void)shutdown(fd, SHUT_WR);
    kwt_http_receive(fd, &answer);
    assert_true(kw_now_ns() - start_ns < 30 * KW_NS_PER_S);
    assert_non_null(strstr(answer.data, part));
    (void)close(fd);
    kw_buf_free(&answer);
}

static void test_half_closed_connections_end(void **state)
{
    static const char whole[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char body[] = "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel";
    struct kw_http_server *server = kwt_http_start_default();
    struct kw_buf request = {0};

    (void)state;
    for (size_t len = 0; len < sizeof(whole) - 1; len += 3)
        check_half_closed(server, whole, len, "");
    check_half_closed(server, whole, sizeof(whole) - 1, "GET /healthz 0:");
    check_half_closed(server, body, sizeof(body) - 1, "");
    /* what was sent before the end is still read */
    (void)kw_buf_addf(&request, "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n",
                      KWT_HTTP_MAX_BODY);
    for (unsigned i = 0; i < KWT_HTTP_MAX_BODY / 16; i++)
        (void)kw_buf_adds(&request, "0123456789abcdef");
    check_half_closed(server, request.data, request.len, "POST /filter 1048576:");
    check_half_closed(server, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n", 32, "0123456789");
    kw_buf_free(&request);
    kw_http_server_free(&server);
}

static void test_garbage_does_not_harm(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();
    uint64_t random = 88172645463325252u;
    char bytes[512];

    (void)state;
    for (unsigned round = 0; round < 300 && round < KWT_HTTP_MANY; round++) {
        int fd = kwt_http_dial(server);
        size_t len = 1 + round % sizeof(bytes);

        for (size_t i = 0; i < len; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes[i] = (char)random;
        }
        kwt_http_send(fd, bytes, len);
        (void)close(fd);
    }
    kwt_http_check(server, "GET /healthz HTTP/1.0\r\n\r\n", "200", "GET /healthz 0:");
    kw_http_server_free(&server);
}

static void test_thousands_of_connections(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();

    (void)state;
    for (unsigned i = 0; i < KWT_HTTP_MANY; i++) {
        int fd = kwt_http_dial(server);

        if (i % 3 == 0)
            kwt_http_send(fd, "GET /heal", 9);
        (void)close(fd);
    }
    kwt_http_check(server, "GET /healthz HTTP/1.0\r\n\r\n", "200", "GET /healthz 0:");
    kw_http_server_free(&server);
}

static void test_connection_limit(void **state)
{
    struct kw_http_server *server = kwt_http_start("127.0.0.1:0", 2, 60, 4, NULL);
    struct kw_buf answer = {0};
    int fds[4];
    char bytes[512];

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        fds[i] = kwt_http_dial(server);
        kwt_http_send(fds[i], "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 34);
        assert_true(recv(fds[i], bytes, sizeof(bytes), 0) > 0);
    }
    int extra = kwt_http_dial(server);

    assert_true(recv(extra, bytes, sizeof(bytes), 0) <= 0); /* closed at once */
    (void)close(extra);
    /* a place that gets free can be taken; the server may need a moment to see it */
    (void)close(fds[0]);
    for (unsigned i = 0; i < 1000 && answer.len == 0; i++) {
        int fd = kwt_http_dial(server);

        kwt_http_send(fd, "GET /healthz HTTP/1.0\r\n\r\n", 25);
        ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

        if (n > 0)
            (void)kw_buf_add(&answer, bytes, (size_t)n);
        else
            (void)poll(NULL, 0, 10);
        (void)close(fd);
    }
    assert_true(answer.len > 0);
    for (size_t i = 1; i < KW_ARRAY_SIZE(fds); i++)
        (void)close(fds[i]);
    kw_buf_free(&answer);
    kw_http_server_free(&server);
}

static void test_slow_senders_are_ended(void **state)
{
    static const char head[] = "GET /healthz HTTP/1.1\r\nHost: x";
    struct kw_http_server *server = kwt_http_start("127.0.0.1:0", 1, 1, 16, NULL);
    int fd = kwt_http_dial(server);
    unsigned sent = 0;

    (void)state;
    kwt_http_send(fd, head, sizeof(head) - 1);
    /* a byte every 100 ms is progress to libmicrohttpd, for ever */
    while (sent < 400 && send(fd, "y", 1, MSG_NOSIGNAL) == 1) {
        sent++;
        (void)poll(NULL, 0, 100);
    }
    assert_true(sent < 400);
    (void)close(fd);
    kw_http_server_free(&server);
}

/* Whether a request on a connection of its own is answered; the connection stays open. */
static int try_request(const struct kw_http_server *server)
{
    int fd = kwt_http_dial(server);
    char line[16] = "";

    kwt_http_send(fd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 34);
    if (recv(fd, line, 12, MSG_WAITALL) == 12 && strncmp(line, "HTTP/1.1 200", 12) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* A client that asks for 64 MB and reads none of it: others are served by the same thread, and its
 * place (one of two) gets free once its time is over. */
static void test_slow_readers_are_ended(void **state)
{
    struct kw_http_server *server = kwt_http_start("127.0.0.1:0", 1, 2, 2, NULL);
    int slow = kwt_http_dial(server);
    int fds[2] = {-1, -1};

    (void)state;
    for (unsigned i = 0; i < 64; i++)
        kwt_http_send(slow, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n", 32);
    for (unsigned i = 0; i < 20; i++) {
        kwt_http_check(server, "GET /healthz HTTP/1.0\r\n\r\n", "200", "GET /healthz 0:");
        (void)poll(NULL, 0, 5);
    }
    for (unsigned i = 0; i < 400 && fds[1] < 0; i++) {
        for (size_t at = 0; at < KW_ARRAY_SIZE(fds); at++) {
            if (fds[at] >= 0)
                (void)close(fds[at]); /* idle for too long by now */
            fds[at] = try_request(server);
        }
        (void)poll(NULL, 0, 50);
    }
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    for (size_t at = 0; at < KW_ARRAY_SIZE(fds); at++)
        (void)close(fds[at]);
    (void)close(slow);
    kw_http_server_free(&server);
}

/* Bodies that are begun and never ended, until no more are taken; then all of them let go. */
static void test_a_crowd_of_bodies_is_bounded(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();
    kw_cleanup_free char *bytes = malloc(KWT_HTTP_MAX_BODY);
    int fds[12];
    char head[128];

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'b', KWT_HTTP_MAX_BODY);
    (void)snprintf(head, sizeof(head),
                   "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n",
                   KWT_HTTP_MAX_BODY);
    for (size_t i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        fds[i] = kwt_http_dial(server);
        kwt_http_send(fds[i], head, strlen(head));
        kwt_http_send(fds[i], bytes, KWT_HTTP_MAX_BODY - 1);
    }
    /* all is received but the last bytes: the ones that came first are kept */
    (void)poll(NULL, 0, 300);
    unsigned refused = 0;

    for (size_t i = KW_ARRAY_SIZE(fds); i > 0; i--) {
        char line[16] = "";

        kwt_http_send(fds[i - 1], "b", 1);
        assert_int_equal(recv(fds[i - 1], line, 12, MSG_WAITALL), 12);
        if (strncmp(line, "HTTP/1.1 503", 12) == 0)
            refused++;
        (void)close(fds[i - 1]);
    }
    /* how many were at hand at the same time is up to the scheduler, but 8 always have room */
    assert_true(refused <= KW_ARRAY_SIZE(fds) - 8);
    /* nothing stays charged: as many fit again, one after the other */
    for (size_t i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        (void)snprintf(head, sizeof(head), "POST /filter HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc");
        kwt_http_check(server, head, "200", "POST /filter 3:abc");
    }
    kw_http_server_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ambiguous_framing_is_refused),
        cmocka_unit_test(test_bad_lengths_are_refused),
        cmocka_unit_test(test_nul_bytes_are_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_one_byte_at_a_time),
        cmocka_unit_test(test_half_closed_connections_end),
        cmocka_unit_test(test_garbage_does_not_harm),
        cmocka_unit_test(test_thousands_of_connections),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_slow_senders_are_ended),
        cmocka_unit_test(test_slow_readers_are_ended),
        cmocka_unit_test(test_a_crowd_of_bodies_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
