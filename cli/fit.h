/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/power_model.h"
#include "cli/recording.h"

/*
 * Fits power models to recordings and tells what they miss. Pure.
 */

/** A class prior: what `threads` hardware threads draw with nothing to do, and all busy. */
struct cli_fit_prior {
    uint32_t threads; /**< 0: no prior */
    uint32_t idle_mw, full_mw;
};

/** A way to fit one part to the rows of some groups. */
struct cli_fitter {
    /** @param use by group; NULL: all. @return 0; -errno with the reason. */
    int (*fit)(void *self, const struct cli_recording *recording, enum kw_model_part part,
               const bool *use, struct kw_model *ret, struct kw_err *err);
    void *self;
};

/**
 * Fits one part to the rows of some groups: a sum of rising terms.
 * @param use by group; NULL: all.
 * @return 0; -ENODATA: no rows.
 */
int cli_fit(const struct cli_recording *recording, enum kw_model_part part, const bool *use,
            struct kw_model *ret);

/** The same as a fitter's; self is not used. */
int cli_fit_terms(void *self, const struct cli_recording *recording, enum kw_model_part part,
                  const bool *use, struct kw_model *ret, struct kw_err *err);

/**
 * Mean absolute error of a model on the rows of some groups. Features of the model that the
 * recording does not have are 0. @param ret_rows may be NULL. @return W; 0 where there are no rows.
 */
double cli_fit_mae_w(const struct cli_recording *recording, enum kw_model_part part,
                     const bool *use, const struct kw_model *model, uint64_t *ret_rows);

/**
 * Fits one part to all rows, and states its error: each group is told by a model of all others.
 * @param prior NULL: none.
 * @return 0; -ENODATA: not two groups that have rows; as the fitter.
 */
int cli_fit_validated(const struct cli_recording *recording, enum kw_model_part part,
                      const struct cli_fitter *fitter, const struct cli_fit_prior *prior,
                      struct kw_model *ret, struct kw_err *err);
