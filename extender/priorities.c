/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of /prioritize: a line of fixed texts around each name, thousands of times.
 */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "extender/protocol.h"

#define TEXT_LEN(text) (sizeof(text) - 1)

/** What stands behind a name, by score. */
static const struct {
    char text[16];
    uint8_t len;
} tails[] = {
#define TAIL(score)                                                        \
    {                                                                      \
        "\",\"Score\":" #score "},", TEXT_LEN("\",\"Score\":" #score "},") \
    }
    TAIL(0), TAIL(1), TAIL(2), TAIL(3), TAIL(4),  TAIL(5),
    TAIL(6), TAIL(7), TAIL(8), TAIL(9), TAIL(10),
#undef TAIL
};

int ext_answer_prioritize(const struct ext_args *args, const uint8_t *scores, struct kw_buf *out)
{
    static const char head[16] = "{\"Host\":\"";
    size_t n = ext_args_count(args);
    size_t room =
        TEXT_LEN("[]") + 1 + sizeof(tails[0].text) + n * TEXT_LEN("{\"Host\":\"\",\"Score\":10},");

    if (args->has_names)
        room += args->body_len; /* of which the names are a part */
    for (size_t i = 0; !args->has_names && i < n; i++)
        room += args->items[i].name.len;
    if (kw_buf_reserve(out, room) < 0)
        return -ENOMEM;
    char *at = out->data + out->len;
    *at++ = '[';
    for (size_t i = 0; i < n; i++) {
        const struct kw_json_text *name = ext_args_name(args, i);
        /* texts of a fixed 16 bytes: what is too long is overwritten by what follows */
        memcpy(at, head, sizeof(head));
        at = kw_bytes_put(at + TEXT_LEN("{\"Host\":\""), name->at, name->len);
        memcpy(at, tails[scores[i]].text, sizeof(tails[0].text));
        at += tails[scores[i]].len;
    }
    at -= n > 0 ? 1 : 0; /* the comma behind the last */
    *at++ = ']';
    out->len = (size_t)(at - out->data);
    *at = '\0';
    return 0;
}
