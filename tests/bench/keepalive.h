/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

/*
 * Client of a benchmark: one connection over loopback that asks one question at a time and does as
 * little as possible itself. What does not work ends the program by kwt_die, which the benchmark
 * defines.
 */
struct keepalive {
    int fd;
    char *in;
    size_t cap;
};

/** Ends the program with a line on stderr, after cleaning up. */
_Noreturn void kwt_die(const char *what);

/** Connects to a port of this machine; waits up to a minute for a server that is starting. */
void keepalive_connect(struct keepalive *client, uint16_t port);
void keepalive_close(struct keepalive *client);

/** The two halves of keepalive_ask, for a client that has many connections. */
void keepalive_send(struct keepalive *client, const struct kw_buf *request);
size_t keepalive_read(struct keepalive *client, const char **ret_body);

/** Sends a whole request and reads its answer, which must have status 200. @param ret_body inside
 * the client's buffer, valid until the next call. @return its length. */
size_t keepalive_ask(struct keepalive *client, const struct kw_buf *request, const char **ret_body);
