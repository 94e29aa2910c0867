/* SPDX-License-Identifier: Apache-2.0 */
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
#include "common/http_server.h"
#include "tests/support/cmocka.h"
#include "tests/support/http_raw.h"

static void test_requests_are_answered(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();

    (void)state;
    kwt_http_check(server, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200",
                   "\r\n\r\nGET /healthz 0:");
    kwt_http_check(server, "GET /healthz HTTP/1.0\r\n\r\n", "200", "text/plain; charset=utf-8");
    kwt_http_check(
        server,
        "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        "200", "\r\n\r\nPOST /filter 2:{}");
    kwt_http_check(
        server,
        "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "200",
        "\r\n\r\nPOST /filter 0:");
    kwt_http_check(server, "GET /v1/nodes/a%20b HTTP/1.0\r\n\r\n", "200", "GET /v1/nodes/a b 0:");
    kwt_http_check(server, "GET http://h:1/healthz HTTP/1.0\r\n\r\n", "200", "GET /healthz 0:");
    kwt_http_check(server, "GET / HTTP/1.0\r\n\r\n", "200",
                   "text/html\r\nContent-Length: 13\r\n\r\n<p>static</p>");
    kwt_http_check(server, "GET /query?a=1%2b1&b HTTP/1.0\r\nAccept: x/y\r\n\r\n", "200",
                   "a=1+1 b= accept=x/y");
    kwt_http_check(server, "GET /query HTTP/1.0\r\n\r\n", "200", "a=(none) b=(none) accept=(none)");
    kwt_http_check(server, "\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n", "200", "GET /healthz 0:");
    kw_http_server_free(&server);
}

static void test_bodies_of_every_kind(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();
    struct kw_buf answer = {0};

    (void)state;
    kwt_http_check(server,
                   "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: "
                   "close\r\n\r\n"
                   "3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nTrailer: z\r\n\r\n",
                   "200", "POST /filter 4:abcd");
    kwt_http_exchange(
        server,
        "POST /filter HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
        "Connection: close\r\n\r\n{}",
        strlen("POST /filter HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
               "Content-Length: 2\r\nConnection: close\r\n\r\n{}"),
        &answer);
    assert_int_equal(strncmp(answer.data, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", 42),
                     0);
    kw_buf_free(&answer);
    kw_http_server_free(&server);
}

static void test_unknown_paths_and_methods(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();

    (void)state;
    kwt_http_check(server, "GET /nope HTTP/1.0\r\n\r\n", "404", "404 no such path");
    kwt_http_check(server, "GET /healthz/ HTTP/1.0\r\n\r\n", "404", "404");
    kwt_http_check(server, "GET /v1 HTTP/1.0\r\n\r\n", "404", "404");
    kwt_http_check(server, "OPTIONS * HTTP/1.0\r\n\r\n", "404", "404");
    kwt_http_check(server, "POST /healthz HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", "405",
                   "\r\nAllow: GET, HEAD\r\n");
    kwt_http_check(server, "GET /filter HTTP/1.0\r\n\r\n", "405", "\r\nAllow: POST\r\n");
    kwt_http_check(server, "PUT /both HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "405",
                   "\r\nAllow: GET, HEAD, POST\r\n");
    kwt_http_check(server, "BREW /both HTTP/1.0\r\n\r\n", "405", "405 method");
    kw_http_server_free(&server);
}

static void test_head_has_no_body(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();
    struct kw_buf answer = {0};

    (void)state;
    kwt_http_exchange(server, "HEAD / HTTP/1.0\r\n\r\n", 19, &answer);
    assert_non_null(strstr(answer.data, "Content-Length: 13\r\n"));
    assert_string_equal(answer.data + answer.len - 4, "\r\n\r\n");
    kw_buf_free(&answer);
    kw_http_server_free(&server);
}

static void test_pipelined_requests_and_keep_alive(void **state)
{
    struct kw_http_server *server = kwt_http_start_default();
    struct kw_buf requests = {0};
    struct kw_buf answer = {0};

    (void)state;
    for (unsigned i = 0; i < 50; i++)
        (void)kw_buf_addf(&requests,
                          "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nn%02u", i);
    /* a refused path does not cost the connection */
    (void)kw_buf_adds(&requests, "POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz"
                                 "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    kwt_http_exchange(server, requests.data, requests.len, &answer);
    assert_int_equal(kwt_http_count(&answer, "HTTP/1.1 200 OK\r\n"), 51);
    assert_int_equal(kwt_http_count(&answer, "HTTP/1.1 404 "), 1);
    assert_non_null(strstr(answer.data, "POST /filter 3:n00HTTP/1.1"));
    assert_non_null(strstr(answer.data, "POST /filter 3:n49HTTP/1.1"));
    kw_buf_free(&requests);
    kw_buf_free(&answer);
    kw_http_server_free(&server);
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",         "127.0.0.1",   "9890",
                                      "::1:9890", "127.0.0.1:x", "127.0.0.1:65536",
                                      "[::1]",    "unix:",       "no.such.host.invalid:1"};
    struct kw_http_server_conf conf = {
        .threads = 1, .max_header_bytes = 1024, .timeout_s = 1, .max_connections = 1};
    struct kw_http_server *server = kwt_http_start_default();
    struct kw_http_server *second = NULL;
    struct kw_err err = {0};
    char text[64];

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(bad); i++) {
        conf.listen = bad[i];
        assert_int_equal(kw_http_server_start(&conf, &second, &err), -EINVAL);
        assert_true(bad[i][0] == '\0' || strstr(err.text, bad[i]) != NULL);
    }
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", kw_http_server_port(server));
    conf.listen = text;
    assert_int_equal(kw_http_server_start(&conf, &second, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, text));
    assert_null(second);
    kw_http_server_free(&server);
    /* every address, and the port is free again at once */
    (void)snprintf(text, sizeof(text), ":0");
    server = kwt_http_start(text, 1, 60, 8, NULL);
    kwt_http_check(server, "GET /healthz HTTP/1.0\r\n\r\n", "200", "GET /healthz 0:");
    kw_http_server_free(&server);
    kw_http_server_free(&server);
}

static void test_unix_sockets(void **state)
{
    char folder[] = "/tmp/kwatt-http-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct kw_buf answer = {0};
    char listen[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", folder);
    (void)snprintf(listen, sizeof(listen), "unix:%s/s", folder);
    /* a name left behind by a process that died is replaced */
    int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(stale, (struct sockaddr *)&address, sizeof(address)), 0);
    (void)close(stale);
    struct kw_http_server *server = kwt_http_start(listen, 1, 60, 8, NULL);

    assert_int_equal(kw_http_server_port(server), 0);
    for (unsigned half = 0; half < 2; half++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        kwt_http_send(fd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 34);
        if (half == 1)
            (void)shutdown(fd, SHUT_WR);
        else
            kwt_http_send(fd, "GET /healthz HTTP/1.0\r\n\r\n", 25);
        kwt_http_receive(fd, &answer);
        assert_non_null(strstr(answer.data, "GET /healthz 0:"));
        (void)close(fd);
    }
    /* one that answers is not */
    struct kw_http_server *second = NULL;
    struct kw_err err = {0};
    struct kw_http_server_conf conf = {.listen = listen,
                                       .threads = 1,
                                       .max_header_bytes = 1024,
                                       .timeout_s = 1,
                                       .max_connections = 1};

    assert_int_equal(kw_http_server_start(&conf, &second, &err), -EADDRINUSE);
    kw_http_server_free(&server);
    assert_int_equal(rmdir(folder), 0);
    kw_buf_free(&answer);
}

static void *free_server(void *arg)
{
    kw_http_server_free(arg);
    return NULL;
}

static void test_stopping_lets_answers_end(void **state)
{
    atomic_bool go = false;
    struct kw_http_server *server = kwt_http_start("127.0.0.1:0", 1, 60, 8, &go);
    struct kw_buf answer = {0};
    pthread_t thread;
    int fd = kwt_http_dial(server);
    int idle = kwt_http_dial(server);

    (void)state;
    kwt_http_send(fd, "GET /wait HTTP/1.0\r\n\r\n", 22);
    (void)poll(NULL, 0, 100);
    assert_int_equal(pthread_create(&thread, NULL, free_server, &server), 0);
    (void)poll(NULL, 0, 100);
    atomic_store(&go, true);
    kwt_http_receive(fd, &answer);
    assert_non_null(strstr(answer.data, "\r\n\r\nwent"));
    (void)pthread_join(thread, NULL);
    assert_null(server);
    (void)close(fd);
    (void)close(idle);
    kw_buf_free(&answer);
}

/** Requests that came while the server's only thread was busy, and that it has not read when it is
 * told to stop. */
static void test_stopping_answers_what_has_come(void **state)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char wait[] = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n";
    atomic_bool go = false;
    struct kw_http_server *server = kwt_http_start("127.0.0.1:0", 1, 60, 32, &go);
    struct kw_buf answer = {0};
    pthread_t thread;
    int fds[16];
    char first[512];

    (void)state;
    for (unsigned i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        fds[i] = kwt_http_dial(server);
        kwt_http_send(fds[i], request, sizeof(request) - 1);
        assert_true(recv(fds[i], first, sizeof(first), 0) > 0); /* it is accepted */
    }
    kwt_http_send(fds[0], wait, sizeof(wait) - 1);
    (void)poll(NULL, 0, 100);
    for (unsigned i = 1; i < KW_ARRAY_SIZE(fds); i++)
        kwt_http_send(fds[i], request, sizeof(request) - 1);
    assert_int_equal(pthread_create(&thread, NULL, free_server, &server), 0);
    (void)poll(NULL, 0, 100);
    atomic_store(&go, true);
    for (unsigned i = 0; i < KW_ARRAY_SIZE(fds); i++) {
        kwt_http_receive(fds[i], &answer);
        assert_non_null(strstr(answer.data, i == 0 ? "\r\n\r\nwent" : "GET /healthz 0:"));
        (void)close(fds[i]);
    }
    (void)pthread_join(thread, NULL);
    kw_buf_free(&answer);
}

