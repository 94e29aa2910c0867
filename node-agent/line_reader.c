/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/line_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/utf8.h"

#define TEXT_MAX 4095

bool agent_line_refuse(struct agent_line *line, int rc, const char *key,
                       const struct kw_json_token *token, const char *wanted)
{
    bool is_text = token->type == KW_JSON_STRING || token->type == KW_JSON_KEY ||
                   token->type == KW_JSON_NUMBER;
    const char *quote = token->type == KW_JSON_STRING ? "\"" : "";

    if (line->rc == 0)
        line->rc = kw_err_set(line->err, rc, "\"%s\" is %s%.*s%s, not %s", key, quote,
                              is_text && token->len < 60 ? (int)token->len
                              : is_text                  ? 60
                                                         : 16,
                              is_text                            ? token->at
                              : token->type == KW_JSON_OBJECT    ? "an object"
                              : token->type == KW_JSON_ARRAY     ? "a list"
                              : token->type == KW_JSON_NULL      ? "null"
                              : token->type == KW_JSON_ARRAY_END ? "missing"
                                                                 : "true or false",
                              quote, wanted);
    return false;
}

bool agent_line_fail(struct agent_line *line, int rc, const char *text)
{
    if (line->rc == 0)
        line->rc = kw_err_set(line->err, rc, "%s", text);
    return false;
}

bool agent_line_next(struct agent_line *line, struct kw_json_token *ret)
{
    enum kw_json_type type = KW_JSON_ERROR;

    if (line->rc == 0)
        type = kw_json_next(&line->json, ret);
    if (type != KW_JSON_ERROR && type != KW_JSON_END)
        return true;
    if (line->rc == 0)
        line->rc = kw_err_set(
            line->err, -EBADMSG, "at byte %zu: %s", (size_t)(line->json.pos - line->json.begin) + 1,
            type == KW_JSON_ERROR && line->json.error != NULL ? line->json.error : "it ends");
    return false;
}

bool agent_line_u64(struct agent_line *line, const char *key, uint64_t max, uint64_t *ret)
{
    struct kw_json_token token;
    char wanted[64];

    if (!agent_line_next(line, &token))
        return false;
    if (token.type == KW_JSON_NUMBER && kw_parse_u64_span(token.at, token.len, 0, max, ret) == 0)
        return true;
    (void)snprintf(wanted, sizeof(wanted), "a whole number from 0 to %llu",
                   (unsigned long long)max);
    return agent_line_refuse(line, -EBADMSG, key, &token, wanted);
}

/** Texts are shown on terminals: controls, and what turns the direction of writing, become "?". */
static void make_printable(char *text, size_t len)
{
    size_t kept = 0;

    for (size_t i = 0, width; i < len; i += width) {
        uint32_t code = 0;
        width = kw_utf8_next(text + i, len - i, &code);
        if (width == 0 || code < ' ' || (code >= 0x7f && code < 0xa0) ||
            (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) {
            text[kept++] = '?';
            width = width == 0 ? 1 : width;
            continue;
        }
        memmove(text + kept, text + i, width);
        kept += width;
    }
    text[kept] = '\0';
}

bool agent_line_text(struct agent_line *line, const char *key, char *out, size_t size)
{
    struct kw_json_token token;

    if (!agent_line_next(line, &token))
        return false;
    if (token.type != KW_JSON_STRING || token.len >= size)
        return agent_line_refuse(line, -EBADMSG, key, &token, "a short text");
    size_t len = kw_json_unescape(&token, out);
    if (len != strlen(out))
        return agent_line_refuse(line, -EBADMSG, key, &token, "a text without NUL");
    make_printable(out, len);
    return true;
}

bool agent_line_copy(struct agent_line *line, const char *key, char **ret)
{
    struct kw_json_token token;

    if (!agent_line_next(line, &token))
        return false;
    if (token.type != KW_JSON_STRING || token.len > TEXT_MAX)
        return agent_line_refuse(line, -EBADMSG, key, &token, "a text of up to 4095 bytes");
    char *text = malloc(token.len + 1);
    if (text == NULL)
        return agent_line_fail(line, -ENOMEM, "out of memory");
    size_t len = kw_json_unescape(&token, text);
    make_printable(text, len);
    free(*ret);
    *ret = text;
    return true;
}

bool agent_line_enter(struct agent_line *line, const char *key, enum kw_json_type type)
{
    struct kw_json_token token;

    if (!agent_line_next(line, &token))
        return false;
    return token.type == type || agent_line_refuse(line, -EBADMSG, key, &token,
                                                   type == KW_JSON_ARRAY ? "a list" : "an object");
}

bool agent_line_next_key(struct agent_line *line, struct kw_json_token *ret)
{
    return agent_line_next(line, ret) && ret->type == KW_JSON_KEY;
}

int agent_line_key(struct agent_line *line, const struct kw_json_token *token,
                   const char *const *keys, int n, unsigned *seen)
{
    int i = 0;

    while (i < n && !kw_json_equals(token, keys[i], false))
        i++;
    if (i < n && (*seen & 1u << i) != 0) {
        if (line->rc == 0)
            line->rc =
                kw_err_set(line->err, -EBADMSG, "\"%s\" is there twice; it is given once", keys[i]);
        return -1;
    }
    if (i < n)
        *seen |= 1u << i;
    return i;
}

bool agent_line_skip(struct agent_line *line)
{
    if (kw_json_skip(&line->json, NULL) != KW_JSON_ERROR)
        return true;
    return agent_line_fail(line, -EBADMSG,
                           line->json.error != NULL ? line->json.error : "malformed");
}

bool agent_line_list_ends(struct agent_line *line)
{
    struct kw_json before = line->json;
    struct kw_json_token token;

    if (line->rc == 0 && kw_json_next(&line->json, &token) == KW_JSON_ARRAY_END)
        return true;
    line->json = before;
    return line->rc != 0;
}

bool agent_line_bool(struct agent_line *line, const char *key, bool *ret)
{
    struct kw_json_token token;

    if (!agent_line_next(line, &token))
        return false;
    if (token.type != KW_JSON_TRUE && token.type != KW_JSON_FALSE)
        return agent_line_refuse(line, -EBADMSG, key, &token, "true or false");
    *ret = token.type == KW_JSON_TRUE;
    return true;
}
