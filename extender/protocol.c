/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: the scheduler waits for each answer, 500 to 15000 names long, and a tree of JSON objects
 * costs more than everything else together.
 *
 * Approach: one pass of common/json_scan over the body. Names and whole nodes stay where they are,
 * as spans; an answer is put together from spans, so a name leaves with the very bytes (escapes
 * included) that it came with, and the scheduler, which fails the whole call for a name that it did
 * not send, always finds it.
 *
 * Invariants: an answer lists each candidate once per occurrence, in order; its room is reserved
 * before its first byte, so copying needs no checks; `null` is as good as absent, except as an
 * element of a list, where it is the empty name (or node) that Go makes of it, so that answers are
 * as long as questions.
 */
#include "extender/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "common/bytes.h"
#include "extender/json_walk.h"
#include "extender/pod.h"

#define TEXT_LEN(text) (sizeof(text) - 1)

/** First growth of a list: the names that the scheduler sends for a cluster of some thousand nodes.
 */
#define LIST_MIN 1024

const struct kw_json_text ext_no_name = {.at = ""};

/** Makes room for one more element. @return 0; -E2BIG; -ENOMEM. */
static int grow(void **list, size_t *cap, size_t n, size_t size)
{
    if (n == EXT_NODES_MAX)
        return -E2BIG;
    if (n < *cap)
        return 0;
    size_t wanted = *cap == 0 ? LIST_MIN : *cap * 2;
    void *grown = reallocarray(*list, wanted, size);
    if (grown == NULL)
        return -ENOMEM;
    *list = grown;
    *cap = wanted;
    return 0;
}

/** Makes a list as large as another. @return 0 or -ENOMEM. */
static int match(void **list, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap)
        return 0;
    void *grown = reallocarray(*list, n, size);
    if (grown == NULL)
        return -ENOMEM;
    *list = grown;
    *cap = n;
    return 0;
}

/** Room for what is found of, and said to, as many names. @return 0 or -ENOMEM. */
static int reserve_found(struct ext_args *args, size_t n)
{
    int rc = match((void **)&args->indices, &args->indices_cap, n, sizeof(*args->indices));

    if (rc == 0 && args->want >= EXT_ARGS_VERDICTS)
        rc = match((void **)&args->verdicts, &args->verdicts_cap, n, sizeof(*args->verdicts));
    return rc;
}

static struct kw_json_text name_of(const struct kw_json_token *token)
{
    if (token->type != KW_JSON_STRING || token->len > UINT32_MAX)
        return ext_no_name;
    return (struct kw_json_text){
        .at = token->at, .len = (uint32_t)token->len, .escaped = token->escaped};
}

/** Takes names in a row. @param most of them. @return how many came, or -ENOMEM. */
static ssize_t take_names(struct kw_json *json, struct ext_finder *finder, struct ext_args *args,
                          size_t most)
{
    size_t at = args->n_names;
    size_t room = args->names_cap - at;
    size_t n = room < most ? room : most;

    if (finder == NULL)
        return (ssize_t)kw_json_strings(json, args->names + at, n);
    if (reserve_found(args, args->names_cap) < 0)
        return -ENOMEM;
    return (ssize_t)ext_find_strings(finder, json, args->names + at, args->indices + at, n);
}

/** Keeps NodeNames as they were read, if they are worth it. @return 0 or -ENOMEM. */
static int keep_list(struct ext_args *args, const struct ext_snapshot *snapshot)
{
    struct ext_recall *recall = &args->recall;
    int rc =
        ext_recall_keep(recall, snapshot, args->list, args->list_len, args->names, args->n_names);

    args->list_id = recall->n > 0 ? recall->id : 0;
    return rc;
}

/** Takes the rest of NodeNames, name by name. @return 0; -EBADMSG; -E2BIG; -ENOMEM. */
static int scan_each(struct kw_json *json, struct ext_finder *finder, struct ext_args *args)
{
    const char *list = json->pos;
    bool nulls = false;
    int rc = 0;

    ext_recall_drop(&args->recall);
    if (finder != NULL)
        finder->last = 0;
    for (;;) {
        struct kw_json_token token;
        size_t left = EXT_NODES_MAX - args->n_names;
        if (left > 0)
            rc = grow((void **)&args->names, &args->names_cap, args->n_names, sizeof(*args->names));
        if (rc < 0)
            return rc;
        ssize_t n = take_names(json, finder, args, left);
        if (n < 0)
            return (int)n;
        args->n_names += (size_t)n;
        if (n > 0)
            continue;
        enum kw_json_type type = kw_json_next(json, &token);
        if (type == KW_JSON_ARRAY_END && nulls)
            return 0;
        if (type == KW_JSON_ARRAY_END) {
            args->list = list;
            args->list_len = (size_t)(token.at - list);
            return finder == NULL ? 0 : keep_list(args, finder->snapshot);
        }
        if (type != KW_JSON_NULL && type != KW_JSON_STRING)
            return -EBADMSG;
        if (left == 0)
            return -E2BIG;
        nulls = true;
        args->names[args->n_names] = name_of(&token);
        if (finder != NULL)
            args->indices[args->n_names] = 0; /* too long for a node of ours, or none */
        args->n_names++;
    }
}

