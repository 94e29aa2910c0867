/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis client: a queue of commands, one pipeline, one absolute deadline.
 *
 * Problem: a caller that samples every second must know, in bounded time, whether its batch
 * arrived, whatever the server does: dies in the middle, stops reading, answers garbage, is stopped
 * by a signal, is no longer the master.
 *
 * Approach: a pipeline runs on a connection (redis_link.c) until a deadline. Any failure closes the
 * connection: after a lost or surplus byte no reply can be matched to its command. Nothing is sent
 * twice; what was queued when a connection died may or may not have been executed, and the caller's
 * data (cumulative counters) bear that. With Sentinel each connection begins by asking where the
 * master is; a server that says READONLY is left, since it is a master no longer.
 *
 * Invariants: the link is open only between pipelines that ended well. Bytes or an end of file on
 * an idle connection mean that it is spent: it is replaced before the pipeline, without counting as
 * a failure (servers close idle clients). The password is never in an error.
 *
 * Name resolution is the system's, on a thread of its own; numeric addresses and unix sockets do
 * not resolve.
 */
#include "common/redis.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backoff.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/redis_impl.h"
#include "common/tls_client.h"

#define DEFAULT_CONNECT_TIMEOUT_MS 1000
#define DEFAULT_TIMEOUT_MS         2000
/* A local server is back within a fraction of a second; a lost one must not be met by a storm. */
#define BACKOFF_MIN_MS             100
#define BACKOFF_MAX_MS             5000
/* kw_redis_queue_texts: more arguments than any command of ours has */
#define TEXTS_MAX                  64

struct kw_redis {
    struct kw_redis_url url;
    char *name;
    struct kw_redis_access access; /**< texts are ours */
    struct kw_redis_sentinels sentinels;
    struct kw_tls_client_conf tls;
    uint32_t connect_timeout_ms, timeout_ms;
    struct kw_buf queue;
    size_t n_queued;
    struct kw_backoff backoff;
    uint64_t not_before_ns;
    uint64_t connections;
    struct kw_redis_link link;
};

/* ---- connecting ---- */

/* Connects to the server, or to the master, and says who asks. */
static int open_link(struct kw_redis *redis, const struct kw_redis_place *place, bool master,
                     struct kw_err *err)
{
    uint64_t deadline_ns = kw_now_ns() + redis->connect_timeout_ms * KW_NS_PER_MS;
    const char *user = redis->access.user != NULL ? redis->access.user : redis->url.user;
    struct kw_tls_client_conf tls = redis->tls;

    if (redis->url.tls && tls.name == NULL)
        tls.name = place->host->name;
    int r = kw_redis_link_open(&redis->link, place, redis->url.tls ? &tls : NULL, deadline_ns, err);
    if (r == 0)
        r = kw_redis_login(&redis->link, user, redis->access.password_file, deadline_ns, err);
    if (r == 0 && master)
        r = kw_redis_check_master(&redis->link, deadline_ns, err);
    return r == 0 ? kw_redis_select(&redis->link, redis->url.db, deadline_ns, err) : r;
}

static int connect_to_master(struct kw_redis *redis, struct kw_err *err)
{
    struct kw_redis_host host = {0};
    const struct kw_redis_place place = {.host = &host};
    char label[sizeof(redis->link.label)];
    char text[KW_REDIS_MAX_NAME_BYTES + 16];

    (void)snprintf(label, sizeof(label), "redis %s", redis->name);
    int r = kw_redis_sentinels_ask(&redis->sentinels, &redis->link, label, &host, err);
    if (r < 0)
        return r;
    kw_redis_host_text(&host, text, sizeof(text));
    (void)snprintf(redis->link.label, sizeof(redis->link.label), "redis %.200s: master %s",
                   redis->name, text);
    r = open_link(redis, &place, true, err);
    /* a sentinel that was cut off names a former master for ever: ask another one next time */
    if (r < 0)
        redis->sentinels.first = (redis->sentinels.first + 1) % redis->url.n_hosts;
    free(host.name);
    return r;
}

static int connect_and_greet(struct kw_redis *redis, struct kw_err *err)
{
    const struct kw_redis_place place = {.path = redis->url.path, .host = redis->url.hosts};

    redis->connections++;
    if (redis->url.master != NULL)
        return connect_to_master(redis, err);
    (void)snprintf(redis->link.label, sizeof(redis->link.label), "redis %s", redis->name);
    return open_link(redis, &place, false, err);
}

/* ---- public ---- */

/* The texts of an access, each with what it is good for. */
static const struct {
    size_t offset;
    const char *what;
    bool needs_tls, needs_sentinel;
} access_texts[] = {
    {offsetof(struct kw_redis_access, user), "user", false, false},
    {offsetof(struct kw_redis_access, password_file), "password file", false, false},
    {offsetof(struct kw_redis_access, ca_file), "CA file", true, false},
    {offsetof(struct kw_redis_access, cert_file), "certificate file", true, false},
    {offsetof(struct kw_redis_access, key_file), "key file", true, false},
    {offsetof(struct kw_redis_access, server_name), "server name", true, false},
    {offsetof(struct kw_redis_access, sentinel_user), "sentinel's user", false, true},
    {offsetof(struct kw_redis_access, sentinel_password_file), "sentinel's password file", false,
     true},
};

