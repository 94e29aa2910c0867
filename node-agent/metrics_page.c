/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joules are written from microjoules digit by digit, never through floating point: a counter that
 * rounds would go backwards one day.
 *
 * Series per workload: joules and watts per zone (package, and dram where there is a meter for it),
 * CPU seconds, memory. Processes have theirs on demand only. A container that is no part of a pod
 * is a workload of its own; those of pods are in the same families where the operator wants them,
 * since they double the page. `zone` is "package" or "dram" as in Kepler; packages are told apart
 * by `path`, so that a sum by zone is the node's. Zones are disjoint here (Kepler's core and uncore
 * lie inside its package): they may be added.
 */
#include "node-agent/metrics_page.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/version.h"
#include "node-agent/curve.h"
#include "node-agent/metrics_labels.h"

/* As the Go world calls them. */
#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "other"
#endif

const char *const agent_zone_names[2] = {"package", "dram"};

static const struct kw_label *node_only(struct agent_labels *labels,
                                        const struct agent_metrics_input *input)
{
    *labels = (struct agent_labels){0};
    return agent_labels_seal(labels, input);
}

/** Figures of a node's zones. */
enum zone_figure {
    ZONE_MEASURED_UJ,
    ZONE_ACTIVE_UJ,
    ZONE_IDLE_UJ,
    ZONE_WATTS,
    ZONE_ACTIVE_WATTS,
    ZONE_IDLE_WATTS,
    ZONE_PODS_UJ,
    ZONE_SYSTEM_UJ,
    ZONE_UNATTRIBUTED_UJ,
    ZONE_FIGURE__MAX
};

struct zone_family {
    const char *name;
    enum kw_metric_type type;
    const char *help;
};

static const struct zone_family zone_families[] = {
    [ZONE_MEASURED_UJ] = {"kepler_node_cpu_joules_total", KW_METRIC_COUNTER,
                          "Energy of a zone since the agent's start, in joules."},
    [ZONE_ACTIVE_UJ] = {"kepler_node_cpu_active_joules_total", KW_METRIC_COUNTER,
                        "Energy above idle of a zone, in joules."},
    [ZONE_IDLE_UJ] = {"kepler_node_cpu_idle_joules_total", KW_METRIC_COUNTER,
                      "Idle energy of a zone, in joules."},
    [ZONE_WATTS] = {"kepler_node_cpu_watts", KW_METRIC_GAUGE,
                    "Mean power of a zone since the sample before, in watts."},
    [ZONE_ACTIVE_WATTS] = {"kepler_node_cpu_active_watts", KW_METRIC_GAUGE,
                           "Mean power above idle of a zone since the sample before, in watts."},
    [ZONE_IDLE_WATTS] = {"kepler_node_cpu_idle_watts", KW_METRIC_GAUGE,
                         "Idle power of a zone since the sample before, in watts."},
    [ZONE_PODS_UJ] = {"kwatt_node_pods_joules_total", KW_METRIC_COUNTER,
                      "Energy above idle of a zone that workloads drew, in joules."},
    [ZONE_SYSTEM_UJ] = {"kwatt_node_system_joules_total", KW_METRIC_COUNTER,
                        "Energy above idle of a zone that kernel threads and what has no workload "
                        "drew, in joules."},
    [ZONE_UNATTRIBUTED_UJ] = {"kwatt_node_unattributed_joules_total", KW_METRIC_COUNTER,
                              "Energy of a zone that could not be attributed, in joules."},
};
_Static_assert(KW_ARRAY_SIZE(zone_families) == ZONE_FIGURE__MAX, "one row per figure");

