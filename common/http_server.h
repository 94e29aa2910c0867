/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

/*
 * HTTP/1.1 server over libmicrohttpd. Handlers run on the server's threads: they read published
 * snapshots and never block. Every answer has a Content-Length and leaves in one write; connections
 * are kept alive. Framing that could be read in two ways (differing Content-Length, Content-Length
 * with chunked, a header line without a name) is answered 400 and closed; a POST without a length
 * 411.
 *
 * With certificate files it speaks TLS (1.2 at least), and looks for new files every second: no
 * connection is dropped for them. Where client certificates are asked for, one that is not accepted
 * ends the handshake; without one, /healthz and /readyz are served (the kubelet shows none to the
 * pods it probes) and all else is answered 403.
 */

struct kw_http_server;

struct kw_http_request {
    const char *method;
    const char *path; /**< decoded, without query */
    const char *body; /**< NUL after the last byte; "" without a body */
    size_t body_len;
    struct kw_buf *own; /**< what `body` stands in, the connection's own: the handler may write to
                           its memory, and answer with bytes of it as with a static_body; NULL of a
                           large body, which goes before the answer does */
    const char *accept; /**< Accept header or NULL */
    void *connection;   /**< for kw_http_request_query */
};

/** Filled by the handler; starts as 200, "text/plain; charset=utf-8", empty body. */
struct kw_http_response {
    unsigned status;
    const char *content_type; /**< static text */
    struct kw_buf *body; /**< the connection's own buffer, empty, its memory kept between requests:
                            append the answer */
    const char *static_body; /**< instead of `body`: bytes that outlive the server, or that `held`
                                keeps */
    size_t static_len;
    atomic_uint *held; /**< counted down by one when static_body is needed no more; may be NULL */
    const char *allow; /**< Allow header for a 405; NULL otherwise */
};

typedef void (*kw_http_handler)(void *user, const struct kw_http_request *request,
                                struct kw_http_response *response);

/** A known path with another method is answered 405 with Allow, an unknown path 404. HEAD is served
 * by GET. */
struct kw_http_route {
    const char *method; /**< "GET" or "POST" */
    const char *path;   /**< exact, or a prefix where it ends with '*' */
    kw_http_handler handler;
    void *user;
};

/** What became of certificate files. */
enum kw_http_tls_event {
    KW_HTTP_TLS_LOADED, /**< they are in use from now on: for new connections, others keep theirs */
    KW_HTTP_TLS_WARNING, /**< in use, and something about them is not as it should be */
    KW_HTTP_TLS_FAILED,  /**< they cannot be used; those before them stay */
    KW_HTTP_TLS_REFUSED, /**< a client showed a certificate that is not accepted */
};

/** How a program logs an event: enum kw_log_level, and the message beside its text. */
struct kw_http_tls_saying {
    unsigned level;
    const char *message;
};
extern const struct kw_http_tls_saying kw_http_tls_sayings[];

/** Called at the start, and then on threads of the server, which wait for it. @param text names the
 * file and the cause. */
typedef void (*kw_http_tls_report)(void *user, enum kw_http_tls_event event, const char *text);

/** Which certificate files; what an operator chooses (common/http_rows.h). Texts are copied. */
struct kw_http_tls_files {
    const char *cert;      /**< PEM, followed by those between it and the root; NULL: plain HTTP */
    const char *key;       /**< its private key, PEM, without a passphrase */
    const char *client_ca; /**< PEM: clients show a certificate signed by one of these, or get no
                              further than the probes; NULL: clients are not asked for one */
};

struct kw_http_tls_conf {
    struct kw_http_tls_files files;
    kw_http_tls_report report; /**< NULL: nobody is told */
    void *user;
};

/** Threads on which handlers run beside those of struct kw_http_server_conf: large bodies (more
 * than 1 MiB) are handled on one of their own, one after the other. */
#define KW_HTTP_THREADS_BESIDE 1

struct kw_http_server_conf {
    const char *listen;    /**< "127.0.0.1:9890", ":9890" (all addresses, v4 and v6), "[::1]:9890",
                              "unix:/path"; port 0 picks one */
    unsigned threads;      /**< 1..64 */
    size_t max_body_bytes; /**< larger: 413; more than 8 such bodies at hand in all: 503 */
    size_t max_header_bytes;            /**< head of a request, 1 KiB..64 KiB; larger: 431 */
    unsigned timeout_s;                 /**< a connection without progress is closed */
    unsigned max_connections;           /**< further ones are closed at once */
    const struct kw_http_route *routes; /**< copied */
    size_t n_routes;
    struct kw_http_tls_conf tls; /**< zeroed: plain HTTP */
};

/** Whether a text can be the `listen` of a server, whatever else listens there. @return 0 or
 * -EINVAL with the cause. */
int kw_http_check_listen(const char *text, struct kw_err *err);

/** Starts listening and serving. @return 0 or -errno with the cause (an address in use is named).
 */
int kw_http_server_start(const struct kw_http_server_conf *conf, struct kw_http_server **ret,
                         struct kw_err *err);

/** Answers whoever has connected by then, closing each connection with its answer (5 s at most),
 * and frees. */
void kw_http_server_free(struct kw_http_server **server);

/** The port in use (for "port 0"); 0 for a unix socket. */
uint16_t kw_http_server_port(const struct kw_http_server *server);

/**
 * NULL, or the version of libmicrohttpd at hand where it is one whose parser was not tried: bare
 * line feeds, folded lines and NULs in a head are then left to its strict mode. For one warning at
 * start.
 */
const char *kw_http_server_untried(const struct kw_http_server *server);

/** "no", "yes", or "client certificates": what the server does about TLS. For a line at start. */
const char *kw_http_server_tls(const struct kw_http_server *server);

/** Value of a query parameter, decoded; NULL where absent. Valid during the handler. */
const char *kw_http_request_query(const struct kw_http_request *request, const char *name);
