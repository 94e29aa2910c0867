/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/counter.h"
#include "node-agent/meter.h"

/*
 * A meter that is open, with a counter beside each of its domains: turns raw readings into the
 * energy of windows. Read with the sample or in a thread of its own, as the meter asks for.
 */

/** What a domain did in the last window. */
struct agent_source_step {
    const struct agent_domain *domain;
    struct agent_counter_step step;
    int error;              /**< of the reading; 0: read */
    uint64_t t_ns;          /**< CLOCK_MONOTONIC of the reading behind the counter; 0: none yet */
    bool stale;             /**< the reading is older than its meter should let it become */
    uint32_t still_windows; /**< windows in a row in which the counter did not move */
    uint64_t moved_ns;      /**< of the caller's clock: when it was last seen to move */
};

struct agent_source;

/** @return 0; the error of the meter, with cause and remedy; -ENOMEM. */
int agent_source_open(const struct agent_meter_ops *ops, const struct agent_meter_conf *conf,
                      struct agent_source **ret, struct kw_err *err);
void agent_source_close(struct agent_source **source);

/** Its meter. */
const struct agent_meter_ops *agent_source_ops(const struct agent_source *source);

/**
 * Reads the meter. Allocates nothing.
 * @param load, slept_ns as agent_metering_read.
 * @return 0; -errno where nothing could be read.
 */
int agent_source_read(struct agent_source *source, const struct agent_meter_load *load,
                      uint64_t now_ns, uint64_t slept_ns);

/** Steps of the last read, one a domain, until the next read or rescan. @return their number. */
size_t agent_source_steps(const struct agent_source *source, const struct agent_source_step **ret);

/** Looks for domains that came or went. A domain that comes back goes on from where it was. */
void agent_source_rescan(struct agent_source *source);

/** Domains of its meter. @return their number. */
size_t agent_source_domains(const struct agent_source *source, const struct agent_domain **ret);

/** Domains that the meter has no room for. */
size_t agent_source_left_out(const struct agent_source *source);