/** Takes the rest of NodeNames where it is the list that was read last. @return 1; 0 where it is
 * another; -ENOMEM. */
static int scan_again(struct kw_json *json, const struct ext_finder *finder, struct ext_args *args)
{
    struct ext_recall *recall = &args->recall;

    if (finder == NULL || !ext_recall_is(recall, finder->snapshot, json->pos, json->end))
        return 0;
    args->list = json->pos;
    args->list_len = recall->len;
    kw_json_pass_known(json, recall->len);
    recall->unalike = 0;
    args->n_names = recall->n;
    args->list_id = recall->id;
    return reserve_found(args, recall->n) < 0 ? -ENOMEM : 1;
}

/** Passes over the rest of NodeNames. @return as scan_each. */
static int scan_list(struct kw_json *json, struct ext_args *args)
{
    const struct kw_json begin = *json; /* a null is rare, and then names are read after all */

    for (;;) {
        struct kw_json_token token;
        args->n_names += kw_json_pass_strings(json);
        if (args->n_names > EXT_NODES_MAX)
            return -E2BIG;
        enum kw_json_type type = kw_json_next(json, &token);
        if (type == KW_JSON_ARRAY_END) {
            args->list = begin.pos;
            args->list_len = (size_t)(token.at - begin.pos);
            return 0;
        }
        if (type != KW_JSON_NULL)
            return -EBADMSG;
        *json = begin;
        args->n_names = 0;
        return scan_each(json, NULL, args);
    }
}

static int scan_names(struct kw_json *json, struct ext_finder *finder, struct ext_args *args)
{
    struct kw_json_token token;
    int rc = ext_json_enter(json, KW_JSON_ARRAY);

    args->n_names = 0;
    args->list = NULL;
    args->list_id = 0;
    args->has_names = rc == EXT_JSON_OPEN;
    if (rc != EXT_JSON_OPEN)
        return rc == EXT_JSON_NULL ? 0 : -EBADMSG;
    if (args->want == EXT_ARGS_LIST)
        return scan_list(json, args);
    rc = scan_again(json, finder, args);
    if (rc == 0)
        return scan_each(json, finder, args);
    return rc < 0 || kw_json_next(json, &token) == KW_JSON_ARRAY_END ? (rc < 0 ? rc : 0) : -EBADMSG;
}

/** The inside of one Node, after its opening bracket. @param ret_end behind its closing one. */
static int scan_node(struct kw_json *json, struct kw_json_text *ret_name, const char **ret_end)
{
    struct kw_json_token key;
    struct kw_json_token name;
    int rc;

    while ((rc = ext_json_key(json, &key)) > 0) {
        if (!ext_json_field(&key, "metadata")) {
            rc = ext_json_pass(json);
            if (rc < 0)
                return rc;
            continue;
        }
        *ret_name = ext_no_name;
        rc = ext_json_enter(json, KW_JSON_OBJECT);
        if (rc < 0)
            return rc;
        if (rc != EXT_JSON_OPEN)
            continue;
        while ((rc = ext_json_key(json, &key)) > 0) {
            bool is_name = ext_json_field(&key, "name");
            rc = is_name ? ext_json_scalar(json, &name) : ext_json_pass(json);
            if (rc < 0)
                return rc;
            if (is_name)
                *ret_name = name_of(&name);
        }
        if (rc < 0)
            return rc;
    }
    if (rc == 0)
        *ret_end = key.at + key.len;
    return rc;
}

