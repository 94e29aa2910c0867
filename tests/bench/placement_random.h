/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/** Prints what kwatt comes to on fleets drawn at random, and what chance alone comes to.
 * @param quick fewer of them. */
void placement_random_tell(bool quick);
