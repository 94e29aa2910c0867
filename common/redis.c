/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis client: a queue of commands, one pipeline, one absolute deadline.
 *
 * Problem: a caller that samples every second must know, in bounded time, whether its batch
 * arrived, whatever the server does: dies in the middle, stops reading, answers garbage, is stopped
 * by a signal. Hiredis' own connection restarts its time-out at every read, so its socket code is
 * not used.
 *
 * Approach: a non-blocking socket and poll. exec sends and receives in one loop (a server whose
 * output buffer is full stops reading, so sending first and reading after could wait for ever), and
 * every poll waits until the same deadline. Any failure closes the connection: after a lost or
 * surplus byte no reply can be matched to its command. Nothing is sent twice; what was queued when
 * a connection died may or may not have been executed, and the caller's data (cumulative counters)
 * bear that.
 *
 * Invariants: fd >= 0 only between pipelines that ended well. Bytes or an end of file on an idle
 * connection mean that it is spent: it is replaced before the pipeline, without counting as a
 * failure (servers close idle clients). The password is read at each connect, wiped after use, and
 * never in an error, for which reason a server's answer to AUTH is not quoted either (Redis repeats
 * the arguments of a command it does not know).
 *
 * Bytes pass through wire_read and wire_write only: TLS goes there. Name resolution is the system's
 * and may take longer than connect_timeout_ms; numeric addresses and unix sockets do not resolve.
 */
#include "common/redis.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/backoff.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/redis_impl.h"

#define DEFAULT_CONNECT_TIMEOUT_MS 1000
#define DEFAULT_TIMEOUT_MS         2000
/* A local server is back within a fraction of a second; a lost one must not be met by a storm. */
#define BACKOFF_MIN_MS             100
#define BACKOFF_MAX_MS             5000
#define READ_BYTES                 65536
#define PASSWORD_MAX_BYTES         4096
/* kw_redis_queue_texts: more arguments than any command of ours has */
#define TEXTS_MAX                  64

struct kw_redis {
    struct kw_redis_url url;
    char *name;
    char *user;
    char *password_file;
    uint32_t connect_timeout_ms, timeout_ms;
    int cancel_fd;
    int fd;
    struct kw_buf queue;
    size_t n_queued;
    struct kw_backoff backoff;
    uint64_t not_before_ns;
    char read_buffer[READ_BYTES];
};

static int fail(const struct kw_redis *redis, struct kw_err *err, int code, const char *what)
{
    (void)kw_err_set(err, code, "redis %s: %s: %s", redis->name, what, kw_errno_text(code));
    return code;
}

/* ---- the wire ---- */

