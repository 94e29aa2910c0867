/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/curve_feed.h"
#include "node-agent/period.h"
#include "node-agent/sampler.h"
#include "node-agent/self_cost.h"

/* Shared by the files of the sampler: windows, what is shown of them, what is kept over restarts.
 */

struct agent_sampler {
    struct agent_sampler_conf conf;
    void *method;
    /* whom energy is split by: the method, or a recorder before it */
    const struct agent_attribution_ops *splitter;
    void *splitter_self;
    struct agent_idle_shares idle;
    struct agent_ledger *ledger;
    struct agent_booking *booking;
    struct agent_snapshot_pool *pool;
    struct agent_curve_feed curve;
    struct agent_curve_basis
        basis; /* of the window taken last; work and its capacity at all times */
    struct agent_usage usage;
    struct agent_metering_window metered;
    uint64_t epoch, seq;
    uint64_t last_ns;       /* monotonic, end of the last window */
    uint64_t last_ahead_ns; /* boot clock - monotonic clock then */
    struct agent_self_cost self;
    double node_mw; /* EWMA */
    uint64_t watched_ns;
    struct agent_period period; /* since the sample shown last */
    uint64_t window_ns;         /* nominal length of the windows now */
    bool ever[AGENT_SLOTS_MAX]; /* slot was metered in this epoch */
    uint32_t package_ids[AGENT_PACKAGES_MAX];
    uint64_t idle_mw[AGENT_SLOTS_MAX], idle_sigma_mw[AGENT_SLOTS_MAX];
    uint64_t used_mcpu, work_mcpu;
    uint64_t overflow_ns; /* of the overflow key's row */
    size_t memory_cursor;
};

/** The method's state is this one from now on. */
void agent_sampler_choose_splitter(struct agent_sampler *sampler);

/** Asks for the names of workloads that are no pods. */
void agent_sampler_ask_names(struct agent_sampler *sampler, uint64_t now_ns);
