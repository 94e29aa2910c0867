/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects and arrays end where their bracket is closed, whatever follows: bytes that were one
 * before, at the same depth, are one again, and nothing need be read of them. Documents of a row
 * have their parts in one order, so each part is compared with one other alone, the next of the
 * last document; what a comparison that fails costs is a few bytes.
 *
 * Invariants: `bytes` holds a whole valid object, and each span a whole valid object or array in
 * it. Both are of one document.
 */
#include "common/json_memo.h"

#include <string.h>

#include "common/json_lex.h"

/** Shorter ones are as soon read. */
#define SHORTEST 32

static bool is_same(const char *p, const struct kw_json *json, const char *bytes, size_t len)
{
    return (size_t)(json->end - p) >= len && memcmp(p, bytes, len) == 0;
}

bool kw_json_memo_begin(struct kw_json_memo *memo, struct kw_json *json)
{
    if (json->state != KW_JSON_STATE_VALUE || json->pos == json->end || *json->pos != '{') {
        memo->len = memo->n = 0;
        return false;
    }
    if (memo->len > 0 && memo->depth == json->depth &&
        is_same(json->pos, json, memo->bytes, memo->len)) {
        kw_json_pass_known(json, memo->len);
        return true;
    }
    memo->at = json->pos;
    memo->depth = json->depth;
    memo->n_new = 0;
    json->memo = memo;
    return false;
}

void kw_json_memo_end(struct kw_json_memo *memo, struct kw_json *json, bool good)
{
    json->memo = NULL;
    if (memo->at == NULL)
        return;
    size_t len = (size_t)(json->pos - memo->at);
    memo->len = good && len <= sizeof(memo->bytes) ? len : 0;
    memo->n = memo->len > 0 ? memo->n_new : 0;
    memcpy(memo->bytes, memo->at, memo->len);
    memcpy(memo->spans, memo->found, memo->n * sizeof(*memo->spans));
    memo->at = NULL;
}

const char *kw_json_memo_find(const struct kw_json_memo *memo, const struct kw_json *json,
                              const char *p)
{
    const struct kw_json_memo_span *span = &memo->spans[memo->n_new];

    if (memo->n_new >= memo->n || span->depth != json->depth ||
        !is_same(p, json, memo->bytes + span->at, span->len))
        return NULL;
    return p + span->len;
}

void kw_json_memo_note(struct kw_json_memo *memo, const struct kw_json *json, const char *p,
                       const char *end)
{
    size_t at = (size_t)(p - memo->at);
    size_t len = (size_t)(end - p);

    if (len < SHORTEST || at + len > sizeof(memo->bytes) || memo->n_new == KW_JSON_MEMO_VALUES)
        return;
    memo->found[memo->n_new++] =
        (struct kw_json_memo_span){(uint32_t)at, (uint32_t)len, json->depth};
}
