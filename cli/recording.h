/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/power_model.h"
#include "common/err.h"

/*
 * Recordings of what CPUs did and what the machine drew meanwhile, as CSV: a line of names, then a
 * line for each interval. Columns (docs/power-models.md): features by the names of
 * kw_model_feature_name, package_w, dram_w, platform_w, and machine_threads. Others are passed
 * over.
 */

#define CLI_RECORDING_FEATURES_MAX 4 /* all that kwatt knows */
#define CLI_RECORDING_FILE_MAX     (64u << 20)

/** Rows of one or several files. Zeros: none yet; the first file then decides on the columns. */
struct cli_recording {
    size_t n_features;
    const char *features[CLI_RECORDING_FEATURES_MAX]; /**< static */
    bool chosen;     /**< somebody asked for these: a model goes by all of them */
    unsigned parts;  /**< bit of each enum kw_model_part that is recorded */
    size_t n, cap;   /**< rows */
    double *x;       /**< n_features a row */
    double *watts;   /**< KW_MODEL__MAX a row */
    uint32_t *group; /**< of a row: index of its name */
    size_t n_groups;
    char groups[KW_MODEL_GROUPS_MAX][KW_MODEL_NAME_MAX + 1];
    bool timed; /**< rows follow each other in time, and nothing says what ran: cuts make sense */
    size_t n_skipped; /**< rows in which a value was missing */
    uint32_t threads; /**< hardware threads of the machine; 0: no row says */
};

/**
 * Chooses the features before the first file. @param names separated by commas.
 * @return 0; -EINVAL with the reason.
 */
int cli_recording_choose(struct cli_recording *recording, const char *names, struct kw_err *err);

/**
 * Adds the rows of a file. A row that lacks a value is passed over and counted.
 * @param csv `len` bytes that need no terminator.
 * @param group_column column whose text is the group of a row; NULL: all rows are of `group`.
 * @return 0; -EBADMSG with line and column, or what is missing; -ENOMEM. The rows are of no use
 * after an error.
 */
int cli_recording_add(struct cli_recording *recording, const char *csv, size_t len,
                      const char *group_column, const char *group, struct kw_err *err);

/** Cuts the rows of a recording that has one group only, and of which the rows follow each other in
 * time, into consecutive groups. @return whether it did. */
bool cli_recording_cut(struct cli_recording *recording, size_t parts);

/** Frees the rows and leaves none. */
void cli_recording_free(struct cli_recording *recording);
