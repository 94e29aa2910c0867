/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/http_client.h"
#include "common/http_secret.h"

/* Settings of a client, checked and copied; for http_client.c only. Knows nothing of libcurl. */

struct kw_http_client_settings {
    char *base_url;    /**< scheme, host, port and path prefix, without trailing slash */
    char *host_header; /**< value of Host where server_name replaces the URL's host; else NULL */
    char *connect_to;  /**< then "NAME:PORT:HOST:PORT": where to connect instead */
    bool loopback;     /**< the URL's host is this machine */
    char *unix_socket, *ca_file, *ca_pem, *cert_file, *key_file, *cert_pem, *key_pem, *username;
    struct kw_http_secret token;
    struct kw_http_secret password;
    uint32_t connect_timeout_ms, timeout_ms;
    size_t max_body_bytes;
    int cancel_fd;
};

/** @return 0; -EINVAL, -ENOMEM, or -errno of a file, with the cause in `err`. On failure nothing is
 * left. */
int kw_http_client_settings_open(struct kw_http_client_settings *settings,
                                 const struct kw_http_client_conf *conf, struct kw_err *err);

/** Wipes secrets and frees. */
void kw_http_client_settings_close(struct kw_http_client_settings *settings);
