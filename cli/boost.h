/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/fit.h"

/*
 * Gradient-boosted trees by the XGBoost C library, where that is installed. It is loaded when it is
 * asked for, by kwatt train alone; what it grew is kept as trees of kwatt's own
 * (api/power_model.h). The same rows give the same trees.
 */

struct cli_boost;

/** Loads the library. @return 0; -ENOENT it is not installed, with what to install; -ENOMEM. */
int cli_boost_open(struct cli_boost **ret, struct kw_err *err);
void cli_boost_free(struct cli_boost **boost);

/** A fitter's (cli/fit.h): rising with all features. @param self struct cli_boost. */
int cli_boost_fit(void *self, const struct cli_recording *recording, enum kw_model_part part,
                  const bool *use, struct kw_model *ret, struct kw_err *err);

/**
 * What the library itself says of all rows, by the trees that cli_boost_fit grows of them: for
 * tests. @param ret_w recording->n values. @return as cli_boost_fit.
 */
int cli_boost_predict(struct cli_boost *boost, const struct cli_recording *recording,
                      enum kw_model_part part, float *ret_w, struct kw_err *err);