static void test_bad_limits_are_named(void **state)
{
    struct kw_http_server_conf conf = {.listen = "127.0.0.1:0"};
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(kw_http_server_start(&conf, &server, &err), -EINVAL);
    assert_non_null(strstr(err.text, "threads"));
    conf.threads = 1;
    assert_int_equal(kw_http_server_start(&conf, &server, &err), -EINVAL);
    conf.max_header_bytes = 1024;
    assert_int_equal(kw_http_server_start(&conf, &server, &err), -EINVAL);
    assert_null(server);
}

/** Where the buffers of a connection lay, request by request. */
struct places {
    const char *body[8];
    const char *answer[8];
    unsigned n;
};

static void note_places(void *user, const struct kw_http_request *request,
                        struct kw_http_response *response)
{
    struct places *places = user;

    (void)kw_buf_add(response->body, request->body, request->body_len);
    if (places->n < KW_ARRAY_SIZE(places->body)) {
        places->body[places->n] = request->body;
        places->answer[places->n] = response->body->data;
    }
    places->n++;
}

/* A steady stream of requests allocates nothing of ours: the buffers stay where they are. */
static void test_buffers_are_kept_between_requests(void **state)
{
    struct places places = {0};
    const struct kw_http_route routes[] = {{"POST", "/x", note_places, &places}};
    struct kw_http_server_conf conf = {.listen = "127.0.0.1:0",
                                       .threads = 1,
                                       .max_body_bytes = 1u << 20,
                                       .max_header_bytes = 4096,
                                       .timeout_s = 60,
                                       .max_connections = 4,
                                       .routes = routes,
                                       .n_routes = 1};
    struct kw_http_server *server = NULL;
    struct kw_buf requests = {0};
    struct kw_buf answer = {0};

    (void)state;
    kwt_http_secure(&conf);
    assert_int_equal(kw_http_server_start(&conf, &server, NULL), 0);
    for (unsigned i = 0; i < 6; i++)
        (void)kw_buf_addf(
            &requests,
            "POST /x HTTP/1.1\r\nHost: x\r\nConnection: %s\r\nContent-Length: 5000\r\n\r\n%05000u",
            i == 5 ? "close" : "keep-alive", i);
    kwt_http_exchange(server, requests.data, requests.len, &answer);
    assert_int_equal(places.n, 6);
    for (unsigned i = 1; i < places.n; i++) {
        assert_ptr_equal(places.body[i], places.body[0]);
        assert_ptr_equal(places.answer[i], places.answer[0]);
    }
    kw_buf_free(&requests);
    kw_buf_free(&answer);
    kw_http_server_free(&server);
}

