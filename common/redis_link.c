/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: a socket, TLS on it where wanted, and pipelines with an exact deadline.
 *
 * Hiredis' own connection restarts its time-out at every read, so its socket code is not used: a
 * non-blocking socket and poll instead. A pipeline is sent and its replies are received in one loop
 * (a server whose output buffer is full stops reading, so sending first and reading after could
 * wait for ever), and every poll waits until the same deadline; so does every step of a TLS
 * handshake.
 *
 * TLS may hold bytes that it has decrypted and the socket does not show any more, so reading goes
 * on until nothing is left before the next poll. It may also want to write in order to read; what
 * each direction waits for is asked after each try.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/redis_impl.h"
#include "common/tls_client.h"

/* First bytes of a TLS alert: what a TLS port answers to plain text. */
#define TLS_ALERT         0x15
#define TLS_MAJOR_VERSION 0x03

int kw_redis_link_fail(const struct kw_redis_link *link, struct kw_err *err, int code,
                       const char *what)
{
    return kw_err_set(err, code, "%s: %s: %s", link->label, what, kw_errno_text(code));
}

/* ---- the wire ---- */

/* Into the buffer. @return bytes; 0 end of file; -EAGAIN; -errno, for which `err` may have more
 * words */
static ssize_t wire_read(struct kw_redis_link *link, struct kw_err *err)
{
    ssize_t n;

    if (link->tls != NULL)
        return kw_tls_client_read(link->tls, link->buffer, sizeof(link->buffer), err);
    do
        n = recv(link->fd, link->buffer, sizeof(link->buffer), MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static ssize_t wire_write(const struct kw_redis_link *link, const char *bytes, size_t len,
                          struct kw_err *err)
{
    ssize_t n;

    if (link->tls != NULL)
        return kw_tls_client_write(link->tls, bytes, len, err);
    do
        n = send(link->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* What to poll for after a try that gave -EAGAIN. */
static short wants(const struct kw_redis_link *link, short plain)
{
    return link->tls != NULL ? kw_tls_client_events(link->tls) : plain;
}

/* ---- one pipeline ---- */

struct run {
    struct kw_redis_link *link;
    struct kw_redis_parser *parser;
    const char *bytes;
    size_t len, sent, n;
    int write_failure;
    short read_wants, write_wants;
};

/* The server ended the connection early: its last words may say why ("max number of clients
 * reached"), and so may TLS ("certificate required"). */
static int ended_early(const struct run *run, int code, const struct kw_err *tls,
                       struct kw_err *err)
{
    const struct kw_redis_reply *last = kw_redis_parser_last(run->parser);
    const char *words = tls->text;

    if (last != NULL && last->type == KW_REDIS_ERROR && !run->link->discreet)
        words = last->str;
    else if (run->link->fresh && run->link->tls == NULL)
        words = "a port with TLS ends like this; rediss:// is for those";
    return kw_err_set(err, code, "%s: connection ended after %zu of %zu replies%s%s",
                      run->link->label, kw_redis_parser_done(run->parser), run->n,
                      words[0] != '\0' ? ": " : "", words);
}

/* A failed write is not yet the end: what the server said before it closed is still read. */
static void send_some(struct run *run, struct kw_err *tls)
{
    ssize_t w = wire_write(run->link, run->bytes + run->sent, run->len - run->sent, tls);

    run->write_wants = POLLOUT;
    if (w >= 0)
        run->sent += (size_t)w;
    else if (w == -EAGAIN)
        run->write_wants = wants(run->link, POLLOUT);
    else
        run->write_failure = (int)w;
}

static bool looks_like_tls(const struct run *run, size_t got)
{
    const unsigned char *bytes = (const unsigned char *)run->link->buffer;

    return run->link->tls == NULL && kw_redis_parser_done(run->parser) == 0 && got >= 2 &&
           bytes[0] == TLS_ALERT && bytes[1] == TLS_MAJOR_VERSION;
}

/* Reads what is there. @return 1 all replies; 0 wait for more; -errno with `err` */
static int receive_some(struct run *run, struct kw_err *tls, struct kw_err *err)
{
    for (;;) {
        ssize_t got = wire_read(run->link, tls);
        run->read_wants = POLLIN;
        if (got == -EAGAIN) {
            run->read_wants = wants(run->link, POLLIN);
            return 0;
        }
        if (got <= 0)
            return ended_early(run, got < 0 ? (int)got : -EPIPE, tls, err);
        if (looks_like_tls(run, (size_t)got))
            return kw_err_set(err, -EPROTO, "%s: the server speaks TLS on this port: rediss://",
                              run->link->label);
        int r = kw_redis_parser_feed(run->parser, run->link->buffer, (size_t)got, err);
        if (r < 0) {
            (void)kw_err_wrap(err, "%s", run->link->label);
            return r;
        }
        if (r > 0)
            return 1;
        if (run->link->tls == NULL) /* what is left, poll shows */
            return 0;
    }
}

int kw_redis_link_run(struct kw_redis_link *link, const char *bytes, size_t len, size_t n,
                      uint64_t deadline_ns, struct kw_redis_replies *ret, struct kw_err *err)
{
    kw_cleanup(kw_redis_parser_free) struct kw_redis_parser *parser = NULL;
    struct run run = {.link = link,
                      .bytes = bytes,
                      .len = len,
                      .n = n,
                      .read_wants = POLLIN,
                      .write_wants = POLLOUT};
    struct kw_err tls = {0};
    int r = kw_redis_parser_new(n, &parser);

    if (r < 0)
        return kw_redis_link_fail(link, err, r, "replies");
    run.parser = parser;
    for (r = 0; r == 0;) {
        bool sending = run.sent < len && run.write_failure == 0;
        int events =
            kw_redis_wait(link->fd, (short)(run.read_wants | (sending ? run.write_wants : 0)),
                          link->cancel_fd, deadline_ns);
        if (events == -ETIMEDOUT)
            return kw_err_set(err, events, "%s: no answer in time (%zu of %zu replies)",
                              link->label, kw_redis_parser_done(parser), n);
        if (events < 0)
            return kw_redis_link_fail(link, err, events, "poll");
        if (sending && (events & (run.write_wants | POLLERR | POLLHUP)) != 0)
            send_some(&run, &tls);
        if ((events & (run.read_wants | POLLERR | POLLHUP)) != 0)
            r = receive_some(&run, &tls, err);
    }
    if (r < 0)
        return r;
    if (run.sent < len)
        return kw_err_set(err, -EPROTO, "%s: replies before the commands", link->label);
    link->fresh = false;
    kw_redis_parser_take(parser, ret);
    return 0;
}

int kw_redis_link_ask(struct kw_redis_link *link, size_t argc, const char *const *argv,
                      uint64_t deadline_ns, struct kw_redis_replies *ret, struct kw_err *err)
{
    char *command = NULL;
    size_t len = 0;
    int r = kw_redis_wire_format(argc, argv, NULL, &command, &len);

    if (r < 0)
        return kw_redis_link_fail(link, err, r, argv[0]);
    r = kw_redis_link_run(link, command, len, 1, deadline_ns, ret, err);
    kw_redis_wire_free(&command, len);
    return r;
}

/* ---- opening and closing ---- */

static int shake_hands(struct kw_redis_link *link, const struct kw_tls_client_conf *conf,
                       uint64_t deadline_ns, struct kw_err *err)
{
    struct kw_err cause = {0};
    int r = kw_tls_client_new(conf, link->fd, &link->tls, &cause);

    if (r == 0)
        r = kw_tls_client_handshake(link->tls, &cause);
    while (r == -EAGAIN) {
        r = kw_redis_wait(link->fd, kw_tls_client_events(link->tls), link->cancel_fd, deadline_ns);
        if (r == -ETIMEDOUT)
            return kw_err_set(err, r,
                              "%s: TLS: the server did not finish the handshake in time (one "
                              "without TLS waits for ever)",
                              link->label);
        if (r < 0)
            return kw_redis_link_fail(link, err, r, "TLS handshake");
        r = kw_tls_client_handshake(link->tls, &cause);
    }
    return r < 0 ? kw_err_set(err, r, "%s: %s", link->label, cause.text) : 0;
}

int kw_redis_link_open(struct kw_redis_link *link, const struct kw_redis_place *place,
                       const struct kw_tls_client_conf *tls, uint64_t deadline_ns,
                       struct kw_err *err)
{
    const char *cause = NULL;
    int r = kw_redis_connect(place, link->cancel_fd, deadline_ns, &link->fd, &cause);

    if (r < 0)
        return kw_err_set(err, r, "%s: connect: %s", link->label,
                          cause != NULL ? cause : kw_errno_text(r));
    link->fresh = place->host != NULL;
    if (tls != NULL)
        r = shake_hands(link, tls, deadline_ns, err);
    if (r < 0)
        kw_redis_link_close(link);
    return r;
}

void kw_redis_link_close(struct kw_redis_link *link)
{
    kw_tls_client_free(&link->tls);
    if (link->fd >= 0)
        (void)close(link->fd);
    link->fd = -1;
}

bool kw_redis_link_good(struct kw_redis_link *link)
{
    char byte;
    ssize_t n;

    if (link->tls != NULL) /* takes in session tickets, which are no sign of an end */
        return kw_tls_client_read(link->tls, &byte, 1, NULL) == -EAGAIN;
    n = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}
