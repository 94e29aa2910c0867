/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: reading a name, hashing it and looking it up costs more than scoring its node and
 * writing the answer, and there are hundreds to thousands in a request.
 *
 * Approach: a scheduler names nodes in an order that hardly changes: that of its own list, in runs,
 * and the candidates of /prioritize are those of the /filter before. So after each node the finder
 * remembers which one came next, and compares the bytes that come with that node's name, closing
 * quote included. Where they are the same, the name is read and found by one comparison. Where they
 * are not, names are read and hashed, a few at first and more each time the guess was wrong, so
 * that a list without any order costs a guess in sixteen names.
 *
 * Invariants: what is found does not depend on what was learnt; a guess is checked against the
 * snapshot of the request, whose bounds it may lie outside of.
 */
#include "extender/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** Names that are hashed after the first wrong guess; doubled with each further one in a row. */
#define LEAST_HASHED 2

/** Longest node name with every byte escaped; what is longer is no node that we know. */
#define NAME_MAX_ESCAPED (253 * 6)

/** Texts of the names in a batch that have escapes; one buffer each. */
struct unescaped {
    char text[EXT_BATCH][NAME_MAX_ESCAPED + 1];
};

int ext_finder_begin(struct ext_finder *finder, const struct ext_snapshot *snapshot)
{
    size_t n = snapshot == NULL ? 0 : snapshot->n + 1;

    finder->snapshot = snapshot;
    finder->last = 0;
    if (n <= finder->cap)
        return 0;
    free(finder->next);
    finder->cap = 0;
    finder->next = calloc(n, sizeof(*finder->next));
    if (finder->next == NULL)
        return -ENOMEM;
    finder->cap = n;
    return 0;
}

void ext_finder_free(struct ext_finder *finder)
{
    free(finder->next);
    *finder = (struct ext_finder){0};
}

static struct ext_key key_of(const struct kw_json_text *name, char text[NAME_MAX_ESCAPED + 1])
{
    const struct kw_json_token token = {
        .type = KW_JSON_STRING, .escaped = true, .at = name->at, .len = name->len};

    if (!name->escaped || name->len > NAME_MAX_ESCAPED)
        return (struct ext_key){name->at, name->len};
    return (struct ext_key){text, kw_json_unescape(&token, text)};
}

void ext_find_texts(struct ext_finder *finder, const struct kw_json_text *texts, size_t n,
                    uint32_t *indices)
{
    const struct ext_snapshot *snapshot = finder->snapshot;
    struct ext_key keys[EXT_BATCH];
    struct unescaped unescaped;

    for (size_t i = 0; i < n && snapshot == NULL; i++)
        indices[i] = 0;
    if (snapshot == NULL || n == 0) /* with optimisation gcc asks what keys hold then */
        return;
    for (size_t i = 0; i < n; i++)
        keys[i] = key_of(&texts[i], unescaped.text[i]);
    ext_snapshot_find_batch(snapshot, keys, n, indices);
    for (size_t i = 0; i < n; i++) {
        if (finder->next[finder->last] != indices[i])
            finder->next[finder->last] = indices[i];
        finder->last = indices[i];
    }
}

/** Takes names as long as each is the expected one. @return how many. */
static size_t follow(struct ext_finder *finder, struct kw_json *json, struct kw_json_text *texts,
                     uint32_t *indices, size_t n)
{
    const struct ext_snapshot *snapshot = finder->snapshot;
    uint32_t last = finder->last;
    size_t got = 0;

    for (; got < n; got++) {
        uint32_t next = finder->next[last];
        if (next == 0 || next > snapshot->n)
            break;
        const struct ext_live *live = &snapshot->live[next - 1];
        if (live->text[0] == '\0')
            break;
        const char *at = kw_json_known_string(json, live->text, live->name_len);
        if (at == NULL)
            break;
        texts[got] = (struct kw_json_text){.at = at, .len = live->name_len};
        indices[got] = next;
        last = next;
    }
    finder->last = last;
    return got;
}

size_t ext_find_strings(struct ext_finder *finder, struct kw_json *json, struct kw_json_text *texts,
                        uint32_t *indices, size_t n)
{
    size_t hashed = LEAST_HASHED;
    size_t got = 0;

    while (got < n) {
        /* the first name of a list is not expected, nor what follows an unknown one */
        size_t known =
            finder->last == 0 ? 0 : follow(finder, json, texts + got, indices + got, n - got);
        got += known;
        if (known > 0)
            hashed = LEAST_HASHED;
        else if (hashed < EXT_BATCH)
            hashed *= 2;
        size_t wanted = n - got < hashed ? n - got : hashed;
        size_t more = kw_json_strings(json, texts + got, wanted);
        ext_find_texts(finder, texts + got, more, indices + got);
        got += more;
        if (more < wanted)
            break;
    }
    return got;
}
