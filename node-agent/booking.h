/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/quality.h"
#include "node-agent/accounting.h"
#include "node-agent/cgroups.h"
#include "node-agent/ledger.h"

/*
 * From cgroups to workloads: books the CPU time of each cgroup under the workload that its path
 * names, and follows cgroups from their birth to two samples after their end.
 */

struct agent_booking;

struct agent_booking_conf {
    unsigned n_packages;
    const struct agent_accounting_ops *accounting;
    void *accounting_self;
    struct agent_cgroups *cgroups; /**< NULL: no cgroup tree; all is the system's */
    struct agent_ledger *ledger;
    struct agent_requests *requests; /**< NULL: requests are not counted */
};

/** @return 0 or -ENOMEM. */
int agent_booking_new(const struct agent_booking_conf *conf, struct agent_booking **ret);
void agent_booking_free(struct agent_booking **booking);

/** CPU time per package since the last agent_booking_take: what a power model needs before the
 * window is booked. @param counts what else was counted; NULL: not wanted. */
void agent_booking_busy(struct agent_booking *booking, const struct agent_usage *usage,
                        uint64_t busy_ns[AGENT_PACKAGES_MAX],
                        struct agent_counts counts[AGENT_PACKAGES_MAX]);

/**
 * Books a reading into the ledger's present window and lets go of cgroups that ended.
 * @param usage NULL where the reading failed: only births and ends are followed.
 * @param baseline the reading's time belongs to no window: it is noted, not booked.
 * @return 0; -ENOMEM where a new cgroup could not be taken in (its time counts as the system's).
 */
int agent_booking_take(struct agent_booking *booking, const struct agent_usage *usage,
                       bool baseline, uint64_t now_ns, int64_t now_unix_ms);

/** Whose a cgroup is: NULL and NULL where it is the system's. Nothing is referred to anew. */
void agent_booking_owner(const struct agent_booking *booking, uint64_t key,
                         struct agent_workload **ret_workload, struct agent_label **ret_container);

/** Whether hardware counters of the last reading shared their PMU with others. */
bool agent_booking_multiplexed(const struct agent_booking *booking);

/** Books the requests that were answered since the last call; what cannot be read now is booked
 * next time. @return KW_QUALITY_BITs: whether some are of cgroups for which the table had no room;
 * these are nobody's. */
uint32_t agent_booking_serve(struct agent_booking *booking);
