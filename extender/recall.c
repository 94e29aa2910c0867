/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants: what a list means depends on its bytes and on which name is which node alone, and the
 * snapshot's `names` stands for the latter; so a list that is recalled is what reading it again
 * would give. How often a list is kept is the only thing that is guessed: each of the first few,
 * and ever fewer as long as none is asked for again.
 */
#include "extender/recall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** Of lists that are never asked for again, one in so many is kept. A power of two. */
#define RARELY 64

/** Longest list that is kept: 15000 names of 60 bytes. */
#define KEPT_BYTES ((size_t)1 << 20)

bool ext_recall_is(const struct ext_recall *recall, const struct ext_snapshot *snapshot,
                   const char *at, const char *end)
{
    return recall->n > 0 && snapshot != NULL && recall->names == snapshot->names_id &&
           (size_t)(end - at) > recall->len && at[recall->len] == ']' &&
           memcmp(at, recall->bytes, recall->len) == 0;
}

/** Whether a list is worth its copy. */
static bool is_worth_it(struct ext_recall *recall)
{
    unsigned unalike = recall->unalike++;

    return (unalike & (unalike - 1)) == 0 || unalike % RARELY == 0;
}

int ext_recall_keep(struct ext_recall *recall, const struct ext_snapshot *snapshot,
                    const char *list, size_t len, struct kw_json_text *texts, size_t n)
{
    ext_recall_drop(recall);
    if (snapshot == NULL || n == 0 || len > KEPT_BYTES || !is_worth_it(recall))
        return 0;
    if (len > recall->cap) {
        free(recall->bytes);
        recall->cap = 0;
        recall->bytes = malloc(len);
        if (recall->bytes == NULL)
            return -ENOMEM;
        recall->cap = len;
    }
    memcpy(recall->bytes, list, len);
    for (size_t i = 0; i < n; i++)
        texts[i].at = recall->bytes + (texts[i].at - list);
    recall->len = len;
    recall->n = n;
    recall->id++;
    recall->names = snapshot->names_id;
    return 0;
}

void ext_recall_free(struct ext_recall *recall)
{
    free(recall->bytes);
    *recall = (struct ext_recall){0};
}
