/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/options.h"

/** Where each reader looks. Texts are borrowed. */
struct agent_roots {
    const char *sysfs;        /**< meters, topology */
    const char *cgroup_sysfs; /**< fs/cgroup: the same if it has one, else this machine's */
    const char *procfs;
};

/** A fixture tree of meters has seldom a cgroup tree in it, and is then meant to be used with the
 * real one. @return 0 or -ENAMETOOLONG. */
int agent_roots_find(const struct agent_options *options, struct agent_roots *ret);
