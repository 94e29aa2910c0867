/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/redis.h"

/*
 * Inside of the Redis client, shared by redis.c (the queue, back-off), redis_link.c (one
 * connection, its pipelines and deadlines), redis_login.c (who asks), redis_sentinel.c (where the
 * master is), redis_url.c, redis_connect.c and redis_wire.c (hiredis: formatter and parser). Not
 * for others, but for tests and fuzz targets.
 */

struct kw_redis_host {
    char *name; /**< host name or numeric address */
    uint16_t port;
};

/** Where a URL points. */
struct kw_redis_url {
    struct kw_redis_host *hosts; /**< one; with `master` the sentinels; none for a unix socket */
    size_t n_hosts;
    char *path;   /**< unix socket; NULL for TCP */
    char *user;   /**< NULL: none */
    char *master; /**< name that the sentinels know; NULL: hosts[0] is the server itself */
    uint32_t db;
    bool tls;
};

/** Of sentinels in a URL: five is the largest number that anybody recommends. */
#define KW_REDIS_MAX_HOSTS 16

/** Of a host name, by DNS; also of a master's name. */
#define KW_REDIS_MAX_NAME_BYTES 255

/** Takes a URL apart. No part of it is ever echoed into `err`, as it may hold a password. @param
 * ret free with kw_redis_url_free. @return 0; -EINVAL with the bad part named; -ENOMEM. */
int kw_redis_url_parse(const char *text, struct kw_redis_url *ret, struct kw_err *err);
void kw_redis_url_free(struct kw_redis_url *url);

/** The URL without user, for logs. @return NULL on ENOMEM; caller frees. */
char *kw_redis_url_name(const struct kw_redis_url *url);

/** "host:port" or "[v6]:port", for messages; cut where it does not fit. */
void kw_redis_host_text(const struct kw_redis_host *host, char *out, size_t size);

/** Waits for poll events. @param cancel_fd ends it where it can be read; 0: none. @return poll's
 * revents; -ETIMEDOUT; -ECANCELED; -errno. */
int kw_redis_wait(int fd, short events, int cancel_fd, uint64_t deadline_ns);

/** Where to connect: one of both. */
struct kw_redis_place {
    const char *path;
    const struct kw_redis_host *host;
};

/** Connects a socket. @param cancel_fd as kw_redis_wait. @param ret_fd non-blocking; caller closes.
 * @param ret_cause static text where the errno does not say it; else untouched. @return 0;
 * -ETIMEDOUT, -ECONNREFUSED, -ENOENT, -EHOSTUNREACH, ... */
int kw_redis_connect(const struct kw_redis_place *place, int cancel_fd, uint64_t deadline_ns,
                     int *ret_fd, const char **ret_cause);

/* ---- one connection ---- */

#define KW_REDIS_READ_BYTES 65536

struct kw_tls_client;
struct kw_tls_client_conf;

/** Zero-initialised but for fd -1 is closed. */
struct kw_redis_link {
    int fd; /**< -1: closed */
    struct kw_tls_client *tls;
    int cancel_fd;
    bool fresh;      /**< TCP, and nothing was answered yet */
    bool discreet;   /**< what the server says could repeat a password: it is not quoted */
    char label[512]; /**< first words of errors: "redis rediss://host:6379" */
    char buffer[KW_REDIS_READ_BYTES];
};

/** Connects, and shakes hands where `tls` is given. On failure the link is closed. @return 0; as
 * kw_redis_exec. */
int kw_redis_link_open(struct kw_redis_link *link, const struct kw_redis_place *place,
                       const struct kw_tls_client_conf *tls, uint64_t deadline_ns,
                       struct kw_err *err);
void kw_redis_link_close(struct kw_redis_link *link);

/** Whether an idle connection still is one: no end of file, no byte that belongs to no command. */
bool kw_redis_link_good(struct kw_redis_link *link);

/** Sends `len` bytes that hold `n` commands, and receives n replies. @return 0; as kw_redis_exec:
 * then the link is of no more use. */
int kw_redis_link_run(struct kw_redis_link *link, const char *bytes, size_t len, size_t n,
                      uint64_t deadline_ns, struct kw_redis_replies *ret, struct kw_err *err);

/** One command of NUL-terminated texts, whose bytes are wiped. @return as kw_redis_link_run. */
int kw_redis_link_ask(struct kw_redis_link *link, size_t argc, const char *const *argv,
                      uint64_t deadline_ns, struct kw_redis_replies *ret, struct kw_err *err);

/** An error that begins with the link's label and says what was done. @return code */
int kw_redis_link_fail(const struct kw_redis_link *link, struct kw_err *err, int code,
                       const char *what);

/* ---- who asks, and whom ---- */

/** AUTH with what the password file holds now. @param user, password_file NULL: none; without both
 * nothing is sent. @return 0; -EACCES refused; -errno of the file; as kw_redis_link_run. */
int kw_redis_login(struct kw_redis_link *link, const char *user, const char *password_file,
                   uint64_t deadline_ns, struct kw_err *err);

/** SELECT. @return 0; -EACCES refused; as kw_redis_link_run. */
int kw_redis_select(struct kw_redis_link *link, uint32_t db, uint64_t deadline_ns,
                    struct kw_err *err);

/** Reads what a sentinel answers to SENTINEL GET-MASTER-ADDR-BY-NAME. @param ret free its name.
 * @return 0; -ENOENT it knows no such master; -EPROTO no address; -EREMOTEIO an error, quoted;
 * -ENOMEM. */
int kw_redis_sentinel_address(const struct kw_redis_reply *reply, struct kw_redis_host *ret,
                              struct kw_err *err);

/** Reads what a server answers to ROLE. @return 0 a master; -EROFS another role; -EREMOTEIO an
 * error, quoted; -EPROTO. */
int kw_redis_role_is_master(const struct kw_redis_reply *reply, struct kw_err *err);

/** The sentinels of a URL. */
struct kw_redis_sentinels {
    const struct kw_redis_url *url;
    const char *user, *password_file; /**< the sentinels' own; NULL: none */
    struct kw_tls_client_conf *tls;   /**< NULL: none; its name is filled in where it is NULL */
    uint32_t timeout_ms;              /**< for each sentinel */
    size_t first;                     /**< whom to ask first */
};

/** Asks one sentinel after the other where the master is. @param link is used for it, and closed.
 * @param label first words of errors. @param ret free its name. @return 0; -errno of the last
 * sentinel, with what each said in `err`; -ECANCELED. */
int kw_redis_sentinels_ask(struct kw_redis_sentinels *sentinels, struct kw_redis_link *link,
                           const char *label, struct kw_redis_host *ret, struct kw_err *err);

/** ROLE. @return 0 the link leads to a master; -EROFS, -EREMOTEIO; as kw_redis_link_run. */
int kw_redis_check_master(struct kw_redis_link *link, uint64_t deadline_ns, struct kw_err *err);

/* ---- bytes ---- */

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
