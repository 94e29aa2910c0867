/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/confine.h"
#include "common/http_rows.h"
#include "common/log_rows.h"
#include "common/redis_rows.h"
#include "node-agent/idle_policy.h"

const char *const agent_meter_choices[] = {"auto",  "perf",        "powercap", "msr",
                                           "hwmon", "hwmon-power", "model",    NULL};
const char *const agent_accounting_choices[] = {"auto", "ebpf", "ebpf-raw", "cgroup-files", NULL};
const char *const agent_requests_choices[] = {"off", "turns", "statuses", NULL};
_Static_assert(KW_ARRAY_SIZE(agent_requests_choices) == AGENT_REQUESTS__MAX + 1, "a name each");
const char *const agent_auto_choices[] = {"auto", "off", NULL};
const char *const agent_attribution_choices[] = {
    "auto",       "ratio-cpu",      "kalman", "ratio-instructions", "kepler", "regression",
    "polynomial", "regression-raw", NULL};
const char *const agent_outside_choices[] = {"system", "absent", NULL};
_Static_assert(KW_ARRAY_SIZE(agent_outside_choices) == AGENT_OUTSIDE__MAX + 1, "a name each");
const char *const agent_pods_choices[] = {"auto", "kubelet", "api", "off", NULL};
_Static_assert(KW_ARRAY_SIZE(agent_pods_choices) == AGENT_PODS__MAX + 1, "a name each");

#define AT(field) offsetof(struct agent_options, field)

