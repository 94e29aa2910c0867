/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/http_server.h"
#include "common/snapshot.h"
#include "extender/decisions.h"
#include "extender/outlook.h"
#include "extender/protocol.h"
#include "extender/quotes.h"
#include "extender/rendering.h"
#include "extender/score.h"
#include "extender/snapshot.h"
#include "extender/stats.h"
#include "extender/tally.h"
#include "extender/waiters.h"

/*
 * What runs on the HTTP server's threads. A request takes one of the workspaces (as many as
 * threads, so one is always free), reads the published snapshot, answers, and gives both back: no
 * lock, no log line, no Redis, and no allocation once a workspace has grown to the size of the
 * cluster.
 */

/** Buffers of one request at a time. Zero-initialised is empty. */
struct ext_workspace {
    atomic_flag busy;
    const struct ext_policy *policy; /**< of the request at hand */
    struct ext_finder finder;
    struct ext_args args;
    size_t cap; /**< candidates that the arrays below have room for */
    struct ext_score_scratch *scratch;
    uint8_t *scores;
    struct ext_quotes quotes;
    struct ext_rendering rendering;
};

/** How pods are read; copied from the settings. */
struct ext_policy {
    uint64_t stale_after_ns;
    struct ext_assumptions assumptions;
    char own_namespace[KW_NAMESPACE_MAX]; /**< "": none */
    double cap_sigmas; /**< deviations that a pod's use is raised by under caps */
    bool dry_run;      /**< answer neutrally, and keep what would have been said */
};

struct ext_service {
    struct kw_snapshot *policies; /**< of struct ext_policy; never without one */
    struct kw_snapshot *snapshot; /**< of struct ext_snapshot */
    struct kw_snapshot *profiles; /**< of struct ext_profiles; NULL: none */
    struct ext_tally *tally;      /**< pods let in under caps; NULL: there are no caps */
    struct ext_waiters *waiters;  /**< pods that caps rejected; the same */
    struct ext_stats stats;
    struct ext_decisions *decisions;
    unsigned n_workspaces;
    struct ext_workspace *workspaces;
};

/** @param threads how many may call the handlers at the same time. @return 0 or -ENOMEM (then
 * cleared). */
int ext_service_init(struct ext_service *service, unsigned threads,
                     const struct ext_policy *policy);

/** Replaces the policy: requests at hand go on by the one that they began with. One thread at a
 * time. @return 0 or -ENOMEM, with nothing changed. */
int ext_service_set_policy(struct ext_service *service, const struct ext_policy *policy);

/** No handler may be running, nor an answer be under way. NULL-safe for its parts. */
void ext_service_clear(struct ext_service *service);

/** Longest table of routes. */
#define EXT_ROUTES_MAX 16

/** Fills the routes of the extender. @return how many. */
size_t ext_service_routes(struct ext_service *service, struct kw_http_route routes[EXT_ROUTES_MAX]);

/**
 * Answers one request of a verb; what a route does, without HTTP and clock.
 * @param snapshot may be NULL: nothing is known.
 * @param out empty; the answer, or a short text where the status is not 200.
 * @param lent NULL, or where the answer is, if not in `out`; begins with `body` alone.
 * @return the HTTP status.
 */
unsigned ext_service_lend(struct ext_service *service, enum ext_verb verb,
                          const struct ext_snapshot *snapshot, int64_t now_ns, const char *body,
                          size_t len, struct kw_buf *out, struct ext_lent *lent);

/** The same, with the answer in `out`. */
static inline unsigned ext_service_answer(struct ext_service *service, enum ext_verb verb,
                                          const struct ext_snapshot *snapshot, int64_t now_ns,
                                          const char *body, size_t len, struct kw_buf *out)
{
    return ext_service_lend(service, verb, snapshot, now_ns, body, len, out, NULL);
}
