/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/num.h"

static int bad(const char *text, struct kw_err *err)
{
    return kw_err_set(err, -EINVAL,
                      "\"%.200s\" is no address: give HOST:PORT, :PORT, [IPv6]:PORT or unix:/path",
                      text);
}

int cli_address_parse(const char *text, struct cli_address *ret, struct kw_err *err)
{
    struct cli_address address = {0};
    const char *colon, *host = text;
    size_t host_len;
    uint64_t port;

    if (strncmp(text, "unix:", 5) == 0) {
        if (text[5] != '/' || strlen(text + 5) >= sizeof(address.host))
            return bad(text, err);
        address.unix_socket = true;
        (void)snprintf(address.host, sizeof(address.host), "%s", text + 5);
        *ret = address;
        return 0;
    }
    colon = strrchr(text, ':');
    if (colon == NULL || kw_parse_u64(colon + 1, 0, UINT16_MAX, &port) < 0)
        return bad(text, err);
    host_len = (size_t)(colon - text);
    if (host_len >= 2 && text[0] == '[' && colon[-1] == ']') {
        host++;
        host_len -= 2;
    } else if (memchr(text, ':', host_len) != NULL || memchr(text, '[', host_len) != NULL) {
        return bad(text, err);
    }
    if (host_len >= sizeof(address.host))
        return bad(text, err);
    memcpy(address.host, host, host_len);
    address.port = (uint16_t)port;
    *ret = address;
    return 0;
}

int cli_address_check(const char *text, struct kw_err *err)
{
    struct cli_address address;

    return cli_address_parse(text, &address, err);
}

void cli_address_format(const struct cli_address *address, char out[CLI_ADDRESS_MAX])
{
    if (address->unix_socket)
        (void)snprintf(out, CLI_ADDRESS_MAX, "unix:%s", address->host);
    else if (strchr(address->host, ':') != NULL)
        (void)snprintf(out, CLI_ADDRESS_MAX, "[%s]:%u", address->host, address->port);
    else
        (void)snprintf(out, CLI_ADDRESS_MAX, "%s:%u", address->host, address->port);
}

void cli_address_url(const struct cli_address *address, char out[CLI_ADDRESS_MAX])
{
    struct cli_address reachable = *address;
    char text[CLI_ADDRESS_MAX];

    if (address->unix_socket) {
        (void)snprintf(out, CLI_ADDRESS_MAX, "http://localhost");
        return;
    }
    if (address->host[0] == '\0' || strcmp(address->host, "0.0.0.0") == 0)
        (void)snprintf(reachable.host, sizeof(reachable.host), "127.0.0.1");
    if (strcmp(address->host, "::") == 0)
        (void)snprintf(reachable.host, sizeof(reachable.host), "::1");
    cli_address_format(&reachable, text);
    (void)snprintf(out, CLI_ADDRESS_MAX, "http://%.290s", text);
}

/** @return length of the socket address; 0 for a host that is neither numeric nor "localhost". */
static socklen_t numeric(const struct cli_address *address, struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    const char *host = address->host;

    *ret = (struct sockaddr_storage){0};
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (host[0] == '\0')
        host = "0.0.0.0";
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        return sizeof(*v4);
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(address->port);
        return sizeof(*v6);
    }
    return 0;
}

int cli_address_probe(struct cli_address *address)
{
    struct sockaddr_storage storage;
    socklen_t len;
    int on = 1;

    if (address->unix_socket)
        return 0;
    len = numeric(address, &storage);
    if (len == 0)
        return 0;
    kw_cleanup_close int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* as the programs do: a port in TIME_WAIT is free */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&storage, len) < 0 || listen(fd, 1) < 0)
        return -errno;
    if (address->port == 0) {
        if (getsockname(fd, (struct sockaddr *)&storage, &len) < 0)
            return -errno;
        address->port =
            ntohs(storage.ss_family == AF_INET ? ((struct sockaddr_in *)&storage)->sin_port
                                               : ((struct sockaddr_in6 *)&storage)->sin6_port);
    }
    return 0;
}