/* Into read_buffer. @return bytes; 0 end of file; -EAGAIN; -errno */
static int wire_read(struct kw_redis *redis)
{
    ssize_t n;

    do
        n = recv(redis->fd, redis->read_buffer, sizeof(redis->read_buffer), MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : (int)n;
}

static ssize_t wire_write(const struct kw_redis *redis, const char *bytes, size_t len)
{
    ssize_t n;

    do
        n = send(redis->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static void disconnect(struct kw_redis *redis)
{
    if (redis->fd >= 0)
        (void)close(redis->fd);
    redis->fd = -1;
}

/* ---- one pipeline on a connection ---- */

/* The server ended the connection early: its last words may say why ("max number of clients
 * reached"). */
static void ended_early(const struct kw_redis *redis, const struct kw_redis_parser *parser,
                        size_t n, int code, struct kw_err *err)
{
    const struct kw_redis_reply *last = kw_redis_parser_last(parser);
    bool error = last != NULL && last->type == KW_REDIS_ERROR;

    (void)kw_err_set(err, code, "redis %s: connection ended after %zu of %zu replies%s%s",
                     redis->name, kw_redis_parser_done(parser), n, error ? ": " : "",
                     error ? last->str : "");
}

/*
 * Sends `len` bytes that hold `n` commands, and receives n replies. A failed write is not yet the
 * end: what the server said before it closed is still read.
 */
static int run(struct kw_redis *redis, const char *bytes, size_t len, size_t n,
               uint64_t deadline_ns, struct kw_redis_replies *ret, struct kw_err *err)
{
    kw_cleanup(kw_redis_parser_free) struct kw_redis_parser *parser = NULL;
    int write_failure = 0;
    size_t sent = 0;
    int r = kw_redis_parser_new(n, &parser);

    if (r < 0)
        return fail(redis, err, r, "replies");
    for (;;) {
        bool sending = sent < len && write_failure == 0;
        r = kw_redis_wait(redis->fd, (short)(POLLIN | (sending ? POLLOUT : 0)), redis->cancel_fd,
                          deadline_ns);
        if (r == -ETIMEDOUT) {
            (void)kw_err_set(err, r, "redis %s: no answer in time (%zu of %zu replies)",
                             redis->name, kw_redis_parser_done(parser), n);
            return r;
        }
        if (r < 0)
            return fail(redis, err, r, "poll");
        if (sending && (r & (POLLOUT | POLLERR | POLLHUP)) != 0) {
            ssize_t w = wire_write(redis, bytes + sent, len - sent);
            if (w >= 0)
                sent += (size_t)w;
            else if (w != -EAGAIN)
                write_failure = (int)w;
        }
        if ((r & (POLLIN | POLLERR | POLLHUP)) == 0)
            continue;
        int got = wire_read(redis);
        if (got == -EAGAIN)
            continue;
        if (got <= 0) {
            r = got < 0 ? got : -EPIPE;
            ended_early(redis, parser, n, r, err);
            return r;
        }
        r = kw_redis_parser_feed(parser, redis->read_buffer, (size_t)got, err);
        if (r < 0) {
            (void)kw_err_wrap(err, "redis %s", redis->name);
            return r;
        }
        if (r > 0)
            break;
    }
    if (sent < len) {
        (void)kw_err_set(err, -EPROTO, "redis %s: replies before the commands", redis->name);
        return -EPROTO;
    }
    kw_redis_parser_take(parser, ret);
    return 0;
}

/* ---- connecting ---- */

/* What a server said to AUTH, where it is one of the codes Redis has; anything else could repeat
 * the password. */
static const char *auth_code(const struct kw_redis_reply *reply)
{
    static const char *const codes[] = {"WRONGPASS", "NOAUTH", "NOPERM", "NOPASS", "ERR"};

    for (size_t i = 0; i < KW_ARRAY_SIZE(codes); i++) {
        size_t len = strlen(codes[i]);
        if (reply->len > len && memcmp(reply->str, codes[i], len) == 0 && reply->str[len] == ' ')
            return codes[i];
    }
    return "refused";
}

/* AUTH with what the password file holds now. */
static int authenticate(struct kw_redis *redis, uint64_t deadline_ns, struct kw_err *err)
{
    const char *user = redis->user != NULL ? redis->user : redis->url.user;
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    char password[PASSWORD_MAX_BYTES] = "";
    const char *argv[3] = {"AUTH"};
    size_t argc = 1;
    char *command = NULL;
    size_t len = 0;

    if (user == NULL && redis->password_file == NULL)
        return 0;
    if (redis->password_file != NULL) {
        ssize_t n = kw_file_read_at(AT_FDCWD, redis->password_file, password, sizeof(password));
        if (n < 0)
            return kw_err_set(err, (int)n, "redis %s: password file %s: %s", redis->name,
                              redis->password_file, kw_errno_text((int)-n));
        password[strcspn(password, "\r\n")] = '\0';
    }
    if (user != NULL)
        argv[argc++] = user;
    argv[argc++] = password;
    int r = kw_redis_wire_format(argc, argv, NULL, &command, &len);
    explicit_bzero(password, sizeof(password));
    if (r < 0)
        return fail(redis, err, r, "AUTH");
    r = run(redis, command, len, 1, deadline_ns, &replies, err);
    kw_redis_wire_free(&command, len);
    if (r < 0) {
        /* the server's last words, which may be in the text, could repeat what was sent */
        return fail(redis, err, r, "AUTH");
    }
    if (replies.items[0].type == KW_REDIS_ERROR)
        return kw_err_set(err, -EACCES, "redis %s: authentication as %s refused (%s)", redis->name,
                          user != NULL ? user : "default", auth_code(&replies.items[0]));
    return 0;
}

static int select_db(struct kw_redis *redis, uint64_t deadline_ns, struct kw_err *err)
{
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    char db[16];
    const char *argv[] = {"SELECT", db};
    char *command = NULL;
    size_t len = 0;

    if (redis->url.db == 0)
        return 0;
    (void)snprintf(db, sizeof(db), "%u", redis->url.db);
    int r = kw_redis_wire_format(2, argv, NULL, &command, &len);
    if (r < 0)
        return fail(redis, err, r, "SELECT");
    r = run(redis, command, len, 1, deadline_ns, &replies, err);
    kw_redis_wire_free(&command, len);
    if (r == 0 && replies.items[0].type == KW_REDIS_ERROR)
        r = kw_err_set(err, -EACCES, "redis %s: SELECT %s refused: %s", redis->name, db,
                       replies.items[0].str);
    return r;
}

/* Whether the idle connection still is one: no end of file, no byte that belongs to no command. */
static bool still_good(const struct kw_redis *redis)
{
    char byte;
    ssize_t n = recv(redis->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static int connect_and_greet(struct kw_redis *redis, struct kw_err *err)
{
    uint64_t deadline_ns = kw_now_ns() + redis->connect_timeout_ms * KW_NS_PER_MS;
    int r;

    r = kw_redis_connect(&redis->url, redis->name, deadline_ns, &redis->fd, err);
    if (r < 0)
        return r;
    r = authenticate(redis, deadline_ns, err);
    return r < 0 ? r : select_db(redis, deadline_ns, err);
}

/* ---- public ---- */

static char *copy_or_null(const char *text, bool *lost)
{
    char *copy = text != NULL && text[0] != '\0' ? strdup(text) : NULL;

    *lost = *lost || (text != NULL && text[0] != '\0' && copy == NULL);
    return copy;
}

int kw_redis_new(const struct kw_redis_conf *conf, struct kw_redis **ret, struct kw_err *err)
{
    kw_cleanup(kw_redis_free) struct kw_redis *redis = calloc(1, sizeof(*redis));
    bool lost = false;

    if (redis == NULL)
        return kw_err_set(err, -ENOMEM, "redis: out of memory");
    redis->fd = -1;
    int r = kw_redis_url_parse(conf->access.url, &redis->url, err);
    if (r < 0)
        return r;
    redis->user = copy_or_null(conf->access.user, &lost);
    redis->password_file = copy_or_null(conf->access.password_file, &lost);
    redis->name = kw_redis_url_name(&redis->url);
    if (lost || redis->name == NULL)
        return kw_err_set(err, -ENOMEM, "redis: out of memory");
    redis->connect_timeout_ms =
        conf->connect_timeout_ms > 0 ? conf->connect_timeout_ms : DEFAULT_CONNECT_TIMEOUT_MS;
    redis->cancel_fd = conf->cancel_fd;
    redis->timeout_ms = conf->timeout_ms > 0 ? conf->timeout_ms : DEFAULT_TIMEOUT_MS;
    redis->backoff = (struct kw_backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    *ret = KW_TAKE_PTR(redis);
    return 0;
}

void kw_redis_free(struct kw_redis **redis)
{
    if (*redis == NULL)
        return;
    disconnect(*redis);
    kw_buf_free(&(*redis)->queue);
    kw_redis_url_free(&(*redis)->url);
    free((*redis)->name);
    free((*redis)->user);
    free((*redis)->password_file);
    free(*redis);
    *redis = NULL;
}

int kw_redis_queue(struct kw_redis *redis, size_t argc, const char *const *argv, const size_t *lens)
{
    char *command = NULL;
    size_t len = 0;
    int r = kw_redis_wire_format(argc, argv, lens, &command, &len);

    if (r < 0)
        return r;
    if (len > KW_REDIS_MAX_BYTES - redis->queue.len || kw_buf_reserve(&redis->queue, len) < 0)
        r = -ENOMEM;
    else
        r = kw_buf_add(&redis->queue, command, len);
    kw_redis_wire_free(&command, len);
    if (r == 0)
        redis->n_queued++;
    return r;
}

int kw_redis_queue_texts(struct kw_redis *redis, ...)
{
    const char *argv[TEXTS_MAX];
    size_t argc = 0;
    va_list list;

    va_start(list, redis);
    for (const char *text; (text = va_arg(list, const char *)) != NULL;) {
        if (argc == TEXTS_MAX) {
            va_end(list);
            return -ENOMEM;
        }
        argv[argc++] = text;
    }
    va_end(list);
    return kw_redis_queue(redis, argc, argv, NULL);
}

void kw_redis_discard(struct kw_redis *redis)
{
    kw_buf_reset(&redis->queue);
    redis->n_queued = 0;
}

static int first_error(const struct kw_redis *redis, const struct kw_redis_replies *replies,
                       struct kw_err *err)
{
    for (size_t i = 0; i < replies->n; i++)
        if (replies->items[i].type == KW_REDIS_ERROR)
            return kw_err_set(err, -EREMOTEIO, "redis %s: command %zu of %zu: %s", redis->name,
                              i + 1, replies->n, replies->items[i].str);
    return 0;
}

static int exec_queue(struct kw_redis *redis, struct kw_redis_replies *replies, struct kw_err *err)
{
    uint64_t now = kw_now_ns();
    int r = 0;

    if (redis->fd >= 0 && !still_good(redis))
        disconnect(redis);
    if (redis->fd < 0) {
        if (now < redis->not_before_ns)
            return kw_err_set(err, -EAGAIN, "redis %s: next try in %u ms", redis->name,
                              (unsigned)((redis->not_before_ns - now) / KW_NS_PER_MS + 1));
        r = connect_and_greet(redis, err);
    }
    if (r == 0)
        r = run(redis, redis->queue.data, redis->queue.len, redis->n_queued,
                kw_now_ns() + redis->timeout_ms * KW_NS_PER_MS, replies, err);
    if (r == 0) {
        kw_backoff_reset(&redis->backoff);
        redis->not_before_ns = 0;
        return 0;
    }
    disconnect(redis);
    redis->not_before_ns =
        kw_now_ns() + kw_backoff_next_ms(&redis->backoff, kw_random_u32()) * KW_NS_PER_MS;
    return r;
}

int kw_redis_exec(struct kw_redis *redis, struct kw_redis_replies *ret_replies, struct kw_err *err)
{
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};

    if (redis->n_queued > 0) {
        int r = exec_queue(redis, &replies, err);
        kw_redis_discard(redis);
        if (r < 0)
            return r;
    }
    if (ret_replies == NULL)
        return first_error(redis, &replies, err);
    *ret_replies = replies;
    replies = (struct kw_redis_replies){0};
    return 0;
}

void kw_redis_retry_now(struct kw_redis *redis)
{
    redis->not_before_ns = 0;
}

const char *kw_redis_name(const struct kw_redis *redis)
{
    return redis->name;
}
