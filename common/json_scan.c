/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json_scan.h"

#include "common/json_lex.h"
#include "common/json_memo.h"
#include "common/json_rows.h"

/*
 * The extender's requests are one JSON document of up to tens of megabytes (whole Node objects), of
 * which it needs a few names. A tree costs 3 ms for 5000 names; a pass that looks at each byte once
 * and keeps nothing costs 0.2 ms.
 *
 * Two ways through a document share one lexer. kw_json_next is a state machine with one token a
 * call. kw_json_skip runs the same grammar in one loop over whole values, without stores but for
 * the bracket bits. Most bytes stand in strings, so strings are searched 16 (SSE2) or 8 bytes at a
 * time for the first byte that needs a look: quote, backslash, control byte, or the start of a
 * UTF-8 sequence.
 *
 * Invariants: `pos` never passes `end` and no byte at or behind `end` is read; open brackets are
 * bits in `is_object`, depth of them; an error is sticky. What is accepted is exactly what jansson
 * accepts, with one difference that is jansson's: it drops a NUL byte behind a number or a literal,
 * we refuse it.
 */

/* A scalar; p at its first byte. @return the byte behind it (behind a string's quote) or NULL. */
static inline const char *pass_scalar(struct kw_json *json, const char *p,
                                      enum kw_json_type *ret_type, bool *ret_escaped)
{
    *ret_escaped = false;
    if (*p == '"') {
        *ret_type = KW_JSON_STRING;
        p = kw_json_pass_string(json, p + 1, false, ret_escaped);
        return p == NULL ? NULL : p + 1;
    }
    if (*p == '-' || (*p >= '0' && *p <= '9')) {
        *ret_type = KW_JSON_NUMBER;
        return kw_json_pass_number(json, p);
    }
    return kw_json_pass_literal(json, p, ret_type);
}

/* A key, p at its opening quote, and the colon behind it. @return the next byte that is no blank,
 * or NULL. */
static inline const char *pass_key(struct kw_json *json, const char *p, const char **ret_quote,
                                   bool *ret_escaped)
{
    const char *end = json->end;

    if (p == end || *p != '"')
        return kw_json_fail(json, p, "key expected");
    p = kw_json_pass_string(json, p + 1, true, ret_escaped);
    if (p == NULL)
        return NULL;
    *ret_quote = p;
    p = kw_json_pass_blanks(p + 1, end);
    if (p == end || *p != ':')
        return kw_json_fail(json, p, "':' expected");
    return kw_json_pass_blanks(p + 1, end);
}

static inline bool in_object(const struct kw_json *json)
{
    unsigned level = json->depth - 1;

    return ((unsigned)json->is_object[level / 8] >> (level % 8) & 1u) != 0;
}

/* Enters the container whose bracket is at p. @return the next byte that is no blank, or NULL. */
static inline const char *enter(struct kw_json *json, const char *p, bool object)
{
    unsigned level = json->depth;
    unsigned char bit = (unsigned char)(1u << (level % 8));
    const char *next = kw_json_pass_blanks(p + 1, json->end);

    if (level >= KW_JSON_MAX_DEPTH)
        return kw_json_fail(json, p, "nested too deep");
    /* at the last level there is room for an empty container only */
    if (level + 1 == KW_JSON_MAX_DEPTH && next < json->end && *next != ']' && *next != '}')
        return kw_json_fail(json, next, "nested too deep");
    if (object)
        json->is_object[level / 8] |= bit;
    else
        json->is_object[level / 8] &= (unsigned char)~bit;
    json->depth = level + 1;
    return next;
}

/* A whole object or array; p at its bracket. @return the byte behind it or NULL. */
static const char *pass_container(struct kw_json *json, const char *p)
{
    const char *end = json->end;
    const unsigned base = json->depth;
    bool object = *p == '{';
    const char *quote;
    enum kw_json_type type;
    bool escaped;

enter:
    p = enter(json, p, object);
    if (p == NULL)
        return NULL;
    if (p < end && *p == (object ? '}' : ']'))
        goto leave;
element:
    if (object) {
        p = pass_key(json, p, &quote, &escaped);
        if (p == NULL)
            return NULL;
    }
    if (p == end)
        return kw_json_fail(json, p, "value expected");
    if (*p == '{' || *p == '[') {
        object = *p == '{';
        goto enter;
    }
    p = pass_scalar(json, p, &type, &escaped);
    if (p == NULL)
        return NULL;
after:
    p = kw_json_pass_blanks(p, end);
    if (p < end && *p == ',') {
        p = kw_json_pass_blanks(p + 1, end);
        goto element;
    }
    if (p == end || *p != (object ? '}' : ']'))
        return kw_json_fail(json, p, object ? "',' or '}' expected" : "',' or ']' expected");
leave:
    p++;
    json->depth--;
    if (json->depth == base)
        return p;
    object = in_object(json);
    goto after;
}

