/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kube_lease.h"
#include "common/kube_lease_news.h"
#include "common/log.h"
#include "vpa-recommender/options.h"
#include "vpa-recommender/stats.h"

/*
 * Whether this replica leads, and saying so.
 */

/** Zero-initialised: no election, so that it leads. */
struct rec_leading {
    struct kw_kube_lease *lease; /**< NULL: no election */
    struct kw_lease_seen seen;   /**< as it was told */
};

/** Takes part in the election where that is wanted. @param wake called on another thread when
 * something has changed. @return 0; -ENOENT there is no API server, and none was named; as
 * kw_kube_lease_start. */
int rec_leading_start(struct rec_leading *leading, const struct rec_settings *settings,
                      void (*wake)(void *user), void *user, struct kw_err *err);

/** Says who leads, once each time that it is another. @return whether this replica does since just
 * now. */
bool rec_leading_tell(struct rec_leading *leading, struct kw_log *log);

/** Fills leader and elected. From any thread. */
void rec_leading_stats(const struct rec_leading *leading, struct rec_stats *stats);