static const struct kw_conf_option rows[] = {
    /* sampling */
    {"node-name", "KWATT_NODE_NAME", "nodeName", KW_CONF_STRING, AT(node_name), NULL, 0, 253, NULL,
     "NAME", "name of this node in Redis and in metrics; default, or empty: the host name",
     "Sampling", NULL},
    {"interval", "KWATT_INTERVAL", "interval", KW_CONF_DURATION_NS, AT(interval_ns), "5s",
     UINT64_C(100000000), UINT64_C(300000000000), NULL, "DURATION",
     "time between samples, each made of shorter windows; published at most once a second",
     "Sampling", NULL},
    {"meter", "KWATT_METER", "meter", KW_CONF_CHOICE, AT(meter), "auto", 0, 0, agent_meter_choices,
     "METER", "power meter; auto: the first that works, and a model where there is none",
     "Sampling", NULL},
    {"model", "KWATT_MODEL", "model", KW_CONF_STRING, AT(model_file), NULL, 1, 4095, NULL, "FILE",
     "power model for a machine without a meter, from kwatt train or Kepler's weights; default:\n"
     "idle and full watts of the CPU's class",
     "Sampling", NULL},
    {"accounting", "KWATT_ACCOUNTING", "accounting", KW_CONF_CHOICE, AT(accounting), "auto", 0, 0,
     agent_accounting_choices, "BACKEND",
     "where CPU time per cgroup comes from; auto: the first that works", "Sampling", NULL},
    {"counters", "KWATT_COUNTERS", "counters", KW_CONF_CHOICE, AT(counters), "auto", 0, 0,
     agent_auto_choices, "WHEN",
     "count cycles, instructions and cache misses per cgroup; auto: where the machine has a PMU "
     "(with eBPF\nonly)",
     "Sampling", NULL},
    {"softirq", "KWATT_SOFTIRQ", "softirq", KW_CONF_BOOL, AT(softirq), "false", 0, 0, NULL, NULL,
     "count time in soft interrupts apart from the cgroups that they interrupt (with eBPF only; "
     "costs\n"
     "two clock readings each, unless the kernel itself keeps that time apart)",
     "Sampling", NULL},
    {"requests", "KWATT_REQUESTS", "requests", KW_CONF_CHOICE, AT(requests), "turns", 0, 0,
     agent_requests_choices, "WHAT",
     "count the requests that each workload answers (with eBPF only): turns of its TCP\n"
     "connections, or these and the HTTP/1 status classes of answers in clear",
     "Sampling", NULL},
    {"attribution", "KWATT_ATTRIBUTION", "attribution", KW_CONF_CHOICE, AT(attribution), "auto", 0,
     0, agent_attribution_choices, "METHOD",
     "how energy above idle is split among workloads; auto: kalman where it is\n"
     "measured, else by CPU time",
     "Sampling", NULL},
    {"idle-policy", "KWATT_IDLE_POLICY", "idlePolicy", KW_CONF_CHOICE, AT(idle_policy), "none", 0,
     0, agent_idle_policy_names, "POLICY",
     "what is done with idle energy, beside what workloads draw above it: it stays the node's, or\n"
     "is shared equally by the workloads that run, or by the CPU that their pods request",
     "Sampling", NULL},
    {"idle-watts", "KWATT_IDLE_WATTS", "idleWatts", KW_CONF_DOUBLE, AT(idle_w), "0", 0, 100000,
     NULL, "WATTS",
     "what all CPU packages together draw with nothing to do; 0: what CPUs of this class draw",
     "Sampling", NULL},
    {"full-watts", "KWATT_FULL_WATTS", "fullWatts", KW_CONF_DOUBLE, AT(full_w), "0", 0, 100000,
     NULL, "WATTS",
     "what all CPU packages together draw at full load, for the model; 0: by class of CPU",
     "Sampling", NULL},
    {"sleep-watts", "KWATT_SLEEP_WATTS", "sleepWatts", KW_CONF_DOUBLE, AT(sleep_w), "0", 0, 100000,
     NULL, "WATTS",
     "what the node draws asleep, for its curve: what a node that may sleep (kwatt.io/sleepable)\n"
     "is priced from; 0: not told",
     "Sampling", NULL},
    {"wake-joules", "KWATT_WAKE_JOULES", "wakeJoules", KW_CONF_DOUBLE, AT(wake_j), "0", 0, 1e6,
     NULL, "JOULES",
     "what waking the node takes, above what its load draws then: pods that live longer wake it\n"
     "sooner; 0: not told",
     "Sampling", NULL},
    /* a cap on power */
    {"enforce-cap-watts", "KWATT_ENFORCE_CAP_WATTS", "enforceCap.watts", KW_CONF_DOUBLE,
     AT(enforce_cap_w), "0", 0, 100000, NULL, "WATTS",
     "make the CPU packages together stay below this: the long-term limit of each, through\n"
     "powercap, is its part by their maxima; what it was is put back at the end; 0: no limit",
     "Power cap", NULL},
    {"enforce-cap-record", "KWATT_ENFORCE_CAP_RECORD", "enforceCap.record", KW_CONF_STRING,
     AT(enforce_cap_record), "/run/kwatt-node-agent/power-limits", 1, 4095, NULL, "FILE",
     "where the limits that were in force before are kept, for the start after kill -9",
     "Power cap", NULL},
    /* where to look */
    {"sysfs", "KWATT_SYSFS", "sysfs", KW_CONF_STRING, AT(sysfs_root), "/sys", 1, 4000, NULL, "DIR",
     "root of sysfs for meters and topology; the cgroup tree is taken from DIR/fs/cgroup where\n"
     "that exists, and from this machine's own mounts otherwise",
     "Where to look", NULL},
    {"procfs", "KWATT_PROCFS", "procfs", KW_CONF_STRING, AT(procfs_root), "/proc", 1, 4000, NULL,
     "DIR", "root of procfs", "Where to look", NULL},
    {"host-root", "KWATT_HOST_ROOT", "hostRoot", KW_CONF_STRING, AT(host_root), "/", 0, 4095, NULL,
     "DIR",
     "root of this machine's files, where docker's and podman's say what their containers are\n"
     "called; empty: those go by their ids",
     "Where to look", NULL},
    {"cgroup-root", "KWATT_CGROUP_ROOT", "cgroupRoot", KW_CONF_STRING, AT(cgroup_root), "/", 0, 0,
     NULL, "PATH", "only cgroups below this path are workloads", "Where to look", NULL},
    {"outside", "KWATT_OUTSIDE", "outside", KW_CONF_CHOICE, AT(outside), "system", 0, 0,
     agent_outside_choices, "WHAT",
     "CPU time outside of the cgroup root: the system's, or absent where the meter does not see "
     "it\n"
     "either (nodes that share a machine, each with a meter of its own part)",
     "Where to look", NULL},
    /* names */
    {"pods", "KWATT_PODS", "pods", KW_CONF_CHOICE, AT(pods), "auto", 0, 0, agent_pods_choices,
     "FROM",
     "where names of pods come from: the kubelet's list, or an API watch of this node's pods;\n"
     "auto: the kubelet, the API where that refuses, nothing outside Kubernetes",
     "Names of pods", NULL},
    {"kubelet", "KWATT_KUBELET", "kubelet.address", KW_CONF_STRING, AT(kubelet), NULL, 0, 0, NULL,
     "ADDR", "this node's kubelet: HOST or HOST:PORT (default port: 10250)", "Names of pods", NULL},
    {"kubelet-ca", "KWATT_KUBELET_CA", "kubelet.ca", KW_CONF_STRING, AT(kubelet_ca_file), NULL, 0,
     0, NULL, "FILE",
     "PEM file that verifies its certificate; default: the service account's ca.crt",
     "Names of pods", NULL},
    {"kubelet-token-file", "KWATT_KUBELET_TOKEN_FILE", "kubelet.tokenFile", KW_CONF_STRING,
     AT(kubelet_token_file), NULL, 0, 0, NULL, "FILE",
     "bearer token, read again when it changes; default: the service account's", "Names of pods",
     NULL},
    {"kubeconfig", "KWATT_KUBECONFIG", "kubeconfig", KW_CONF_STRING, AT(kubeconfig), NULL, 0, 0,
     NULL, "FILE", "how to reach the API server; default: the service account", "Names of pods",
     NULL},
    {"pod-labels", "KWATT_POD_LABELS", "podLabels", KW_CONF_STRING, AT(pod_labels), "", 0, 4096,
     NULL, "KEYS",
     "labels of pods to publish, separated by commas: \"app.kubernetes.io/name,team\"",
     "Names of pods", NULL},
    /* publishing */
    KW_REDIS_ROWS(struct agent_options, redis, "Publishing", NULL,
                  "where to publish: " KW_REDIS_URL_FORMS "; default, or empty: nowhere")
        KW_HTTP_LISTEN_ROW(
            struct agent_options, listen, "Publishing", "KWATT_LISTEN", ":9891",
            "where /metrics, /healthz, /readyz and /v1/pods are: " KW_HTTP_LISTEN_FORMS
            ";\nempty: nowhere") KW_HTTP_TLS_ROWS(struct agent_options, tls, "Publishing"){
            "metrics-containers", "KWATT_METRICS_CONTAINERS", "metricsContainers", KW_CONF_BOOL,
            AT(metrics_more.containers), "false", 0, 0, NULL, NULL,
            "list the containers of pods in /metrics, too: joules and watts per zone, CPU seconds "
            "and\n"
            "memory of each, with the id of its pod",
            "Publishing", NULL},
    {"metrics-explain", "KWATT_METRICS_EXPLAIN", "metricsExplain", KW_CONF_BOOL,
     AT(metrics_more.explain), "false", 0, 0, NULL, NULL,
     "list in /metrics what kwatt explain --pod tells of each workload, too: how sure its power "
     "is,\n"
     "intensity, idle power by every policy, and counters: some ten series for each",
     "Publishing", NULL},
    {"metrics-processes", "KWATT_METRICS_PROCESSES", "metricsProcesses", KW_CONF_U64,
     AT(metrics_processes), "0", 0, 10000, NULL, "N",
     "list the N processes that draw most in /metrics, under Kepler's names, those of no "
     "workload,\n"
     "too; every sample then looks at each process, some 20 us of CPU time each; 0: at none",
     "Publishing", NULL},
    /* recordings */
    {"record", NULL, NULL, KW_CONF_STRING, AT(record), NULL, 1, 4095, NULL, "FILE",
     "write what energy is split by into a new file, for kwatt replay; -: to standard output",
     "Recordings", NULL},
    {"record-limit", NULL, NULL, KW_CONF_BYTES, AT(record_limit_bytes), "1Gi", 1u << 20,
     UINT64_C(1) << 50, NULL, "SIZE",
     "the recording ends before it would be larger; sampling goes on", "Recordings", NULL},
    {"replay", NULL, NULL, KW_CONF_STRING, AT(replay), NULL, 1, 4095, NULL, "FILE",
     "split the energy of a recording instead of measuring, print it, and exit; -: standard\n"
     "input (kwatt replay)",
     "Recordings", NULL},
    {"replay-method", NULL, NULL, KW_CONF_STRING, AT(replay_method), NULL, 1, 63, NULL, "METHOD",
     "by which method, or all; default: the recording's", "Recordings", NULL},
    {"replay-rows", NULL, NULL, KW_CONF_BOOL, AT(replay_rows), "false", 0, 0, NULL, NULL,
     "print what the machine did and drew, a row of CSV for each second, instead of splitting it\n"
     "(kwatt train)",
     "Recordings", NULL},
    {"json", NULL, NULL, KW_CONF_BOOL, AT(json), "false", 0, 0, NULL, NULL,
     "print what was replayed as one JSON document", "Recordings", NULL},
    /* the program itself */
    KW_CONFINE_ROW(struct agent_options, seccomp, "Program") KW_LOG_ROW(struct agent_options,
                                                                        log_level, "Program"){
        "check", NULL, NULL, KW_CONF_BOOL, AT(check), "false", 0, 0, NULL, NULL,
        "print what this machine offers, one line per item (state, item, detail, remedy), and exit",
        "Program", NULL},
    {"once", NULL, NULL, KW_CONF_BOOL, AT(once), "false", 0, 0, NULL, NULL,
     "take one sample over one interval, print it as JSON (as /v1/pods), and exit", "Program",
     NULL},
};

