/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/http_server.h"

/* A server with a few routes, and raw sockets to it: for tests of what goes over the wire. */

#define KWT_HTTP_MAX_BODY   (1u << 20)
#define KWT_HTTP_MAX_HEADER 8192u

/* Connections in a test of many. A handshake costs 5 ms of CPU here, on both sides together. */
#ifdef KWT_HTTP_TLS
#define KWT_HTTP_MANY 200
#else
#define KWT_HTTP_MANY 2000
#endif

/** Routes: POST /filter, GET /healthz, GET+POST /both, GET /v1/ and below (all echo), GET /query,
 * GET / (static), GET /large (1 MB), GET /wait (until *go; may be NULL). Fails the test where it
 * does not start. */
struct kw_http_server *kwt_http_start(const char *listen, unsigned threads, unsigned timeout_s,
                                      unsigned max_connections, atomic_bool *go);

/** Where built with KWT_HTTP_TLS, gives a server that listens on TCP certificates of its own and
 * asks for those that kwt_http_dial shows; otherwise nothing. kwt_http_start does so. */
void kwt_http_secure(struct kw_http_server_conf *conf);

/** On a loopback port, 2 threads, a time-out of 60 s, 4096 connections. */
struct kw_http_server *kwt_http_start_default(void);

/** A connection that gives up reading after 50 s, before the server's time-out could end it. */
int kwt_http_dial(const struct kw_http_server *server);

/** Sends what the server takes; not an error where it has closed. */
void kwt_http_send(int fd, const char *bytes, size_t len);

/** Reads until the server closes; fails the test where it does not. */
void kwt_http_receive(int fd, struct kw_buf *answer);

/** Dials, sends, receives. */
void kwt_http_exchange(const struct kw_http_server *server, const char *bytes, size_t len,
                       struct kw_buf *answer);

/** How often a text stands in an answer. */
unsigned kwt_http_count(const struct kw_buf *answer, const char *text);

/** One request on a connection of its own, which the server must answer once, with a length, and
 * close. */
void kwt_http_check_bytes(const struct kw_http_server *server, const char *bytes, size_t len,
                          const char *status, const char *part);
void kwt_http_check(const struct kw_http_server *server, const char *request, const char *status,
                    const char *part);
