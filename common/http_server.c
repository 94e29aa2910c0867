/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/http_aside.h"
#include "common/http_framing.h"
#include "common/http_impl.h"
#include "common/http_listen.h"
#include "common/http_load.h"
#include "common/http_memory.h"
#include "common/http_route.h"
#include "common/http_tls.h"
#include "common/http_watch.h"
#include "common/num.h"

/*
 * libmicrohttpd does sockets, parsing and threads; this file makes it safe to stand on a cluster's
 * network and fast enough for a scheduler that waits for every answer.
 *
 * A request passes four points: its target is logged raw (on_target), its head is complete
 * (on_head: framing and limits are checked, the route is found), body bytes come (on_body), it is
 * whole (on_end: the handler writes its answer). An answer of known size goes out with its head in
 * one sendmsg. Each connection keeps the memory of a buffer for the body and one for the answer, so
 * a steady stream of requests allocates nothing here; what is large (http_load.c) is given back.
 *
 * TLS is the library's too, each session set up by http_tls.c before its first byte. It is served
 * by poll: by epoll 0.9.75 takes a connection for readable all through its handshake, and spins.
 *
 * A request that is refused before it was read whole ends its connection; closing with unread bytes
 * would reset it and hide why, so such sockets linger (http_watch.c, which also keeps deadlines).
 * The body of an unknown path or method is passed over, and the connection lives on.
 *
 * A large body is read by its handler on a thread beside those of the library (http_aside.c): 72 MB
 * of whole nodes take it 100 ms, and each of the library's threads has other clients to serve.
 */

/* First reservation of a body; a client's Content-Length alone must not make us take more. */
#define FIRST_BODY_BYTES (1u << 20)

/* From here on a body is read aside: more than the names of 15 000 nodes, which take 2 ms. */
#define ASIDE_BYTES (1u << 20)

enum stage { STAGE_IDLE, STAGE_TARGET, STAGE_BODY };

struct connection {
    struct kw_http_peer peer;
    struct kw_http_tls_peer tls;
    struct kw_http_server *server;
    struct kw_http_memory memory;
    const char *target; /* raw, valid until decoding */
    size_t target_len;
    bool target_ok;
    bool cut;        /* the request at hand was not read whole: linger where it ends here */
    size_t received; /* bytes of the body so far, kept or not */
    enum stage stage;
    unsigned status; /* 200, or what to refuse with once the body is passed over */
    const struct kw_http_route *route;
    struct kw_http_allow allow; /* of a known path, for a 405 */
    struct kw_http_request request;
    struct kw_http_response response;
    struct kw_http_job job; /* its answer, where it is made aside */
};

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

static enum MHD_Result on_accept(void *cls, const struct sockaddr *address, socklen_t len)
{
    struct kw_http_server *server = cls;

    (void)address;
    (void)len;
    return atomic_load(&server->peers.requests) < server->max_connections ? MHD_YES : MHD_NO;
}

static int begin_tls(struct connection *c, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info == NULL ? -ENOTSUP
                        : kw_http_tls_begin(c->server->tls, info->tls_session, &c->peer, &c->tls);
}

static void connection_opened(struct kw_http_server *server, struct MHD_Connection *mhd,
                              void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    kw_cleanup_free struct connection *c = calloc(1, sizeof(*c));

    *context = NULL; /* without one the first request closes the connection */
    if (c == NULL)
        return;
    c->server = server;
    c->cut = true;
    c->memory.load = &server->load;
    c->peer.fd = info->connect_fd;
    kw_http_peer_phase(&c->peer, server->tls != NULL ? KW_HTTP_GREETING : KW_HTTP_WAITING);
    if (kw_http_watch_add(server->watch, &c->peer) < 0)
        return;
    if (server->tls != NULL && begin_tls(c, mhd) < 0) {
        kw_http_watch_remove(server->watch, &c->peer);
        return;
    }
    kw_http_load_begin(&server->peers);
    *context = KW_TAKE_PTR(c);
}

