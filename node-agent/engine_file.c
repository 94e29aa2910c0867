/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only what is wanted is decoded, everything else is passed over by the scanner, which validates
 * it. Names go to metrics and terminals: those with control bytes are refused.
 */
#include "node-agent/engine_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/json_scan.h"
#include "common/num.h"
#include "node-agent/path_part.h"

/** Decodes a string. @return 0; -EBADMSG another type, control bytes or too long: *out is "". */
static int take_text(const struct kw_json_token *token, char *out, size_t size)
{
    out[0] = '\0';
    /* an escape never makes a text longer */
    if (token->type != KW_JSON_STRING || token->len >= size)
        return -EBADMSG;
    size_t n = kw_json_unescape(token, out);
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)out[i] < ' ' || out[i] == 0x7f) {
            out[0] = '\0';
            return -EBADMSG;
        }
    }
    out[n] = '\0';
    return 0;
}

/** The value of the key that was just read, if it is a string; anything else is passed over. */
static int next_text(struct kw_json *json, char *out, size_t size)
{
    struct kw_json_token span = {.type = KW_JSON_NULL};
    struct kw_json_token text;
    struct kw_json one;

    if (kw_json_skip(json, &span) == KW_JSON_ERROR)
        return -EBADMSG;
    out[0] = '\0';
    if (span.type != KW_JSON_STRING)
        return 0;
    kw_json_begin(&one, span.at, span.len);
    if (kw_json_next(&one, &text) == KW_JSON_STRING)
        (void)take_text(&text, out, size);
    return 0;
}

/** The next key of the object that was entered. @return 1; 0 the object's end; -EBADMSG. */
static int next_key(struct kw_json *json, struct kw_json_token *ret)
{
    enum kw_json_type type = kw_json_next(json, ret);

    if (type == KW_JSON_KEY)
        return 1;
    return type == KW_JSON_OBJECT_END ? 0 : -EBADMSG;
}

static int skip(struct kw_json *json)
{
    return kw_json_skip(json, NULL) == KW_JSON_ERROR ? -EBADMSG : 0;
}

/** Enters an object of its own. @return 0; -EBADMSG it is none. */
static int enter(struct kw_json *json, const char *bytes, size_t len)
{
    struct kw_json_token token;

    kw_json_begin(json, bytes, len);
    return kw_json_next(json, &token) == KW_JSON_OBJECT ? 0 : -EBADMSG;
}

/** One text of an object of its own. @return 0, also where it has none ("" then); -EBADMSG. */
static int text_of(const char *bytes, size_t len, const char *key, char *out, size_t size)
{
    struct kw_json json;
    struct kw_json_token token;
    int rc = enter(&json, bytes, len);

    out[0] = '\0';
    while (rc == 0 && (rc = next_key(&json, &token)) == 1)
        rc = kw_json_equals(&token, key, false) ? next_text(&json, out, size) : skip(&json);
    return rc;
}

static bool is_whole(const struct agent_engine_container *container)
{
    return container->name[0] != '\0' &&
           agent_part_is_hex((struct agent_part){container->id, strlen(container->id)},
                             sizeof(container->id) - 1);
}

int agent_engine_docker(const char *json, size_t len, struct agent_engine_container *ret)
{
    struct agent_engine_container container = {0};
    struct kw_json scan;
    struct kw_json_token token;
    int rc = enter(&scan, json, len);

    while (rc == 0 && (rc = next_key(&scan, &token)) == 1) {
        if (kw_json_equals(&token, "ID", false)) {
            rc = next_text(&scan, container.id, sizeof(container.id));
        } else if (kw_json_equals(&token, "Name", false)) {
            rc = next_text(&scan, container.name, sizeof(container.name));
        } else if (kw_json_equals(&token, "Config", false)) {
            struct kw_json_token config = {.type = KW_JSON_NULL};
            rc = kw_json_skip(&scan, &config) == KW_JSON_ERROR ? -EBADMSG : 0;
            if (rc == 0 && config.type == KW_JSON_OBJECT)
                rc = text_of(config.at, config.len, "Image", container.image,
                             sizeof(container.image));
        } else {
            rc = skip(&scan);
        }
    }
    if (rc == 0 && kw_json_next(&scan, &token) != KW_JSON_END)
        rc = -EBADMSG;
    size_t slash = container.name[0] == '/';
    (void)memmove(container.name, container.name + slash, strlen(container.name + slash) + 1);
    if (rc < 0 || !is_whole(&container))
        return -EBADMSG;
    *ret = container;
    return 0;
}

/** podman's own object, which the storage keeps as a text. */
static int take_metadata(struct kw_json *json, struct agent_engine_container *ret)
{
    struct kw_json_token span = {.type = KW_JSON_NULL};
    struct kw_json_token text;
    struct kw_json one;

    if (kw_json_skip(json, &span) == KW_JSON_ERROR)
        return -EBADMSG;
    if (span.type != KW_JSON_STRING)
        return 0;
    kw_json_begin(&one, span.at, span.len);
    if (kw_json_next(&one, &text) != KW_JSON_STRING)
        return 0;
    kw_cleanup_free char *inner = malloc(text.len + 1);
    if (inner == NULL)
        return -ENOMEM;
    size_t n = kw_json_unescape(&text, inner);
    if (text_of(inner, n, "image-name", ret->image, sizeof(ret->image)) < 0)
        ret->image[0] = '\0';
    return 0;
}

