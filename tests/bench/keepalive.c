/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/keepalive.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/** Of 20 ms each: a minute, for a machine that is busy with other things. */
#define PATIENCE_TRIES 3000

void keepalive_connect(struct keepalive *client, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int one = 1;

    client->cap = 16u << 20; /* of 500 whole nodes, with room: only more of them grow it */
    client->in = malloc(client->cap);
    if (client->in == NULL)
        kwt_die("malloc");
    for (unsigned i = 0; i < PATIENCE_TRIES; i++) {
        client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
            (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            return;
        }
        (void)close(client->fd);
        (void)poll(NULL, 0, 20);
    }
    kwt_die("connect");
}

void keepalive_close(struct keepalive *client)
{
    (void)close(client->fd);
    free(client->in);
    client->in = NULL;
}

void keepalive_send(struct keepalive *client, const struct kw_buf *request)
{
    size_t sent = 0;

    while (sent < request->len) {
        ssize_t n = send(client->fd, request->data + sent, request->len - sent, MSG_NOSIGNAL);
        if (n <= 0)
            kwt_die("send");
        sent += (size_t)n;
    }
}

/** Answers may be longer than any before. */
static void make_room(struct keepalive *client)
{
    char *larger = realloc(client->in, 2 * client->cap);

    if (larger == NULL)
        kwt_die("realloc");
    client->in = larger;
    client->cap *= 2;
}

size_t keepalive_read(struct keepalive *client, const char **ret_body)
{
    size_t got = 0, want = 0, head = 0;

    while (head == 0 || got < want) {
        if (got == client->cap - 1)
            make_room(client);
        ssize_t n = recv(client->fd, client->in + got, client->cap - 1 - got, 0);
        if (n <= 0)
            kwt_die("recv");
        got += (size_t)n;
        client->in[got] = '\0';
        const char *end = head != 0 ? NULL : strstr(client->in, "\r\n\r\n");
        if (end == NULL)
            continue;
        head = (size_t)(end - client->in) + 4;
        const char *length = strcasestr(client->in, "content-length:");
        if (length == NULL || strncmp(client->in, "HTTP/1.1 200", 12) != 0)
            kwt_die("an answer without length, or not 200");
        for (const char *c = length + 15; *c == ' ' || (*c >= '0' && *c <= '9'); c++)
            want = *c == ' ' ? want : want * 10 + (size_t)(*c - '0');
        want += head;
    }
    *ret_body = client->in + head;
    return got - head;
}

size_t keepalive_ask(struct keepalive *client, const struct kw_buf *request, const char **ret_body)
{
    keepalive_send(client, request);
    return keepalive_read(client, ret_body);
}
