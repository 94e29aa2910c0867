/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owner of everything in one agent, and the only part that logs what happens.
 *
 * Order at start: what needs privileges is opened (accounting, meter, cgroups), privileges are
 * given up, the baseline is taken (with what is left, so that a lack shows at once), and only then
 * are there threads. Order at the end is the reverse; the last sample is taken and published first,
 * so that readers have every joule up to the signal.
 *
 * The loop's timer takes windows; every so many of them, which add up to the interval, a sample is
 * shown. One loop thread does this, follows the cgroup tree and takes signals. HTTP threads and the
 * publisher read published snapshots. Snapshots leave at most once a second, however short the
 * interval: finer power on an open port is a side channel (PLATYPUS).
 */
#include "node-agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/loop.h"
#include "common/version.h"
#include "node-agent/accounting_choice.h"
#include "node-agent/cgroup_procs.h"
#include "node-agent/enforcement.h"
#include "node-agent/exporter.h"
#include "node-agent/meter_choice.h"
#include "node-agent/model_file.h"
#include "node-agent/node_about.h"
#include "node-agent/pace.h"
#include "node-agent/privilege.h"
#include "node-agent/recorder.h"
#include "node-agent/recording_about.h"
#include "node-agent/roots.h"
#include "node-agent/said.h"
#include "node-agent/sampler.h"
#include "node-agent/self_cost.h"
#include "node-agent/view.h"

/* The first figures come soon, whatever the interval: somebody is waiting for them. */
#define FIRST_SAMPLE_NS (500 * KW_NS_PER_MS)

#define PUBLISH_MIN_NS (950 * KW_NS_PER_MS) /* a second, less the jitter of a timer */

struct agent {
    const struct agent_options *options;
    FILE *out;
    struct kw_log *log;
    struct kw_loop *loop;
    struct agent_roots roots;
    struct agent_topology topology;
    struct kw_node_info info;
    char boot_id[AGENT_BOOT_ID_SIZE];
    const struct agent_accounting_ops *accounting;
    void *accounting_self;
    struct agent_cgroups *cgroups;
    struct agent_requests *requests; /* NULL: not counted */
    struct kw_power_model *model;    /* NULL: none */
    struct agent_metering *metering;
    struct agent_enforcement *enforcement; /* NULL: no cap */
    struct agent_pod_source *pods;
    struct agent_lookup *lookup;           /* NULL: no cgroup tree */
    struct agent_process_watch *processes; /* NULL: not asked for */
    struct agent_recorder *recorder;       /* NULL: nothing is recorded */
    const struct agent_attribution_ops *method;
    struct agent_sampler *sampler;
    struct kw_source *timer; /* freed with the loop */
    unsigned windows;        /* of a sample */
    uint64_t windows_due;    /* since the last sample */
    uint64_t windows_taken;  /* of those, ones that came late together count once */
    uint64_t window_cpu_ns;  /* CPU time of those, and of waking up for them */
    uint64_t idle_cpu_ns;    /* this thread's when it last had nothing to do */
    size_t workloads;        /* in the last sample */
    struct kw_snapshot *snapshots;
    struct agent_memory *memory; /* NULL: without Redis */
    struct agent_publisher *publisher;
    struct agent_exporter *exporter;
    uint64_t published_ns;
    struct agent_said said;
};

static uint64_t window_ns(const struct agent *agent)
{
    return agent->options->interval_ns / agent->windows;
}

static void take_window(struct agent *agent)
{
    struct agent_sample_notes notes = {0};

    agent_memory_recall(agent->memory, agent->sampler, kw_now_ns());
    agent_sampler_window(agent->sampler, window_ns(agent), &notes);
    uint64_t now_cpu_ns = agent_thread_cpu_ns();
    agent->window_cpu_ns += now_cpu_ns - agent->idle_cpu_ns;
    agent->idle_cpu_ns = now_cpu_ns;
    agent_say(&agent->said, agent->log, &notes, agent_metering_ops(agent->metering)->name);
    if (agent->exporter != NULL)
        agent_exporter_beat(agent->exporter, kw_now_ns());
}

