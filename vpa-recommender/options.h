/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/conf.h"
#include "common/http_server.h"
#include "common/kube_lease.h"
#include "common/redis.h"

/** Settings of kwatt-vpa-recommender; filled by kw_conf_load from the rows in options.c. */
struct rec_settings {
    char *listen;
    struct kw_http_tls_files tls;
    struct kw_redis_access redis;
    uint64_t redis_timeout_ns;
    char *kubeconfig; /**< NULL: in-cluster if there */
    char *context;
    char *recommender_name;
    char *vpa_object_namespace; /**< NULL: all */
    struct kw_kube_lease_settings lease;
    uint64_t interval_ns;
    uint64_t sample_interval_ns;
    bool seccomp;
    unsigned log_level; /**< enum kw_log_level */
};

/** The program's description and rows, for kw_conf_load and kw_conf_free. */
extern const struct kw_conf_program rec_program;