const struct kw_conf_program agent_program = {
    .name = "kwatt-node-agent",
    .synopsis = "[options]",
    .summary =
        "Measures what every workload of this machine draws: reads power meters, accounts CPU "
        "time\n"
        "per cgroup with eBPF, splits the energy, and publishes it. Runs best as root, which it\n"
        "gives up after start; without, it says what it uses instead.",
    .examples = "  kwatt-node-agent --check\n"
                "  kwatt-node-agent --once --interval 2s\n"
                "  kwatt-node-agent --record case.jsonl\n"
                "  kwatt-node-agent --redis unix:///run/kwatt/redis.sock --listen 127.0.0.1:9891\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
    .positionals = false,
};

/** Whether a name can stand in keys, labels and paths as it is. */
static bool is_plain(const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name <= ' ' || *name > '~')
            return false;
    }
    return true;
}

static int check_folder(const char *flag, const char *path, struct kw_err *err)
{
    struct stat info;
    int rc = stat(path, &info) < 0 ? -errno : S_ISDIR(info.st_mode) ? 0 : -ENOTDIR;

    return rc == 0 ? 0 : kw_err_set(err, rc, "%s %s: %s", flag, path, kw_errno_text(rc));
}

int agent_options_check(const struct agent_options *options, struct kw_err *err)
{
    if (options->node_name != NULL && !is_plain(options->node_name))
        return kw_err_set(err, -EINVAL,
                          "--node-name: \"%s\": expected up to 253 bytes of printable ASCII, "
                          "without blanks",
                          options->node_name);
    if (options->full_w > 0 && options->idle_w > options->full_w)
        return kw_err_set(err, -EINVAL,
                          "--idle-watts: %g is more than the %g of --full-watts (allowed 0 to "
                          "that)",
                          options->idle_w, options->full_w);
    if (options->replay_method != NULL && options->replay == NULL)
        return kw_err_set(err, -EINVAL, "--replay-method is given without --replay");
    if (options->replay_rows &&
        (options->replay == NULL || options->replay_method != NULL || options->json))
        return kw_err_set(err, -EINVAL, "--replay-rows goes with --replay alone");
    if (options->json && options->replay == NULL)
        return kw_err_set(err, -EINVAL, "--json is given without --replay");
    if (options->once && options->record != NULL && strcmp(options->record, "-") == 0)
        return kw_err_set(err, -EINVAL,
                          "--once prints its sample where --record - writes; record to a file");
    if (options->replay != NULL) /* measures nothing */
        return 0;
    int rc = check_folder("--sysfs", options->sysfs_root, err);
    return rc < 0 ? rc : check_folder("--procfs", options->procfs_root, err);
}
