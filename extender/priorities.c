/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of /prioritize: a line of fixed texts around each name, thousands of times.
 */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "extender/protocol.h"

#define TEXT_LEN(text) (sizeof(text) - 1)

/** Texts of a fixed size around a name: what is too long is overwritten by what follows. */
#define FIXED 16

#define HEAD "{\"Host\":\""

/** What stands behind a name, by score. */
#define TAIL(score) "\",\"Score\":" #score "},"

static const char tails[][FIXED] = {TAIL(0), TAIL(1), TAIL(2), TAIL(3), TAIL(4), TAIL(5),
                                    TAIL(6), TAIL(7), TAIL(8), TAIL(9), TAIL(10)};

static size_t tail_len(uint8_t score)
{
    return score < 10 ? TEXT_LEN(TAIL(0)) : TEXT_LEN(TAIL(10));
}

static inline char *put_entry(char *at, const struct kw_json_text *name, uint8_t score)
{
    static const char head[FIXED] = HEAD;

    memcpy(at, head, FIXED);
    at = kw_bytes_put(at + TEXT_LEN(HEAD), name->at, name->len);
    memcpy(at, tails[score], FIXED);
    return at + tail_len(score);
}

int ext_answer_prioritize(const struct ext_args *args, const uint8_t *scores, struct kw_buf *out)
{
    size_t n = ext_args_count(args);
    size_t room = TEXT_LEN("[]") + 1 + FIXED + n * (TEXT_LEN(HEAD) + TEXT_LEN(TAIL(10)));

    if (args->has_names)
        room += args->body_len; /* of which the names are a part */
    for (size_t i = 0; !args->has_names && i < n; i++)
        room += args->items[i].name.len;
    if (kw_buf_reserve(out, room) < 0)
        return -ENOMEM;
    char *at = out->data + out->len;
    *at++ = '[';
    for (size_t i = 0; args->has_names && i < n; i++)
        at = put_entry(at, &args->names[i], scores[i]);
    for (size_t i = 0; !args->has_names && i < n; i++)
        at = put_entry(at, &args->items[i].name, scores[i]);
    at -= n > 0 ? 1 : 0; /* the comma behind the last */
    *at++ = ']';
    out->len = (size_t)(at - out->data);
    *at = '\0';
    return 0;
}
