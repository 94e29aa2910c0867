/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With an API server the recommender asks for just the pods that some VPA covers (HMGET by node),
 * so that its cost grows with them and not with the cluster. Without one it reads all records of
 * each node (HGETALL), which is one machine's worth. Before HGETALL the size is asked for: a hash
 * that somebody blew up is refused instead of being loaded.
 */
#include "vpa-recommender/source_redis.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "common/cleanup.h"

/** The design's largest cluster has 15 000 nodes. */
#define NODES_MAX "19999"

/** The design's largest node has 1000 pods and 5000 cgroups. */
#define RECORDS_MAX 20000

/** Ids of one HMGET: keeps a command and its answer below a few hundred kilobytes. */
#define IDS_PER_COMMAND 256

const char *const rec_record_fate_names[REC_RECORD__MAX] = {
    [REC_RECORD_READ] = "read",
    [REC_RECORD_MALFORMED] = "malformed",
    [REC_RECORD_SCHEMA] = "other-schema",
    [REC_RECORD_REFUSED] = "refused",
};
_Static_assert(REC_RECORD__MAX == 4, "a fate without a name");

void rec_nodes_clear(struct rec_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++)
        free(nodes->names[i]);
    free(nodes->names);
    memset(nodes, 0, sizeof(*nodes));
}

static bool is_text(const struct kw_redis_reply *reply)
{
    return reply->type == KW_REDIS_STRING && memchr(reply->str, '\0', reply->len) == NULL;
}

static bool is_wrong_type(const struct kw_redis_reply *reply)
{
    return reply->type == KW_REDIS_ERROR && strncmp(reply->str, "WRONGTYPE", 9) == 0;
}

static int out_of_memory(struct kw_err *err)
{
    (void)kw_err_set(err, -ENOMEM, "out of memory");
    return -ENOMEM;
}

/**
 * Sends one queued command and takes its one reply.
 * @param queued outcome of queueing it.
 * @param storage owns the reply; freed by the caller on 0.
 * @return 0; -EBADMSG where the key holds another type; as kw_redis_exec.
 */
static int ask(struct rec_source *source, int queued, struct kw_redis_replies *storage,
               const struct kw_redis_reply **ret, struct kw_err *err)
{
    if (queued != 0)
        return out_of_memory(err);
    int rc = kw_redis_exec(source->redis, storage, err);
    if (rc < 0)
        return rc;
    const struct kw_redis_reply *reply = storage->n == 1 ? storage->items : NULL;
    if (reply != NULL && reply->type != KW_REDIS_ERROR) {
        *ret = reply;
        return 0;
    }
    bool wrong_type = reply != NULL && is_wrong_type(reply);
    (void)kw_err_set(err, -EREMOTEIO, "Redis refused a command: %s",
                     reply != NULL ? reply->str : "no reply");
    kw_redis_replies_free(storage);
    return wrong_type ? -EBADMSG : -EREMOTEIO;
}

/**
 * Asks about one node. A key of another type is that node's fault and nobody else's.
 * @return 1 where there is a reply; 0 where the node is passed over; as kw_redis_exec.
 */
static int ask_node(struct rec_source *source, int queued, struct kw_redis_replies *storage,
                    const struct kw_redis_reply **ret, struct kw_err *err)
{
    int rc = ask(source, queued, storage, ret, err);

    if (rc == 0)
        return 1;
    if (rc != -EBADMSG)
        return rc;
    source->fates[REC_RECORD_REFUSED]++;
    return 0;
}

int rec_source_nodes(struct rec_source *source, struct rec_nodes *ret, struct kw_err *err)
{
    struct kw_redis_replies replies = {0};
    const struct kw_redis_reply *list;
    struct rec_nodes nodes = {0};
    char key[KW_KEY_MAX];

    int rc = kw_redis_queue_texts(source->redis, "ZRANGE", KW_KEY_NODES, "0", NODES_MAX, NULL);
    rc = ask(source, rc, &replies, &list, err);
    if (rc < 0)
        return rc;
    size_t n = list->type == KW_REDIS_ARRAY ? list->n_elements : 0;
    nodes.names = calloc(n + 1, sizeof(*nodes.names));
    for (size_t i = 0; nodes.names != NULL && i < n; i++) {
        const struct kw_redis_reply *name = &list->elements[i];
        if (!is_text(name) || kw_key_pods(key, name->str) < 0) {
            source->fates[REC_RECORD_REFUSED]++;
            continue;
        }
        nodes.names[nodes.n] = strdup(name->str);
        if (nodes.names[nodes.n] == NULL)
            break;
        nodes.n++;
    }
    kw_redis_replies_free(&replies);
    if (nodes.names == NULL)
        return out_of_memory(err);
    *ret = nodes;
    return 0;
}

/** Decodes one value and hands it on. */
static void take(struct rec_source *source, const char *node, const char *id,
                 const struct kw_redis_reply *value, rec_record_fn fn, void *user)
{
    struct kw_pod_record record;

    if (value->type != KW_REDIS_STRING) {
        source->fates[REC_RECORD_MALFORMED]++;
        return;
    }
    int rc = kw_pod_record_decode(value->str, value->len, &record, NULL);
    if (rc < 0) {
        source->fates[rc == -EPROTONOSUPPORT ? REC_RECORD_SCHEMA : REC_RECORD_MALFORMED]++;
        return;
    }
    if (strcmp(record.id, id) == 0) {
        source->fates[REC_RECORD_READ]++;
        fn(user, node, &record);
    } else {
        source->fates[REC_RECORD_MALFORMED]++;
    }
    kw_pod_record_clear(&record);
}

