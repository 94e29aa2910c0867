/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/bench/extender_rig.h"

/** How long a client with a few names waits while eight others send 5000 whole nodes at a time:
 * prints the row. The extender may use every CPU from then on. */
void extender_beside_large(const struct extender_rig *p);
