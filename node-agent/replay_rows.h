/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "node-agent/recording.h"

/*
 * What a machine did and drew, second by second, out of a recording: CSV for kwatt train
 * (docs/power-models.md). The columns of counters are there where the recording has counters, the
 * one of memory where the first row has its energy, that of the machine's threads where the header
 * says how many there are.
 */

struct agent_replay_rows {
    FILE *out;
    size_t n;          /**< rows written */
    uint64_t left_out; /**< seconds of which something is not known */
    unsigned has;      /**< enum agent_has of the columns; from the header */
    bool dram;         /**< there is a column of it */
    unsigned threads;  /**< of the machine; 0: not known, there is no column of it */
    /* of the second at hand */
    uint64_t span_ns;
    bool broken;
    uint64_t cpu_ns, cycles, instructions, llc_misses;
    uint64_t uj[AGENT_PACKAGES_MAX][2], ns[AGENT_PACKAGES_MAX][2]; /**< CPU, DRAM */
};

/** @return 0; -EINVAL: what the recording holds was estimated by a model. */
int agent_replay_rows_begin(struct agent_replay_rows *rows,
                            const struct agent_recording_header *header, struct kw_err *err);

/** Takes a window; writes a row where a second is full. */
void agent_replay_rows_add(struct agent_replay_rows *rows,
                           const struct agent_recorded_window *window);

/** @return 0; -ENODATA: no second of which all is known; -EIO. */
int agent_replay_rows_end(struct agent_replay_rows *rows, struct kw_err *err);