int rec_source_read_all(struct rec_source *source, const char *node, rec_record_fn fn, void *user,
                        struct kw_err *err)
{
    struct kw_redis_replies replies = {0};
    const struct kw_redis_reply *reply;
    char key[KW_KEY_MAX];

    if (kw_key_pods(key, node) < 0)
        return kw_err_set(err, -EINVAL, "node name is no key");
    int rc = kw_redis_queue_texts(source->redis, "HLEN", key, NULL);
    rc = ask_node(source, rc, &replies, &reply, err);
    if (rc <= 0)
        return rc;
    bool sane = reply->type == KW_REDIS_INTEGER && reply->integer <= RECORDS_MAX;
    kw_redis_replies_free(&replies);
    if (!sane) {
        source->fates[REC_RECORD_REFUSED]++;
        return 0;
    }
    rc = kw_redis_queue_texts(source->redis, "HGETALL", key, NULL);
    rc = ask_node(source, rc, &replies, &reply, err);
    if (rc <= 0)
        return rc;
    for (size_t i = 0; reply->type == KW_REDIS_ARRAY && i + 1 < reply->n_elements; i += 2) {
        if (is_text(&reply->elements[i]))
            take(source, node, reply->elements[i].str, &reply->elements[i + 1], fn, user);
        else
            source->fates[REC_RECORD_MALFORMED]++;
    }
    kw_redis_replies_free(&replies);
    return 0;
}

static int read_some(struct rec_source *source, const char *node, const char *key,
                     const char *const *ids, size_t n, rec_record_fn fn, void *user,
                     struct kw_err *err)
{
    const char *argv[2 + IDS_PER_COMMAND] = {"HMGET", key};
    struct kw_redis_replies replies = {0};
    const struct kw_redis_reply *values;

    memcpy(argv + 2, ids, n * sizeof(*ids));
    int rc = kw_redis_queue(source->redis, 2 + n, argv, NULL);
    rc = ask_node(source, rc, &replies, &values, err);
    if (rc <= 0)
        return rc;
    for (size_t i = 0; values->type == KW_REDIS_ARRAY && i < values->n_elements && i < n; i++) {
        if (values->elements[i].type != KW_REDIS_NIL)
            take(source, node, ids[i], &values->elements[i], fn, user);
    }
    kw_redis_replies_free(&replies);
    return 0;
}

int rec_source_read(struct rec_source *source, const char *node, const char *const *ids, size_t n,
                    rec_record_fn fn, void *user, struct kw_err *err)
{
    char key[KW_KEY_MAX];
    int rc = 0;

    if (kw_key_pods(key, node) < 0)
        return kw_err_set(err, -EINVAL, "node name is no key");
    for (size_t at = 0; rc == 0 && at < n; at += IDS_PER_COMMAND) {
        size_t some = n - at < IDS_PER_COMMAND ? n - at : IDS_PER_COMMAND;
        rc = read_some(source, node, key, ids + at, some, fn, user, err);
    }
    return rc;
}

int rec_source_advised(struct rec_source *source, const char *node,
                       void (*fn)(void *user, const char *id), void *user, struct kw_err *err)
{
    struct kw_redis_replies replies = {0};
    const struct kw_redis_reply *ids;
    char key[KW_KEY_MAX];

    if (kw_key_advice(key, node) < 0)
        return kw_err_set(err, -EINVAL, "node name is no key");
    int rc = kw_redis_queue_texts(source->redis, "HKEYS", key, NULL);
    rc = ask_node(source, rc, &replies, &ids, err);
    if (rc <= 0)
        return rc;
    for (size_t i = 0; ids->type == KW_REDIS_ARRAY && i < ids->n_elements; i++) {
        if (is_text(&ids->elements[i]))
            fn(user, ids->elements[i].str);
    }
    kw_redis_replies_free(&replies);
    return 0;
}

int rec_source_put_advice(struct rec_source *source, const char *node,
                          const struct kw_advice *advice)
{
    kw_cleanup_free char *text = NULL;
    char key[KW_KEY_MAX];
    size_t len = 0;

    if (kw_key_advice(key, node) < 0)
        return -EINVAL;
    int rc = kw_advice_encode(advice, &text, &len);
    if (rc < 0)
        return rc;
    return kw_redis_queue_texts(source->redis, "HSET", key, advice->workload, text, NULL);
}

int rec_source_drop_advice(struct rec_source *source, const char *node, const char *id)
{
    char key[KW_KEY_MAX];

    if (kw_key_advice(key, node) < 0)
        return -EINVAL;
    return kw_redis_queue_texts(source->redis, "HDEL", key, id, NULL);
}

int rec_source_flush(struct rec_source *source, struct kw_err *err)
{
    struct kw_redis_replies replies = {0};
    int rc = kw_redis_exec(source->redis, &replies, err);

    for (size_t i = 0; rc == 0 && i < replies.n; i++) {
        const struct kw_redis_reply *reply = &replies.items[i];
        if (reply->type != KW_REDIS_ERROR)
            continue;
        if (is_wrong_type(reply))
            source->fates[REC_RECORD_REFUSED]++;
        else
            rc = kw_err_set(err, -EREMOTEIO, "Redis refused to write: %s", reply->str);
    }
    kw_redis_replies_free(&replies);
    return rc;
}
