/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/json_scan.h"
#include "extender/snapshot.h"

/*
 * From the names of a request to their nodes, while the names are read.
 */

/**
 * One for each workspace; zero-initialised is new. What it has learnt of the order of names is a
 * hint and never an answer: it stays right or becomes useless as snapshots come and go.
 */
struct ext_finder {
    const struct ext_snapshot *snapshot; /**< of the request at hand; NULL: nothing is known */
    uint32_t *next; /**< by node (index plus 1): the one that was named after it, or 0 */
    size_t cap;
    uint32_t last; /**< the node named last, index plus 1; 0: none, or an unknown one */
};

/** Starts on a request. @param snapshot outlives it; NULL: nothing is known. @return 0 or -ENOMEM.
 */
int ext_finder_begin(struct ext_finder *finder, const struct ext_snapshot *snapshot);
void ext_finder_free(struct ext_finder *finder);

/**
 * Takes strings of an array in a row, as kw_json_strings, and finds their nodes.
 * @param texts n elements.
 * @param indices n elements: of the nodes in the snapshot, plus 1, stale ones included; 0: unknown.
 * @return how many came; fewer than n as kw_json_strings.
 */
size_t ext_find_strings(struct ext_finder *finder, struct kw_json *json, struct kw_json_text *texts,
                        uint32_t *indices, size_t n);

/** Finds the nodes of up to EXT_BATCH names that were read before. @param indices n elements. */
void ext_find_texts(struct ext_finder *finder, const struct kw_json_text *texts, size_t n,
                    uint32_t *indices);

/** Where a node stands that was found. @return NULL where nothing is known of it, or its sample is
 * stale, or it has no curve. */
static inline const struct ext_place *ext_found_place(const struct ext_snapshot *snapshot,
                                                      uint32_t index, int64_t now_ns)
{
    return index == 0 ? NULL : ext_place_good(snapshot, index - 1, now_ns);
}
