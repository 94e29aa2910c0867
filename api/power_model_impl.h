/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/codec.h"
#include "api/power_model.h"

/*
 * Shared by the files of the power model.
 */

/** kw_model_watts before what cannot be is cut off: may be negative, infinite or no number. */
double kw_model_raw_w(const struct kw_model *model, const double *x);

/** Reads Kepler's weights (root already parsed) into *ret, which is empty. */
void kw_power_model_from_kepler(struct kw_reader *reader, const json_t *root, const char *file_name,
                                struct kw_power_model *ret);