static const char **text_at(const struct kw_redis_access *access, size_t i)
{
    return (const char **)((char *)access + access_texts[i].offset);
}

/* Copies what is given. What would be of no effect is refused: whoever names a CA file believes
 * that there is TLS. */
static int copy_access(const struct kw_redis_access *access, struct kw_redis *redis,
                       struct kw_err *err)
{
    for (size_t i = 0; i < KW_ARRAY_SIZE(access_texts); i++) {
        const char *text = *text_at(access, i);
        if (text == NULL || text[0] == '\0')
            continue;
        if (access_texts[i].needs_tls && !redis->url.tls)
            return kw_err_set(err, -EINVAL,
                              "redis %s: a %s is given, but this URL has no TLS: rediss:// has",
                              redis->name, access_texts[i].what);
        if (access_texts[i].needs_sentinel && redis->url.master == NULL)
            return kw_err_set(err, -EINVAL,
                              "redis %s: a %s is given, but this URL has no sentinels: "
                              "redis+sentinel:// has",
                              redis->name, access_texts[i].what);
        char *copy = strdup(text);
        if (copy == NULL)
            return kw_err_set(err, -ENOMEM, "redis: out of memory");
        *text_at(&redis->access, i) = copy;
    }
    if (redis->access.key_file != NULL && redis->access.cert_file == NULL)
        return kw_err_set(err, -EINVAL, "redis %s: a key file is given, but no certificate file",
                          redis->name);
    return 0;
}

int kw_redis_new(const struct kw_redis_conf *conf, struct kw_redis **ret, struct kw_err *err)
{
    kw_cleanup(kw_redis_free) struct kw_redis *redis = calloc(1, sizeof(*redis));

    if (redis == NULL)
        return kw_err_set(err, -ENOMEM, "redis: out of memory");
    redis->link.fd = -1;
    redis->link.cancel_fd = conf->cancel_fd;
    int r = kw_redis_url_parse(conf->access.url, &redis->url, err);
    if (r < 0)
        return r;
    redis->name = kw_redis_url_name(&redis->url);
    if (redis->name == NULL)
        return kw_err_set(err, -ENOMEM, "redis: out of memory");
    r = copy_access(&conf->access, redis, err);
    if (r < 0)
        return r;
    redis->connect_timeout_ms =
        conf->connect_timeout_ms > 0 ? conf->connect_timeout_ms : DEFAULT_CONNECT_TIMEOUT_MS;
    redis->timeout_ms = conf->timeout_ms > 0 ? conf->timeout_ms : DEFAULT_TIMEOUT_MS;
    redis->backoff = (struct kw_backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    redis->tls = (struct kw_tls_client_conf){
        .name = redis->access.server_name,
        .ca_file = redis->access.ca_file,
        .cert_file = redis->access.cert_file,
        .key_file = redis->access.key_file,
    };
    redis->sentinels = (struct kw_redis_sentinels){
        .url = &redis->url,
        .user = redis->access.sentinel_user,
        .password_file = redis->access.sentinel_password_file,
        .tls = redis->url.tls ? &redis->tls : NULL,
        .timeout_ms = redis->connect_timeout_ms,
    };
    *ret = KW_TAKE_PTR(redis);
    return 0;
}

void kw_redis_free(struct kw_redis **redis)
{
    if (*redis == NULL)
        return;
    kw_redis_link_close(&(*redis)->link);
    kw_buf_free(&(*redis)->queue);
    for (size_t i = 0; i < KW_ARRAY_SIZE(access_texts); i++)
        free((char *)*text_at(&(*redis)->access, i));
    kw_redis_url_free(&(*redis)->url);
    free((*redis)->name);
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

/* A master that became a replica, and a replica in general, refuse to write in these words. */
static bool demoted(const struct kw_redis_replies *replies)
{
    static const char code[] = "READONLY ";

    for (size_t i = 0; i < replies->n; i++) {
        const struct kw_redis_reply *reply = &replies->items[i];
        if (reply->type == KW_REDIS_ERROR && strncmp(reply->str, code, strlen(code)) == 0)
            return true;
    }
    return false;
}

static int exec_queue(struct kw_redis *redis, struct kw_redis_replies *replies, struct kw_err *err)
{
    uint64_t now = kw_now_ns();
    int r = 0;

    if (redis->link.fd >= 0 && !kw_redis_link_good(&redis->link))
        kw_redis_link_close(&redis->link);
    if (redis->link.fd < 0) {
        if (now < redis->not_before_ns)
            return kw_err_set(err, -EAGAIN, "redis %s: next try in %u ms", redis->name,
                              (unsigned)((redis->not_before_ns - now) / KW_NS_PER_MS + 1));
        r = connect_and_greet(redis, err);
    }
    if (r == 0)
        r = kw_redis_link_run(&redis->link, redis->queue.data, redis->queue.len, redis->n_queued,
                              kw_now_ns() + redis->timeout_ms * KW_NS_PER_MS, replies, err);
    if (r == 0) {
        kw_backoff_reset(&redis->backoff);
        redis->not_before_ns = 0;
        if (demoted(replies)) /* the next pipeline looks for the master anew */
            kw_redis_link_close(&redis->link);
        return 0;
    }
    kw_redis_link_close(&redis->link);
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

uint64_t kw_redis_connections(const struct kw_redis *redis)
{
    return redis->connections;
}
