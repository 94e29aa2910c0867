/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/log.h"
#include "node-agent/sampler.h"

/** What the log was told of samples that went wrong: each state once, and once that it ended. */
struct agent_said {
    bool accounting_failed, meter_failed, meter_frozen, meters_doubtful;
    size_t meter_left_out;
};

/** Logs what is new in the notes of a window. @param meter the one in use. */
void agent_say(struct agent_said *said, struct kw_log *log, const struct agent_sample_notes *notes,
               const char *meter);