/* The same, without looking at each byte where it was passed over before. */
static const char *pass_whole(struct kw_json *json, const char *p)
{
    const char *end = json->memo == NULL ? NULL : kw_json_memo_find(json->memo, json, p);

    if (end == NULL)
        end = pass_container(json, p);
    if (json->memo != NULL && end != NULL)
        kw_json_memo_note(json->memo, json, p, end);
    return end;
}

/* The state behind a value that has ended. */
static void value_ended(struct kw_json *json, const char *p)
{
    json->pos = p;
    json->state = json->depth == 0 ? KW_JSON_STATE_COMPLETE : KW_JSON_STATE_AFTER;
}

void kw_json_begin(struct kw_json *json, const char *bytes, size_t len)
{
    json->begin = bytes == NULL ? "" : bytes;
    json->pos = json->begin;
    json->end = json->begin + len;
    json->error = NULL;
    json->memo = NULL;
    json->depth = 0;
    json->state = KW_JSON_STATE_VALUE;
}

/* Leaves the container at p. */
static enum kw_json_type leave(struct kw_json *json, const char *p, bool object,
                               struct kw_json_token *ret)
{
    *ret = (struct kw_json_token){
        .type = object ? KW_JSON_OBJECT_END : KW_JSON_ARRAY_END, .at = p, .len = 1};
    json->depth--;
    value_ended(json, p + 1);
    return ret->type;
}

/*
 * Comes to the next key, value or closing bracket: passes blanks and a due comma. Where a container
 * ends, or the document, or it is malformed, the type is given and there is nothing more to do;
 * else KW_JSON_KEY (a key must stand at *ret_p) or KW_JSON_NULL (a value).
 */
static enum kw_json_type advance(struct kw_json *json, const char **ret_p,
                                 struct kw_json_token *ret)
{
    const char *end = json->end;
    const char *p = json->pos;
    bool object = json->depth > 0 && in_object(json);

    if (json->state == KW_JSON_STATE_FAILED)
        return KW_JSON_ERROR;
    p = kw_json_pass_blanks(p, end);
    *ret_p = p;
    switch ((enum kw_json_state)json->state) {
    case KW_JSON_STATE_COMPLETE:
        if (p == end)
            return KW_JSON_END;
        (void)kw_json_fail(json, p, "bytes behind the document");
        return KW_JSON_ERROR;
    case KW_JSON_STATE_FIRST_ELEMENT:
    case KW_JSON_STATE_FIRST_KEY:
        if (p < end && *p == (object ? '}' : ']'))
            return leave(json, p, object, ret);
        return object ? KW_JSON_KEY : KW_JSON_NULL;
    case KW_JSON_STATE_AFTER:
        if (p < end && *p == (object ? '}' : ']'))
            return leave(json, p, object, ret);
        if (p == end || *p != ',') {
            (void)kw_json_fail(json, p, object ? "',' or '}' expected" : "',' or ']' expected");
            return KW_JSON_ERROR;
        }
        *ret_p = kw_json_pass_blanks(p + 1, end);
        return object ? KW_JSON_KEY : KW_JSON_NULL;
    case KW_JSON_STATE_VALUE:
    case KW_JSON_STATE_FAILED: break;
    }
    return KW_JSON_NULL;
}

enum kw_json_type kw_json_next(struct kw_json *json, struct kw_json_token *ret)
{
    const char *p;
    const char *next;
    struct kw_json_token token = {.type = advance(json, &p, ret)};

    if (token.type != KW_JSON_KEY && token.type != KW_JSON_NULL)
        return token.type;
    token.at = p;
    if (token.type == KW_JSON_KEY) {
        const char *quote = NULL;

        next = pass_key(json, p, &quote, &token.escaped);
        if (next == NULL)
            return KW_JSON_ERROR;
        token.at = p + 1;
        token.len = (size_t)(quote - token.at);
        json->pos = next;
        json->state = KW_JSON_STATE_VALUE;
    } else if (p == json->end) {
        (void)kw_json_fail(json, p, "value expected");
        return KW_JSON_ERROR;
    } else if (*p == '{' || *p == '[') {
        bool object = *p == '{';

        next = enter(json, p, object);
        if (next == NULL)
            return KW_JSON_ERROR;
        token.type = object ? KW_JSON_OBJECT : KW_JSON_ARRAY;
        token.len = 1;
        json->pos = next;
        json->state = object ? KW_JSON_STATE_FIRST_KEY : KW_JSON_STATE_FIRST_ELEMENT;
    } else {
        next = pass_scalar(json, p, &token.type, &token.escaped);
        if (next == NULL)
            return KW_JSON_ERROR;
        token.len = (size_t)(next - p);
        if (token.type == KW_JSON_STRING) {
            token.at++;
            token.len -= 2;
        }
        value_ended(json, next);
    }
    *ret = token;
    return token.type;
}

