/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/err.h"
#include "common/log.h"
#include "vpa-recommender/options.h"

/*
 * The recommender: owns everything that runs.
 */

struct rec_recommender;

/**
 * Makes loop, HTTP port, Redis and, where there is one, the connection to the API server. Blocks
 * the signals that end it, so it comes before any other thread. @param settings, log borrowed for
 * its life.
 * @return 0 or -errno with the cause.
 */
int rec_recommender_new(const struct rec_settings *settings, struct kw_log *log,
                        struct rec_recommender **ret, struct kw_err *err);

/** Runs until SIGTERM or SIGINT. @return 0 or -errno. */
int rec_recommender_run(struct rec_recommender *recommender);
void rec_recommender_free(struct rec_recommender **recommender);
