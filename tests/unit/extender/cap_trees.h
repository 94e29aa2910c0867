/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "extender/caps.h"

/** Caps as from a file for a cluster of 800 W, or the test fails. @return owned by the caller. */
struct ext_cap_tree *kwt_cap_tree(const char *text);