/** The quote that opens the next string of an array, or NULL where something else comes. */
static const char *next_quote(const char *p, const char *end, bool first)
{
    if (!first && end - p >= 2 && p[0] == ',' && p[1] == '"') /* documents from programs */
        return p + 1;
    p = kw_json_pass_blanks(p, end);
    if (!first) {
        if (p == end || *p != ',')
            return NULL;
        p = kw_json_pass_blanks(p + 1, end);
    }
    return p < end && *p == '"' ? p : NULL;
}

/**
 * The same number, of which the compiler knows no more. The end of a name depends on its bytes, and
 * the next name on that end; taking the usual length for granted, and checking it beside, lets the
 * processor read names ahead of the check. Without this the compiler would use the length found.
 */
static inline size_t opaque(size_t number)
{
    __asm__("" : "+r"(number));
    return number;
}

size_t kw_json_strings(struct kw_json *json, struct kw_json_text *ret, size_t n)
{
    const char *end = json->end;
    const char *p = json->pos;
    bool first = json->state == KW_JSON_STATE_FIRST_ELEMENT;
    size_t got = 0;
    size_t usual = 0; /* length of the name before: those of a fleet are mostly alike */

    if ((!first && json->state != KW_JSON_STATE_AFTER) || in_object(json))
        return 0;
    for (; got < n; got++) {
        const char *at = next_quote(p, end, first);
        if (at == NULL)
            break;
        bool escaped = false;
        size_t len = kw_json_name_len(++at, end);
        const char *quote;
        if (len == usual)
            quote = at + opaque(usual);
        else if (len != SIZE_MAX)
            quote = at + (usual = len);
        else
            quote = kw_json_pass_string(json, at, false, &escaped);
        if (quote == NULL)
            return got;
        if (quote - at > UINT32_MAX)
            break;
        ret[got] =
            (struct kw_json_text){.at = at, .len = (uint32_t)(quote - at), .escaped = escaped};
        p = quote + 1;
        first = false;
    }
    if (got > 0)
        value_ended(json, p);
    return got;
}

/** Strings that are taken at once where the fast way ends: those of its last block, and as many as
 * pay for trying it again. */
#define ROW_STRINGS 32

size_t kw_json_pass_strings(struct kw_json *json)
{
    kw_json_rows_fn *rows = kw_json_rows_is_wide() ? kw_json_rows_wide : kw_json_rows_plain;
    struct kw_json_text texts[ROW_STRINGS];
    size_t got = 0;

    for (;;) {
        bool first = json->state == KW_JSON_STATE_FIRST_ELEMENT;
        if ((!first && json->state != KW_JSON_STATE_AFTER) || in_object(json))
            return got;
        size_t n = 0;
        const char *p = rows(json->pos, json->end, first, &n);
        if (n > 0)
            value_ended(json, p);
        size_t more = kw_json_strings(json, texts, ROW_STRINGS);
        got += n + more;
        if (more < ROW_STRINGS)
            return got;
    }
}

void kw_json_pass_known(struct kw_json *json, size_t len)
{
    value_ended(json, json->pos + len);
}

enum kw_json_type kw_json_skip(struct kw_json *json, struct kw_json_token *ret_span)
{
    struct kw_json_token token;
    const char *p;
    enum kw_json_type due = advance(json, &p, &token);

    if (due == KW_JSON_OBJECT_END || due == KW_JSON_KEY) {
        (void)kw_json_fail(json, p, "a key is due where a value was asked for");
        return KW_JSON_ERROR;
    }
    if (due != KW_JSON_NULL)
        return due;
    if (p == json->end) {
        (void)kw_json_fail(json, p, "value expected");
        return KW_JSON_ERROR;
    }
    token = (struct kw_json_token){.at = p};
    if (*p == '{' || *p == '[') {
        token.type = *p == '{' ? KW_JSON_OBJECT : KW_JSON_ARRAY;
        p = pass_whole(json, p);
    } else {
        p = pass_scalar(json, p, &token.type, &token.escaped);
    }
    if (p == NULL)
        return KW_JSON_ERROR;
    token.len = (size_t)(p - token.at);
    value_ended(json, p);
    if (ret_span != NULL)
        *ret_span = token;
    return token.type;
}