/** Windows as long as their cost asks for, from now on. */
static void set_pace(struct agent *agent, uint64_t taken)
{
    unsigned windows = agent_pace_windows(agent->options->interval_ns,
                                          taken > 0 ? agent->window_cpu_ns / taken : 0,
                                          agent->workloads, agent->windows);

    agent->window_cpu_ns = 0;
    if (windows == agent->windows)
        return;
    agent->windows = windows;
    (void)kw_source_set_timer(agent->timer, window_ns(agent), window_ns(agent));
}

/** Publishes what the windows since the last sample add up to.
 * @param last also within a second of the one before. */
static int show(struct agent *agent, bool last)
{
    struct agent_snapshot *snapshot = NULL;
    uint64_t now_ns = kw_now_ns();

    if (!last && agent->published_ns != 0 && now_ns - agent->published_ns < PUBLISH_MIN_NS)
        return 0;
    int rc = agent_sampler_show(agent->sampler, &snapshot);
    if (rc < 0) {
        kw_log_error(agent->log, "a sample could not be shown", kw_errno(rc));
        return rc;
    }
    if (agent->published_ns == 0)
        kw_log_info(agent->log, "first sample", kw_u64("workloads", snapshot->n_rows),
                    kw_u64("watts_mw", snapshot->sample.watts_mw));
    agent->published_ns = now_ns;
    agent->workloads = snapshot->n_rows;
    snapshot->limit_uw = agent_enforcement_look(agent->enforcement);
    kw_snapshot_publish(agent->snapshots, snapshot);
    agent_memory_keep(agent->memory, agent->sampler, now_ns, last);
    if (agent->publisher != NULL)
        agent_publisher_wake(agent->publisher);
    return 0;
}

static void on_timer(void *user, uint64_t expirations)
{
    struct agent *agent = user;
    bool first = agent->published_ns == 0 && !agent->options->once;

    take_window(agent);
    agent->windows_taken += 1;
    agent->windows_due += expirations; /* a missed window is contained in this one */
    if (!first && agent->windows_due < agent->windows)
        return;
    int rc = show(agent, false);
    set_pace(agent, agent->windows_taken);
    agent->windows_due = 0;
    agent->windows_taken = 0;
    agent->idle_cpu_ns = agent_thread_cpu_ns();
    if (agent->options->once) {
        rc = rc == 0 ? agent_view_print(agent->snapshots, &agent->info, agent->out) : rc;
        if (rc < 0)
            kw_log_error(agent->log, "the sample cannot be printed", kw_errno(rc));
        kw_loop_stop(agent->loop, rc == 0 ? 0 : 1);
    }
}

static void on_cgroups(void *user, uint32_t events)
{
    struct agent *agent = user;

    (void)events;
    (void)agent_cgroups_update(agent->cgroups, kw_now_ns());
    agent->idle_cpu_ns = agent_thread_cpu_ns();
}

static void on_signal(void *user, int signal_number)
{
    struct agent *agent = user;

    if (signal_number == SIGPIPE)
        return; /* a reader of ours went away: its write fails, that is all */
    kw_log_info(agent->log, "stopping", kw_str("signal", strsignal(signal_number)));
    kw_loop_stop(agent->loop, 0);
}

static int start_enforcement(struct agent *agent, struct kw_err *err)
{
    const struct agent_enforcement_conf conf = {.sysfs_root = agent->roots.sysfs,
                                                .topology = &agent->topology,
                                                .cap_w = agent->options->enforce_cap_w,
                                                .record_path = agent->options->enforce_cap_record,
                                                .boot_id = agent->boot_id,
                                                .log = agent->log};

    return agent->options->once ? 0 : agent_enforcement_start(&conf, &agent->enforcement, err);
}

static void open_requests(struct agent *agent)
{
    struct agent_requests_conf conf = {.sysfs_root = agent->roots.cgroup_sysfs,
                                       .procfs_root = agent->roots.procfs,
                                       .statuses =
                                           agent->options->requests == AGENT_REQUESTS_STATUSES};
    struct kw_err cause = {0};

    if (agent->options->requests != AGENT_REQUESTS_OFF &&
        agent_requests_open(&conf, &agent->requests, &cause) < 0)
        kw_log_info(agent->log, "not counted", kw_str("feature", "requests"),
                    kw_str("cause", cause.text));
}

