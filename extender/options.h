/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/conf.h"
#include "common/http_server.h"
#include "common/redis.h"
#include "extender/tiering.h"

/** Settings of kwatt-extender; filled by kw_conf_load from the rows in options.c. */
struct ext_settings {
    char *listen;
    struct kw_http_tls_files tls;
    uint64_t threads;
    uint64_t max_body_bytes;
    uint64_t max_connections;
    uint64_t idle_timeout_ns;
    struct kw_redis_access redis;
    uint64_t redis_timeout_ns;
    uint64_t refresh_ns;
    uint64_t stale_after_ns;
    uint64_t default_cpu_mcpu;
    uint64_t request_use_percent;
    char *own_namespace;
    bool dry_run;
    char *zones_file;
    char *caps_file;
    uint64_t cap_soft_permille;
    uint64_t cap_sigma_permille;
    bool watch_pods;
    bool watch_nodes;
    bool write_headroom;
    bool write_events;
    struct ext_tiering_settings tiers;
    char *kubeconfig;
    bool seccomp;
    unsigned log_level; /**< enum kw_log_level */
};

/** The program's description and rows, for kw_conf_load and kw_conf_free. */
extern const struct kw_conf_program ext_program;
