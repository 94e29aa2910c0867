/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json_scan.h"
#include "extender/snapshot.h"

/*
 * The list of names that was read last, byte for byte. A scheduler names the candidates of
 * /prioritize as it had them from /filter, and small clusters in one order for hours: then one
 * comparison of the bytes says what each of them is.
 */

/** Zero-initialised is empty. */
struct ext_recall {
    char *bytes; /**< between the brackets of the list */
    size_t len, cap;
    size_t n;         /**< names in it; 0: nothing is recalled */
    uint64_t names;   /**< of the snapshot that they were found in */
    uint64_t id;      /**< of the list: another with each that is kept; never 0 where n is not */
    unsigned unalike; /**< lists in a row that were others */
};

/** Whether the list that begins at `at` is the one that is recalled, in a snapshot of the same
 * names. */
bool ext_recall_is(const struct ext_recall *recall, const struct ext_snapshot *snapshot,
                   const char *at, const char *end);

/**
 * Keeps a list that was another. Where lists have no order, most are let go, as keeping costs more
 * than it brings.
 * @param texts what was read of it; they point into the copy afterwards, if one was made.
 * @return 0 or -ENOMEM, with nothing kept.
 */
int ext_recall_keep(struct ext_recall *recall, const struct ext_snapshot *snapshot,
                    const char *list, size_t len, struct kw_json_text *texts, size_t n);

/** What was read is about to be overwritten. */
static inline void ext_recall_drop(struct ext_recall *recall)
{
    recall->n = 0;
}

/** Leaves an empty one. */
void ext_recall_free(struct ext_recall *recall);
