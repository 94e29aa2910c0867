/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/node_info.h"
#include "common/err.h"
#include "common/http_server.h"
#include "common/log.h"
#include "common/snapshot.h"
#include "node-agent/metrics_more.h"
#include "node-agent/publisher.h"
#include "node-agent/topology.h"

/*
 * HTTP side of the agent: /metrics, /healthz, /readyz, /v1/pods. Handlers read the published
 * snapshot and touch nothing else.
 */

/** Threads that answer. Each may hold one snapshot. One is enough: it waits for no client, and a
 * page of 1000 pods takes a millisecond. Of several, each connection wakes all. */
#define AGENT_EXPORTER_THREADS 1

struct agent_exporter;

struct agent_exporter_conf {
    const char *listen; /**< as kw_http_server_conf.listen */
    struct kw_http_tls_files tls;
    const struct kw_node_info *info;       /**< borrowed */
    const struct agent_topology *topology; /**< borrowed; NULL: /metrics does not list the CPUs */
    struct kw_snapshot *snapshots;         /**< of struct agent_snapshot; borrowed */
    uint64_t interval_ns;
    const struct agent_publisher *publisher; /**< NULL: no Redis */
    struct agent_metrics_more more;          /**< what /metrics lists, too */
    struct kw_log *log;
};

/** Starts serving; returns at once. @return 0 or -errno with the cause. */
int agent_exporter_start(const struct agent_exporter_conf *conf, struct agent_exporter **ret,
                         struct kw_err *err);

/** Version of the HTTP library where kwatt was not tried with it (kw_http_server_untried); NULL
 * where it was. */
const char *agent_exporter_untried_library(const struct agent_exporter *exporter);

/** What it does about TLS (kw_http_server_tls). */
const char *agent_exporter_tls(const struct agent_exporter *exporter);

/** The loop took a sample at this CLOCK_MONOTONIC time: what /healthz judges by. From the loop's
 * thread. */
void agent_exporter_beat(struct agent_exporter *exporter, uint64_t now_ns);

/** Port in use. */
uint16_t agent_exporter_port(const struct agent_exporter *exporter);

/** Lets answers at hand end, then frees. NULL-safe; nulls. */
void agent_exporter_stop(struct agent_exporter **exporter);
