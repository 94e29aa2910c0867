/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An HTTP/1.1 server that does what a test says, also what no proper server does: break off, stall,
 * lie. One request per connection, one connection at a time, on a loopback port of its own.
 */

/** Answers one request on `fd` (which the server closes). @param request head and body. @param n
 * counts requests from 0. */
typedef void (*kwt_http_handler)(void *user, unsigned n, const char *request, int fd);

struct kwt_http_server {
    int listener;
    uint16_t port;
    char url[40];
    kwt_http_handler handler;
    void *user;
    pthread_t thread;
    atomic_int connection; /**< -1: none */
    atomic_uint requests;
};

void kwt_http_start(struct kwt_http_server *server, kwt_http_handler handler, void *user);

/** Cuts the connection in progress, ends the thread. */
void kwt_http_stop(struct kwt_http_server *server);

/** A whole answer with Content-Length. */
void kwt_http_answer(int fd, unsigned status, const char *body);

/** Head of an answer in chunks. */
void kwt_http_begin(int fd, unsigned status);
void kwt_http_chunk(int fd, const char *bytes, size_t len);
/** The last chunk: the answer ends as it should. */
void kwt_http_end(int fd);

/** Waits until the client closes, or the server is stopped. */
void kwt_http_stall(int fd);
