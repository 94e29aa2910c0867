/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/codec.h"
#include "api/power_model.h"

/*
 * Shared by the files of the power model.
 */

/** kw_model_watts before what cannot be is cut off: may be negative, infinite or no number. */
double kw_model_raw_w(const struct kw_model *model, const double *x);

#define KW_MODEL_SCALE_MIN 1e-9
#define KW_MODEL_SCALE_MAX 1e18

/** The leaves of all trees at x. */
double kw_trees_w(const struct kw_model_trees *trees, const double *x);

/** Whether trees can be gone down and rise with all of `n_features`, and their numbers are in
 * range. */
bool kw_trees_are_sound(const struct kw_model_trees *trees, size_t n_features);

/** Trees of kwatt's format: an array of arrays of nodes, [feature, below, left, right] or [watts].
 */
void kw_trees_from_json(struct kw_reader *reader, const json_t *array, size_t n_features,
                        struct kw_model_trees *ret);
json_t *kw_trees_to_json(const struct kw_model_trees *trees, int *rc);

/** Reads Kepler's weights (root already parsed) into *ret, which is empty. */
void kw_power_model_from_kepler(struct kw_reader *reader, const json_t *root, const char *file_name,
                                struct kw_power_model *ret);
