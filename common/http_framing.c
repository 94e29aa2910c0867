/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_framing.h"

#include <string.h>
#include <strings.h>

#include "common/cleanup.h"

/*
 * libmicrohttpd 0.9.75 is lenient where leniency lets a request be smuggled past a proxy in front:
 * it takes the first of several Content-Length headers, prefers chunked over a length, ends a line
 * at a bare LF, ends the head at a line that starts with ':' or NUL, and folds lines. It parses in
 * place: it writes NULs over the blank behind the method, over the colon and over CR LF, and hands
 * out pointers into that buffer. So the layout can be checked after the fact: each header must
 * begin two bytes (CR LF) behind the previous value, and the empty line must end four bytes behind
 * the last one. A bare LF, a NUL inside a line, a folded line (which libmicrohttpd copies
 * elsewhere) and a nameless line all break that arithmetic.
 *
 * What leaves the same bytes as a proper head cannot be told apart: a NUL beside a line end, and a
 * lone ':' as the last line where one of the two line ends around it is a bare LF ("LF : CR LF" and
 * "CR LF CR LF" are both four NULs afterwards). What follows is then read as the body or the next
 * request, never twice; a proxy that passes bare LFs or NULs inside a value is needed to make use
 * of it.
 *
 * Another version may copy what it parses (1.0 has a new parser, strict by itself), and then every
 * honest head would look wrong. So the layout counts only for versions that were tried.
 */

/* Tried by the tests of http_hostile_test.c. */
static const char *const known_layouts[] = {"0.9.75"};

bool kw_http_layout_is_known(const char *version)
{
    for (size_t i = 0; i < KW_ARRAY_SIZE(known_layouts); i++) {
        if (strcmp(version, known_layouts[i]) == 0)
            return true;
    }
    return false;
}

static bool is_token_byte(unsigned char c)
{
    /* RFC 9110, 5.6.2 */
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_name(const char *key, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_token_byte((unsigned char)key[i]))
            return false;
    }
    return len > 0;
}

static bool same_name(const char *key, size_t len, const char *name)
{
    return len == strlen(name) && strncasecmp(key, name, len) == 0;
}

bool kw_http_target_ok(const char *target)
{
    if (target == NULL || *target == '\0')
        return false;
    for (const char *p = target; *p != '\0'; p++) {
        if ((unsigned char)*p <= ' ' || *p == 0x7F)
            return false;
        if (p[0] == '%' && p[1] == '0' && p[2] == '0')
            return false;
    }
    return true;
}

void kw_http_framing_begin(struct kw_http_framing *framing, bool in_place, const char *head,
                           size_t head_size, const char *target, size_t target_len,
                           const char *version)
{
    *framing = (struct kw_http_framing){
        .in_place = in_place, .next = version + strlen(version) + 2, .head_end = head + head_size};
    /* one blank each between method, target and version, and no NUL inside any */
    framing->malformed =
        !is_name(head, strlen(head)) ||
        (in_place && (target != head + strlen(head) + 1 || version != target + target_len + 1));
}

void kw_http_framing_header(struct kw_http_framing *framing, const char *key, size_t key_len,
                            const char *value, size_t value_len)
{
    if ((framing->in_place && key != framing->next) || value == NULL || !is_name(key, key_len) ||
        memchr(value, '\r', value_len) != NULL) {
        framing->malformed = true;
        return;
    }
    framing->next = value + value_len + 2;
    if (same_name(key, key_len, "content-length")) {
        if (framing->length != NULL &&
            (framing->length_len != value_len || memcmp(framing->length, value, value_len) != 0))
            framing->malformed = true;
        framing->length = value;
        framing->length_len = value_len;
    } else if (same_name(key, key_len, "host")) {
        framing->hosts++;
    } else if (same_name(key, key_len, "transfer-encoding")) {
        if (framing->chunked || !same_name(value, value_len, "chunked"))
            framing->foreign_encoding = true;
        framing->chunked = true;
    } else if (same_name(key, key_len, "content-encoding")) {
        framing->encoded = framing->encoded || !same_name(value, value_len, "identity");
    }
}

/* Whether the last value is followed by CR LF CR LF, all overwritten, and nothing else. */
static bool ends_properly(const struct kw_http_framing *framing)
{
    static const char overwritten[4] = {0};

    return framing->next + 2 == framing->head_end &&
           memcmp(framing->next - 2, overwritten, sizeof(overwritten)) == 0;
}

unsigned kw_http_framing_verdict(const struct kw_http_framing *framing, bool needs_length,
                                 bool http_1_0)
{
    if (framing->malformed || (framing->in_place && !ends_properly(framing)))
        return 400;
    /* RFC 9112, 3.2: each request names its host, and one alone; HTTP/1.0 had none yet */
    if (framing->hosts > 1 || (framing->hosts == 0 && !http_1_0))
        return 400;
    if (framing->chunked && (framing->length != NULL || http_1_0))
        return 400;
    if (framing->foreign_encoding)
        return 501;
    if (needs_length && !framing->chunked && framing->length == NULL)
        return 411;
    if (framing->encoded)
        return 415;
    return 0;
}
