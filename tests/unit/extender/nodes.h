/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/curve.h"
#include "extender/snapshot.h"

/* Curves and nodes for the tests of the extender; random ones are repeatable from a seed (not 0).
 */

/** xorshift64* (Vigna 2016). */
uint64_t kwt_next(uint64_t *state);

/** Eleven knots of a two-socket server: 128 W idle, 442 W at 60 %, 817 W full. */
struct kw_curve kwt_server_curve(uint64_t capacity_mcpu);

/** Any curve that kw_curve_check accepts. */
struct kw_curve kwt_random_curve(uint64_t *state);

/** A node that was seen at time 0. @param name static. */
struct ext_node kwt_node(const char *name, const struct kw_curve *curve, double used_mcpu);
