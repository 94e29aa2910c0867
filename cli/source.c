/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "cli/address.h"
#include "common/cleanup.h"

/** On one machine a program answers in milliseconds; across a cluster in tens of them. */
#define TIMEOUT_MS 2000

static bool is_url(const char *address)
{
    return strncmp(address, "http://", 7) == 0 || strncmp(address, "https://", 8) == 0;
}

int cli_source_check(const char *address, struct kw_err *err)
{
    struct cli_address parsed;

    return is_url(address) ? kw_http_client_check_url(address, err)
                           : cli_address_parse(address, &parsed, err);
}

int cli_source_http_new(const char *address, const struct kw_http_client_tls *tls,
                        struct kw_http_client **ret, struct kw_err *err)
{
    struct cli_address parsed;
    char url[CLI_ADDRESS_MAX];
    struct kw_http_client_conf conf = {
        .base_url = address, .connect_timeout_ms = TIMEOUT_MS, .timeout_ms = TIMEOUT_MS};
    int rc;

    if (tls != NULL) {
        conf.ca_file = tls->ca_file;
        conf.cert_file = tls->cert_file;
        conf.key_file = tls->key_file;
        conf.server_name = tls->server_name;
    }
    if (!is_url(address)) {
        rc = cli_address_parse(address, &parsed, err);
        if (rc < 0)
            return rc;
        cli_address_url(&parsed, url);
        conf.base_url = url;
        conf.unix_socket = parsed.unix_socket ? parsed.host : NULL;
    }
    return kw_http_client_new(&conf, ret, err);
}

int cli_source_agent_view(struct kw_http_client *client, struct kw_node_view *ret,
                          struct kw_err *err)
{
    const struct kw_http_call call = {
        .method = "GET", .path = "/v1/pods", .accept = "application/json"};
    struct kw_buf body = {0};
    unsigned status = 0;
    const char *why = "";
    int rc = kw_http_client_call(client, &call, &status, &body, err);

    if (rc == 0 && status == 503)
        rc = kw_err_set(err, -EAGAIN, "the agent has no sample yet");
    else if (rc == 0 && status != 200)
        rc = kw_err_set(err, -EPROTO, "GET /v1/pods was answered with status %u: is that an agent?",
                        status);
    if (rc == 0) {
        rc = kw_node_view_decode(body.data != NULL ? body.data : "", body.len, ret, &why);
        if (rc < 0)
            (void)kw_err_set(err, rc, "the answer to GET /v1/pods cannot be read: %s: %s", why,
                             rc == -EPROTONOSUPPORT ? "an agent of another version" : "malformed");
    }
    kw_buf_free(&body);
    return rc;
}

void cli_advices_clear(struct cli_advices *advices)
{
    for (size_t i = 0; i < advices->n; i++)
        kw_advice_clear(&advices->items[i]);
    free(advices->items);
    *advices = (struct cli_advices){0};
}

/** Runs the one command queued. @return its reply where it is of that type; NULL for nil; -EPROTO
 * otherwise. */
static int one_reply(struct kw_redis *redis, enum kw_redis_type type,
                     struct kw_redis_replies *replies, const struct kw_redis_reply **ret,
                     struct kw_err *err)
{
    int rc = kw_redis_exec(redis, replies, err);

    if (rc < 0)
        return rc;
    *ret = NULL;
    if (replies->n != 1)
        return kw_err_set(err, -EPROTO, "Redis answered %zu replies instead of 1", replies->n);
    if (replies->items[0].type == KW_REDIS_ERROR)
        return kw_err_set(err, -EREMOTEIO, "Redis: %.300s", replies->items[0].str);
    if (replies->items[0].type == KW_REDIS_NIL)
        return 0;
    if (replies->items[0].type != type)
        return kw_err_set(err, -EPROTO, "Redis answered with a reply of another type");
    *ret = &replies->items[0];
    return 0;
}

int cli_source_advices(struct kw_redis *redis, const char *node, struct cli_advices *ret,
                       struct kw_err *err)
{
    char key[KW_KEY_MAX];
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    const struct kw_redis_reply *reply = NULL;
    struct cli_advices advices = {0};
    int rc = kw_key_advice(key, node);

    if (rc < 0)
        return kw_err_set(err, rc, "\"%.200s\" is no node name", node);
    rc = kw_redis_queue_texts(redis, "HVALS", key, NULL);
    if (rc == 0)
        rc = one_reply(redis, KW_REDIS_ARRAY, &replies, &reply, err);
    if (rc < 0)
        return rc;
    size_t n = reply != NULL ? reply->n_elements : 0;
    advices.items = calloc(n + 1, sizeof(*advices.items));
    if (advices.items == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct kw_redis_reply *value = &reply->elements[i];
        if (value->type == KW_REDIS_STRING &&
            kw_advice_decode(value->str, value->len, &advices.items[advices.n], NULL) == 0)
            advices.n++;
    }
    *ret = advices;
    return 0;
}

