/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/sample.h"
#include "common/buf.h"

/*
 * From the samples that a node published to rows that a power model learns from: differences of
 * totals between samples that follow each other, of a second at least. Pure.
 */

/** A second, or a sample's interval where that is longer; all a second. */
struct cli_feed_row {
    double cpu_time, cycles, instructions, cache_misses, package_w, dram_w;
};

/** Rows of one node. Zeros: nothing seen yet. */
struct cli_feed_rows {
    bool begun;                    /**< there is a sample to take differences to */
    struct kw_totals_sample first; /**< of the row that is being made */
    uint64_t epoch, seq;           /**< of the last sample */
    uint64_t span_ns;              /**< that the row has so far */
    bool has_counters, has_dram;   /**< of its first row, and so of all */
    size_t n, cap;
    struct cli_feed_row *rows;
    size_t n_samples;   /**< of this node */
    size_t n_estimated; /**< their energy comes from a model */
    size_t n_without;   /**< an agent too old to say what is learnt from */
    size_t n_left_out;  /**< something was wrong in their window, or one before them is missing */
};

/** Takes the next sample of the node. @return 0 or -ENOMEM. */
int cli_feed_rows_add(struct cli_feed_rows *rows, const struct kw_sample *sample);

/** Writes the rows as CSV (cli/recording.h), with its line of names. @param counters, dram whether
 * these columns are wanted; they are known then. @return 0 or -ENOMEM. */
int cli_feed_rows_print(const struct cli_feed_rows *rows, bool counters, bool dram,
                        struct kw_buf *out);

/** Frees the rows and leaves none. */
void cli_feed_rows_free(struct cli_feed_rows *rows);
