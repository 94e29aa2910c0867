/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/redis.h"

/*
 * Inside of the Redis client, shared by redis.c (pipelines, deadlines), redis_url.c,
 * redis_connect.c and redis_wire.c (hiredis: formatter and parser). Not for others, but for tests
 * and fuzz targets.
 */

/** Where a URL points. */
struct kw_redis_url {
    char *host; /**< NULL for a unix socket */
    uint16_t port;
    char *path; /**< unix socket; NULL for TCP */
    char *user; /**< NULL: none */
    uint32_t db;
};

/** Takes a URL apart. No part of it is ever echoed into `err`, as it may hold a password. @param
 * ret free with kw_redis_url_free. @return 0; -EINVAL with the bad part named; -ENOMEM. */
int kw_redis_url_parse(const char *text, struct kw_redis_url *ret, struct kw_err *err);
void kw_redis_url_free(struct kw_redis_url *url);

/** The URL without user, for logs. @return NULL on ENOMEM; caller frees. */
char *kw_redis_url_name(const struct kw_redis_url *url);

/** Waits for poll events. @param cancel_fd ends it where it can be read; 0: none. @return poll's
 * revents; -ETIMEDOUT; -ECANCELED; -errno. */
int kw_redis_wait(int fd, short events, int cancel_fd, uint64_t deadline_ns);

/** Connects. @param name for `err`. @param ret_fd non-blocking; caller closes. @return 0;
 * -ETIMEDOUT, -ECONNREFUSED, -ENOENT, -EHOSTUNREACH, ... */
int kw_redis_connect(const struct kw_redis_url *url, const char *name, uint64_t deadline_ns,
                     int *ret_fd, struct kw_err *err);

/** One command as bytes. @param lens NULL: texts. @param ret free with kw_redis_wire_free. @return
 * 0; -EINVAL argc 0; -ENOMEM, also above KW_REDIS_MAX_BYTES. */
int kw_redis_wire_format(size_t argc, const char *const *argv, const size_t *lens, char **ret,
                         size_t *ret_len);

/** Wipes (it may hold a password) and frees. */
void kw_redis_wire_free(char **command, size_t len);

/** Bound of a queue, of the bytes of one pipeline's replies and of the memory they take once
 * parsed. */
#define KW_REDIS_MAX_BYTES (UINT32_C(64) << 20)

/** Reply bytes to reply trees; for the replies of one pipeline. */
struct kw_redis_parser;

/** @param n number of replies expected. @return 0 or -ENOMEM. */
int kw_redis_parser_new(size_t n, struct kw_redis_parser **ret);
void kw_redis_parser_free(struct kw_redis_parser **parser);

/** Takes bytes as they come. @return 1 all replies are there and nothing else; 0 more is needed;
 * -EPROTO with the cause; -ENOMEM. */
int kw_redis_parser_feed(struct kw_redis_parser *parser, const char *bytes, size_t len,
                         struct kw_err *err);

/** Complete replies so far. */
size_t kw_redis_parser_done(const struct kw_redis_parser *parser);

/** The latest complete reply, NULL before the first. */
const struct kw_redis_reply *kw_redis_parser_last(const struct kw_redis_parser *parser);

/** Hands over the replies; after kw_redis_parser_feed gave 1. */
void kw_redis_parser_take(struct kw_redis_parser *parser, struct kw_redis_replies *ret);