static int scan_items(struct kw_json *json, struct ext_args *args)
{
    int rc = ext_json_enter(json, KW_JSON_ARRAY);

    args->n_items = 0;
    if (rc != EXT_JSON_OPEN)
        return rc == EXT_JSON_NULL ? 0 : -EBADMSG;
    for (;;) {
        struct kw_json_token token;
        struct ext_item item = {.name = ext_no_name};
        enum kw_json_type type = kw_json_next(json, &token);
        if (type == KW_JSON_ARRAY_END)
            return 0;
        if (type != KW_JSON_OBJECT && type != KW_JSON_NULL)
            return -EBADMSG;
        item.at = token.at;
        item.len = token.len;
        if (type == KW_JSON_OBJECT) {
            const char *end;
            rc = scan_node(json, &item.name, &end);
            if (rc < 0)
                return rc;
            item.len = (size_t)(end - token.at);
        }
        rc = grow((void **)&args->items, &args->items_cap, args->n_items, sizeof(*args->items));
        if (rc < 0)
            return rc;
        args->items[args->n_items++] = item;
    }
}

static int scan_nodes(struct kw_json *json, struct ext_args *args)
{
    struct kw_json_token key;
    int rc = ext_json_enter(json, KW_JSON_OBJECT);

    args->n_items = 0;
    args->has_nodes = rc == EXT_JSON_OPEN;
    if (rc != EXT_JSON_OPEN)
        return rc == EXT_JSON_NULL ? 0 : -EBADMSG;
    while ((rc = ext_json_key(json, &key)) > 0) {
        rc = ext_json_field(&key, "items") ? scan_items(json, args) : ext_json_pass(json);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/** Finds the nodes of Nodes.items. @return 0 or -ENOMEM. */
static int find_items(struct ext_finder *finder, struct ext_args *args)
{
    struct kw_json_text names[EXT_BATCH];

    ext_recall_drop(&args->recall); /* its indices are overwritten */
    if (reserve_found(args, args->items_cap) < 0)
        return -ENOMEM;
    finder->last = 0;
    for (size_t from = 0; from < args->n_items; from += EXT_BATCH) {
        size_t n = args->n_items - from < EXT_BATCH ? args->n_items - from : EXT_BATCH;
        for (size_t i = 0; i < n; i++)
            names[i] = args->items[from + i].name;
        ext_find_texts(finder, names, n, args->indices + from);
    }
    return 0;
}

static int scan_pod(struct kw_json *json, struct ext_args *args)
{
    if (kw_json_memo_begin(&args->pods, json)) {
        args->pod = args->known;
        return 0;
    }
    int rc = ext_pod_scan(json, &args->pod);
    kw_json_memo_end(&args->pods, json, rc == 0);
    args->known = args->pod;
    return rc == -EINVAL ? -EBADMSG : rc;
}

static int scan_field(struct kw_json *json, const struct kw_json_token *key,
                      struct ext_finder *finder, struct ext_args *args, const char **why)
{
    if (ext_json_field(key, "Pod")) {
        *why = "Pod is no object";
        return scan_pod(json, args);
    }
    if (ext_json_field(key, "NodeNames")) {
        *why = "NodeNames is no list of names";
        return scan_names(json, finder, args);
    }
    if (ext_json_field(key, "Nodes")) {
        *why = "Nodes is no list of nodes";
        return scan_nodes(json, args);
    }
    return ext_json_pass(json);
}

int ext_args_scan(const char *body, size_t len, struct ext_finder *finder, enum ext_args_want want,
                  struct ext_args *args, const char **ret_why)
{
    struct kw_json json;
    struct kw_json_token token;
    int rc;

    args->pod = (struct kw_extender_pod){0};
    args->has_names = args->has_nodes = false;
    args->n_names = args->n_items = 0;
    args->body_len = len;
    args->want = want;
    args->list = NULL;
    args->list_id = 0;
    kw_json_begin(&json, body, len);
    *ret_why = "the body is no JSON object";
    rc = ext_json_enter(&json, KW_JSON_OBJECT);
    if (rc == EXT_JSON_OPEN) {
        while ((rc = ext_json_key(&json, &token)) > 0) {
            rc = scan_field(&json, &token, finder, args, ret_why);
            if (rc < 0)
                break;
        }
    } else {
        rc = -EBADMSG;
    }
    if (rc == 0 && kw_json_next(&json, &token) != KW_JSON_END)
        rc = -EBADMSG;
    if (rc == 0 && finder != NULL && !args->has_names)
        rc = find_items(finder, args);
    if (rc == -EBADMSG && json.error != NULL)
        *ret_why = "the body is malformed JSON";
    else if (rc == -E2BIG)
        *ret_why = "the request lists more nodes than kwatt takes";
    else if (rc == -ENOMEM)
        *ret_why = "out of memory";
    return rc;
}

void ext_args_free(struct ext_args *args)
{
    free(args->names);
    free(args->items);
    free(args->indices);
    free(args->verdicts);
    ext_recall_free(&args->recall);
    *args = (struct ext_args){0};
}