static void connection_closed(struct kw_http_server *server, void **context)
{
    struct connection *c = *context;
    char byte;

    if (c == NULL)
        return;
    kw_http_watch_remove(server->watch, &c->peer);
    ssize_t unread = recv(c->peer.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (unread > 0 || (unread < 0 && errno == EAGAIN && c->cut))
        kw_http_watch_linger(server->watch, c->peer.fd);
    kw_http_tls_end(&c->tls);
    kw_http_memory_free(&c->memory);
    free(c);
    *context = NULL;
    kw_http_load_end(&server->peers);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_opened(cls, mhd, context);
    else
        connection_closed(cls, context);
}

/* The request line has come. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    struct connection *c = connection_of(mhd);

    (void)cls;
    if (c == NULL)
        return NULL;
    c->stage = STAGE_TARGET;
    c->cut = true;
    c->target = target;
    c->target_len = target == NULL ? 0 : strlen(target);
    c->target_ok = kw_http_target_ok(target);
    kw_http_peer_phase(&c->peer, KW_HTTP_AT_WORK);
    return NULL;
}

/* The answer is out, or the request was given up. */
static void on_completed(void *cls, struct MHD_Connection *mhd, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct kw_http_server *server = cls;
    struct connection *c = connection_of(mhd);

    (void)request;
    (void)code;
    if (c == NULL)
        return;
    kw_http_memory_end(&c->memory);
    kw_http_peer_phase(&c->peer, KW_HTTP_WAITING);
    if (c->stage == STAGE_BODY)
        kw_http_load_end(&server->load);
    c->stage = STAGE_IDLE;
}

/* Queues an answer. @param bytes stay valid until the request is completed. */
static enum MHD_Result queue(struct MHD_Connection *mhd, const struct kw_http_response *response,
                             const char *bytes, size_t len, bool close_after)
{
    /* not copied: the buffer is the connection's own; the interface lacks a const */
    struct MHD_Response *mhd_response =
        MHD_create_response_from_buffer(len, (void *)bytes, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_NO;

    if (mhd_response == NULL)
        return MHD_NO;
    if (MHD_add_response_header(mhd_response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                response->content_type) == MHD_YES &&
        (response->allow == NULL || MHD_add_response_header(mhd_response, MHD_HTTP_HEADER_ALLOW,
                                                            response->allow) == MHD_YES) &&
        (!close_after ||
         MHD_add_response_header(mhd_response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES))
        result = MHD_queue_response(mhd, response->status, mhd_response);
    MHD_destroy_response(mhd_response);
    return result;
}

static enum MHD_Result refuse(struct connection *c, struct MHD_Connection *mhd, unsigned status,
                              bool close_after)
{
    struct kw_http_response response = {.status = status,
                                        .content_type = "text/plain; charset=utf-8",
                                        .allow = status == 405 ? c->allow.text : NULL};
    const char *text = kw_http_refusal_text(status);

    return queue(mhd, &response, text, strlen(text), close_after);
}

static void handle(struct connection *c)
{
    c->route->handler(c->route->user, &c->request, &c->response);
    c->memory.held = c->response.held;
}

/* On the thread of http_aside.c. */
static void handle_aside(struct kw_http_job *job)
{
    struct connection *c = (struct connection *)((char *)job - offsetof(struct connection, job));

    handle(c);
    kw_http_memory_drop(&c->memory); /* an answer may be as large, and wait long */
}

static enum MHD_Result add_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                  size_t key_len, const char *value, size_t value_len)
{
    (void)kind;
    kw_http_framing_header(cls, key, key_len, value, value_len);
    return MHD_YES;
}

/* Checks the head. @return 0 or the status to refuse with; *ret_length is 0 without a
 * Content-Length. */
static unsigned check_head(const struct connection *c, struct MHD_Connection *mhd,
                           const char *method, const char *version, uint64_t *ret_length)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct kw_http_framing framing;

    if (info == NULL || !c->target_ok)
        return 400;
    if (info->header_size > c->server->max_header_bytes)
        return 431;
    kw_http_framing_begin(&framing, c->server->in_place, method, info->header_size, c->target,
                          c->target_len, version);
    (void)MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, add_header, &framing);
    unsigned refused = kw_http_framing_verdict(&framing, strcmp(method, "POST") == 0,
                                               strcmp(version, "HTTP/1.0") == 0);
    if (refused != 0)
        return refused;
    *ret_length = 0;
    if (framing.length != NULL &&
        kw_parse_u64_span(framing.length, framing.length_len, 0, UINT64_MAX, ret_length) < 0)
        return 400;
    return *ret_length > c->server->max_body_bytes ? 413 : 0;
}