static void write_zone_figure(struct kw_metrics_page *page, const struct kw_label *labels,
                              enum zone_figure figure, const struct kw_energy *energy, uint64_t mw,
                              uint64_t idle_mw)
{
    switch (figure) {
    case ZONE_MEASURED_UJ: kw_metrics_scaled(page, labels, energy->measured_uj, 6); break;
    case ZONE_ACTIVE_UJ:
        kw_metrics_scaled(page, labels, energy->measured_uj - energy->idle_uj, 6);
        break;
    case ZONE_IDLE_UJ: kw_metrics_scaled(page, labels, energy->idle_uj, 6); break;
    case ZONE_WATTS: kw_metrics_scaled(page, labels, mw, 3); break;
    case ZONE_ACTIVE_WATTS: kw_metrics_scaled(page, labels, mw - idle_mw, 3); break;
    case ZONE_IDLE_WATTS: kw_metrics_scaled(page, labels, idle_mw, 3); break;
    case ZONE_PODS_UJ: kw_metrics_scaled(page, labels, energy->pods_uj, 6); break;
    case ZONE_SYSTEM_UJ: kw_metrics_scaled(page, labels, energy->system_uj, 6); break;
    case ZONE_UNATTRIBUTED_UJ: kw_metrics_scaled(page, labels, energy->unattributed_uj, 6); break;
    case ZONE_FIGURE__MAX: break;
    }
}

/** One figure of every zone of every package: the sample lists packages in the order of their
 * slots. */
static void write_zones(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                        enum zone_figure figure)
{
    const struct agent_snapshot *snapshot = input->snapshot;
    const struct zone_family *family = &zone_families[figure];
    unsigned listed = 0;

    kw_metrics_family(page, family->name, family->type, family->help);
    for (unsigned p = 0; p < AGENT_PACKAGES_MAX && listed < snapshot->sample.n_packages; p++) {
        if (!snapshot->slots[2 * p].present && !snapshot->slots[2 * p + 1].present)
            continue;
        const struct kw_package_sample *package = &snapshot->sample.packages[listed++];
        for (unsigned zone = 0; zone < 2; zone++) {
            unsigned slot = 2 * p + zone;
            struct agent_labels labels = {0};
            if (!snapshot->slots[slot].present)
                continue;
            agent_labels_put(&labels, "zone", agent_zone_names[zone]);
            agent_labels_put(&labels, "path", snapshot->slots[slot].path);
            write_zone_figure(page, agent_labels_seal(&labels, input), figure,
                              zone == 0 ? &package->cpu : &package->dram, snapshot->slot_mw[slot],
                              snapshot->slot_idle_mw[slot]);
        }
    }
}

/** Names of the figures of one kind of workload. */
struct workload_families {
    const char *joules, *watts, *seconds, *memory;
};

static const struct workload_families workload_families[KW_WORKLOAD__MAX] = {
    [KW_WORKLOAD_POD] = {"kepler_pod_cpu_joules_total", "kepler_pod_cpu_watts",
                         "kwatt_pod_cpu_seconds_total", "kwatt_pod_memory_bytes"},
    [KW_WORKLOAD_CONTAINER] = {"kepler_container_cpu_joules_total", "kepler_container_cpu_watts",
                               "kepler_container_cpu_seconds_total",
                               "kwatt_container_memory_bytes"},
    [KW_WORKLOAD_UNIT] = {"kwatt_unit_cpu_joules_total", "kwatt_unit_cpu_watts",
                          "kwatt_unit_cpu_seconds_total", "kwatt_unit_memory_bytes"},
    [KW_WORKLOAD_VM] = {"kepler_vm_cpu_joules_total", "kepler_vm_cpu_watts",
                        "kwatt_vm_cpu_seconds_total", "kwatt_vm_memory_bytes"},
    [KW_WORKLOAD_CGROUP] = {"kwatt_cgroup_cpu_joules_total", "kwatt_cgroup_cpu_watts",
                            "kwatt_cgroup_cpu_seconds_total", "kwatt_cgroup_memory_bytes"},
};

