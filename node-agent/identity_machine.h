/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/pod_record.h"
#include "node-agent/identity.h"
#include "node-agent/path_part.h"

/** What a cgroup says of a machine: a virtual one, or a container with an init system of its own. A
 * part of node-agent/identity.c, and for no other. */
struct agent_machine {
    struct agent_part name;     /**< of the path, or of the caller's text */
    enum kw_workload_kind kind; /**< KW_WORKLOAD_VM or KW_WORKLOAD_CONTAINER */
    const char *runtime;        /**< of a container; "" where the path does not say */
};

/**
 * @param before the component above; none: AGENT_PART_NONE. @param part that may be a machine's.
 * @param top it is the second of the path. @param text where an unescaped name is put.
 * @return false where it is no machine's; *ret is then of no use.
 */
bool agent_machine_from_part(struct agent_part before, struct agent_part part, bool top,
                             char text[AGENT_ID_MAX], struct agent_machine *ret);
