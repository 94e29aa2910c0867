/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/http_client.h"
#include "common/http_server.h"
#include "tests/support/cmocka.h"

/** A server that answers every connection with fixed bytes, and remembers the last request. */
struct raw_server {
    int fd;
    uint16_t port;
    const char *answer;
    bool hold; /* keep the connection open after the answer until the client leaves */
    char seen[8192];
    pthread_t thread;
};

static void serve_one(struct raw_server *server, int fd)
{
    size_t len = 0;

    server->seen[0] = '\0';
    while (len < sizeof(server->seen) - 1 && strstr(server->seen, "\r\n\r\n") == NULL) {
        ssize_t n = recv(fd, server->seen + len, sizeof(server->seen) - 1 - len, 0);

        if (n <= 0)
            return;
        len += (size_t)n;
        server->seen[len] = '\0';
    }
    (void)send(fd, server->answer, strlen(server->answer), MSG_NOSIGNAL);
    if (server->hold) {
        char byte;

        (void)recv(fd, &byte, 1, 0);
    }
}

static void *serve(void *arg)
{
    struct raw_server *server = arg;

    for (;;) {
        int fd = accept(server->fd, NULL, NULL);

        if (fd < 0)
            return NULL;
        serve_one(server, fd);
        (void)close(fd);
    }
}

static void start_raw(struct raw_server *server, const char *answer, bool hold)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    *server = (struct raw_server){.answer = answer, .hold = hold};
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(server->fd, 8), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop_raw(struct raw_server *server)
{
    (void)shutdown(server->fd, SHUT_RDWR);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->fd);
}

static struct kw_http_client *new_client(const struct kw_http_client_conf *base, uint16_t port)
{
    struct kw_http_client_conf conf = *base;
    struct kw_http_client *client = NULL;
    struct kw_err err = {0};
    char url[64];

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
    if (conf.base_url == NULL)
        conf.base_url = url;
    if (kw_http_client_new(&conf, &client, &err) < 0)
        fail_msg("%s", err.text);
    return client;
}

static void echo(void *user, const struct kw_http_request *request,
                 struct kw_http_response *response)
{
    (void)user;
    (void)kw_buf_addf(response->body, "%s %s ", request->method, request->path);
    (void)kw_buf_add(response->body, request->body, request->body_len);
    if (strcmp(request->path, "/echo/missing") == 0)
        response->status = 404;
}

static struct kw_http_server *start_server(const char *listen)
{
    static const struct kw_http_route routes[] = {{"GET", "/echo/*", echo, NULL},
                                                  {"POST", "/echo/*", echo, NULL},
                                                  {"PATCH", "/echo/*", echo, NULL},
                                                  {"DELETE", "/echo/*", echo, NULL}};
    struct kw_http_server_conf conf = {.listen = listen,
                                       .threads = 1,
                                       .max_body_bytes = 8u << 20,
                                       .max_header_bytes = 16384,
                                       .timeout_s = 60,
                                       .max_connections = 16,
                                       .routes = routes,
                                       .n_routes = KW_ARRAY_SIZE(routes)};
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};

    if (kw_http_server_start(&conf, &server, &err) < 0)
        fail_msg("%s", err.text);
    return server;
}

