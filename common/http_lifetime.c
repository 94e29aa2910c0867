/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/http_impl.h"

/*
 * Beginning and end of a server. At its end, answers close their connections, and those that have
 * waited for a request for a while are closed (http_watch.c). New ones are let in as long as there
 * are others, ACCEPT_NS at most; then nobody can connect any more, and whoever has by then is
 * answered, too. After STOP_NS all connections are shut down and waited for. The daemon must be
 * stopped empty: a malformed request that libmicrohttpd 0.9.75 meets in MHD_stop_daemon makes it
 * build the head of an answer that it has not queued (a NULL response).
 */

#define ACCEPT_NS KW_NS_PER_S
#define STOP_NS   (4 * KW_NS_PER_S)

static int open_tls(struct kw_http_server *server, const struct kw_http_tls_conf *conf,
                    struct kw_err *err)
{
    int rc = kw_http_tls_wanted(conf, err);

    if (rc > 0 && !kw_http_daemon_has_tls())
        return kw_err_set(err, -ENOTSUP, "this libmicrohttpd was built without TLS");
    return rc > 0 ? kw_http_tls_new(conf, &server->tls, err) : rc;
}

int kw_http_server_start(const struct kw_http_server_conf *conf, struct kw_http_server **ret,
                         struct kw_err *err)
{
    kw_cleanup(kw_http_server_free) struct kw_http_server *server = NULL;
    int rc = kw_http_limits_check(conf, err);

    if (rc < 0)
        return rc;
    server = calloc(1, sizeof(*server));
    if (server == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    server->listener.fd = -1;
    server->max_body_bytes = conf->max_body_bytes;
    server->max_header_bytes = conf->max_header_bytes;
    server->max_connections = conf->max_connections;
    kw_http_load_init(&server->peers, 0);
    kw_http_load_init(&server->load, kw_http_limit_of_bodies(conf->max_body_bytes));
    rc = kw_http_routes_copy(conf->routes, conf->n_routes, &server->routes);
    if (rc < 0)
        return kw_err_set(err, rc, "out of memory");
    server->n_routes = conf->n_routes;
    rc = open_tls(server, &conf->tls, err);
    if (rc == 0)
        rc = kw_http_listen_open(conf->listen, &server->listener, err);
    if (rc < 0)
        return rc;
    server->port = server->listener.port;
    rc = kw_http_watch_start(conf->timeout_s, server->tls != NULL ? kw_http_tls_renew : NULL,
                             server->tls, &server->watch);
    if (rc == 0)
        rc = kw_http_daemon_start(server, conf);
    if (rc < 0)
        return kw_err_set(err, rc, "cannot serve HTTP on %s: %s", conf->listen, kw_errno_text(rc));
    *ret = KW_TAKE_PTR(server);
    return 0;
}

static void stop(struct kw_http_server *server)
{
    kw_http_load_stop(&server->load);
    kw_http_watch_drain(server->watch);
    kw_http_load_wait_idle(&server->peers, ACCEPT_NS);
    kw_http_listen_shut(&server->listener);
    kw_http_load_wait_idle(&server->peers, STOP_NS);
    kw_http_watch_shut(server->watch);
    kw_http_load_wait_idle(&server->peers, STOP_NS);
    if (server->aside != NULL)
        kw_http_aside_stop(server->aside);
    server->listener.fd = -1; /* the daemon's to close */
    kw_http_daemon_stop(server);
}

void kw_http_server_free(struct kw_http_server **server)
{
    struct kw_http_server *s = *server;

    if (s == NULL)
        return;
    if (s->daemon != NULL)
        stop(s);
    else if (s->aside != NULL)
        kw_http_aside_stop(s->aside);
    kw_http_aside_free(&s->aside);
    kw_http_listen_close(&s->listener);
    kw_http_watch_free(&s->watch);
    kw_http_tls_free(&s->tls);
    kw_http_routes_free(&s->routes, s->n_routes);
    kw_http_load_destroy(&s->load);
    kw_http_load_destroy(&s->peers);
    free(s);
    *server = NULL;
}

uint16_t kw_http_server_port(const struct kw_http_server *server)
{
    return server->port;
}

const char *kw_http_server_tls(const struct kw_http_server *server)
{
    if (server->tls == NULL)
        return "no";
    return kw_http_tls_asks(server->tls) ? "client certificates" : "yes";
}
