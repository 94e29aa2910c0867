/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "extender/ledger.h"
#include "extender/outlook.h"

/**
 * Reads a Pod as the API server sends it.
 * @param assumptions, profiles as ext_outlook_find: the pod counts for what a request would have
 * expected of it.
 * @param ret set on 1; its uid also on 0, where the pod has one ("" otherwise).
 * @return 1: bound to a node, waiting for its start, and not being deleted; 0: not so; -EBADMSG no
 * Pod, or its uid is none.
 */
int ext_bound_pod_scan(const char *json, size_t len, const struct ext_assumptions *assumptions,
                       const struct ext_profiles *profiles, struct ext_bound_pod *ret);
