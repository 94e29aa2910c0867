/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of /prioritize: a line of fixed texts around each name, thousands of times. Most of
 * its cost is to bring its bytes through the caches, so an answer to a list that was answered
 * before is not written again: where a score has changed, its two digits are.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "extender/rendering.h"

#define TEXT_LEN(text) (sizeof(text) - 1)

/** Texts of a fixed size around a name: what is too long is overwritten by what follows. */
#define FIXED 16

#define HEAD  "{\"Host\":\""
#define SCORE "\",\"Score\":"

/** What stands behind a name, by score: a blank where a number has one digit. */
#define TAIL(digits) SCORE digits "},"
#define DIGITS       2

static const char tails[][FIXED] = {TAIL(" 0"), TAIL(" 1"), TAIL(" 2"), TAIL(" 3"),
                                    TAIL(" 4"), TAIL(" 5"), TAIL(" 6"), TAIL(" 7"),
                                    TAIL(" 8"), TAIL(" 9"), TAIL("10")};

/** Scores that are compared at once with those of the answer before. */
#define AT_ONCE 64

static inline char *put_entry(char *at, const struct kw_json_text *name, uint8_t score)
{
    static const char head[FIXED] = HEAD;

    memcpy(at, head, FIXED);
    at = kw_bytes_put(at + TEXT_LEN(HEAD), name->at, name->len);
    memcpy(at, tails[score], FIXED);
    return at + TEXT_LEN(TAIL("10"));
}

/** How much memory an answer is written in. @param name_bytes the names' in all, or more. */
static size_t room_for(size_t n, size_t name_bytes)
{
    return TEXT_LEN("[]") + 1 + FIXED + n * (TEXT_LEN(HEAD) + TEXT_LEN(TAIL("10"))) + name_bytes;
}

/** Ends the list. @param at behind its last entry, if there is one. @return the length. */
static size_t close_list(char *bytes, char *at, size_t n)
{
    at -= n > 0 ? 1 : 0; /* the comma behind the last */
    *at++ = ']';
    *at = '\0';
    return (size_t)(at - bytes);
}

int ext_answer_prioritize(const struct ext_args *args, const uint8_t *scores, struct kw_buf *out)
{
    size_t n = ext_args_count(args);
    size_t name_bytes = args->has_names ? args->body_len : 0; /* of which the names are a part */

    for (size_t i = 0; !args->has_names && i < n; i++)
        name_bytes += args->items[i].name.len;
    if (kw_buf_reserve(out, room_for(n, name_bytes)) < 0)
        return -ENOMEM;
    char *at = out->data + out->len;
    *at++ = '[';
    for (size_t i = 0; args->has_names && i < n; i++)
        at = put_entry(at, &args->names[i], scores[i]);
    for (size_t i = 0; !args->has_names && i < n; i++)
        at = put_entry(at, &args->items[i].name, scores[i]);
    out->len = close_list(out->data, at, n);
    return 0;
}

/** Makes room for the answer to a list, and forgets the last one where it had less. @return 0 or
 * -ENOMEM. */
static int reserve(struct ext_rendering *rendering, const struct ext_args *args)
{
    size_t n = args->n_names;
    size_t room = room_for(n, args->list_len);

    if (room <= rendering->cap && n <= rendering->scores_cap)
        return 0;
    ext_rendering_free(rendering);
    rendering->bytes = malloc(room);
    rendering->digits = calloc(n, sizeof(*rendering->digits));
    rendering->scores = calloc(n, sizeof(*rendering->scores));
    if (rendering->bytes == NULL || rendering->digits == NULL || rendering->scores == NULL) {
        ext_rendering_free(rendering);
        return -ENOMEM;
    }
    rendering->cap = room;
    rendering->scores_cap = n;
    return 0;
}

/** Writes the whole answer. */
static void render(struct ext_rendering *rendering, const struct ext_args *args,
                   const uint8_t *scores)
{
    char *at = rendering->bytes;

    *at++ = '[';
    for (size_t i = 0; i < args->n_names; i++) {
        at = put_entry(at, &args->names[i], scores[i]);
        rendering->digits[i] = (uint32_t)(at - TEXT_LEN("10},") - rendering->bytes);
    }
    rendering->len = close_list(rendering->bytes, at, args->n_names);
    rendering->list_id = args->list_id;
}

/** Writes the scores that are others. */
static void change(struct ext_rendering *rendering, const uint8_t *scores, size_t n)
{
    for (size_t from = 0; from < n; from += AT_ONCE) {
        size_t end = n - from < AT_ONCE ? n : from + AT_ONCE;
        if (memcmp(rendering->scores + from, scores + from, end - from) == 0)
            continue;
        for (size_t i = from; i < end; i++) {
            if (rendering->scores[i] != scores[i])
                memcpy(rendering->bytes + rendering->digits[i], tails[scores[i]] + TEXT_LEN(SCORE),
                       DIGITS);
        }
    }
}

int ext_rendering_answer(struct ext_rendering *rendering, const struct ext_args *args,
                         const uint8_t *scores, struct kw_buf *out, struct ext_lent *lent)
{
    bool held = atomic_load_explicit(&rendering->held, memory_order_acquire) > 0;

    if (lent == NULL || held || !args->has_names || args->list == NULL)
        return ext_answer_prioritize(args, scores, out);
    if (reserve(rendering, args) < 0)
        return -ENOMEM;
    if (args->list_id == 0) /* one that is not kept is not known again */
        return ext_answer_prioritize(args, scores, out);
    if (rendering->list_id == args->list_id)
        change(rendering, scores, args->n_names);
    else
        render(rendering, args, scores);
    memcpy(rendering->scores, scores, args->n_names);
    atomic_fetch_add_explicit(&rendering->held, 1, memory_order_relaxed);
    lent->bytes = rendering->bytes;
    lent->len = rendering->len;
    lent->held = &rendering->held;
    return 0;
}

void ext_rendering_free(struct ext_rendering *rendering)
{
    free(rendering->bytes);
    free(rendering->digits);
    free(rendering->scores);
    *rendering = (struct ext_rendering){0};
}
