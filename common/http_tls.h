/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/http_server.h"
#include "common/http_watch.h"

/*
 * TLS of the HTTP server: certificates and their renewal, and what each session is set up with; for
 * http_server.c only. Knows nothing of libmicrohttpd but that its sessions are GnuTLS'.
 */

struct kw_http_tls;            /**< the files, and what was last read from them */
struct kw_http_tls_generation; /**< one reading of them */

/** One connection's part; in its owner's structure, zeroed, at the same place until it is ended. */
struct kw_http_tls_peer {
    bool known; /**< it showed a client certificate that the authority signed */
    /* the session's own */
    bool heard;    /* the first bytes were seen */
    uint64_t turn; /* of http_turns.h, while it shakes hands */
    struct kw_http_peer *watched;
    struct kw_http_tls *tls;
    struct kw_http_tls_generation *generation; /* what this session was begun with */
};

/** Whether settings ask for TLS. @return 1, 0 (plain HTTP), or -EINVAL with what is missing. */
int kw_http_tls_wanted(const struct kw_http_tls_conf *conf, struct kw_err *err);

/**
 * Reads the files. Warnings (a key that anybody can read, a certificate out of date) go to
 * conf->report.
 * @return 0; -EINVAL, -ENOMEM, or -errno of a file, with its name and the cause in `err`.
 */
int kw_http_tls_new(const struct kw_http_tls_conf *conf, struct kw_http_tls **ret,
                    struct kw_err *err);

/** No session may be left. */
void kw_http_tls_free(struct kw_http_tls **tls);

/**
 * Looks whether the files changed and reads them; to be called about once a second, by one thread.
 * What came of it is reported: once for new certificates, once for files that stay unusable
 * (those in use are then kept).
 */
void kw_http_tls_renew(void *tls);

/** For libmicrohttpd, which wants one at its start: selects no certificate. */
void *kw_http_tls_selector(void);

/**
 * Sets up a session that libmicrohttpd has just made: certificates, versions, ciphers, transport.
 * @param session a gnutls_session_t.
 * @param watched is in its `greeting`, and leaves it when the handshake is over.
 * @return 0 or -ENOMEM (then it is not to be ended).
 */
int kw_http_tls_begin(struct kw_http_tls *tls, void *session, struct kw_http_peer *watched,
                      struct kw_http_tls_peer *peer);

/** The session is gone. */
void kw_http_tls_end(struct kw_http_tls_peer *peer);

/** Whether clients are to show certificates. */
bool kw_http_tls_asks(const struct kw_http_tls *tls);
