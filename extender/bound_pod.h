/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "extender/ledger.h"

/**
 * Reads a Pod as the API server sends it.
 * @param default_mcpu CPU that a pod without requests is taken to use.
 * @param ret set on 1; its uid also on 0, where the pod has one ("" otherwise).
 * @return 1: bound to a node, waiting for its start, and not being deleted; 0: not so; -EBADMSG no
 * Pod, or its uid is none.
 */
int ext_bound_pod_scan(const char *json, size_t len, uint64_t default_mcpu,
                       struct ext_bound_pod *ret);
