/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/kube_lease.h"
#include "common/log.h"

/*
 * What is new about a lease since it was looked at last, for programs to say once. Pure.
 */

enum kw_lease_news {
    KW_LEASE_SAME,
    KW_LEASE_TAKEN,    /**< this replica holds it */
    KW_LEASE_LOST,     /**< and does no longer: status.error, or another took it: status.holder */
    KW_LEASE_OTHERS,   /**< another one holds it: status.holder */
    KW_LEASE_UNUSABLE, /**< nobody here can tell: status.error */
    KW_LEASE_NEWS__MAX
};

/** The lease as it was looked at last; zero-initialised: not yet. */
struct kw_lease_seen {
    bool held, down;
    char holder[256];
};

/** @return the first of them that is new. */
enum kw_lease_news kw_lease_news(struct kw_lease_seen *seen,
                                 const struct kw_kube_lease_status *status);

/** What a program says of each. */
struct kw_lease_words {
    const char *taken, *lost, *others, *unusable;
};

/** A line for its log, beside the lease's name. Texts are borrowed from words and status. */
struct kw_lease_line {
    enum kw_log_level level;
    const char *text;    /**< NULL: nothing is to be said */
    struct kw_field why; /**< "error", or "leader" where nothing failed */
};

/** @return the line of what is new in a status. */
struct kw_lease_line kw_lease_line(enum kw_lease_news news, const struct kw_lease_words *words,
                                   const struct kw_kube_lease_status *status);

/** How long a call may take, so that a write that was begun as holder has ended before another can
 * hold the lease. @return 0: as long as any, there is no election. */
uint32_t kw_lease_timeout_ms(const struct kw_kube_lease_settings *settings);