static enum MHD_Result on_head(struct connection *c, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version)
{
    uint64_t length = 0;
    unsigned refused;

    c->stage = STAGE_BODY;
    c->received = 0;
    c->job = (struct kw_http_job){.run = handle_aside, .connection = mhd};
    kw_http_load_begin(&c->server->load);
    kw_http_memory_begin(&c->memory);
    refused = check_head(c, mhd, method, version, &length);
    if (refused != 0)
        return refuse(c, mhd, refused, true);
    c->status = kw_http_routes_find(c->server->routes, c->server->n_routes, method,
                                    kw_http_path_of(url), &c->route, &c->allow);
    if (c->status == 200 && c->server->tls != NULL && kw_http_tls_asks(c->server->tls) &&
        !c->tls.known && !kw_http_is_probe(c->route->path))
        c->status = 403;
    if (c->status != 200) {
        /* no use in inviting a body that is thrown away */
        if (MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) != NULL)
            return refuse(c, mhd, c->status, true);
        return MHD_YES;
    }
    if (length > 0)
        (void)kw_buf_reserve(&c->memory.body,
                             length < FIRST_BODY_BYTES ? length : FIRST_BODY_BYTES);
    return MHD_YES;
}

static enum MHD_Result on_body(struct connection *c, const char *bytes, size_t *len)
{
    const size_t max = c->server->max_body_bytes;

    /* Only a chunked body can pass the limit. An answer can be queued at its end alone, so the rest
     * is passed over; one that does not end is cut off. */
    if (c->received > max && c->received - max > max)
        return MHD_NO;
    c->received += *len;
    if (c->status == 200 && c->received <= max && !kw_http_memory_take(&c->memory, bytes, *len))
        c->status = 503;
    *len = 0;
    return MHD_YES;
}

/* The answer is made. */
static enum MHD_Result reply(struct connection *c, struct MHD_Connection *mhd)
{
    const struct kw_http_response *response = &c->response;
    bool is_last = atomic_load(&c->server->load.stopping);

    kw_http_peer_phase(&c->peer, KW_HTTP_AT_WORK);
    if (response->static_body != NULL)
        return queue(mhd, response, response->static_body, response->static_len, is_last);
    if (c->memory.answer.failed)
        return refuse(c, mhd, 500, true);
    return queue(mhd, response, c->memory.answer.data == NULL ? "" : c->memory.answer.data,
                 c->memory.answer.len, is_last);
}

static enum MHD_Result go_aside(struct connection *c, struct MHD_Connection *mhd)
{
    return kw_http_aside_step(c->server->aside, &c->job) ? reply(c, mhd) : MHD_YES;
}

