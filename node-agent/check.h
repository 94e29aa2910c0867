/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "node-agent/options.h"

/**
 * Prints what this machine offers, one line per item:
 *     ok|degraded|missing TAB item TAB detail TAB remedy
 * Opens and closes each backend for real. Changes nothing.
 * @return 0 or -errno where nothing could be said.
 */
int agent_check(const struct agent_options *options, FILE *out);

/** The part of it that is about power meters. Reads sysfs_root, procfs_root, meter and the model's
 * watts of the options. */
int agent_check_meters(const struct agent_options *options, FILE *out);