/** Labels that tell a workload apart, as Kepler names them where it has the kind. */
static void put_workload(struct agent_labels *labels, const struct agent_row *row,
                         const char *pod_id)
{
    const struct agent_label *label = row->label;

    switch (agent_names_kind(row->names, label->kind)) {
    case KW_WORKLOAD_POD:
        agent_labels_put(labels, "pod_id", label->id);
        agent_labels_put(labels, "pod_name", row->names != NULL ? row->names->name : label->name);
        agent_labels_put(labels, "pod_namespace", row->names != NULL ? row->names->namespace_ : "");
        break;
    case KW_WORKLOAD_CONTAINER:
        agent_labels_put(labels, "container_id", label->id);
        agent_labels_put(labels, "container_name",
                         row->names != NULL ? row->names->name : label->name);
        agent_labels_put(labels, "runtime", label->runtime);
        agent_labels_put(labels, "pod_id", pod_id);
        break;
    case KW_WORKLOAD_VM:
        agent_labels_put(labels, "vm_id",
                         row->names != NULL && row->names->uuid[0] != '\0' ? row->names->uuid
                                                                           : label->id);
        agent_labels_put(labels, "vm_name", row->names != NULL ? row->names->name : label->name);
        agent_labels_put(labels, "hypervisor", "kvm");
        agent_labels_put(labels, "cgroup", label->cgroup); /* nothing keeps uuids apart */
        break;
    case KW_WORKLOAD_UNIT:
        agent_labels_put(labels, "unit", label->name);
        agent_labels_put(labels, "cgroup", label->cgroup);
        break;
    case KW_WORKLOAD_CGROUP: agent_labels_put(labels, "cgroup", label->cgroup); break;
    case KW_WORKLOAD__MAX: break;
    }
    agent_labels_put(labels, "state", row->ended_unix_ms != 0 ? "terminated" : "running");
}

enum workload_figure { WORKLOAD_JOULES, WORKLOAD_WATTS, WORKLOAD_SECONDS, WORKLOAD_MEMORY };

static void write_workload(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                           const struct agent_row *row, const char *pod_id,
                           enum workload_figure figure, bool has_dram)
{
    for (unsigned zone = 0; zone < (has_dram ? 2U : 1U); zone++) {
        struct agent_labels labels = {0};
        bool zoned = figure == WORKLOAD_JOULES || figure == WORKLOAD_WATTS;
        put_workload(&labels, row, pod_id);
        if (zoned)
            agent_labels_put(&labels, "zone", agent_zone_names[zone]);
        const struct kw_label *items = agent_labels_seal(&labels, input);
        switch (figure) {
        case WORKLOAD_JOULES:
            kw_metrics_scaled(page, items, zone == 0 ? row->cpu_uj : row->dram_uj, 6);
            break;
        case WORKLOAD_WATTS:
            kw_metrics_scaled(page, items, zone == 0 ? row->cpu_mw : row->dram_mw, 3);
            break;
        case WORKLOAD_SECONDS: kw_metrics_scaled(page, items, row->cpu_ns, 9); break;
        case WORKLOAD_MEMORY: kw_metrics_u64(page, items, row->memory_bytes); break;
        }
        if (!zoned)
            return;
    }
}

/** Those of a pod, as if each were a workload. */
static void write_containers(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                             const struct agent_row *pod, enum workload_figure figure,
                             bool has_dram)
{
    for (size_t i = 0; i < pod->n_containers; i++) {
        const struct agent_container_row *container =
            &input->snapshot->containers[pod->first_container + i];
        struct agent_row row = {
            .label = container->label,
            .names = container->names,
            .ended_unix_ms = container->ended ? 1 : 0,
            .cpu_ns = container->cpu_ns,
            .cpu_uj = container->active_uj - container->dram_uj,
            .dram_uj = container->dram_uj,
            .cpu_mw = container->cpu_mw,
            .dram_mw = container->dram_mw,
            .memory_bytes = container->memory_bytes,
        };
        write_workload(page, input, &row, pod->label->id, figure, has_dram);
    }
}

