/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/options.h"

#include <stddef.h>

#include "api/extender.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/confine.h"
#include "common/http_rows.h"
#include "common/kube_lease_rows.h"
#include "common/log_rows.h"
#include "common/redis_rows.h"

#define AT(field) offsetof(struct ext_settings, field)

static const struct kw_conf_option rows[] = {
    KW_HTTP_LISTEN_ROW(struct ext_settings, listen, "Serving", "KWATT_EXTENDER_LISTEN", ":9890",
                       "where kube-scheduler asks: " KW_HTTP_LISTEN_FORMS)
        KW_HTTP_TLS_ROWS(struct ext_settings, tls, "Serving"){
            .flag = "threads",
            .env = "KWATT_EXTENDER_THREADS",
            .key = "threads",
            .type = KW_CONF_U64,
            .offset = AT(threads),
            .def = "2",
            .min = 1,
            .max = 64,
            .metavar = "N",
            .help =
                "threads that answer; one kube-scheduler keeps one busy, the rest serve scrapes",
            .group = "Serving"},
    {.flag = "max-body",
     .env = "KWATT_EXTENDER_MAX_BODY",
     .key = "maxBody",
     .type = KW_CONF_BYTES,
     .offset = AT(max_body_bytes),
     /* 5000 whole nodes have 72 MB */
     .def = "128Mi",
     .min = UINT64_C(64) << 10,
     .max = UINT64_C(1) << 30,
     .metavar = "SIZE",
     .help = "largest request; a scheduler without nodeCacheCapable sends 15 kB per node",
     .group = "Serving"},
    {.flag = "max-connections",
     .env = "KWATT_EXTENDER_MAX_CONNECTIONS",
     .key = "maxConnections",
     .type = KW_CONF_U64,
     .offset = AT(max_connections),
     .def = "256",
     .min = 4,
     .max = 65536,
     .metavar = "N",
     .help = "connections at the same time; further ones are closed at once",
     .group = "Serving"},
    {.flag = "idle-timeout",
     .env = "KWATT_EXTENDER_IDLE_TIMEOUT",
     .key = "idleTimeout",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(idle_timeout_ns),
     /* kube-scheduler's client keeps idle connections for 90 s: it should be the one to close */
     .def = "120s",
     .min = KW_NS_PER_S,
     .max = 3600 * KW_NS_PER_S,
     .metavar = "TIME",
     .help = "a connection without progress for this long is closed",
     .group = "Serving"},
    KW_REDIS_ROWS(struct ext_settings, redis, "Redis", "redis://127.0.0.1:6379",
                  "where the node agents publish: " KW_REDIS_URL_FORMS)
        KW_REDIS_TIMEOUT_ROW(struct ext_settings, redis_timeout_ns, "Redis",
                             "2s"){.flag = "refresh",
                                   .env = "KWATT_EXTENDER_REFRESH",
                                   .key = "refresh",
                                   .type = KW_CONF_DURATION_NS,
                                   .offset = AT(refresh_ns),
                                   .def = "1s",
                                   .min = 50 * KW_NS_PER_MS,
                                   .max = 60 * KW_NS_PER_S,
                                   .metavar = "TIME",
                                   .help = "how often the nodes are read from Redis",
                                   .group = "Redis"},
    {.flag = "stale-after",
     .env = "KWATT_EXTENDER_STALE_AFTER",
     .key = "staleAfter",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(stale_after_ns),
     .def = "30s",
     .min = KW_NS_PER_S,
     .max = 3600 * KW_NS_PER_S,
     .metavar = "TIME",
     .help = "a node silent for longer scores neutrally (never before 3 of its own intervals)",
     .group = "Scoring"},
    {.flag = "default-cpu-mcpu",
     .env = "KWATT_EXTENDER_DEFAULT_CPU_MCPU",
     .key = "defaultCpuMcpu",
     .type = KW_CONF_U64,
     .offset = AT(default_cpu_mcpu),
     /* what the scheduler's own resource plugins take for a container without a request */
     .def = "100",
     .min = 1,
     .max = 1000000,
     .metavar = "MCPU",
     .help = "CPU, in thousandths of a core, that a pod without requests is taken to use",
     .group = "Scoring"},
    {.flag = "request-use-percent",
     .env = "KWATT_EXTENDER_REQUEST_USE_PERCENT",
     .key = "requestUsePercent",
     .type = KW_CONF_U64,
     .offset = AT(request_use_percent),
     .def = "100",
     .min = 1,
     .max = 1000,
     .metavar = "PERCENT",
     .help =
         "part of its CPU requests that a pod is taken to use, where nothing was learnt of its\n"
         "workload",
     .group = "Scoring"},
    {.flag = "zones",
     .env = "KWATT_EXTENDER_ZONES",
     .key = "zones",
     .type = KW_CONF_STRING,
     .offset = AT(zones_file),
     .metavar = "FILE",
     .help = "what energy costs by zone, in carbon or money: lines \"unit = TEXT\", \"source = "
             "TEXT\",\n"
             "then \"ZONE, VALUE\"; read again when it changes. A node's zone is its label\n"
             "kwatt.io/carbon-zone or topology.kubernetes.io/zone; with --watch-nodes",
     .group = "Scoring"},
    {.flag = "caps",
     .env = "KWATT_EXTENDER_CAPS",
     .key = "caps",
     .type = KW_CONF_STRING,
     .offset = AT(caps_file),
     .metavar = "FILE",
     .help = "power caps of the cluster and of power domains (YAML: cluster: 40k, domains:\n"
             "{dc1/row2: 16000}); read again when it changes. Caps of nodes are annotations",
     .group = "Caps"},
    {.flag = "cap-soft-permille",
     .env = "KWATT_EXTENDER_CAP_SOFT_PERMILLE",
     .key = "capSoftPermille",
     .type = KW_CONF_U64,
     .offset = AT(cap_soft_permille),
     .def = "900",
     .min = 1,
     .max = 1000,
     .metavar = "N",
     .help = "soft threshold of a cap without one, in thousandths: above it nodes score less, and\n"
             "below it a cap that was passed opens again",
     .group = "Caps"},
    {.flag = "cap-sigma-permille",
     .env = "KWATT_EXTENDER_CAP_SIGMA_PERMILLE",
     .key = "capSigmaPermille",
     .type = KW_CONF_U64,
     .offset = AT(cap_sigma_permille),
     /* `scripts/bench caps`: no cap is passed in weeks with them where pods wander by a tenth of
      * what they ask for, and some are without */
     .def = "2500",
     .min = 0,
     .max = 10000,
     .metavar = "N",
     .help = "thousandths of a standard deviation of what nodes run that predictions are raised by",
     .group = "Caps"},
    {.flag = "own-namespace",
     .env = "KWATT_NAMESPACE",
     .key = "ownNamespace",
     .type = KW_CONF_STRING,
     .offset = AT(own_namespace),
     .def = "kwatt",
     .max = KW_NAMESPACE_MAX - 1,
     .metavar = "NAME",
     .help = "pods of this namespace (kwatt's own) are placed without kwatt's opinion",
     .group = "Scoring"},
    {.flag = "dry-run",
     .env = "KWATT_EXTENDER_DRY_RUN",
     .key = "dryRun",
     .type = KW_CONF_BOOL,
     .offset = AT(dry_run),
     .def = "false",
     .help = "score each node 5, so that nothing is placed by kwatt, and keep for /explain what\n"
             "would have been said",
     .group = "Scoring"},
    {.flag = "watch-pods",
     .env = "KWATT_EXTENDER_WATCH_PODS",
     .key = "watchPods",
     .type = KW_CONF_BOOL,
     .offset = AT(watch_pods),
     .def = "false",
     .help =
         "watch the pods that start, so that one placed a moment ago counts on its node before\n"
         "it is measured there; wants list and watch of pods",
     .group = "Kubernetes"},
    {.flag = "watch-nodes",
     .env = "KWATT_EXTENDER_WATCH_NODES",
     .key = "watchNodes",
     .type = KW_CONF_BOOL,
     .offset = AT(watch_nodes),
     .def = "false",
     .help = "watch nodes for their power caps, domains and zones (kwatt.io/power-cap-watts,\n"
             "kwatt.io/power-domain, kwatt.io/falling-asleep, kwatt.io/carbon-zone); wants list "
             "and watch of nodes",
     .group = "Kubernetes"},
    {.flag = "write-headroom",
     .env = "KWATT_EXTENDER_WRITE_HEADROOM",
     .key = "writeHeadroom",
     .type = KW_CONF_BOOL,
     .offset = AT(write_headroom),
     .def = "false",
     .help =
         "write the watts that are left under caps to each node (kwatt.io/headroom-watts), which\n"
         "makes kube-scheduler try rejected pods again; with --watch-nodes; wants patch of nodes",
     .group = "Kubernetes"},
    {.flag = "events",
     .env = "KWATT_EXTENDER_EVENTS",
     .key = "events",
     .type = KW_CONF_BOOL,
     .offset = AT(write_events),
     .def = "false",
     .help = "say by Events which pods caps leave without a node, where the others would add the\n"
             "fewest watts, and which labels of nodes are wrong; with --watch-nodes; wants create\n"
             "and patch of events",
     .group = "Kubernetes"},
    {.flag = "power-tiers",
     .env = "KWATT_EXTENDER_POWER_TIERS",
     .key = "powerTiers.enabled",
     .type = KW_CONF_BOOL,
     .offset = AT(tiers.enabled),
     .def = "false",
     .help = "label each node by how dear the typical pod would be there (kwatt.io/power-tier, 0 "
             "to 9), for\n"
             "placement without a call per pod (kwatt scheduler-config --tiers); with "
             "--watch-nodes; wants\n"
             "patch of nodes. Several replicas want --leader-elect",
     .group = "Tiers"},
    {.flag = "power-tiers-every",
     .env = "KWATT_EXTENDER_POWER_TIERS_EVERY",
     .key = "powerTiers.every",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(tiers.every_ns),
     .def = "60s",
     .min = KW_NS_PER_S,
     .max = 3600 * KW_NS_PER_S,
     .metavar = "TIME",
     .help = "least time between two changes of a node's label; a step of one tier must last so "
             "long, too",
     .group = "Tiers"},
    {.flag = "power-tiers-per-second",
     .env = "KWATT_EXTENDER_POWER_TIERS_PER_SECOND",
     .key = "powerTiers.perSecond",
     .type = KW_CONF_U64,
     .offset = AT(tiers.per_s),
     .def = "10",
     .min = 1,
     .max = EXT_TIER_WRITES_MAX,
     .metavar = "N",
     .help = "most labels written in a second, those first that are wrong by most",
     .group = "Tiers"},
    {.flag = "power-tiers-mcpu",
     .env = "KWATT_EXTENDER_POWER_TIERS_MCPU",
     .key = "powerTiers.mcpu",
     .type = KW_CONF_U64,
     .offset = AT(tiers.mcpu),
     .def = "0",
     .max = 1000000,
     .metavar = "MCPU",
     .help = "CPU, in thousandths of a core, of the pod that tiers are made for; 0: the median of "
             "those that\n"
             "started last (with --watch-pods), and --default-cpu-mcpu before any was seen",
     .group = "Tiers"},
    KW_LEASE_ROWS(struct ext_settings, tiers.lease, "Tiers", "kwatt-extender"){
        .flag = "kubeconfig",
        .env = "KWATT_KUBECONFIG",
        .key = "kubeconfig",
        .type = KW_CONF_STRING,
        .offset = AT(kubeconfig),
        .metavar = "FILE",
        .help = "how to reach the API server; default: the service account when running in a pod",
        .group = "Kubernetes"},
    KW_CONFINE_ROW(struct ext_settings, seccomp, "Program")
        KW_LOG_ROW(struct ext_settings, log_level, "Logging")};

const struct kw_conf_program ext_program = {
    .name = "kwatt-extender",
    .synopsis = "[options]",
    .summary =
        "Scheduler extender: scores the nodes that kube-scheduler proposes for a pod by the\n"
        "watts that the pod would add there. Answers POST /filter, /prioritize and\n"
        "/preempt (under any path prefix); GET /explain (the last decisions), /healthz, /readyz\n"
        "and /metrics. Without Redis, or for nodes that it knows nothing of, it stays neutral; it\n"
        "never stops scheduling. With --watch-pods, a pod counts on its node from the moment that\n"
        "it is bound to it. At SIGHUP it reads --config again.",
    .examples =
        "  kwatt-extender --redis unix:///run/kwatt/redis.sock --listen 127.0.0.1:9890\n"
        "  kwatt-extender --redis redis://extender@redis:6379 --redis-password-file /secret\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
};
