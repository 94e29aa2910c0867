/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/node_info.h"
#include "common/buf.h"
#include "common/metrics.h"
#include "node-agent/metrics_more.h"
#include "node-agent/node_snapshot.h"
#include "node-agent/topology.h"

/** What a metrics page is written from. */
struct agent_metrics_input {
    const struct agent_snapshot *snapshot; /**< NULL: nothing sampled yet */
    const struct kw_node_info *info;
    const struct agent_topology *topology; /**< NULL: the CPUs are not listed */
    struct agent_metrics_more more;
    bool has_redis;
    uint64_t batches_written, batches_failed;
};

/**
 * Writes the page. Quantities that Kepler (0.10 and later) exports keep its names and labels; what
 * it has not is named kwatt_. Pure. @return 0 or -ENOMEM.
 */
int agent_metrics_write(const struct agent_metrics_input *input, enum kw_metrics_format format,
                        struct kw_buf *out);
