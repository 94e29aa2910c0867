/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "api/node_view.h"
#include "common/snapshot.h"
#include "node-agent/node_snapshot.h"

/** From a snapshot to the documents that leave the agent. Pure; texts are borrowed from the
 * snapshot. */

/**
 * Record of one row.
 * @param containers room for the row's containers; the record refers to them.
 * @param ret borrows everything: not to be cleared.
 */
void agent_view_record(const struct agent_snapshot *snapshot, const struct agent_row *row,
                       struct kw_container_record *containers, struct kw_pod_record *ret);

/** The whole view as JSON: what /v1/pods and --once answer. @param ret caller frees. @return 0,
 * -ENOMEM, -EINVAL. */
int agent_view_encode(const struct agent_snapshot *snapshot, const struct kw_node_info *info,
                      char **ret, size_t *ret_len);

/** Prints what is published as one line. @return 0; -ENODATA nothing is; -EIO; as
 * agent_view_encode. */
int agent_view_print(struct kw_snapshot *snapshots, const struct kw_node_info *info, FILE *out);
