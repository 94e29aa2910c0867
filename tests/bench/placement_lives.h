/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/** Prints what it is worth to know how long pods live. @param quick one seed. */
void placement_lives_tell(bool quick);
