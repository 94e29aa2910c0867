/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/http_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#ifdef KWT_HTTP_TLS
#include "tests/support/tls_certs.h"
#include "tests/support/tls_dial.h"
#endif

static void echo(void *user, const struct kw_http_request *request,
                 struct kw_http_response *response)
{
    (void)user;
    (void)kw_buf_addf(response->body, "%s %s %zu:", request->method, request->path,
                      request->body_len);
    (void)kw_buf_add(response->body, request->body,
                     request->body_len < 64 ? request->body_len : 64);
}

static void query(void *user, const struct kw_http_request *request,
                  struct kw_http_response *response)
{
    const char *a = kw_http_request_query(request, "a");
    const char *b = kw_http_request_query(request, "b");

    (void)user;
    (void)kw_buf_addf(response->body, "a=%s b=%s accept=%s", a == NULL ? "(none)" : a,
                      b == NULL ? "(none)" : b,
                      request->accept == NULL ? "(none)" : request->accept);
}

static void fixed(void *user, const struct kw_http_request *request,
                  struct kw_http_response *response)
{
    static const char page[] = "<p>static</p>";

    (void)user;
    (void)request;
    response->content_type = "text/html";
    response->static_body = page;
    response->static_len = sizeof(page) - 1;
}

static void large(void *user, const struct kw_http_request *request,
                  struct kw_http_response *response)
{
    (void)user;
    (void)request;
    for (unsigned i = 0; i < 100000; i++)
        (void)kw_buf_adds(response->body, "0123456789");
}

/* Runs until the test lets it go. */
static void wait_for(void *user, const struct kw_http_request *request,
                     struct kw_http_response *response)
{
    atomic_bool *go = user;

    (void)request;
    while (!atomic_load(go))
        (void)poll(NULL, 0, 5);
    (void)kw_buf_adds(response->body, "went");
}

#ifdef KWT_HTTP_TLS
/* The same over TLS, with certificates on both sides. A unix socket stays plain. */
static char folder[32], files[5][64];

enum { CA, SERVER_CERT, SERVER_KEY, CLIENT_CERT, CLIENT_KEY };

static void remove_files(void)
{
    for (size_t i = 0; i < KW_ARRAY_SIZE(files); i++)
        (void)unlink(files[i]);
    (void)rmdir(folder);
}

static void make_files(void)
{
    static const char *const names[] = {"ca.crt", "server.crt", "server.key", "client.crt",
                                        "client.key"};
    struct kwt_authority *authority = kwt_authority_new("authority");
    const struct kwt_leaf server = {.name = "server"}, client = {.name = "client", .client = true};

    (void)snprintf(folder, sizeof(folder), "/tmp/kwatt-tls-XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < KW_ARRAY_SIZE(files); i++)
        (void)snprintf(files[i], sizeof(files[i]), "%s/%s", folder, names[i]);
    kwt_authority_write(authority, files[CA]);
    kwt_leaf_write(authority, &server, files[SERVER_CERT], files[SERVER_KEY]);
    kwt_leaf_write(authority, &client, files[CLIENT_CERT], files[CLIENT_KEY]);
    kwt_authority_free(&authority);
    assert_int_equal(atexit(remove_files), 0);
}

void kwt_http_secure(struct kw_http_server_conf *conf)
{
    if (folder[0] == '\0')
        make_files();
    if (strncmp(conf->listen, "unix:", 5) != 0)
        conf->tls.files = (struct kw_http_tls_files){
            .cert = files[SERVER_CERT], .key = files[SERVER_KEY], .client_ca = files[CA]};
}
#else
void kwt_http_secure(struct kw_http_server_conf *conf)
{
    (void)conf;
}
#endif

struct kw_http_server *kwt_http_start(const char *listen, unsigned threads, unsigned timeout_s,
                                      unsigned max_connections, atomic_bool *go)
{
    const struct kw_http_route routes[] = {
        {"POST", "/filter", echo, NULL}, {"GET", "/healthz", echo, NULL},
        {"GET", "/both", echo, NULL},    {"POST", "/both", echo, NULL},
        {"GET", "/v1/*", echo, NULL},    {"GET", "/query", query, NULL},
        {"GET", "/", fixed, NULL},       {"GET", "/large", large, NULL},
        {"GET", "/wait", wait_for, go},
    };
    struct kw_http_server_conf conf = {.listen = listen,
                                       .threads = threads,
                                       .max_body_bytes = KWT_HTTP_MAX_BODY,
                                       .max_header_bytes = KWT_HTTP_MAX_HEADER,
                                       .timeout_s = timeout_s,
                                       .max_connections = max_connections,
                                       .routes = routes,
                                       .n_routes = KW_ARRAY_SIZE(routes)};
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};

    kwt_http_secure(&conf);
    if (kw_http_server_start(&conf, &server, &err) < 0)
        fail_msg("%s", err.text);
    return server;
}

struct kw_http_server *kwt_http_start_default(void)
{
    return kwt_http_start("127.0.0.1:0", 2, 60, 4096, NULL);
}

#ifdef KWT_HTTP_TLS
int kwt_http_dial(const struct kw_http_server *server)
{
    const struct kwt_tls_client client = {
        .ca = files[CA], .cert = files[CLIENT_CERT], .key = files[CLIENT_KEY]};

    return kwt_tls_dial(kw_http_server_port(server), &client, NULL);
}
#else
int kwt_http_dial(const struct kw_http_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(kw_http_server_port(server))};
    struct timeval patience = {.tv_sec = 50}; /* below the server's time-out of 60 s */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}
#endif

void kwt_http_send(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n <= 0)
            return; /* the server has closed: the answer is what counts */
        bytes += n;
        len -= (size_t)n;
    }
}

/* Reads until the server closes. */
void kwt_http_receive(int fd, struct kw_buf *answer)
{
    char bytes[65536];
    ssize_t n;

    kw_buf_reset(answer);
    while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
        (void)kw_buf_add(answer, bytes, (size_t)n);
    if (n < 0)
        fail_msg("the server did not close: %s, after %zu bytes", strerror(errno), answer->len);
    (void)kw_buf_adds(answer, "");
}

void kwt_http_exchange(const struct kw_http_server *server, const char *bytes, size_t len,
                       struct kw_buf *answer)
{
    int fd = kwt_http_dial(server);

    kwt_http_send(fd, bytes, len);
    kwt_http_receive(fd, answer);
    (void)close(fd);
}

unsigned kwt_http_count(const struct kw_buf *answer, const char *text)
{
    unsigned n = 0;

    for (const char *p = answer->data; (p = strstr(p, text)) != NULL; p += strlen(text))
        n++;
    return n;
}

void kwt_http_check_bytes(const struct kw_http_server *server, const char *bytes, size_t len,
                          const char *status, const char *part)
{
    struct kw_buf answer = {0};
    char line[64];

    kwt_http_exchange(server, bytes, len, &answer);
    (void)snprintf(line, sizeof(line), "HTTP/1.1 %s ", status);
    if (strncmp(answer.data, line, strlen(line)) != 0 || strstr(answer.data, part) == NULL ||
        kwt_http_count(&answer, "HTTP/1.1 ") != 1 ||
        kwt_http_count(&answer, "Content-Length: ") != 1 || kwt_http_count(&answer, "chunked") != 0)
        fail_msg("wanted %s with '%s' for:\n%.400s\ngot:\n%s", status, part, bytes, answer.data);
    kw_buf_free(&answer);
}

void kwt_http_check(const struct kw_http_server *server, const char *request, const char *status,
                    const char *part)
{
    kwt_http_check_bytes(server, request, strlen(request), status, part);
}