static void write_workloads(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                            enum kw_workload_kind kind, enum workload_figure figure, bool has_dram)
{
    static const char *const helps[] = {
        [WORKLOAD_JOULES] = "Energy above idle that the workload drew from a zone, in joules.",
        [WORKLOAD_WATTS] = "Smoothed power above idle of the workload in a zone, in watts.",
        [WORKLOAD_SECONDS] = "CPU time of the workload, in seconds.",
        [WORKLOAD_MEMORY] = "Working set of the workload, in bytes.",
    };
    const struct workload_families *names = &workload_families[kind];
    const char *const name_of[] = {names->joules, names->watts, names->seconds, names->memory};
    bool counter = figure == WORKLOAD_JOULES || figure == WORKLOAD_SECONDS;
    bool started = false;

    for (size_t i = 0; i < input->snapshot->n_rows; i++) {
        const struct agent_row *row = &input->snapshot->rows[i];
        bool containers = kind == KW_WORKLOAD_CONTAINER && input->more.containers;
        enum kw_workload_kind its_kind = agent_names_kind(row->names, row->label->kind);
        if (its_kind != kind && !(containers && row->n_containers > 0))
            continue;
        if (!started)
            kw_metrics_family(page, name_of[figure], counter ? KW_METRIC_COUNTER : KW_METRIC_GAUGE,
                              helps[figure]);
        started = true;
        if (its_kind == kind)
            write_workload(page, input, row, "", figure, has_dram);
        else
            write_containers(page, input, row, figure, has_dram);
    }
}

/** Families of one sample without labels but node_name. */
static void gauge(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                  const char *name, const char *help, uint64_t value, unsigned decimals)
{
    struct agent_labels labels;

    kw_metrics_family(page, name, KW_METRIC_GAUGE, help);
    kw_metrics_scaled(page, node_only(&labels, input), value, decimals);
}

static void counter(struct kw_metrics_page *page, const struct agent_metrics_input *input,
                    const char *name, const char *help, uint64_t value, unsigned decimals)
{
    struct agent_labels labels;

    kw_metrics_family(page, name, KW_METRIC_COUNTER, help);
    kw_metrics_scaled(page, node_only(&labels, input), value, decimals);
}

static void write_quality(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    kw_metrics_family(page, "kwatt_sample_quality", KW_METRIC_GAUGE,
                      "1 where a window of the sample has the flag.");
    for (unsigned q = 0; q < KW_QUALITY__MAX; q++) {
        struct agent_labels labels = {0};
        agent_labels_put(&labels, "flag", kw_quality_names[q]);
        kw_metrics_u64(page, agent_labels_seal(&labels, input),
                       (input->snapshot->sample.quality >> q) & 1);
    }
    kw_metrics_family(page, "kwatt_sample_quality_windows_total", KW_METRIC_COUNTER,
                      "Windows that had the flag.");
    for (unsigned q = 0; q < KW_QUALITY__MAX; q++) {
        struct agent_labels labels = {0};
        agent_labels_put(&labels, "flag", kw_quality_names[q]);
        kw_metrics_u64(page, agent_labels_seal(&labels, input),
                       input->snapshot->quality_windows[q]);
    }
}

static void write_platform(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    const struct kw_platform_sample *platform = &input->snapshot->sample.platform;
    struct agent_labels labels = {0};

    if (!platform->present)
        return;
    agent_labels_put(&labels, "source", platform->source);
    kw_metrics_family(page, "kepler_platform_watts", KW_METRIC_GAUGE,
                      "Power of the whole machine beside its CPU zones, in watts.");
    kw_metrics_scaled(page, agent_labels_seal(&labels, input), platform->mw, 3);
}