void cli_names_clear(struct cli_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct cli_names){0};
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int cli_source_nodes(struct kw_redis *redis, struct cli_names *ret, struct kw_err *err)
{
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    const struct kw_redis_reply *reply = NULL;
    struct cli_names names = {0};
    int rc = kw_redis_queue_texts(redis, "ZRANGE", KW_KEY_NODES, "0", "-1", NULL);

    if (rc == 0)
        rc = one_reply(redis, KW_REDIS_ARRAY, &replies, &reply, err);
    if (rc < 0)
        return rc;
    size_t n = reply != NULL ? reply->n_elements : 0;
    names.items = calloc(n + 1, sizeof(*names.items));
    if (names.items == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        char key[KW_KEY_MAX];
        const struct kw_redis_reply *name = &reply->elements[i];
        if (name->type != KW_REDIS_STRING || strlen(name->str) != name->len ||
            kw_key_node(key, name->str) < 0)
            continue;
        names.items[names.n] = strdup(name->str);
        if (names.items[names.n] == NULL) {
            cli_names_clear(&names);
            return -ENOMEM;
        }
        names.n++;
    }
    if (names.n > 1)
        qsort(names.items, names.n, sizeof(*names.items), compare_texts);
    *ret = names;
    return 0;
}

/** Decodes the node hash: the sample is needed; curve and info are taken where they can be read. */
static int take_node(const struct kw_redis_reply *reply, const char *node,
                     struct kw_node_view *view, struct kw_err *err)
{
    const struct kw_redis_reply *sample, *other;
    const char *why = "";
    int rc;

    if (reply->type != KW_REDIS_ARRAY || reply->n_elements != 3)
        return kw_err_set(err, -EPROTO, "Redis answered with a reply of another type");
    sample = &reply->elements[0];
    if (sample->type != KW_REDIS_STRING)
        return kw_err_set(err, -ENOENT, "no agent has published a sample of node \"%.200s\"", node);
    rc = kw_sample_decode(sample->str, sample->len, &view->sample, &why);
    if (rc < 0)
        return kw_err_set(err, rc, "the sample of node \"%.200s\" cannot be read: %s: %s", node,
                          why,
                          rc == -EPROTONOSUPPORT ? "an agent of another version" : "malformed");
    other = &reply->elements[1];
    if (other->type == KW_REDIS_STRING)
        (void)kw_curve_decode(other->str, other->len, &view->curve, NULL);
    other = &reply->elements[2];
    if (other->type == KW_REDIS_STRING)
        (void)kw_node_info_decode(other->str, other->len, &view->info, NULL);
    return 0;
}

static int take_pods(const struct kw_redis_reply *reply, struct kw_node_view *view)
{
    size_t n = reply->type == KW_REDIS_ARRAY ? reply->n_elements : 0;
    uint64_t listed_uj = 0;

    view->pods = calloc(n + 1, sizeof(*view->pods));
    if (view->pods == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct kw_redis_reply *value = &reply->elements[i];
        struct kw_pod_record *pod = &view->pods[view->n_pods];
        if (value->type != KW_REDIS_STRING ||
            kw_pod_record_decode(value->str, value->len, pod, NULL) < 0)
            continue;
        /* what an agent before the present one wrote is history */
        if (pod->epoch != view->sample.epoch) {
            kw_pod_record_clear(pod);
            continue;
        }
        listed_uj += pod->active_uj;
        view->n_pods++;
    }
    uint64_t pods_uj = kw_sample_total(&view->sample).pods_uj;
    view->departed_uj = pods_uj > listed_uj ? pods_uj - listed_uj : 0;
    return 0;
}

int cli_source_redis_view(struct kw_redis *redis, const char *node, struct kw_node_view *ret,
                          struct kw_err *err)
{
    char node_key[KW_KEY_MAX], pods_key[KW_KEY_MAX];
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    struct kw_node_view view = {0};
    int rc;

    if (kw_key_node(node_key, node) < 0 || kw_key_pods(pods_key, node) < 0)
        return kw_err_set(err, -EINVAL, "\"%.200s\" is no node name", node);
    rc = kw_redis_queue_texts(redis, "HMGET", node_key, KW_FIELD_SAMPLE, KW_FIELD_CURVE,
                              KW_FIELD_INFO, NULL);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "HVALS", pods_key, NULL);
    if (rc == 0)
        rc = kw_redis_exec(redis, &replies, err);
    if (rc < 0)
        return rc;
    if (replies.n != 2)
        return kw_err_set(err, -EPROTO, "Redis answered %zu replies instead of 2", replies.n);
    rc = take_node(&replies.items[0], node, &view, err);
    if (rc == 0)
        rc = take_pods(&replies.items[1], &view);
    if (rc < 0) {
        kw_node_view_clear(&view);
        return rc;
    }
    *ret = view;
    return 0;
}
