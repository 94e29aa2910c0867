/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/http_server.h"
#include "common/num.h"

/* Connections the kernel completes for us while all threads are busy; its own default since
 * Linux 5.4. */
#define BACKLOG 4096

/* Shut, it is looked at so often until nobody has come for 50 ms: a handshake under way ends by
 * then. */
#define LOOK_MS     10
#define QUIET_LOOKS 5
#define SHUT_LOOKS  100

/* Owner and group may connect to a unix socket. */
#define UNIX_MODE 0660

#define UNIX_PREFIX "unix:"
#define PREFIX_LEN  (sizeof(UNIX_PREFIX) - 1)

static bool is_unix(const char *text)
{
    return strncmp(text, UNIX_PREFIX, PREFIX_LEN) == 0;
}

static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

static int bind_and_listen(int fd, const struct sockaddr *address, socklen_t len)
{
    if (address->sa_family != AF_UNIX) {
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); /* accepted sockets inherit it */
    }
    if (address->sa_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    return bind(fd, address, len) < 0 || listen(fd, BACKLOG) < 0 ? -errno : 0;
}

/* @return a listening descriptor or -errno. */
static int open_address(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc;

    if (fd < 0)
        return -errno;
    rc = bind_and_listen(fd, address, len);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {0}};
    socklen_t len = sizeof(address);

    if (getsockname(fd, &address.any, &len) < 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

static const char *bad_address(struct kw_err *err, const char *text, const char *cause)
{
    (void)kw_err_set(err, -EINVAL, "listen address '%s': %s", text, cause);
    return NULL;
}

static int cannot_listen(struct kw_err *err, const char *text, int code)
{
    if (code == -EADDRINUSE)
        return kw_err_set(err, code,
                          "cannot listen on %s: the address is in use by another process", text);
    return kw_err_set(err, code, "cannot listen on %s: %s", text, kw_errno_text(code));
}

/* Every address: v6 with v4 inside it, or v4 alone where the kernel has no v6. */
static int open_any(uint16_t port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = open_address((struct sockaddr *)&v6, sizeof(v6));

    if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
        fd = open_address((struct sockaddr *)&v4, sizeof(v4));
    return fd;
}

/* A named or numeric host. @param host without brackets. */
static int open_host(const char *text, const char *host, const char *port, struct kw_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(host, port, &hints, &found);
    int fd = -EADDRNOTAVAIL;

    if (rc != 0)
        return kw_err_set(err, -EINVAL, "cannot listen on %s: %s", text, gai_strerror(rc));
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next)
        fd = open_address(at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    return fd < 0 ? cannot_listen(err, text, fd) : fd;
}

/* A DNS name has at most 253 bytes. */
#define HOST_MAX 256

/* Takes "HOST:PORT" apart. @param host "" for all addresses; without brackets. @return the text of
 * the port, NULL with `err`. */
static const char *parse_tcp(const char *text, char host[HOST_MAX], uint16_t *ret_port,
                             struct kw_err *err)
{
    const char *colon = strrchr(text, ':');
    const char *name = text;
    uint64_t port;
    size_t len;

    if (colon == NULL || kw_parse_u64(colon + 1, 0, UINT16_MAX, &port) < 0)
        return bad_address(err, text, "expected ADDRESS:PORT, :PORT or unix:/path");
    len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && colon[-1] == ']') {
        name++;
        len -= 2;
    } else if (memchr(text, ':', len) != NULL) {
        return bad_address(err, text, "an IPv6 address needs brackets, [::1]:PORT");
    }
    if (len >= HOST_MAX)
        return bad_address(err, text, "the host is too long");
    memcpy(host, name, len);
    host[len] = '\0';
    *ret_port = (uint16_t)port;
    return colon + 1;
}

