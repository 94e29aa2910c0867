/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/conf.h"
#include "common/http_server.h"
#include "common/redis.h"
#include "node-agent/metrics_more.h"
#include "node-agent/pod_source.h"

/** What the operator can choose. Filled by kw_conf_load from agent_program; texts are owned by it.
 */
struct agent_options {
    char *node_name; /**< NULL: host name */
    uint64_t interval_ns;
    char *sysfs_root;
    char *procfs_root;
    char *host_root; /**< "": not looked into */
    char *cgroup_root;
    unsigned outside;    /**< enum agent_outside: what is not below cgroup_root */
    unsigned meter;      /**< index into agent_meter_choices */
    char *model_file;    /**< NULL: none */
    unsigned accounting; /**< index into agent_accounting_choices */
    unsigned requests;   /**< enum agent_requests_choice */
    unsigned counters;   /**< index into agent_auto_choices */
    bool softirq;
    unsigned attribution; /**< index into agent_attribution_choices */
    unsigned idle_policy; /**< enum agent_idle_policy */
    double idle_w;        /**< of all packages; 0: class prior */
    double full_w;
    double sleep_w;               /**< what the node draws asleep; 0: not told */
    double wake_j;                /**< what waking it takes, above its load's; 0: not told */
    double enforce_cap_w;         /**< of all packages; 0: no limit is set */
    char *enforce_cap_record;     /**< file of the limits that were in force before */
    unsigned pods;                /**< enum agent_pods */
    char *kubelet;                /**< its address; NULL: unknown */
    char *kubelet_ca_file;        /**< NULL: the service account's */
    char *kubelet_token_file;     /**< NULL: the service account's */
    char *kubeconfig;             /**< NULL: the service account */
    char *pod_labels;             /**< keys, separated by commas */
    struct kw_redis_access redis; /**< url NULL: no Redis */
    char *listen;                 /**< "": no HTTP */
    struct agent_metrics_more metrics_more;
    uint64_t metrics_processes; /**< how many of them /metrics lists; 0: none, nor looked at */
    struct kw_http_tls_files tls;
    bool seccomp;
    unsigned log_level;          /**< enum kw_log_level */
    char *record;                /**< file; NULL: nothing is recorded; "-": standard output */
    uint64_t record_limit_bytes; /**< of that file */
    char *replay;                /**< recording to run over instead of measuring; NULL: none */
    char *replay_method;         /**< "all" or a method; NULL: the recording's */
    bool replay_rows;            /**< print its seconds as CSV */
    bool json;                   /**< what is replayed, as JSON */
    bool check;
    bool once;
};

/** Which requests are counted. */
enum agent_requests_choice {
    AGENT_REQUESTS_OFF,
    AGENT_REQUESTS_TURNS,
    AGENT_REQUESTS_STATUSES,
    AGENT_REQUESTS__MAX
};

/** What CPU time outside of cgroup_root is. */
enum agent_outside {
    AGENT_OUTSIDE_SYSTEM, /**< the system's: the meter is of the whole machine */
    AGENT_OUTSIDE_ABSENT, /**< another node's: the meter, too, knows only what is below */
    AGENT_OUTSIDE__MAX
};

/** "auto" and the names of agent_meters, agent_accounting_backends, agent_attributions.
 * End with NULL. */
extern const char *const agent_meter_choices[];
extern const char *const agent_accounting_choices[];
extern const char *const agent_attribution_choices[];
/** Names of enum agent_pods. */
extern const char *const agent_pods_choices[];
/** Names of enum agent_requests_choice. */
extern const char *const agent_requests_choices[];
/** What is counted where it can be, or not at all: "auto", "off". */
extern const char *const agent_auto_choices[];
/** Names of enum agent_outside. */
extern const char *const agent_outside_choices[];

/**
 * What no single option shows: a name that is none, folders that are not there (a wrong root looks
 * like a machine without meters), options that contradict each other.
 * @return 0; -EINVAL with the flag, its value and what is allowed; -errno of a folder.
 */
int agent_options_check(const struct agent_options *options, struct kw_err *err);

/** The option table of kwatt-node-agent. */
extern const struct kw_conf_program agent_program;
