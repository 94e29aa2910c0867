/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tls_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#include "tests/support/http_raw.h"

static void on_report(void *user, enum kw_http_tls_event event, const char *text)
{
    struct kwt_tls_reports *reports = user;

    (void)pthread_mutex_lock(&reports->lock);
    (void)snprintf(reports->last[event], sizeof(reports->last[event]), "%s", text);
    (void)pthread_mutex_unlock(&reports->lock);
    (void)atomic_fetch_add(&reports->n[event], 1);
}

const char *kwt_tls_path(const struct kwt_tls_rig *rig, const char *name)
{
    static char paths[16][128];
    static unsigned next;
    char *path = paths[next++ % KW_ARRAY_SIZE(paths)];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", rig->tree.root, name);
    return path;
}

void kwt_tls_leaf(const struct kwt_tls_rig *rig, const struct kwt_authority *authority,
                  const char *name, struct kwt_leaf leaf)
{
    char cert[32], key[32];

    (void)snprintf(cert, sizeof(cert), "%s.crt", name);
    (void)snprintf(key, sizeof(key), "%s.key", name);
    leaf.name = name;
    kwt_leaf_write(authority, &leaf, kwt_tls_path(rig, cert), kwt_tls_path(rig, key));
}

int kwt_tls_setup(void **state)
{
    struct kwt_tls_rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    kwt_tree_make(&rig->tree);
    (void)pthread_mutex_init(&rig->reports.lock, NULL);
    rig->authority = kwt_authority_new("authority");
    rig->other = kwt_authority_new("other");
    kwt_authority_write(rig->authority, kwt_tls_path(rig, "ca.crt"));
    kwt_authority_write(rig->other, kwt_tls_path(rig, "other.crt"));
    kwt_tls_leaf(rig, rig->authority, "server", (struct kwt_leaf){0});
    kwt_tls_leaf(rig, rig->authority, "client", (struct kwt_leaf){.client = true});
    (void)snprintf(rig->ca, sizeof(rig->ca), "%s/ca.crt", rig->tree.root);
    (void)snprintf(rig->cert, sizeof(rig->cert), "%s/client.crt", rig->tree.root);
    (void)snprintf(rig->key, sizeof(rig->key), "%s/client.key", rig->tree.root);
    *state = rig;
    return 0;
}

int kwt_tls_teardown(void **state)
{
    struct kwt_tls_rig *rig = *state;

    kwt_tree_remove(&rig->tree);
    kwt_authority_free(&rig->authority);
    kwt_authority_free(&rig->other);
    (void)pthread_mutex_destroy(&rig->reports.lock);
    free(rig);
    return 0;
}

static void say(void *user, const struct kw_http_request *request,
                struct kw_http_response *response)
{
    (void)user;
    (void)kw_buf_adds(response->body, request->path);
}

int kwt_tls_try_start(struct kwt_tls_rig *rig, struct kw_http_tls_files files, unsigned timeout_s,
                      struct kw_http_server **ret, struct kw_err *err)
{
    const struct kw_http_route routes[] = {{"GET", "/healthz", say, NULL},
                                           {"GET", "/readyz", say, NULL},
                                           {"GET", "/both", say, NULL},
                                           {"POST", "/both", say, NULL}};
    struct kw_http_server_conf conf = {
        .listen = "127.0.0.1:0",
        .threads = 2,
        .max_body_bytes = 1u << 20,
        .max_header_bytes = 8192,
        .timeout_s = timeout_s,
        .max_connections = 64,
        .routes = routes,
        .n_routes = KW_ARRAY_SIZE(routes),
        .tls = {.files = files, .report = on_report, .user = &rig->reports}};

    return kw_http_server_start(&conf, ret, err);
}

struct kw_http_server *kwt_tls_start(struct kwt_tls_rig *rig, bool clients)
{
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};

    if (kwt_tls_try_start(
            rig,
            (struct kw_http_tls_files){.cert = kwt_tls_path(rig, "server.crt"),
                                       .key = kwt_tls_path(rig, "server.key"),
                                       .client_ca = clients ? kwt_tls_path(rig, "ca.crt") : NULL},
            60, &server, &err) < 0)
        fail_msg("%s", err.text);
    return server;
}

unsigned kwt_tls_request(int fd, const char *bytes)
{
    char head[2048];
    size_t len = 0;

    kwt_http_send(fd, bytes, strlen(bytes));
    for (;;) {
        ssize_t n = recv(fd, head + len, sizeof(head) - 1 - len, 0);

        if (n <= 0)
            return 0;
        len += (size_t)n;
        head[len] = '\0';
        const char *body = strstr(head, "\r\n\r\n"), *field = strstr(head, "Content-Length: ");
        if (body != NULL && field != NULL &&
            strlen(body + 4) >= (size_t)strtoul(field + 16, NULL, 10))
            return (unsigned)strtoul(head + 9, NULL, 10);
    }
}

unsigned kwt_tls_request_once(const struct kw_http_server *server,
                              const struct kwt_tls_client *client, const char *bytes)
{
    int fd = kwt_tls_dial(kw_http_server_port(server), client, NULL);
    unsigned status = kwt_tls_request(fd, bytes);

    (void)close(fd);
    return status;
}

struct kwt_tls_client kwt_tls_known(const struct kwt_tls_rig *rig)
{
    return (struct kwt_tls_client){.ca = rig->ca, .cert = rig->cert, .key = rig->key};
}
