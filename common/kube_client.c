/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the API server: one object, one change, or a whole collection in pages.
 *
 * A list is read in pages, since an answer with every pod of a large cluster would be hundreds of
 * megabytes on both sides. All pages come from one resourceVersion; where that has been compacted
 * away meanwhile the server answers 410, and the list starts over (`restart` tells the consumer to
 * forget what it got). A page that is larger than an answer may be is asked for again with fewer
 * objects.
 *
 * Errors carry what the server's Status object says: "403: pods is forbidden: User ..." is what an
 * operator needs.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/http_client.h"
#include "common/kube_impl.h"

#define PAGE_ITEMS     500
/* A page of 7 objects of the largest size that etcd takes (1.5 MiB) fits in any answer. */
#define PAGE_MIN_ITEMS 7
#define MAX_BODY_BYTES (64u << 20)
/* Each start of a list gets five minutes from the server before its version can be gone. */
#define MAX_RESTARTS   3

/* A list without end is a broken server; 15 million objects, or 200 000 of the largest. */
#define MAX_PAGES 30000

#define HTTP_GONE 410

struct kw_kube {
    struct kw_kube_target target;
    struct kw_http_client *http;
};

int kw_kube_new(const struct kw_kube_conf *conf, struct kw_kube **ret, struct kw_err *err)
{
    kw_cleanup(kw_kube_free) struct kw_kube *kube = calloc(1, sizeof(*kube));
    char password_file[32];

    if (kube == NULL)
        return kw_err_set(err, -ENOMEM, "Kubernetes client: out of memory");
    kube->target = KW_KUBE_TARGET_EMPTY;
    int r = kw_kube_target_load(conf, &kube->target, err);
    if (r < 0)
        return r;
    const struct kw_kube_target *t = &kube->target;
    (void)snprintf(password_file, sizeof(password_file), "/proc/self/fd/%d", t->password_fd);
    r = kw_http_client_new(
        &(struct kw_http_client_conf){
            .base_url = t->server,
            .ca_file = t->ca_file,
            .ca_pem = t->ca_pem,
            .cert_file = t->cert_file,
            .cert_pem = t->cert_pem,
            .key_file = t->key_file,
            .key_pem = t->key_pem,
            .server_name = t->server_name,
            .token = t->token,
            .token_file = t->token_file,
            .username = t->username,
            .password_file = t->password_fd >= 0 ? password_file : NULL,
            .max_body_bytes = MAX_BODY_BYTES,
            .timeout_ms = conf->timeout_ms,
            .cancel_fd = conf->cancel_fd,
        },
        &kube->http, err);
    if (r < 0)
        return r;
    *ret = KW_TAKE_PTR(kube);
    return 0;
}

void kw_kube_free(struct kw_kube **kube)
{
    if (*kube == NULL)
        return;
    kw_http_client_free(&(*kube)->http);
    kw_kube_target_free(&(*kube)->target);
    free(*kube);
    *kube = NULL;
}

const char *kw_kube_server(const struct kw_kube *kube)
{
    return kube->target.server;
}

struct kw_http_client *kw_kube_http(struct kw_kube *kube)
{
    return kube->http;
}

/* @param ret_status the HTTP status where one came, else 0 */
static int request(struct kw_kube *kube, const struct kw_http_call *call, unsigned *ret_status,
                   struct kw_buf *ret_body, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    unsigned status = 0;
    int r = kw_http_client_call(kube->http, call, &status, &body, err);

    *ret_status = status;
    if (r < 0)
        return r;
    if (status < 200 || status > 299)
        return kw_kube_status_error(call->method, kube->target.server, call->path, status,
                                    body.data != NULL ? body.data : "", body.len, err);
    if (ret_body != NULL) {
        kw_buf_free(ret_body);
        *ret_body = body;
        body = (struct kw_buf){0};
    }
    return 0;
}

int kw_kube_get(struct kw_kube *kube, const char *path, struct kw_buf *ret_body, struct kw_err *err)
{
    const struct kw_http_call call = {.method = "GET", .path = path, .accept = "application/json"};
    unsigned status;

    return request(kube, &call, &status, ret_body, err);
}

int kw_kube_send(struct kw_kube *kube, const char *method, const char *path,
                 const char *content_type, const void *body, size_t body_len,
                 struct kw_buf *ret_body, struct kw_err *err)
{
    const struct kw_http_call call = {.method = method,
                                      .path = path,
                                      .content_type = content_type,
                                      .accept = "application/json",
                                      .body = body,
                                      .body_len = body_len};
    unsigned status;

    return request(kube, &call, &status, ret_body, err);
}

/* One page. @param next continue token or NULL. @param ret_status as request */
static int get_page(struct kw_kube *kube, const char *path, const char *query, const char *next,
                    unsigned limit, unsigned *ret_status, struct kw_buf *ret_body,
                    struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf url = {0};

    *ret_status = 0;
    (void)kw_buf_addf(&url, "%s?limit=%u", path, limit);
    if (query != NULL && query[0] != '\0')
        (void)kw_buf_addf(&url, "&%s", query);
    if (next != NULL) {
        (void)kw_buf_adds(&url, "&continue=");
        (void)kw_kube_url_encode(&url, next);
    }
    if (url.failed)
        return kw_err_set(err, -ENOMEM, "list: out of memory");
    const struct kw_http_call call = {
        .method = "GET", .path = url.data, .accept = "application/json"};
    return request(kube, &call, ret_status, ret_body, err);
}

int kw_kube_list(struct kw_kube *kube, const char *path, const char *query, kw_kube_item_fn fn,
                 void (*restart)(void *user), void *user, char **ret_version, struct kw_err *err)
{
    kw_cleanup(kw_kube_page_free) struct kw_kube_page page = {0};
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    kw_cleanup_free char *asked = NULL; /* where the page at hand was to begin */
    unsigned limit = PAGE_ITEMS;
    unsigned restarts = 0;
    unsigned status;

    for (unsigned pages = 0; pages == 0 || page.next != NULL; pages++) {
        if (pages == MAX_PAGES)
            return kw_err_set(err, -EPROTO, "GET %s%s: the list does not end", kube->target.server,
                              path);
        int r = get_page(kube, path, query, page.next, limit, &status, &body, err);
        while (r == -EFBIG && limit > PAGE_MIN_ITEMS) {
            limit = limit / 4 > PAGE_MIN_ITEMS ? limit / 4 : PAGE_MIN_ITEMS;
            r = get_page(kube, path, query, page.next, limit, &status, &body, err);
        }
        bool expired = r < 0 && status == HTTP_GONE && page.next != NULL;
        if (r < 0 && !(expired && restarts < MAX_RESTARTS))
            return r;
        free(asked);
        asked = KW_TAKE_PTR(page.next);
        kw_kube_page_free(&page);
        if (expired) {
            restarts++;
            pages = UINT_MAX; /* begin again with the first */
            if (restart != NULL)
                restart(user);
            continue;
        }
        r = kw_kube_cut_list(body.data != NULL ? body.data : "", body.len, fn, user, &page, err);
        if (r < 0) {
            (void)kw_err_wrap(err, "GET %s%s", kube->target.server, path);
            return r;
        }
        if (page.next != NULL && asked != NULL && strcmp(page.next, asked) == 0)
            return kw_err_set(err, -EPROTO, "GET %s%s: the list does not go on",
                              kube->target.server, path);
    }
    if (ret_version != NULL)
        *ret_version = KW_TAKE_PTR(page.version);
    return 0;
}
