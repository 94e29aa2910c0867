/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/rows.h"
#include "common/buf.h"

/*
 * Tables as text: pure, into a buffer. Every line fits the width given and ends with a newline.
 */

struct cli_table_style {
    unsigned columns; /**< width of the terminal; >= 40 */
    unsigned rows;    /**< most rows of workloads; 0: all */
    bool color;
};

/** The node's lines: name, meter, accounting; watts and where they go; what is missing. */
void cli_table_summary(struct kw_buf *out, const struct cli_summary *summary,
                       const struct cli_table_style *style);

/**
 * Workloads with a header line; the last line says how many more there are. Columns that do not fit
 * are left out, the least needed first.
 */
void cli_table_workloads(struct kw_buf *out, const struct cli_row *rows, size_t n,
                         const struct cli_table_style *style);

/**
 * What to do where next to nothing has a cgroup of its own, so that the table tells little.
 * @param example how a program gets one on this machine. Adds nothing where workloads are seen.
 */
void cli_table_hint(struct kw_buf *out, const struct cli_row *rows, size_t n, const char *example,
                    const struct cli_table_style *style);

/** One node of a cluster. */
struct cli_node_line {
    struct cli_summary summary;
    size_t n_running;
    uint64_t age_ms; /**< of its sample */
};

/** Nodes with a header line, in the order given. */
void cli_table_nodes(struct kw_buf *out, const struct cli_node_line *nodes, size_t n,
                     const struct cli_table_style *style);
