/* SPDX-License-Identifier: Apache-2.0 */
#include "vpa-recommender/options.h"

#include <stddef.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

#define AT(field) offsetof(struct rec_settings, field)

static const struct kw_conf_option rows[] = {
    {.flag = "listen",
     .env = "KWATT_RECOMMENDER_LISTEN",
     .key = "listen",
     .type = KW_CONF_STRING,
     .offset = AT(listen),
     .def = ":9892",
     .metavar = "ADDRESS",
     .help = "address of /metrics, /healthz and /readyz: \"127.0.0.1:9892\", \":9892\" (all\n"
             "addresses), \"[::1]:9892\", \"unix:/path\"; port 0 picks a free one and logs it",
     .group = "Serving"},
    {.flag = "redis",
     .env = "KWATT_REDIS",
     .key = "redis.url",
     .type = KW_CONF_STRING,
     .offset = AT(redis_url),
     .def = "redis://127.0.0.1:6379",
     .metavar = "URL",
     .help = "where the agents publish: redis://HOST:PORT or unix:///path/redis.sock",
     .group = "Redis"},
    {.flag = "redis-user",
     .env = "KWATT_REDIS_USER",
     .key = "redis.user",
     .type = KW_CONF_STRING,
     .offset = AT(redis_user),
     .metavar = "NAME",
     .help = "ACL user; default: the URL's, else Redis' default user",
     .group = "Redis"},
    {.flag = "redis-password-file",
     .env = "KWATT_REDIS_PASSWORD_FILE",
     .key = "redis.passwordFile",
     .type = KW_CONF_STRING,
     .offset = AT(redis_password_file),
     .metavar = "FILE",
     .help = "file that holds the password, read at each connect; default: none",
     .group = "Redis"},
    {.flag = "redis-timeout",
     .env = "KWATT_REDIS_TIMEOUT",
     .key = "redis.timeout",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(redis_timeout_ns),
     .def = "5s",
     .min = 10 * KW_NS_PER_MS,
     .max = 60 * KW_NS_PER_S,
     .metavar = "TIME",
     .help = "longest wait for one answer of Redis",
     .group = "Redis"},
    {.flag = "kubeconfig",
     .env = "KWATT_KUBECONFIG",
     .key = "kubernetes.kubeconfig",
     .type = KW_CONF_STRING,
     .offset = AT(kubeconfig),
     .metavar = "FILE",
     .help = "kubeconfig of the API server; default: the service account when running in a pod.\n"
             "Without either, advice for the workloads of this machine goes to Redis instead.\n"
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
    {.flag = "interval",
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
    {.flag = "log-level",
     .env = "KWATT_LOG_LEVEL",
     .key = "logLevel",
     .type = KW_CONF_CHOICE,
     .offset = AT(log_level),
     .def = "info",
     .choices = kw_log_level_names,
     .metavar = "LEVEL",
     .help = "least severe messages to show: error, warn, info or debug",
     .group = "Logging"},
};

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
