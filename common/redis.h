/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/*
 * Redis client: commands are queued, sent as one pipeline, and answered before a deadline.
 * Blocking, for one thread at a time; programs keep it off threads that must not wait. Hiredis
 * formats and parses (its reader and its formatter); the socket and TLS are our own, so that the
 * deadline is exact. A broken connection is made again on the next exec, not more often than a
 * jittered back-off (100 ms .. 5 s) allows.
 */

struct kw_redis;

/**
 * Where a Redis is and who asks: what an operator chooses (common/redis_rows.h). All but the URL
 * may be NULL. Files are read again at each connect; what is of no use with the URL is refused.
 */
struct kw_redis_access {
    const char
        *url;         /**< one of
                         "redis://[USER@]HOST[:PORT][/DB]"; "rediss://..." with TLS;
                         "redis+sentinel://[USER@]HOST[:PORT][,HOST[:PORT]...]/MASTER[/DB]", the hosts
                         being sentinels; "rediss+sentinel://..." with TLS to them and to the master;
                         "unix:///path/redis.sock[?db=N]".
                         A password in it is refused with a hint at password_file */
    const char *user; /**< ACL user; NULL: the URL's, else default */
    const char *password_file;
    const char *ca_file;     /**< PEM; NULL: the system's */
    const char *cert_file;   /**< client certificate with its chain, PEM */
    const char *key_file;    /**< its key; NULL: in cert_file */
    const char *server_name; /**< that the servers' certificates must have; NULL: the host's */
    const char *sentinel_user, *sentinel_password_file;
};

/** Whether a text can be the `url` of an access. No part of it is repeated: it may hold a password.
 * @return 0; -EINVAL; -ENOMEM. */
int kw_redis_check_url(const char *text, struct kw_err *err);

/** Texts are copied. */
struct kw_redis_conf {
    struct kw_redis_access access;
    uint32_t connect_timeout_ms; /**< connecting, TLS and login; of the server, and of each sentinel
                                    that is asked; 0: 1000 */
    uint32_t timeout_ms;         /**< a whole pipeline; 0: 2000 */
    int cancel_fd; /**< as soon as it can be read, waiting ends (-ECANCELED); it is only polled.
                      0: none */
};

enum kw_redis_type {
    KW_REDIS_NIL,
    KW_REDIS_STRING, /**< bulk and simple strings */
    KW_REDIS_INTEGER,
    KW_REDIS_ARRAY,
    KW_REDIS_ERROR, /**< str is the server's text */
};

/** A reply, shape checked: what type does not use is 0/NULL. Owned by its kw_redis_replies. */
struct kw_redis_reply {
    enum kw_redis_type type;
    int64_t integer;
    const char *str; /**< NUL-terminated, may hold NULs inside */
    size_t len;
    const struct kw_redis_reply *elements;
    size_t n_elements;
};

/** Replies of one pipeline, one per queued command, in order. */
struct kw_redis_replies {
    size_t n;
    struct kw_redis_reply *items;
    void *storage;
};

/** Does not connect yet. @return 0; -EINVAL with the bad part of the URL named; -ENOMEM. */
int kw_redis_new(const struct kw_redis_conf *conf, struct kw_redis **ret, struct kw_err *err);
void kw_redis_free(struct kw_redis **redis);

/** Queues a command of argc binary-safe arguments. @param lens NULL: NUL-terminated texts. @return
 * 0 or -ENOMEM; on failure the queue is as before. */
int kw_redis_queue(struct kw_redis *redis, size_t argc, const char *const *argv,
                   const size_t *lens);

/** Queues NUL-terminated texts; the list ends with NULL. */
int kw_redis_queue_texts(struct kw_redis *redis, ...) __attribute__((sentinel));

/** Forgets what is queued. */
void kw_redis_discard(struct kw_redis *redis);

/**
 * Sends the queue and waits for all its replies, or for the deadline. The queue is empty
 * afterwards, also on failure. A reply of type ERROR is no failure of exec.
 * @param ret_replies NULL: replies are checked for errors only (the first becomes -EREMOTEIO). Free
 * with kw_redis_replies_free.
 * @return 0; -ETIMEDOUT; -ECONNREFUSED, -EPIPE ...; -EAGAIN while the back-off lasts (nothing was
 * tried); -EACCES authentication refused; -EPROTO a malformed reply, or TLS (a certificate that is
 * not accepted, a server without TLS); -EROFS the sentinels name a server that is no master;
 * -ENOENT they know no master of this name. `err` names the URL, never a secret.
 */
int kw_redis_exec(struct kw_redis *redis, struct kw_redis_replies *ret_replies, struct kw_err *err);
void kw_redis_replies_free(struct kw_redis_replies *replies);

/** A second exec from now on does not wait for the back-off. */
void kw_redis_retry_now(struct kw_redis *redis);

/** Connections tried since kw_redis_new. A caller to whom it matters that all it wrote is there
 * writes it again where this has changed: a server that took over may lack the last of it. */
uint64_t kw_redis_connections(const struct kw_redis *redis);

/** URL without user and secrets, for logs. */
const char *kw_redis_name(const struct kw_redis *redis);
