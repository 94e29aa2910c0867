/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/sample.h"
#include "extender/snapshot.h"

/*
 * From what Redis holds of one node to what scoring needs of it. Every value is taken for hostile:
 * one bad node can at worst misstate itself.
 */

/** Why a record, or a part of it, was left out. */
enum ext_skip {
    EXT_SKIP_NAME,    /**< no name of a node */
    EXT_SKIP_MISSING, /**< no sample */
    EXT_SKIP_SAMPLE,  /**< a sample that does not decode, or of another node */
    EXT_SKIP_CURVE,   /**< a curve that does not decode: the node is known, but not priced */
    EXT_SKIP_SCHEMA,  /**< written by another version of the schema */
    EXT_SKIP_REPLY,   /**< Redis answered with something else than was asked for */
    EXT_SKIP_LIMIT,   /**< more nodes than are taken */
    EXT_SKIP__MAX
};

/** "name", "missing", ... index is enum ext_skip. */
extern const char *const ext_skip_names[EXT_SKIP__MAX];

/** One node's record as it was read. */
struct ext_record {
    const char *name; /**< NUL-terminated */
    double score;
    const char *sample; /**< NULL: no such field */
    size_t sample_len;
    const char *curve; /**< NULL: no such field */
    size_t curve_len;
};

/** Both clocks of one instant. */
struct ext_instant {
    int64_t now_ns; /**< CLOCK_MONOTONIC */
    int64_t unix_ms;
};

/**
 * Makes a node of a record. A sample counts as new at the instant where it is first seen to have
 * advanced; the first sample seen of a node (or one whose time went back) is as old as its own time
 * says, at least 0.
 * @param before the same node in the last snapshot, NULL if it was not there. Where the new sample
 * is bad, its values stay.
 * @param scratch a large struct that the caller keeps.
 * @param skipped counts by enum ext_skip, added to.
 * @return 0 with *ret (its name is record->name); -ENOENT where nothing is known of the node;
 * -ENOMEM.
 */
int ext_ingest(const struct ext_record *record, const struct ext_node *before,
               const struct ext_instant *now, struct kw_sample *scratch,
               uint64_t skipped[EXT_SKIP__MAX], struct ext_node *ret);

/**
 * The first half of ext_ingest for a record whose node only its sample names: decodes that and sets
 * the record's name (scratch's) and score. @return 0; -ENOENT where it is bad, which is counted;
 * -ENOMEM.
 */
int ext_ingest_named(struct ext_record *record, struct kw_sample *scratch,
                     uint64_t skipped[EXT_SKIP__MAX]);

/** The second half. @param sample of the record, decoded; NULL: it is bad, and `before` is not
 * NULL.
 * @return 0 or -ENOMEM. */
int ext_ingest_sample(const struct ext_record *record, const struct ext_node *before,
                      const struct ext_instant *now, const struct kw_sample *sample,
                      uint64_t skipped[EXT_SKIP__MAX], struct ext_node *ret);
