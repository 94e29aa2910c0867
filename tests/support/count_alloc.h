/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Counts allocations. The test links with -Wl,--wrap=malloc and so on (see its CMakeLists.txt);
 * what shared libraries allocate inside themselves does not count.
 */

/** Allocations so far, by any thread. */
size_t kwt_allocations(void);