/** Everything that may need privileges. */
static int open_sources(struct agent *agent, struct kw_err *err)
{
    struct agent_cgroups_conf cgroups = {.sysfs_root = agent->roots.cgroup_sysfs,
                                         .procfs_root = agent->roots.procfs,
                                         .cgroup_root = agent->options->cgroup_root};
    struct kw_err cause = {0};
    char kept[AGENT_PRIVILEGE_TEXT];
    struct agent_accounting_conf accounting = {.topology = &agent->topology,
                                               .sysfs_root = agent->roots.cgroup_sysfs,
                                               .procfs_root = agent->roots.procfs};
    int rc = agent_accounting_choose(agent->options, &accounting, agent->log, &agent->accounting,
                                     &agent->accounting_self, err);

    if (rc == 0)
        rc = agent_model_choose(agent->options->model_file, agent->accounting,
                                agent->accounting_self, &agent->model, err);
    if (rc == 0)
        rc = agent_meter_choose(agent->options, &agent->topology, agent->roots.sysfs, agent->model,
                                agent->log, &agent->metering, err);
    if (rc == 0)
        rc = start_enforcement(agent, err);
    if (rc < 0)
        return rc;
    if (agent_cgroups_new(&cgroups, &agent->cgroups, &cause) < 0)
        kw_log_warn(agent->log, "no cgroup tree; everything counts as the system's",
                    kw_str("cause", cause.text));
    open_requests(agent);
    rc = agent_privilege_drop(!agent->accounting->without_bpf || agent->requests != NULL, kept);
    if (rc < 0)
        return kw_err_set(err, rc, "privileges cannot be given up: %s", kw_errno_text(rc));
    bool confined = agent->options->seccomp && agent_privilege_confine(&cause) == 0;
    if (agent->options->seccomp && !confined)
        kw_log_warn(agent->log, "system calls are not confined", kw_str("cause", cause.text));
    kw_log_info(
        agent->log, "sampling", kw_str("version", kw_version()), kw_str("node", agent->info.node),
        kw_str("accounting", agent->accounting->name),
        kw_str("meter", agent_metering_ops(agent->metering)->name),
        kw_str("estimated", agent_metering_ops(agent->metering)->estimated ? "yes" : "no"),
        kw_str("cgroups", agent->cgroups != NULL ? agent_cgroups_layout(agent->cgroups) : "none"),
        kw_u64("interval_ms", agent->options->interval_ns / KW_NS_PER_MS),
        kw_str("capabilities", kept), kw_str("seccomp", confined ? "yes" : "no"));
    return 0;
}

static int start_pods(struct agent *agent, struct kw_err *err)
{
    const struct agent_options *options = agent->options;
    struct agent_pod_source_conf conf = {
        .pods = (enum agent_pods)options->pods,
        .kubelet = {.address = options->kubelet,
                    .node = agent->info.node,
                    .ca_file = options->kubelet_ca_file,
                    .token_file = options->kubelet_token_file},
        .kubeconfig = options->kubeconfig,
        .labels = options->pod_labels,
        .log = agent->log,
    };

    return agent_pod_source_start(&conf, &agent->pods, err);
}

static int start_lookup(struct agent *agent, struct kw_err *err)
{
    if (agent->cgroups == NULL)
        return 0;
    struct agent_lookup_conf conf = {.mounts = agent_cgroups_mounts(agent->cgroups),
                                     .procfs_root = agent->roots.procfs,
                                     .host_root = agent->options->host_root};
    int rc = agent_lookup_start(&conf, &agent->lookup, err);
    if (rc == 0 && agent_procfs_is_foreign(agent->roots.procfs))
        kw_log_info(agent->log, "processes are hidden: this one has a PID namespace of its own",
                    kw_str("lacks", "machines of QEMU outside of libvirt, metrics of processes"));
    return rc;
}

