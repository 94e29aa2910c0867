/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

/*
 * The client's side of TLS (1.2 at least) on a connected, non-blocking socket that the caller owns
 * and polls. The server's certificate and name are verified always. Nothing blocks: what cannot go
 * on says -EAGAIN, and kw_tls_client_events what to poll for, so that a caller's deadline is exact
 * through handshakes, session tickets, key updates and records that arrive in parts.
 */

struct kw_tls_client;

/** NULL where not used. Borrowed during the call. */
struct kw_tls_client_conf {
    const char *name;                 /**< host name or address: what the server's certificate must
                                         be for; a name is sent as SNI, too */
    const char *ca_file;              /**< PEM; NULL: the system's */
    const char *cert_file, *key_file; /**< client certificate with its chain, and its key, PEM;
                                         without key_file the key is in cert_file */
};

/**
 * Reads the files anew and prepares a connection; sends nothing yet.
 * @return 0; -EINVAL or -errno where a file cannot be used, with the file named in `err`; -ENOMEM.
 */
int kw_tls_client_new(const struct kw_tls_client_conf *conf, int fd, struct kw_tls_client **ret,
                      struct kw_err *err);

/** Says goodbye where that does not block, wipes keys, frees. The socket stays open. */
void kw_tls_client_free(struct kw_tls_client **tls);

/** Goes on with the handshake. @return 0 done; -EAGAIN; -EPROTO, -EPIPE, -errno, with the cause in
 * `err` ("the server's certificate is not accepted: certificate has expired"). */
int kw_tls_client_handshake(struct kw_tls_client *tls, struct kw_err *err);

/** @return bytes; 0 end of file; -EAGAIN; -EPROTO or -errno, with the cause in `err`. */
ssize_t kw_tls_client_read(struct kw_tls_client *tls, void *bytes, size_t size, struct kw_err *err);

/** As kw_tls_client_read. After -EAGAIN it is to be called with the same bytes, or more of them. */
ssize_t kw_tls_client_write(struct kw_tls_client *tls, const void *bytes, size_t len,
                            struct kw_err *err);

/** Events of poll that the last call that gave -EAGAIN waits for: POLLIN or POLLOUT. */
short kw_tls_client_events(const struct kw_tls_client *tls);