static void write_system(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    const struct kw_system_sample *system = &input->snapshot->sample.system;
    const struct {
        const char *name;
        bool told;
        uint64_t uj;
    } parts[] = {
        {"kernel", system->has_kernel, system->kernel_uj},
        {"interrupts", system->has_interrupts, system->interrupts_uj},
        {"root", true, system->root_uj},
        {"slices", true, system->slices_uj},
        {"other", true, system->other_uj},
    };

    kw_metrics_family(page, "kwatt_system_joules_total", KW_METRIC_COUNTER,
                      "The system's energy above idle by what drew it, in joules; root has that of "
                      "kernel threads where there is no part kernel.");
    for (size_t i = 0; i < KW_ARRAY_SIZE(parts); i++) {
        struct agent_labels labels = {0};
        if (!parts[i].told)
            continue;
        agent_labels_put(&labels, "part", parts[i].name);
        kw_metrics_scaled(page, agent_labels_seal(&labels, input), parts[i].uj, 6);
    }
}

static void write_node(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    const struct kw_sample *sample = &input->snapshot->sample;
    struct agent_labels labels = {0};
    uint64_t capacity = sample->allocatable_mcpu > 0 ? sample->allocatable_mcpu : 1;
    uint64_t ratio_permille = sample->used_mcpu * 1000 / capacity;

    for (unsigned figure = 0; figure < ZONE_FIGURE__MAX; figure++)
        write_zones(page, input, (enum zone_figure)figure);
    gauge(page, input, "kepler_node_cpu_usage_ratio",
          "CPU use since the sample before, as a share of the node.", ratio_permille, 3);
    write_system(page, input);
    write_platform(page, input);
    write_quality(page, input);
    gauge(page, input, "kwatt_node_idle_watts",
          "Power that the node draws with nothing to do, as the method has it.", sample->idle_mw,
          3);
    gauge(page, input, "kwatt_node_marginal_watts_per_core",
          "Watts that one more busy core would add at the present load.",
          agent_curve_marginal_mw(&input->snapshot->curve, kw_sample_load_mcpu(sample)), 3);
    if (input->snapshot->limit_uw > 0)
        gauge(page, input, "kwatt_node_power_limit_watts",
              "Long-term power limit of all CPU packages together that the agent has set, as it is "
              "read back.",
              input->snapshot->limit_uw, 6);
    counter(page, input, "kwatt_departed_joules_total",
            "Energy above idle of workloads that ended and are not listed any more, in joules.",
            input->snapshot->departed_uj, 6);
    counter(page, input, "kwatt_idle_unshared_joules_total",
            "Idle energy that no workload got by the idle policy, in joules.",
            sample->idle_unshared_uj, 6);
    kw_metrics_family(page, "kwatt_agent_info", KW_METRIC_GAUGE,
                      "How the energies come about. idle_policy: what is done with idle energy.");
    agent_labels_put(&labels, "meter", sample->meter);
    agent_labels_put(&labels, "accounting", sample->accounting);
    agent_labels_put(&labels, "method", sample->method);
    agent_labels_put(&labels, "idle_policy", sample->idle_policy);
    agent_labels_put(&labels, "estimated",
                     (sample->quality & KW_QUALITY_BIT(KW_QUALITY_ESTIMATED)) != 0 ? "true"
                                                                                   : "false");
    kw_metrics_u64(page, agent_labels_seal(&labels, input), 1);
}

static void write_own(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    const struct kw_sample *sample = &input->snapshot->sample;

    counter(page, input, "kwatt_samples_total", "Samples since the agent's start.", sample->seq, 0);
    gauge(page, input, "kwatt_sample_interval_seconds", "Measured time since the sample before.",
          sample->interval_ns, 9);
    counter(page, input, "kwatt_agent_cpu_seconds_total", "CPU time of the agent itself.",
            sample->self_cpu_ns, 9);
    counter(page, input, "kwatt_agent_joules_total",
            "Energy above idle of the agent itself, by its part of the node's CPU time; its own "
            "workload has it, too.",
            sample->self_uj, 6);
    gauge(page, input, "kwatt_agent_resident_memory_bytes", "Resident memory of the agent itself.",
          sample->self_rss_bytes, 0);
    if (!input->has_redis)
        return;
    counter(page, input, "kwatt_redis_batches_total", "Batches written to Redis.",
            input->batches_written, 0);
    counter(page, input, "kwatt_redis_failed_batches_total", "Batches that Redis did not take.",
            input->batches_failed, 0);
}

