/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/http_aside.h"
#include "common/http_listen.h"
#include "common/http_load.h"
#include "common/http_route.h"
#include "common/http_server.h"
#include "common/http_tls.h"
#include "common/http_watch.h"

/* What http_server.c, which speaks to libmicrohttpd, and http_lifetime.c have in common. */

struct kw_http_server {
    struct MHD_Daemon *daemon;
    struct kw_http_listen listener;
    struct kw_http_watch *watch;
    struct kw_http_tls *tls;     /**< NULL: plain HTTP */
    struct kw_http_aside *aside; /**< NULL: no body is so large */
    uint16_t port;
    size_t max_body_bytes;
    size_t max_header_bytes;
    unsigned max_connections;
    bool in_place;                /**< the library's parser is one whose layout can be checked */
    struct kw_http_route *routes; /**< owned */
    size_t n_routes;
    struct kw_http_load load;  /**< requests and bodies */
    struct kw_http_load peers; /**< connections */
};

/** Whether the library can serve TLS. */
bool kw_http_daemon_has_tls(void);

/** Serves on the listener, with what else there is. @return 0 or -errno; `daemon` is then NULL. */
int kw_http_daemon_start(struct kw_http_server *server, const struct kw_http_server_conf *conf);

/** Ends the threads that serve, and closes the listener. */
void kw_http_daemon_stop(struct kw_http_server *server);
