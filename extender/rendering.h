/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "extender/protocol.h"

/*
 * The last answer of /prioritize, kept for the next one to the same list: names stand in it byte
 * for byte, and each score takes as much room as any other, so that the new answer is the old one
 * with other digits here and there. It is sent from where it stands.
 */

/** One for each workspace. Zero-initialised is empty. */
struct ext_rendering {
    char *bytes;
    size_t len, cap;
    uint64_t list_id;  /**< ext_args.list_id that it answers; 0: none */
    uint32_t *digits;  /**< of each name: where its score stands in `bytes` */
    uint8_t *scores;   /**< of each name: the score that stands there */
    size_t scores_cap; /**< names that these two have room for */
    atomic_uint held;  /**< answers that are being sent from `bytes`: it may not change */
};

/**
 * Answer of prioritize, as ext_answer_prioritize, by changing the last one where the candidates are
 * the list that is recalled.
 * @param out empty; has the answer where lent has none: where the list is another, or the last
 * answer is still being sent.
 * @param lent NULL: the answer is wanted in `out`.
 * @return 0 or -ENOMEM.
 */
int ext_rendering_answer(struct ext_rendering *rendering, const struct ext_args *args,
                         const uint8_t *scores, struct kw_buf *out, struct ext_lent *lent);

/** Leaves an empty one. No answer may be under way. */
void ext_rendering_free(struct ext_rendering *rendering);
