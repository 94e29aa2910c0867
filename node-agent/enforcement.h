/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "node-agent/topology.h"

/*
 * A node's power cap, enforced: the long-term limits of its CPU packages are set at the start, and
 * what they were before is put back at the end.
 */

struct agent_enforcement;

struct agent_enforcement_conf {
    const char *sysfs_root;
    const struct agent_topology *topology;
    double cap_w;            /**< of all CPU packages; 0: none */
    const char *record_path; /**< file that keeps the former limits (node-agent/limit_record.h) */
    const char *boot_id;     /**< borrowed until the end */
    struct kw_log *log;      /**< borrowed until the end */
};

/**
 * Sets the limits, all of them or none; to be called before privileges are given up. Without a cap
 * it only puts back what an agent left that was killed, if there is such a record, and *ret stays
 * NULL; that it cannot is logged and no failure.
 * @return 0; -errno with the cause: nothing has changed, but that limits of a killed agent are put
 *         back.
 */
int agent_enforcement_start(const struct agent_enforcement_conf *conf,
                            struct agent_enforcement **ret, struct kw_err *err);

/** What the packages' limits add up to, read anew; logs once where somebody else has changed one.
 * @return microwatts; 0: none is set (NULL), or not all can be read. */
uint64_t agent_enforcement_look(struct agent_enforcement *enforcement);

/** Puts the former limits back, but where somebody else has changed one meanwhile. What cannot be
 * put back stays recorded, for the next start. NULL-safe; nulls. */
void agent_enforcement_stop(struct agent_enforcement **enforcement);
