/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/booking.h"
#include "node-agent/idle_policy.h"
#include "node-agent/idle_prior.h"
#include "node-agent/lookup.h"
#include "node-agent/metering.h"
#include "node-agent/node_snapshot.h"
#include "node-agent/pod_source.h"
#include "node-agent/process_watch.h"
#include "node-agent/recorder.h"

/*
 * Windows and samples of the node: a window flushes the accounting and reads the meter back to
 * back, books CPU time under workloads, splits each domain's energy and learns the power curve; a
 * snapshot shows what the windows since the last one add up to. Belongs to one thread. Takes no
 * ownership of what it is given.
 */

struct agent_sampler_conf {
    const struct agent_topology *topology;
    const struct agent_accounting_ops *accounting;
    void *accounting_self;
    struct agent_cgroups *cgroups; /**< NULL: no cgroup tree */
    bool part; /**< what is not in the tree of cgroups is not of this node, not even the system's */
    struct agent_pod_source *pods;         /**< NULL: pods go by their uid */
    struct agent_lookup *lookup;           /**< NULL: others go by their cgroups */
    struct agent_requests *requests;       /**< NULL: not counted */
    struct agent_process_watch *processes; /**< NULL: they are not looked at */
    struct agent_metering *metering;
    const struct agent_attribution_ops *method;
    struct agent_recorder *recorder; /**< NULL: nothing is recorded */
    struct agent_idle_prior prior;   /**< its topology is the one above */
    enum agent_idle_policy idle_policy;
    double sleep_w, wake_j; /**< as of struct agent_options */
    const char *node;       /**< borrowed for the life of the sampler, as is boot_id */
    const char *boot_id;
};

struct agent_sampler;

/** Takes the baseline: what was used and drawn before counts for nothing. @return 0 or -errno. */
int agent_sampler_new(const struct agent_sampler_conf *conf, struct agent_sampler **ret);
void agent_sampler_free(struct agent_sampler **sampler);

/** What went wrong or changed in a window, for the owner's log. */
struct agent_sample_notes {
    int accounting_error; /**< the reading failed: energy of the window is unattributed */
    int meter_error;      /**< no domain could be read */
    int booking_error;
    int cgroups_error;
    bool meter_changed;
    bool meter_frozen;     /**< a counter does not count: some or all energy is missing */
    bool meter_doubtful;   /**< meters contradict each other */
    size_t meter_left_out; /**< domains of the machine that are not counted, for want of room */
};

/**
 * Takes a window. Allocates only where workloads or zones became more.
 * @param window_ns nominal length; one that took much longer is flagged as a gap.
 */
void agent_sampler_window(struct agent_sampler *sampler, uint64_t window_ns,
                          struct agent_sample_notes *ret_notes);

/** Appends what the method has learnt. @return as agent_learnt_save. */
int agent_sampler_remember(struct agent_sampler *sampler, struct kw_buf *out);

/** Goes on from what was learnt before, instead of what was learnt since the start; not beside a
 * recorder, whose file would not hold it. @return as agent_learnt_load; -ENOTSUP. */
int agent_sampler_recall(struct agent_sampler *sampler, const void *bytes, size_t len,
                         int64_t *ret_age_ms, struct kw_err *err);

/**
 * Makes a snapshot of all windows so far, those since the last one as its own. Allocates only where
 * workloads or readers' snapshots became more.
 * @param ret for kw_snapshot_publish, or agent_snapshot_recycle.
 * @return 0; -ENOMEM (the energies are booked all the same; the next one shows them).
 */
int agent_sampler_show(struct agent_sampler *sampler, struct agent_snapshot **ret);
