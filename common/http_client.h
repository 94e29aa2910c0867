/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

/*
 * HTTP client over libcurl, blocking, one connection reused per client; a client belongs to one
 * thread at a time. TLS (1.2 at least) is verified always. A proxy is taken from the environment
 * (https_proxy, no_proxy) as client-go does, but never to loopback or through a unix socket. The
 * bearer token is read again when its file changes (bound service account tokens rotate).
 */

struct kw_http_client;

/** How to meet a server of HTTPS; what an operator chooses (common/http_rows.h). NULL where not
 * used, and so are empty texts. */
struct kw_http_client_tls {
    const char *ca_file, *cert_file, *key_file, *server_name; /**< as in kw_http_client_conf */
};

/** Texts are copied. NULL where not used. */
struct kw_http_client_conf {
    const char *base_url; /**< "https://10.0.0.1:6443" or "http://..."; no trailing slash needed */
    const char *unix_socket; /**< connect here instead; base_url still names host and scheme */
    const char *ca_file;     /**< PEM; NULL: the system's */
    const char *ca_pem;      /**< PEM bytes; wins over ca_file */
    const char *cert_file, *key_file; /**< client certificate, PEM */
    const char *cert_pem, *key_pem;   /**< same as bytes; win over files */
    const char *server_name;          /**< name to verify instead of the URL's host */
    const char *token;                /**< bearer token */
    const char *token_file; /**< bearer token, read again when it changes; wins over token */
    const char *username, *password_file; /**< Basic */
    uint32_t connect_timeout_ms;          /**< 0: 5000 */
    uint32_t timeout_ms;                  /**< whole request; 0: 30000 */
    size_t max_body_bytes;                /**< larger answer: -EFBIG; 0: 64 MiB */
    int cancel_fd; /**< as soon as it can be read, calls end (-ECANCELED); it is only polled. 0:
                    * none
                    */
};

struct kw_http_call {
    const char *method;       /**< "GET", "POST", "PUT", "PATCH", "DELETE" */
    const char *path;         /**< appended to base_url: "/api/v1/pods?limit=500" */
    const char *content_type; /**< with a body */
    const char *accept;       /**< NULL: any */
    const void *body;
    size_t body_len;
};

/** Receives a streamed answer; return false to end the request (then -ECANCELED). */
typedef bool (*kw_http_stream_fn)(void *user, unsigned status, const char *bytes, size_t len);

/** Whether a text can be a base_url. It is not repeated: it may hold credentials. @return 0 or
 * -EINVAL with the cause. */
int kw_http_client_check_url(const char *text, struct kw_err *err);

/** Checks and copies the settings; connects at the first call. @return 0; -EINVAL, -ENOMEM, or
 * -errno of a file that cannot be read. */
int kw_http_client_new(const struct kw_http_client_conf *conf, struct kw_http_client **ret,
                       struct kw_err *err);

/** Closes the connection, wipes secrets, frees. No call may be in progress. */
void kw_http_client_free(struct kw_http_client **client);

/**
 * One request; redirects are not followed.
 * @param ret_status HTTP status, set when an answer came at all.
 * @param ret_body emptied, then filled with the answer (also of an error status).
 * @return 0 when an answer came, whatever its status; -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH,
 *         -EPROTO (TLS or malformed answer), -EFBIG; the text of `err` names URL and cause, never a
 * secret.
 */
int kw_http_client_call(struct kw_http_client *client, const struct kw_http_call *call,
                        unsigned *ret_status, struct kw_buf *ret_body, struct kw_err *err);

/**
 * A request whose answer is streamed (a watch): no limit in size or time, but -ETIMEDOUT when
 * nothing arrived for idle_timeout_ms. kw_http_client_interrupt ends it from another thread
 * (-ECANCELED).
 */
int kw_http_client_stream(struct kw_http_client *client, const struct kw_http_call *call,
                          uint32_t idle_timeout_ms, kw_http_stream_fn fn, void *user,
                          unsigned *ret_status, struct kw_err *err);

/** Ends the call in progress and every later one; from any thread. */
void kw_http_client_interrupt(struct kw_http_client *client);
