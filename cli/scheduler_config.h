/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/buf.h"
#include "common/http_client.h"

/**
 * How loud kwatt is among the scheduler's own plugins. Its score of 0..10 counts weight x 10
 * points; NodeResourcesFit (least allocated) and NodeResourcesBalancedAllocation work against
 * filling nodes with 100 points each: 3 outweighs both together.
 */
#define CLI_SCHEDULER_WEIGHT       "3"
/** The extender answers within a few milliseconds; the scheduler's own default is 5 s. */
#define CLI_SCHEDULER_HTTP_TIMEOUT "200ms"

/** What a KubeSchedulerConfiguration is written from. */
struct cli_scheduler_facts {
    const char *url;  /**< urlPrefix, without trailing slash */
    const char *from; /**< where it is from: a comment */
    /** how it is met by HTTPS, files as the scheduler sees them, any NULL or ""; NULL: by HTTP */
    const struct kw_http_client_tls *tls;
    const char *scheduler_name; /**< of the profile */
    const char *kubeconfig;     /**< of the scheduler; NULL or "": its service account */
    const char *http_timeout;   /**< as Go writes durations */
    uint64_t weight;
    bool filter; /**< ask the extender's filter too */
};

/** Writes the configuration, with the reason of each choice as comments. */
void cli_scheduler_write(const struct cli_scheduler_facts *facts, struct kw_buf *out);

/** The same for a scheduler that goes by the tiers of nodes and asks nobody: of the facts, the
 * profile's name, the kubeconfig and the weight. */
void cli_scheduler_write_tiers(const struct cli_scheduler_facts *facts, struct kw_buf *out);
