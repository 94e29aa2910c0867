/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/extender.h"
#include "common/json_scan.h"

/**
 * Reads the Pod that comes next in `json`, in the same pass as the rest of the request: what
 * api/extender.h describes and kw_extender_args_decode reads from a tree. Allocates nothing.
 * @param ret defaults where the value is null.
 * @return 0; -EBADMSG malformed JSON (json->error says how); -EINVAL neither an object nor null.
 */
int ext_pod_scan(struct kw_json *json, struct kw_extender_pod *ret);
