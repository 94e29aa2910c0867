/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/advice.h"
#include "api/node_view.h"

/*
 * Values for the tests of the codecs: random but valid, repeatable from a seed. Owned texts are on
 * the heap, so that the codecs' own clear functions free them.
 */

/** xorshift64* (Vigna 2016). */
uint64_t kwt_random(uint64_t *state);

struct kw_sample kwt_sample(uint64_t *state);
struct kw_curve kwt_curve(uint64_t *state);
struct kw_node_info kwt_node_info(uint64_t *state);
struct kw_pod_record kwt_pod_record(uint64_t *state);
struct kw_advice kwt_advice(uint64_t *state);
struct kw_node_view kwt_node_view(uint64_t *state);
