/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/json_scan.h"
#include "extender/snapshot.h"

/*
 * From the names of a request to where their nodes stand, while the names are read.
 */

/**
 * One for each workspace; zero-initialised is new. What it has learnt of the order of names is a
 * hint and never an answer: it stays right or becomes useless as snapshots come and go.
 */
struct ext_finder {
    const struct ext_snapshot *snapshot; /**< of the request at hand; NULL: nothing is known */
    int64_t now_ns;
    uint32_t *next; /**< by node (index plus 1): the one that was named after it, or 0 */
    size_t cap;
    uint32_t *found; /**< where to put the indices of nodes, plus 1, stale ones included; one for
                        each name of the next call; NULL: they are not wanted */
    uint32_t last;   /**< the node named last, index plus 1; 0: none, or an unknown one */
};

/** Starts on a request. @param snapshot outlives it; NULL: nothing is known. @return 0 or -ENOMEM.
 */
int ext_finder_begin(struct ext_finder *finder, const struct ext_snapshot *snapshot,
                     int64_t now_ns);
void ext_finder_free(struct ext_finder *finder);

/**
 * Takes strings of an array in a row, as kw_json_strings, and finds their nodes.
 * @param texts, places n elements each. A place is NULL where nothing is known of the node, or its
 * sample is stale, or it has no curve.
 * @return how many came; fewer than n as kw_json_strings.
 */
size_t ext_find_strings(struct ext_finder *finder, struct kw_json *json, struct kw_json_text *texts,
                        const struct ext_place **places, size_t n);

/** Finds the nodes of up to EXT_BATCH names that were read before. @param places n elements. */
void ext_find_texts(struct ext_finder *finder, const struct kw_json_text *texts, size_t n,
                    const struct ext_place **places);