/** The first of its names. */
static int take_names(struct kw_json *json, struct agent_engine_container *ret)
{
    struct kw_json_token span = {.type = KW_JSON_NULL};
    struct kw_json_token token;
    struct kw_json array;

    if (kw_json_skip(json, &span) == KW_JSON_ERROR)
        return -EBADMSG;
    if (span.type != KW_JSON_ARRAY)
        return 0;
    kw_json_begin(&array, span.at, span.len);
    (void)kw_json_next(&array, &token);
    if (kw_json_next(&array, &token) == KW_JSON_STRING)
        (void)take_text(&token, ret->name, sizeof(ret->name));
    return 0;
}

static int take_stored(struct kw_json *json, struct agent_engine_container *ret)
{
    struct kw_json_token token;
    int rc = 0;

    while (rc == 0 && (rc = next_key(json, &token)) == 1) {
        if (kw_json_equals(&token, "id", false))
            rc = next_text(json, ret->id, sizeof(ret->id));
        else if (kw_json_equals(&token, "names", false))
            rc = take_names(json, ret);
        else if (kw_json_equals(&token, "metadata", false))
            rc = take_metadata(json, ret);
        else
            rc = skip(json);
    }
    return rc;
}

int agent_engine_storage(const char *json, size_t len,
                         void (*fn)(void *user, const struct agent_engine_container *container),
                         void *user)
{
    struct kw_json scan;
    struct kw_json_token token;

    kw_json_begin(&scan, json, len);
    if (kw_json_next(&scan, &token) != KW_JSON_ARRAY)
        return -EBADMSG;
    for (;;) {
        struct agent_engine_container container = {0};
        enum kw_json_type type = kw_json_next(&scan, &token);
        if (type == KW_JSON_ARRAY_END)
            return kw_json_next(&scan, &token) == KW_JSON_END ? 0 : -EBADMSG;
        if (type != KW_JSON_OBJECT)
            return -EBADMSG;
        int rc = take_stored(&scan, &container);
        if (rc < 0)
            return rc;
        if (is_whole(&container))
            fn(user, &container);
    }
}

/** A folder of a file: absolute, or it counts for nothing. */
static int take_folder(const char *text, size_t len, char *ret, size_t size)
{
    if (len == 0 || text[0] != '/' || memchr(text, '\0', len) != NULL)
        return -EBADMSG;
    if (len >= size)
        return -ENAMETOOLONG;
    (void)memcpy(ret, text, len);
    ret[len] = '\0';
    return 0;
}

int agent_engine_docker_root(const char *json, size_t len, char *ret, size_t size)
{
    static const char *const keys[] = {"data-root", "graph"};
    char folder[4096];

    for (size_t i = 0; i < KW_ARRAY_SIZE(keys); i++) {
        int rc = text_of(json, len, keys[i], folder, sizeof(folder));
        if (rc < 0)
            return rc;
        if (folder[0] != '\0')
            return take_folder(folder, strlen(folder), ret, size);
    }
    return -ENOENT;
}

static size_t line_len(const char *text, size_t len, size_t at)
{
    const char *end = memchr(text + at, '\n', len - at);

    return end != NULL ? (size_t)(end - text) - at : len - at;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/** graphroot = "..." of a line. @return as agent_engine_storage_root. */
static int graphroot_of(const char *line, size_t len, char *ret, size_t size)
{
    static const char key[] = "graphroot";
    size_t at = 0;

    while (at < len && is_blank(line[at]))
        at++;
    if (len - at < sizeof(key) - 1 || memcmp(line + at, key, sizeof(key) - 1) != 0)
        return -ENOENT;
    at += sizeof(key) - 1;
    while (at < len && is_blank(line[at]))
        at++;
    if (at == len || line[at] != '=')
        return -ENOENT;
    at++;
    while (at < len && is_blank(line[at]))
        at++;
    if (at == len || (line[at] != '"' && line[at] != '\''))
        return -EBADMSG;
    const char *begin = line + at + 1;
    const char *end = memchr(begin, line[at], len - at - 1);
    return end != NULL ? take_folder(begin, (size_t)(end - begin), ret, size) : -EBADMSG;
}

int agent_engine_storage_root(const char *toml, size_t len, char *ret, size_t size)
{
    for (size_t at = 0; at < len;) {
        size_t n = line_len(toml, len, at);
        int rc = graphroot_of(toml + at, n, ret, size);
        if (rc != -ENOENT)
            return rc;
        at += n + 1;
    }
    return -ENOENT;
}

/** name:password:uid:gid:gecos:home:shell */
static int home_of(const char *line, size_t len, uint32_t uid, char *ret, size_t size)
{
    struct agent_part fields[7] = {0};
    unsigned n = 0;

    for (size_t at = 0; at <= len && n < KW_ARRAY_SIZE(fields); n++) {
        const char *end = memchr(line + at, ':', len - at);
        fields[n] =
            (struct agent_part){line + at, end != NULL ? (size_t)(end - line) - at : len - at};
        at += fields[n].len + 1;
    }
    uint64_t number = 0;
    if (n < 6 || kw_parse_u64_span(fields[2].at, fields[2].len, 0, UINT32_MAX, &number) < 0 ||
        number != uid)
        return -ENOENT;
    return take_folder(fields[5].at, fields[5].len, ret, size);
}

int agent_engine_home(const char *passwd, size_t len, uint32_t uid, char *ret, size_t size)
{
    for (size_t at = 0; at < len;) {
        size_t n = line_len(passwd, len, at);
        int rc = home_of(passwd + at, n, uid, ret, size);
        if (rc != -ENOENT)
            return rc;
        at += n + 1;
    }
    return -ENOENT;
}
