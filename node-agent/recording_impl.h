/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/line_reader.h"
#include "node-agent/recording.h"
#include "node-agent/recording_parties.h"

/* Shared by the files that decode recordings. */

#define AGENT_RECORDING_COLUMNS_MAX 64
#define AGENT_RECORDING_NO_FEATURE  255

struct agent_recording {
    bool begun; /* the header was read */
    struct agent_recording_header header;
    size_t n_columns;
    unsigned char columns[AGENT_RECORDING_COLUMNS_MAX]; /* of a row: the feature, or
                                                           AGENT_RECORDING_NO_FEATURE */
    struct agent_recorded_window window;
    struct agent_recording_parties *parties;
    uint64_t stamp; /* of the list of rows at hand */
};

/** A line being read. */
struct agent_recording_reader {
    struct agent_line line;
    struct agent_recording *recording;
};

/** The header, which has the whole line. @return false after an error. */
bool agent_recording_read_header(struct agent_recording_reader *reader);

/** A list of what was measured beside time, as enum agent_has. @return false after an error. */
bool agent_recording_read_has(struct agent_recording_reader *reader, unsigned *ret);