static int open_tcp(const char *text, struct kw_http_listen *ret, struct kw_err *err)
{
    char host[HOST_MAX];
    uint16_t port;
    int fd;
    const char *port_text = parse_tcp(text, host, &port, err);

    if (port_text == NULL)
        return -EINVAL;
    if (host[0] == '\0') {
        fd = open_any(port);
        if (fd < 0)
            return cannot_listen(err, text, fd);
    } else {
        fd = open_host(text, host, port_text, err);
        if (fd < 0)
            return fd;
    }
    *ret = (struct kw_http_listen){.fd = fd, .port = port_of(fd)};
    return 0;
}

/* Whether a process accepts connections on this socket. */
static bool is_alive(const struct sockaddr_un *address)
{
    kw_cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return true; /* unknown: leave it alone */
    return connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
           errno != ECONNREFUSED;
}

/* Whether a path fits into a socket's address. */
static int check_unix(const char *text, const char *path, struct kw_err *err)
{
    size_t len = strlen(path);

    if (len > 0 && len < sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return 0;
    return kw_err_set(err, -EINVAL, "listen address '%s': the path must have 1 to %zu bytes", text,
                      sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
}

static int open_unix(const char *text, const char *path, struct kw_http_listen *ret,
                     struct kw_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat info;
    char *copy;
    int fd;

    if (check_unix(text, path, err) < 0)
        return -EINVAL;
    memcpy(address.sun_path, path, strlen(path));
    fd = open_address((struct sockaddr *)&address, sizeof(address));
    if (fd == -EADDRINUSE && lstat(path, &info) == 0 && S_ISSOCK(info.st_mode) &&
        !is_alive(&address)) {
        (void)unlink(path); /* left behind by a process that was killed */
        fd = open_address((struct sockaddr *)&address, sizeof(address));
    }
    if (fd < 0)
        return cannot_listen(err, text, fd);
    (void)chmod(path, UNIX_MODE);
    copy = strdup(path);
    if (copy == NULL) {
        (void)close(fd);
        (void)unlink(path);
        return kw_err_set(err, -ENOMEM, "out of memory");
    }
    *ret = (struct kw_http_listen){.fd = fd, .unix_path = copy};
    return 0;
}

int kw_http_check_listen(const char *text, struct kw_err *err)
{
    char host[HOST_MAX];
    uint16_t port;

    if (is_unix(text))
        return check_unix(text, text + PREFIX_LEN, err);
    return parse_tcp(text, host, &port, err) == NULL ? -EINVAL : 0;
}

int kw_http_listen_open(const char *text, struct kw_http_listen *ret, struct kw_err *err)
{
    if (is_unix(text))
        return open_unix(text, text + PREFIX_LEN, ret, err);
    return open_tcp(text, ret, err);
}

static void drop_name(struct kw_http_listen *listener)
{
    if (listener->unix_path != NULL)
        (void)unlink(listener->unix_path);
    free(listener->unix_path);
    listener->unix_path = NULL;
}

/* Takes no SYN; what belongs to a handshake under way still passes. */
static void turn_away(int fd)
{
    /* the bytes are those of a TCP segment; its flags are the 14th */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TH_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog filter = {.len = KW_ARRAY_SIZE(code), .filter = code};

    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
}

void kw_http_listen_shut(struct kw_http_listen *listener)
{
    struct pollfd waiting = {.fd = listener->fd, .events = POLLIN};
    unsigned quiet = 0;

    if (listener->unix_path != NULL)
        drop_name(listener); /* which from now on is free for others */
    else
        turn_away(listener->fd);
    for (unsigned i = 0; i < SHUT_LOOKS && quiet < QUIET_LOOKS; i++) {
        (void)poll(NULL, 0, LOOK_MS);
        quiet = poll(&waiting, 1, 0) > 0 ? 0 : quiet + 1;
    }
}

void kw_http_listen_close(struct kw_http_listen *listener)
{
    if (listener->fd >= 0)
        (void)close(listener->fd);
    listener->fd = -1;
    drop_name(listener);
}