static enum MHD_Result on_end(struct connection *c, struct MHD_Connection *mhd, const char *url,
                              const char *method)
{
    if (c->job.stage != KW_HTTP_JOB_NONE)
        return go_aside(c, mhd);
    kw_http_peer_phase(&c->peer, KW_HTTP_AT_WORK);
    c->cut = false;
    if (c->status != 200)
        return refuse(c, mhd, c->status, false);
    if (c->received > c->server->max_body_bytes)
        return refuse(c, mhd, 413, true);
    if (c->memory.body.failed)
        return refuse(c, mhd, 500, true);
    c->response = (struct kw_http_response){
        .status = 200, .content_type = "text/plain; charset=utf-8", .body = &c->memory.answer};
    c->request = (struct kw_http_request){
        .method = method,
        .path = kw_http_path_of(url),
        .body = c->memory.body.data == NULL ? "" : c->memory.body.data,
        .body_len = c->memory.body.len,
        .own = c->memory.body.len > ASIDE_BYTES ? NULL : &c->memory.body,
        .accept = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT),
        .connection = mhd,
    };
    if (c->memory.body.len > ASIDE_BYTES)
        return go_aside(c, mhd);
    handle(c);
    return reply(c, mhd);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *len, void **request)
{
    struct connection *c = connection_of(mhd);

    (void)cls;
    (void)request;
    if (c == NULL)
        return MHD_NO;
    if (c->stage != STAGE_BODY)
        return on_head(c, mhd, url, method, version);
    if (*len > 0)
        return on_body(c, bytes, len);
    return on_end(c, mhd, url, method);
}

static void suspend(void *connection)
{
    MHD_suspend_connection(connection);
}

static void resume(void *connection)
{
    MHD_resume_connection(connection);
}

int kw_http_daemon_start(struct kw_http_server *server, const struct kw_http_server_conf *conf)
{
    server->in_place = kw_http_layout_is_known(MHD_get_version());
    /* half of it is the first read buffer, which then holds a whole head; the rest is for header
     * records (64 bytes each) and the head of the answer */
    size_t pool_bytes = 2 * conf->max_header_bytes + 4096;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, server->listener.fd, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)pool_bytes, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)conf->timeout_s, NULL},
        /* per thread; the limit in all is kept by on_accept */
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)conf->max_connections * conf->threads, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, server},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_target, server},
        /* 0 is its default; where our own check cannot look at the layout, its strictest must do */
        {MHD_OPTION_STRICT_FOR_CLIENT, server->in_place ? 0 : 1, NULL},
        {conf->threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (intptr_t)conf->threads,
         NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_TLS;
    sigset_t all, before;
    int rc = 0;

    if (server->tls == NULL)
        flags = MHD_USE_EPOLL_INTERNAL_THREAD;
    if (conf->max_body_bytes > ASIDE_BYTES) {
        flags |= MHD_ALLOW_SUSPEND_RESUME;
        rc = kw_http_aside_new(suspend, resume, &server->aside);
    }
    if (rc < 0)
        return rc;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    errno = 0;
    server->daemon = MHD_start_daemon(
        flags | MHD_USE_ITC, 0, on_accept, server, on_request, server, MHD_OPTION_ARRAY, options,
        server->tls == NULL ? MHD_OPTION_END : MHD_OPTION_HTTPS_CERT_CALLBACK2,
        kw_http_tls_selector(), MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (server->daemon == NULL)
        return errno != 0 ? -errno : -ENOMEM;
    return 0;
}

bool kw_http_daemon_has_tls(void)
{
    return MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK2) == MHD_YES;
}

void kw_http_daemon_stop(struct kw_http_server *server)
{
    MHD_stop_daemon(server->daemon);
}

const char *kw_http_server_untried(const struct kw_http_server *server)
{
    return server->in_place ? NULL : MHD_get_version();
}

const char *kw_http_request_query(const struct kw_http_request *request, const char *name)
{
    const char *value = NULL;

    if (MHD_lookup_connection_value_n(request->connection, MHD_GET_ARGUMENT_KIND, name,
                                      strlen(name), &value, NULL) != MHD_YES)
        return NULL;
    return value == NULL ? "" : value; /* "?name" without a value */
}