static int start_recorder(struct agent *agent)
{
    struct agent_recording_header header;

    if (agent->recorder == NULL)
        return 0;
    agent_recording_about(agent->options, &agent->info, &agent->topology, agent->accounting,
                          agent->accounting_self, agent_metering_ops(agent->metering), &header);
    return agent_recorder_start(agent->recorder, &header, &agent->topology, agent->log);
}

static int make_sampler(struct agent *agent, struct kw_err *err)
{
    const struct agent_options *options = agent->options;
    bool part = options->outside == AGENT_OUTSIDE_ABSENT;
    bool estimated = agent_metering_ops(agent->metering)->estimated;
    const struct agent_model_power power = agent_model_power_of(
        estimated ? agent->model : NULL, &agent->topology, options->idle_w, options->full_w);
    if (options->metrics_processes > 0 && !agent_procfs_is_foreign(agent->roots.procfs) &&
        agent_process_watch_new(agent->roots.procfs, part, options->metrics_processes,
                                &agent->processes) < 0)
        return kw_err_set(err, -ENOMEM, "out of memory");
    agent->method = agent_attribution_choose(options->attribution, !estimated);
    struct agent_sampler_conf conf = {
        .topology = &agent->topology,
        .accounting = agent->accounting,
        .accounting_self = agent->accounting_self,
        .cgroups = agent->cgroups,
        .part = part,
        .pods = agent->pods,
        .lookup = agent->lookup,
        .recorder = agent->recorder,
        .requests = agent->requests,
        .processes = agent->processes,
        .metering = agent->metering,
        .method = agent->method,
        .prior = {.idle_mw = power.idle_mw,
                  .full_mw = power.full_mw,
                  .dram_idle_mw = power.dram_idle_mw},
        .idle_policy = (enum agent_idle_policy)options->idle_policy,
        .sleep_w = options->sleep_w,
        .wake_j = options->wake_j,
        .node = agent->info.node,
        .boot_id = agent->boot_id,
    };
    int rc = start_recorder(agent);

    if (rc == 0)
        rc = agent_sampler_new(&conf, &agent->sampler);
    /* readers: the HTTP threads, the publisher, and this thread with --once */
    if (rc == 0)
        rc = kw_snapshot_new(AGENT_EXPORTER_THREADS + 2, agent_snapshot_recycle, &agent->snapshots);
    return rc == 0 ? 0 : kw_err_set(err, rc, "no sampler: %s", kw_errno_text(rc));
}

static int start_readers(struct agent *agent, struct kw_err *err)
{
    const struct agent_options *options = agent->options;
    int rc = 0;

    if (options->redis.url != NULL && options->redis.url[0] != '\0') {
        struct agent_publisher_conf conf = {
            .redis = {.access = options->redis},
            .info = &agent->info,
            .snapshots = agent->snapshots,
            .log = agent->log,
        };
        if (agent->method->archive != NULL)
            (void)agent_memory_new(agent->info.node, agent->log, &agent->memory);
        conf.memory = agent->memory;
        rc = agent_publisher_start(&conf, &agent->publisher, err);
    }
    if (rc == 0 && options->listen[0] != '\0') {
        struct agent_exporter_conf conf = {
            .listen = options->listen,
            .tls = options->tls,
            .info = &agent->info,
            .topology = &agent->topology,
            .snapshots = agent->snapshots,
            .interval_ns = options->interval_ns,
            .publisher = agent->publisher,
            .more = options->metrics_more,
            .log = agent->log,
        };
        rc = agent_exporter_start(&conf, &agent->exporter, err);
        if (rc == 0)
            kw_log_info(agent->log, "listening", kw_str("address", options->listen),
                        kw_u64("port", agent_exporter_port(agent->exporter)),
                        kw_str("tls", agent_exporter_tls(agent->exporter)));
        if (rc == 0 && agent_exporter_untried_library(agent->exporter) != NULL)
            kw_log_warn(agent->log,
                        "kwatt was not tried with this libmicrohttpd; malformed heads are "
                        "left to its strict mode",
                        kw_str("version", agent_exporter_untried_library(agent->exporter)));
    }
    return rc;
}