/** One series for each logical CPU, as Kepler has them: its dashboards list the nodes by these. */
static void write_cpus(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    const struct agent_topology *topology = input->topology;

    if (topology == NULL)
        return;
    kw_metrics_family(page, "kepler_node_cpu_info", KW_METRIC_GAUGE, "Logical CPUs of the node.");
    for (unsigned cpu = 0; cpu < topology->n_cpus; cpu++) {
        struct agent_labels labels = {0};
        char number[16], package[16], core[16];
        if (topology->cpu_core[cpu] == 0)
            continue;
        (void)snprintf(number, sizeof(number), "%u", cpu);
        (void)snprintf(package, sizeof(package), "%u",
                       topology->package_ids[topology->cpu_package[cpu]]);
        (void)snprintf(core, sizeof(core), "%u", topology->cpu_core[cpu] - 1);
        agent_labels_put(&labels, "processor", number);
        agent_labels_put(&labels, "vendor_id", topology->cpu_vendor);
        agent_labels_put(&labels, "model_name", topology->cpu_model);
        agent_labels_put(&labels, "physical_id", package);
        agent_labels_put(&labels, "core_id", core);
        kw_metrics_u64(page, agent_labels_seal(&labels, input), 1);
    }
}

static void write_build(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    struct agent_labels labels = {0};

    agent_labels_put(&labels, "version", kw_version());
    agent_labels_put(&labels, "revision", kw_version_commit());
    kw_metrics_family(page, "kwatt_build_info", KW_METRIC_GAUGE, "Version of the agent.");
    kw_metrics_u64(page, agent_labels_seal(&labels, input), 1);
    labels = (struct agent_labels){0};
    agent_labels_put(&labels, "arch", ARCHITECTURE);
    agent_labels_put(&labels, "branch", "");
    agent_labels_put(&labels, "revision", kw_version_commit());
    agent_labels_put(&labels, "version", kw_version());
    agent_labels_put(&labels, "goversion", "");
    kw_metrics_family(page, "kepler_build_info", KW_METRIC_GAUGE,
                      "Version of kwatt, for dashboards that ask for Kepler's.");
    kw_metrics_u64(page, agent_labels_seal(&labels, input), 1);
}

int agent_metrics_write(const struct agent_metrics_input *input, enum kw_metrics_format format,
                        struct kw_buf *out)
{
    struct kw_metrics_page page = {0};
    bool has_dram = false;

    kw_metrics_begin(&page, format, out);
    write_build(&page, input);
    write_cpus(&page, input);
    if (input->snapshot != NULL) {
        for (unsigned p = 0; p < input->snapshot->sample.n_packages; p++)
            has_dram = has_dram || input->snapshot->sample.packages[p].has_dram;
        write_node(&page, input);
        for (unsigned kind = 0; kind < KW_WORKLOAD__MAX; kind++) {
            for (unsigned figure = WORKLOAD_JOULES; figure <= WORKLOAD_MEMORY; figure++)
                write_workloads(&page, input, (enum kw_workload_kind)kind,
                                (enum workload_figure)figure, has_dram);
        }
        agent_metrics_any_kind(&page, input);
        if (input->more.explain)
            agent_metrics_explain(&page, input);
        agent_metrics_processes(&page, input, has_dram);
        write_own(&page, input);
    }
    return kw_metrics_end(&page);
}
