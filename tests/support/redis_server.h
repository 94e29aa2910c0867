/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/*
 * A real redis-server for a test, in a temporary folder of its own: on a unix socket always, and on
 * a loopback port of its own choosing where asked for.
 */
struct kwt_redis_server {
    pid_t pid;
    uint16_t port;       /**< 0: no TCP */
    char dir[64];        /**< holds the socket, log and data */
    char socket_url[96]; /**< "unix://DIR/redis.sock" */
    char tcp_url[64];
    const char *more; /**< further lines of its configuration; NULL: none; borrowed */
};

/** Ends the process with 77 and a SKIP line where redis-server is not installed. */
void kwt_redis_need(void);

/** A free port of the loopback. */
uint16_t kwt_redis_free_port(void);

/** Makes the folder; does not start. */
void kwt_redis_init(struct kwt_redis_server *server);

/**
 * Starts the server and waits until it answers PING. @param user_rule NULL, or an ACL user line
 * ("user kwatt on >pw ~* +@all"): then the default user is off. Fails the test where it does not
 * come up within 10 s.
 */
void kwt_redis_start(struct kwt_redis_server *server, const char *user_rule);

/** SIGKILL and wait. */
void kwt_redis_kill(struct kwt_redis_server *server);

/** Kills and removes the folder. */
void kwt_redis_done(struct kwt_redis_server *server);

struct kw_redis;
struct kw_redis_conf;

/** kw_redis_new that fails the test where it fails. */
struct kw_redis *kwt_redis_client(const struct kw_redis_conf *conf);