static int make_loop(struct agent *agent, struct kw_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGPIPE, 0};
    int rc = kw_loop_new(&agent->loop);

    if (rc == 0) {
        struct kw_source *unused = NULL; /* freed with the loop */
        rc = kw_loop_add_signals(agent->loop, signals, on_signal, agent, &unused);
    }
    return rc == 0 ? 0 : kw_err_set(err, rc, "no event loop: %s", kw_errno_text(rc));
}

static int start_timers(struct agent *agent, struct kw_err *err)
{
    struct kw_source *unused = NULL;

    agent->windows = agent_pace_windows(agent->options->interval_ns, 0, 0, 0);
    uint64_t first_ns = window_ns(agent) < FIRST_SAMPLE_NS ? window_ns(agent) : FIRST_SAMPLE_NS;
    int rc =
        kw_loop_add_timer(agent->loop, first_ns, window_ns(agent), on_timer, agent, &agent->timer);

    if (rc == 0 && agent->cgroups != NULL)
        rc = kw_loop_add_fd(agent->loop, agent_cgroups_fd(agent->cgroups), EPOLLIN, on_cgroups,
                            agent, &unused);
    return rc == 0 ? 0 : kw_err_set(err, rc, "no timer: %s", kw_errno_text(rc));
}

int agent_new(const struct agent_options *options, FILE *out, struct agent **ret,
              struct kw_err *err)
{
    kw_cleanup(agent_free) struct agent *agent = calloc(1, sizeof(*agent));

    if (agent == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    agent->options = options;
    agent->out = out;
    agent->log = kw_log_new("kwatt-node-agent", (enum kw_log_level)options->log_level, NULL);
    if (agent->log == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    /* before other files are opened: standard output may be closed */
    int rc =
        agent_recorder_open(options->record, options->record_limit_bytes, &agent->recorder, err);
    if (rc < 0)
        return rc;
    rc = agent_roots_find(options, &agent->roots);
    if (rc == 0)
        rc = agent_topology_read(options->sysfs_root, options->procfs_root, &agent->topology);
    if (rc < 0)
        return kw_err_set(err, rc, "topology: %s", kw_errno_text(rc));
    agent_node_about(options, &agent->topology, &agent->info, agent->boot_id);
    rc = make_loop(agent, err);
    if (rc == 0)
        rc = open_sources(agent, err);
    if (rc == 0)
        rc = start_pods(agent, err);
    if (rc == 0)
        rc = start_lookup(agent, err);
    if (rc == 0)
        rc = make_sampler(agent, err);
    if (rc == 0 && !options->once)
        rc = start_readers(agent, err);
    if (rc == 0)
        rc = start_timers(agent, err);
    if (rc < 0)
        return rc;
    *ret = KW_TAKE_PTR(agent);
    return 0;
}

int agent_run(struct agent *agent)
{
    agent->idle_cpu_ns = agent_thread_cpu_ns();
    int code = kw_loop_run(agent->loop);

    if (code < 0) {
        kw_log_error(agent->log, "the event loop failed", kw_errno(code));
        code = 1;
    }
    if (!agent->options->once) {
        take_window(agent);
        (void)show(agent, true);
    }
    return code;
}

void agent_free(struct agent **agent)
{
    struct agent *owned = KW_TAKE_PTR(*agent);

    if (owned == NULL)
        return;
    agent_enforcement_stop(&owned->enforcement); /* first: nothing here may hang before it */
    agent_exporter_stop(&owned->exporter);
    agent_publisher_stop(&owned->publisher);
    agent_memory_free(&owned->memory);
    if (owned->snapshots != NULL)
        kw_snapshot_free(&owned->snapshots);
    agent_sampler_free(&owned->sampler);
    agent_process_watch_free(&owned->processes);
    agent_recorder_close(&owned->recorder);
    agent_pod_source_stop(&owned->pods);
    agent_lookup_stop(&owned->lookup);
    agent_metering_free(&owned->metering);
    free(owned->model);
    agent_cgroups_free(&owned->cgroups);
    agent_requests_close(&owned->requests);
    if (owned->accounting_self != NULL)
        owned->accounting->close(&owned->accounting_self);
    kw_loop_free(&owned->loop);
    kw_log_free(&owned->log);
    free(owned);
}