static void check_call(struct kw_http_client *client, const struct kw_http_call *call,
                       unsigned wanted_status, const char *wanted_body)
{
    struct kw_buf body = {0};
    struct kw_err err = {0};
    unsigned status = 0;

    if (kw_http_client_call(client, call, &status, &body, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(status, wanted_status);
    assert_string_equal(body.data, wanted_body);
    kw_buf_free(&body);
}

static void test_methods_and_bodies(void **state)
{
    struct kw_http_server *server = start_server("127.0.0.1:0");
    struct kw_http_client *client =
        new_client(&(struct kw_http_client_conf){0}, kw_http_server_port(server));

    (void)state;
    check_call(client, &(struct kw_http_call){.method = "GET", .path = "/echo/a"}, 200,
               "GET /echo/a ");
    check_call(
        client,
        &(struct kw_http_call){.method = "POST", .path = "/echo/b", .body = "x=1", .body_len = 3},
        200, "POST /echo/b x=1");
    check_call(client, &(struct kw_http_call){.method = "POST", .path = "/echo/c"}, 200,
               "POST /echo/c ");
    check_call(
        client,
        &(struct kw_http_call){.method = "PATCH", .path = "/echo/d", .body = "[]", .body_len = 2},
        200, "PATCH /echo/d []");
    check_call(client, &(struct kw_http_call){.method = "DELETE", .path = "/echo/e"}, 200,
               "DELETE /echo/e ");
    check_call(client, &(struct kw_http_call){.method = "GET", .path = "/echo/missing"}, 404,
               "GET /echo/missing ");
    kw_http_client_free(&client);
    kw_http_server_free(&server);
}

static void test_large_bodies_come_through(void **state)
{
    const size_t len = 3u << 20;
    struct kw_http_server *server = start_server("127.0.0.1:0");
    struct kw_http_client *client =
        new_client(&(struct kw_http_client_conf){0}, kw_http_server_port(server));
    kw_cleanup_free char *bytes = malloc(len);
    struct kw_buf body = {0};
    unsigned status = 0;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'z', len);
    struct kw_http_call call = {.method = "POST", .path = "/echo/", .body = bytes, .body_len = len};

    assert_int_equal(kw_http_client_call(client, &call, &status, &body, NULL), 0);
    assert_int_equal(status, 200);
    assert_int_equal(body.len, strlen("POST /echo/ ") + len);
    kw_buf_free(&body);
    kw_http_client_free(&client);
    kw_http_server_free(&server);
}

static void test_unix_socket(void **state)
{
    char folder[] = "/tmp/kwatt-http-XXXXXX";
    char path[64];
    char listen[80];

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/socket", folder);
    (void)snprintf(listen, sizeof(listen), "unix:%s", path);
    struct kw_http_server *server = start_server(listen);
    struct kw_http_client *client = new_client(
        &(struct kw_http_client_conf){.base_url = "http://kubelet", .unix_socket = path}, 0);

    check_call(client, &(struct kw_http_call){.method = "GET", .path = "/echo/a"}, 200,
               "GET /echo/a ");
    kw_http_client_free(&client);
    kw_http_server_free(&server);
    assert_int_not_equal(access(path, F_OK), 0); /* the server has removed its name */
    assert_int_equal(rmdir(folder), 0);
}

/* Calls a server that gives fixed bytes. @return what kw_http_client_call gave. */
static int call_raw(const struct kw_http_client_conf *conf, const char *answer,
                    unsigned *ret_status, struct kw_err *err, char *ret_seen)
{
    struct raw_server server;
    struct kw_buf body = {0};

    start_raw(&server, answer, false);
    struct kw_http_client *client = new_client(conf, server.port);
    struct kw_http_call call = {.method = "GET", .path = "/x"};
    int rc = kw_http_client_call(client, &call, ret_status, &body, err);

    kw_http_client_free(&client);
    stop_raw(&server);
    kw_buf_free(&body);
    if (ret_seen != NULL)
        memcpy(ret_seen, server.seen, sizeof(server.seen));
    return rc;
}

static void test_redirects_are_not_followed(void **state)
{
    unsigned status = 0;

    (void)state;
    assert_int_equal(call_raw(&(struct kw_http_client_conf){0},
                              "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n"
                              "Content-Length: 0\r\n\r\n",
                              &status, NULL, NULL),
                     0);
    assert_int_equal(status, 302);
}

static void test_malformed_answers(void **state)
{
    unsigned status = 0;
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(
        call_raw(&(struct kw_http_client_conf){0}, "garbage\r\n\r\n", &status, &err, NULL),
        -EPROTO);
    assert_non_null(strstr(err.text, "GET http://127.0.0.1:"));
    assert_int_equal(status, 0);
    assert_int_equal(call_raw(&(struct kw_http_client_conf){0},
                              "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", &status, &err,
                              NULL),
                     -ECONNRESET);
    assert_int_equal(status, 200);
    assert_int_equal(call_raw(&(struct kw_http_client_conf){0}, "", &status, &err, NULL),
                     -ECONNRESET);
}

static void test_too_large_answers_are_refused(void **state)
{
    const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
    unsigned status = 0;
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(
        call_raw(&(struct kw_http_client_conf){.max_body_bytes = 9}, answer, &status, &err, NULL),
        -EFBIG);
    assert_int_equal(
        call_raw(&(struct kw_http_client_conf){.max_body_bytes = 10}, answer, &status, &err, NULL),
        0);
}

static void test_headers_and_credentials(void **state)
{
    const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char seen[8192];
    unsigned status = 0;

    (void)state;
    assert_int_equal(
        call_raw(&(struct kw_http_client_conf){.token = "s3cret"}, answer, &status, NULL, seen), 0);
    assert_non_null(strstr(seen, "\r\nAuthorization: Bearer s3cret\r\n"));
    assert_non_null(strstr(seen, "\r\nUser-Agent: kwatt/"));
    assert_non_null(strstr(seen, "\r\nAccept: */*\r\n"));
    assert_null(strstr(seen, "Expect"));
    assert_int_equal(
        call_raw(&(struct kw_http_client_conf){.username = "u"}, answer, &status, NULL, seen), 0);
    assert_non_null(strstr(seen, "\r\nAuthorization: Basic dTo=\r\n"));
}

static void test_token_file_is_read_again(void **state)
{
    char folder[] = "/tmp/kwatt-http-XXXXXX";
    char path[64];
    struct raw_server server;
    struct kw_buf body = {0};
    unsigned status = 0;
    struct kw_http_call call = {.method = "GET", .path = "/x"};

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/token", folder);
    assert_int_equal(kw_file_write_atomic(path, "first\n", 6, 0600), 0);
    start_raw(&server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false);
    struct kw_http_client *client = new_client(
        &(struct kw_http_client_conf){.token_file = path, .token = "unused"}, server.port);

    assert_int_equal(kw_http_client_call(client, &call, &status, &body, NULL), 0);
    assert_non_null(strstr(server.seen, "Bearer first\r\n"));
    assert_int_equal(kw_file_write_atomic(path, "\xef\xbb\xbfsecond", 9, 0600), 0);
    assert_int_equal(kw_http_client_call(client, &call, &status, &body, NULL), 0);
    assert_non_null(strstr(server.seen, "Bearer second\r\n"));
    /* a header cannot be smuggled in, and a lost file leaves the last good token */
    assert_int_equal(kw_file_write_atomic(path, "x\r\nEvil: 1", 10, 0600), 0);
    assert_int_equal(kw_http_client_call(client, &call, &status, &body, NULL), 0);
    assert_non_null(strstr(server.seen, "Bearer second\r\n"));
    assert_null(strstr(server.seen, "Evil"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(kw_http_client_call(client, &call, &status, &body, NULL), 0);
    assert_non_null(strstr(server.seen, "Bearer second\r\n"));
    kw_http_client_free(&client);
    stop_raw(&server);
    kw_buf_free(&body);
    assert_int_equal(rmdir(folder), 0);
}

static void test_refused_connections_and_time_outs(void **state)
{
    struct raw_server server;
    struct kw_buf body = {0};
    struct kw_err err = {0};
    unsigned status = 0;
    struct kw_http_call call = {.method = "GET", .path = "/x"};

    (void)state;
    start_raw(&server, "", true); /* takes the request and never answers */
    struct kw_http_client *client = new_client(
        &(struct kw_http_client_conf){.timeout_ms = 150, .token = "s3cret"}, server.port);

    assert_int_equal(kw_http_client_call(client, &call, &status, &body, &err), -ETIMEDOUT);
    assert_null(strstr(err.text, "s3cret"));
    stop_raw(&server);
    assert_int_equal(kw_http_client_call(client, &call, &status, &body, &err), -ECONNREFUSED);
    assert_int_equal(status, 0);
    kw_http_client_free(&client);
    kw_buf_free(&body);
}

struct sink {
    struct kw_buf bytes;
    struct kw_http_client *interrupt;
    bool stop;
};

static bool take(void *user, unsigned status, const char *bytes, size_t len)
{
    struct sink *sink = user;

    assert_int_equal(status, 200);
    (void)kw_buf_add(&sink->bytes, bytes, len);
    return !sink->stop;
}

static const char stream_answer[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                    "5\r\nhello\r\n1\r\n!\r\n";

static void test_streams_end_when_idle_or_told_to(void **state)
{
    struct raw_server server;
    struct sink sink = {0};
    struct kw_err err = {0};
    unsigned status = 0;
    struct kw_http_call call = {.method = "GET", .path = "/watch"};

    (void)state;
    start_raw(&server, stream_answer, true);
    struct kw_http_client *client = new_client(&(struct kw_http_client_conf){0}, server.port);

    assert_int_equal(kw_http_client_stream(client, &call, 150, take, &sink, &status, &err),
                     -ETIMEDOUT);
    assert_int_equal(status, 200);
    assert_string_equal(sink.bytes.data, "hello!");
    sink.stop = true;
    assert_int_equal(kw_http_client_stream(client, &call, 60000, take, &sink, &status, &err),
                     -ECANCELED);
    kw_http_client_free(&client);
    stop_raw(&server);
    kw_buf_free(&sink.bytes);
}

static void *interrupt_soon(void *arg)
{
    (void)poll(NULL, 0, 100);
    kw_http_client_interrupt(arg);
    return NULL;
}

static void test_interrupt_from_another_thread(void **state)
{
    struct raw_server server;
    struct sink sink = {0};
    struct kw_buf body = {0};
    unsigned status = 0;
    pthread_t thread;
    struct kw_http_call call = {.method = "GET", .path = "/watch"};

    (void)state;
    start_raw(&server, stream_answer, true);
    struct kw_http_client *client = new_client(&(struct kw_http_client_conf){0}, server.port);

    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, client), 0);
    uint64_t start_ns = kw_now_ns();

    assert_int_equal(kw_http_client_stream(client, &call, 60000, take, &sink, &status, NULL),
                     -ECANCELED);
    assert_true(kw_now_ns() - start_ns < 30 * KW_NS_PER_S);
    (void)pthread_join(thread, NULL);
    assert_int_equal(kw_http_client_call(client, &call, &status, &body, NULL), -ECANCELED);
    kw_http_client_free(&client);
    stop_raw(&server);
    kw_buf_free(&sink.bytes);
    kw_buf_free(&body);
}

/* A descriptor that can be read ends a call that waits for an answer, and every later one. */
static void test_a_readable_descriptor_cancels(void **state)
{
    struct raw_server server;
    struct kw_buf body = {0};
    struct kw_http_call call = {.method = "GET", .path = "/x"};
    unsigned status = 0;
    int event = eventfd(1, EFD_CLOEXEC);

    (void)state;
    start_raw(&server, "", true); /* takes the request and never answers */
    struct kw_http_client *client =
        new_client(&(struct kw_http_client_conf){.cancel_fd = event}, server.port);
    uint64_t start_ns = kw_now_ns();
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(kw_http_client_call(client, &call, &status, &body, NULL), -ECANCELED);
    assert_true(kw_now_ns() - start_ns < 30 * KW_NS_PER_S); /* the time-out of one */
    kw_http_client_free(&client);
    stop_raw(&server);
    (void)close(event);
    kw_buf_free(&body);
}

static void test_proxies_are_not_used_on_loopback(void **state)
{
    struct kw_http_server *server = start_server("127.0.0.1:0");

    (void)state;
    /* nobody listens on the discard port: a call through this proxy would fail */
    (void)setenv("http_proxy", "http://127.0.0.1:9", 1);
    struct kw_http_client *client =
        new_client(&(struct kw_http_client_conf){0}, kw_http_server_port(server));

    check_call(client, &(struct kw_http_call){.method = "GET", .path = "/echo/a"}, 200,
               "GET /echo/a ");
    kw_http_client_free(&client);
    (void)unsetenv("http_proxy");
    kw_http_server_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods_and_bodies),
        cmocka_unit_test(test_large_bodies_come_through),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_redirects_are_not_followed),
        cmocka_unit_test(test_malformed_answers),
        cmocka_unit_test(test_too_large_answers_are_refused),
        cmocka_unit_test(test_headers_and_credentials),
        cmocka_unit_test(test_token_file_is_read_again),
        cmocka_unit_test(test_refused_connections_and_time_outs),
        cmocka_unit_test(test_streams_end_when_idle_or_told_to),
        cmocka_unit_test(test_interrupt_from_another_thread),
        cmocka_unit_test(test_a_readable_descriptor_cancels),
        cmocka_unit_test(test_proxies_are_not_used_on_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