#define LENT_BYTES (16u << 20)

/** Bytes that answers are sent from, and how many of them need the bytes. */
struct lender {
    char *bytes;
    atomic_uint held, most;
};

static void lend(void *user, const struct kw_http_request *request,
                 struct kw_http_response *response)
{
    struct lender *lender = user;

    if (request->body_len > 0) { /* or of the request itself */
        request->own->data[0] = '#';
        response->static_body = request->own->data;
        response->static_len = request->body_len;
        return;
    }
    unsigned held = atomic_fetch_add(&lender->held, 1) + 1;
    if (held > atomic_load(&lender->most))
        atomic_store(&lender->most, held);
    response->static_body = lender->bytes;
    response->static_len = LENT_BYTES;
    response->held = &lender->held;
}

/* Bytes are given back once: when the answer is out, and when nobody reads it to its end. */
static void test_lent_bytes_are_given_back(void **state)
{
    struct lender lender = {.bytes = calloc(1, LENT_BYTES)};
    const struct kw_http_route routes[] = {{"POST", "/x", lend, &lender}};
    struct kw_http_server_conf conf = {.listen = "127.0.0.1:0",
                                       .threads = 1,
                                       .max_body_bytes = 1u << 20,
                                       .max_header_bytes = 4096,
                                       .timeout_s = 60,
                                       .max_connections = 4,
                                       .routes = routes,
                                       .n_routes = 1};
    static const char ask[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    static const char last[] = "POST /x HTTP/1.0\r\nContent-Length: 0\r\n\r\n";
    struct kw_http_server *server = NULL;
    struct kw_buf answer = {0};

    (void)state;
    assert_non_null(lender.bytes);
    kwt_http_secure(&conf);
    assert_int_equal(kw_http_server_start(&conf, &server, NULL), 0);
    int deaf[2] = {kwt_http_dial(server), kwt_http_dial(server)};
    for (size_t i = 0; i < KW_ARRAY_SIZE(deaf); i++)
        kwt_http_send(deaf[i], ask, sizeof(ask) - 1);
    for (unsigned i = 0; i < 2000 && atomic_load(&lender.held) < 2; i++)
        (void)poll(NULL, 0, 5);
    assert_int_equal(atomic_load(&lender.held), 2);
    kwt_http_exchange(server, last, sizeof(last) - 1, &answer);
    assert_true(answer.len > LENT_BYTES);
    assert_int_equal(atomic_load(&lender.most), 3);
    for (size_t i = 0; i < KW_ARRAY_SIZE(deaf); i++)
        (void)close(deaf[i]);
    for (unsigned i = 0; i < 2000 && atomic_load(&lender.held) > 0; i++)
        (void)poll(NULL, 0, 5);
    assert_int_equal(atomic_load(&lender.held), 0);
    kwt_http_check(server, "POST /x HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "200",
                   "\r\n\r\n#bc");
    kw_buf_free(&answer);
    kw_http_server_free(&server);
    free(lender.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_answered),
        cmocka_unit_test(test_bodies_of_every_kind),
        cmocka_unit_test(test_unknown_paths_and_methods),
        cmocka_unit_test(test_head_has_no_body),
        cmocka_unit_test(test_pipelined_requests_and_keep_alive),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_unix_sockets),
        cmocka_unit_test(test_stopping_lets_answers_end),
        cmocka_unit_test(test_stopping_answers_what_has_come),
        cmocka_unit_test(test_bad_limits_are_named),
        cmocka_unit_test(test_buffers_are_kept_between_requests),
        cmocka_unit_test(test_lent_bytes_are_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
