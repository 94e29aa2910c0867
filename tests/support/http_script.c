/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/http_script.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/num.h"
#include "tests/support/cmocka.h"

#define REQUEST_BYTES 65536

/* Reads head and body. @return 0, or -1 where the client closed before */
static int read_request(int fd, char *request)
{
    size_t len = 0;
    size_t want = SIZE_MAX;

    while (len < want && len < REQUEST_BYTES - 1) {
        ssize_t n = recv(fd, request + len, REQUEST_BYTES - 1 - len, 0);
        if (n <= 0)
            return -1;
        len += (size_t)n;
        request[len] = '\0';
        const char *end = strstr(request, "\r\n\r\n");
        if (end == NULL)
            continue;
        const char *length = strcasestr(request, "\r\ncontent-length: ");
        uint64_t body = 0;
        if (length != NULL && length < end) {
            length += strlen("\r\ncontent-length: ");
            (void)kw_parse_u64_span(length, strcspn(length, "\r"), 0, REQUEST_BYTES, &body);
        }
        want = (size_t)(end - request) + 4 + body;
    }
    return 0;
}

static void *serve(void *user)
{
    struct kwt_http_server *server = user;
    char *request = malloc(REQUEST_BYTES);

    for (;;) {
        int fd = accept(server->listener, NULL, NULL);
        if (fd < 0)
            break;
        atomic_store(&server->connection, fd);
        if (request != NULL && read_request(fd, request) == 0)
            server->handler(server->user, atomic_fetch_add(&server->requests, 1), request, fd);
        atomic_store(&server->connection, -1);
        (void)close(fd);
    }
    free(request);
    return NULL;
}

void kwt_http_start(struct kwt_http_server *server, kwt_http_handler handler, void *user)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);

    *server = (struct kwt_http_server){.handler = handler, .user = user, .connection = -1};
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(server->listener, 16), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
    (void)snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u", server->port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

void kwt_http_stop(struct kwt_http_server *server)
{
    (void)shutdown(server->listener, SHUT_RDWR);
    int fd = atomic_load(&server->connection);
    if (fd >= 0)
        (void)shutdown(fd, SHUT_RDWR);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->listener);
}

static void put(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

void kwt_http_answer(int fd, unsigned status, const char *body)
{
    char head[160];
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 %u X\r\nContent-Type: application/json\r\nConnection: close\r\n"
                     "Content-Length: %zu\r\n\r\n",
                     status, strlen(body));

    put(fd, head, (size_t)n);
    put(fd, body, strlen(body));
}

void kwt_http_begin(int fd, unsigned status)
{
    char head[160];
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 %u X\r\nContent-Type: application/json\r\nConnection: close\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n",
                     status);

    put(fd, head, (size_t)n);
}

void kwt_http_chunk(int fd, const char *bytes, size_t len)
{
    char head[32];
    int n = snprintf(head, sizeof(head), "%zx\r\n", len);

    put(fd, head, (size_t)n);
    put(fd, bytes, len);
    put(fd, "\r\n", 2);
}

void kwt_http_end(int fd)
{
    put(fd, "0\r\n\r\n", 5);
}

void kwt_http_stall(int fd)
{
    char byte;

    while (recv(fd, &byte, 1, 0) > 0)
        ;
}
