/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differential: json_scan against jansson on the same bytes. Both must accept or both refuse; what
 * is accepted must have the same content, whether it is walked token by token or cut with
 * kw_json_skip at any level. One difference is allowed, and it is jansson's: 2.14 drops a NUL byte
 * that follows a number or a literal, where the scanner refuses it.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/json_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define JANSSON_FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)

/** Nothing to free in the fields: a walk over one document. */
struct walk {
    struct kw_json json;
    unsigned
        cut_depth; /**< from this depth on values are cut with kw_json_skip and parsed by jansson */
    unsigned depth;
    bool in_rows; /**< strings of arrays come by kw_json_strings */
};

static void broken(const char *what)
{
    (void)fprintf(stderr, "json_scan and jansson differ: %s\n", what);
    abort();
}

static json_t *build_value(struct walk *walk, const struct kw_json_token *token);

static json_t *text_of(const struct kw_json_token *token)
{
    kw_cleanup_free char *text = malloc(token->len + 1);

    if (text == NULL)
        abort();
    size_t len = kw_json_unescape(token, text);

    if (len > token->len || text[len] != '\0')
        broken("length of a text");
    if (memchr(text, '\0', len) == NULL && !kw_json_equals(token, text, false))
        broken("a text differs from itself");
    return json_stringn(text, len);
}

static json_t *parse_span(const struct kw_json_token *span)
{
    json_t *value = json_loadb(span->at, span->len, JANSSON_FLAGS, NULL);

    if (value == NULL)
        broken("a span that jansson refuses");
    return value;
}

/* The next value: built, or cut. NULL at the end of an array or on an error. */
static json_t *next_value(struct walk *walk)
{
    struct kw_json_token token;
    enum kw_json_type type;

    if (walk->depth >= walk->cut_depth) {
        type = kw_json_skip(&walk->json, &token);
        if (type == KW_JSON_ERROR || type == KW_JSON_ARRAY_END)
            return NULL;
        if (type != token.type)
            broken("type of a span");
        return parse_span(&token);
    }
    type = kw_json_next(&walk->json, &token);
    if (type == KW_JSON_ERROR || type == KW_JSON_ARRAY_END)
        return NULL;
    return build_value(walk, &token);
}

/** Passing over a row of strings ends where taking them does, after as many. */
static void pass_row(const struct walk *walk)
{
    struct kw_json passed = walk->json;
    struct kw_json taken = walk->json;
    struct kw_json_text string;
    size_t n = 0;

    while (kw_json_strings(&taken, &string, 1) == 1)
        n++;
    if (kw_json_pass_strings(&passed) != n || passed.pos != taken.pos ||
        passed.state != taken.state || passed.error != taken.error)
        broken("a row of strings");
}

static json_t *build_array(struct walk *walk)
{
    json_t *array = json_array();

    if (walk->in_rows)
        pass_row(walk);
    for (;;) {
        struct kw_json_text strings[3];
        size_t n =
            walk->in_rows ? kw_json_strings(&walk->json, strings, KW_ARRAY_SIZE(strings)) : 0;
        for (size_t i = 0; i < n; i++) {
            const struct kw_json_token token = {.type = KW_JSON_STRING,
                                                .escaped = strings[i].escaped,
                                                .at = strings[i].at,
                                                .len = strings[i].len};
            (void)json_array_append_new(array, text_of(&token));
        }
        if (n == KW_ARRAY_SIZE(strings))
            continue;
        json_t *value = next_value(walk);

        if (value == NULL)
            break;
        (void)json_array_append_new(array, value);
    }
    if (walk->json.error == NULL)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *build_object(struct walk *walk)
{
    json_t *object = json_object();
    struct kw_json_token token;

    while (kw_json_next(&walk->json, &token) == KW_JSON_KEY) {
        json_t *key = text_of(&token);
        json_t *value = next_value(walk);

        if (value != NULL)
            (void)json_object_setn_new_nocheck(object, json_string_value(key),
                                               json_string_length(key), value);
        json_decref(key);
        if (value == NULL)
            break;
    }
    if (walk->json.error == NULL)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *build_value(struct walk *walk, const struct kw_json_token *token)
{
    json_t *value;

    switch (token->type) {
    case KW_JSON_STRING: return text_of(token);
    case KW_JSON_OBJECT:
    case KW_JSON_ARRAY:
        walk->depth++;
        value = token->type == KW_JSON_OBJECT ? build_object(walk) : build_array(walk);
        walk->depth--;
        return value;
    default: return parse_span(token);
    }
}

/* The document by our reader, NULL where it refuses it. */
static json_t *read_document(const char *bytes, size_t size, unsigned cut_depth, bool in_rows)
{
    struct walk walk = {.cut_depth = cut_depth, .in_rows = in_rows};
    struct kw_json_token token;
    json_t *value;

    kw_json_begin(&walk.json, bytes, size);
    value = next_value(&walk);
    if (value != NULL && kw_json_next(&walk.json, &token) == KW_JSON_END)
        return value;
    if (walk.json.error == NULL || walk.json.pos < bytes || walk.json.pos > bytes + size)
        broken("an error without cause or outside the input");
    if (kw_json_next(&walk.json, &token) != KW_JSON_ERROR ||
        kw_json_skip(&walk.json, NULL) != KW_JSON_ERROR)
        broken("an error that does not stick");
    json_decref(value);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* a copy of just this size, so that a read behind its end is caught */
    kw_cleanup_free char *bytes = malloc(size == 0 ? 1 : size);

    if (bytes == NULL)
        return 0;
    if (size > 0)
        memcpy(bytes, data, size);
    json_t *reference = json_loadb(bytes, size, JANSSON_FLAGS, NULL);

    for (unsigned cut = 0; cut < 5; cut++) {
        json_t *ours = read_document(bytes, size, cut >= 3 ? KW_JSON_MAX_DEPTH : cut, cut == 4);

        if (ours == NULL && reference != NULL && memchr(bytes, '\0', size) == NULL)
            broken("jansson accepts, we refuse");
        if (ours != NULL && reference == NULL)
            broken("we accept, jansson refuses");
        if (ours != NULL && !json_equal(ours, reference))
            broken("content");
        json_decref(ours);
    }
    json_decref(reference);
    return 0;
}
