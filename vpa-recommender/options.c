/* SPDX-License-Identifier: Apache-2.0 */
#include "vpa-recommender/options.h"

#include <stddef.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/confine.h"
#include "common/http_rows.h"
#include "common/kube_lease_rows.h"
#include "common/log_rows.h"
#include "common/redis_rows.h"

#define AT(field) offsetof(struct rec_settings, field)

static const struct kw_conf_option rows[] = {
    KW_HTTP_LISTEN_ROW(struct rec_settings, listen, "Serving", "KWATT_RECOMMENDER_LISTEN", ":9892",
                       "where /metrics, /healthz and /readyz are: " KW_HTTP_LISTEN_FORMS)
        KW_HTTP_TLS_ROWS(struct rec_settings, tls, "Serving")
            KW_REDIS_ROWS(struct rec_settings, redis, "Redis", "redis://127.0.0.1:6379",
                          "where the agents publish: " KW_REDIS_URL_FORMS)
                KW_REDIS_TIMEOUT_ROW(struct rec_settings, redis_timeout_ns, "Redis",
                                     "5s"){.flag = "kubeconfig",
                                           .env = "KWATT_KUBECONFIG",
                                           .key = "kubernetes.kubeconfig",
                                           .type = KW_CONF_STRING,
                                           .offset = AT(kubeconfig),
                                           .metavar = "FILE",
                                           .help = "kubeconfig of the API server; default: the "
                                                   "service account when running in a pod.\n"
                                                   "Without either, advice for the workloads of "
                                                   "this machine goes to Redis instead.\n"
                                                   "$KUBECONFIG is not read: it may point anywhere",
                                           .group = "Kubernetes"},
    {.flag = "context",
     .env = "KWATT_CONTEXT",
     .key = "kubernetes.context",
     .type = KW_CONF_STRING,
     .offset = AT(context),
     .metavar = "NAME",
     .help = "context of the kubeconfig; default: its current-context",
     .group = "Kubernetes"},
    {.flag = "recommender-name",
     .env = "KWATT_RECOMMENDER_NAME",
     .key = "recommenderName",
     .type = KW_CONF_STRING,
     .offset = AT(recommender_name),
     .def = "kwatt",
     .metavar = "NAME",
     .help = "takes the VPAs that have this name in spec.recommenders[]",
     .group = "Kubernetes"},
    {.flag = "vpa-object-namespace",
     .env = "KWATT_VPA_OBJECT_NAMESPACE",
     .key = "vpaObjectNamespace",
     .type = KW_CONF_STRING,
     .offset = AT(vpa_object_namespace),
     .metavar = "NAMESPACE",
     .help = "looks at the VPAs and pods of this namespace alone; default: all",
     .group = "Kubernetes"},
    KW_LEASE_ROWS(struct rec_settings, lease, "Leader election", "kwatt-vpa-recommender"){
        .flag = "interval",
        .env = "KWATT_RECOMMENDER_INTERVAL",
        .key = "interval",
        .type = KW_CONF_DURATION_NS,
        .offset = AT(interval_ns),
        .def = "60s",
        .min = KW_NS_PER_S,
        .max = 3600 * KW_NS_PER_S,
        .metavar = "TIME",
        .help = "time between two loops; each reads what the agents published and gives advice",
        .group = "Advice"},
    {.flag = "sample-interval",
     .env = "KWATT_RECOMMENDER_SAMPLE_INTERVAL",
     .key = "sampleInterval",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(sample_interval_ns),
     .def = "60s",
     .min = KW_NS_PER_S,
     .max = 3600 * KW_NS_PER_S,
     .metavar = "TIME",
     .help = "time between two CPU samples of a container, whatever the loop: the confidence of\n"
             "the stock algorithm takes one a minute for granted. Only a container's very first\n"
             "sample is taken sooner",
     .group = "Advice"},
    KW_CONFINE_ROW(struct rec_settings, seccomp, "Program")
        KW_LOG_ROW(struct rec_settings, log_level, "Logging")};

const struct kw_conf_program rec_program = {
    .name = "kwatt-vpa-recommender",
    .synopsis = "[options]",
    .summary =
        "Right-sizes containers: an alternative VPA recommender. It takes the VPAs that name it "
        "in\n"
        "spec.recommenders[], learns the use of their containers from the kwatt agents through\n"
        "Redis, and writes target, bounds and conditions into their status. Without an API server\n"
        "it gives the same advice for every workload of the machine (kwatt top shows it).",
    .examples = "  kwatt-vpa-recommender --redis redis://redis:6379\n"
                "  kwatt-vpa-recommender --kubeconfig ~/.kube/config --vpa-object-namespace shop\n"
                "  kwatt-vpa-recommender --redis unix:///run/kwatt/redis.sock --interval 5s\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
};
