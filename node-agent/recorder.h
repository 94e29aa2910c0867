/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "node-agent/ledger.h"
#include "node-agent/recording.h"

/*
 * Writes what attribution is given into a file (docs/recording.md), on a thread of its own: a slow
 * or full disk never delays a sample. Stands between the ledger and the method. What cannot be
 * written in time is left out, and the next line says how much.
 */

struct agent_recorder;

/** What is written without having reached the file; more is left out. */
#define AGENT_RECORDER_PENDING_MAX (4u << 20)

/**
 * Opens the file, while there still are the privileges to. Only its owner may read it: power of
 * tenths of a second tells what programs do.
 * @param path NULL: nothing is opened; "-": standard output. A file that holds something is left
 * alone.
 * @param limit_bytes the recording ends with the last window that fits.
 * @return 0; -EEXIST; -ENXIO a pipe that nobody reads; -errno.
 */
int agent_recorder_open(const char *path, uint64_t limit_bytes, struct agent_recorder **ret,
                        struct kw_err *err);

/** Writes the header and starts the thread. @param log borrowed. @return 0 or -errno. */
int agent_recorder_start(struct agent_recorder *recorder,
                         const struct agent_recording_header *header,
                         const struct agent_topology *topology, struct kw_log *log);

/** The method to be asked from now on is agent_recorder_ops with the recorder as its state. */
void agent_recorder_stand_before(struct agent_recorder *recorder,
                                 const struct agent_attribution_ops *method, void *state);

/** Notes every question, and lets the method answer. It cannot be opened or closed. */
extern const struct agent_attribution_ops agent_recorder_ops;

/**
 * All domains of a window were split. Never waits. Allocates only where workloads became more.
 * @param end_ns CLOCK_MONOTONIC.
 */
void agent_recorder_window(struct agent_recorder *recorder, const struct agent_ledger *ledger,
                           uint64_t end_ns, uint64_t interval_ns);

/** Writes what is pending (a pipe that nobody reads gets two seconds), closes and frees. */
void agent_recorder_close(struct agent_recorder **recorder);
