/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "api/node_view.h"

/**
 * Where one workload's watts come from: its record, and what of its node's sample says how far that
 * is to be trusted. What `kwatt explain --pod --json` prints.
 * @param pod one of the view's. @param ret caller frees. @return 0, -EINVAL, -ENOMEM.
 */
int kw_explanation_encode(const struct kw_node_view *view, const struct kw_pod_record *pod,
                          char **ret, size_t *ret_len);
