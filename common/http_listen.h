/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"

/* Listening socket of the HTTP server; for the HTTP server only. */

/** A socket that listens. */
struct kw_http_listen {
    int fd;          /**< -1 once given away */
    uint16_t port;   /**< 0 for a unix socket */
    char *unix_path; /**< removed by kw_http_listen_close; NULL for TCP; owned */
};

/**
 * Binds and listens.
 * @param text "127.0.0.1:9890", "[::1]:9890", "host:9890", ":9890" (every address, v4 and v6),
 * "unix:/path"; port 0 picks one. A unix socket that nobody answers on any more is replaced.
 * @return 0; -EINVAL for a bad text; -EADDRINUSE; -errno. `err` names the address and the cause.
 */
int kw_http_listen_open(const char *text, struct kw_http_listen *ret, struct kw_err *err);

/**
 * Lets nobody connect any more, and waits until those who have are accepted, as long as that goes
 * on elsewhere: closing the socket would end the others unanswered. Nobody is refused either before
 * it is closed: a client's kernel tries again then.
 */
void kw_http_listen_shut(struct kw_http_listen *listener);

/** Closes what is open and removes the unix socket's name. */
void kw_http_listen_close(struct kw_http_listen *listener);
