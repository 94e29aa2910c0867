/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/api/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t kwt_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/** 0..INT64_MAX, of any magnitude. */
static uint64_t number(uint64_t *state)
{
    return (kwt_random(state) >> 1) >> (kwt_random(state) % 64);
}

/** A text of 1..max bytes with multi-byte characters, quotes and control characters. */
static void text(uint64_t *state, char *out, size_t max)
{
    static const char *const pieces[] = {"a",  "Z",  "0", "-",  "/", "\"",   "\\",
                                         "\n", "\t", "ä", "世", "😀", "\x01", "."};
    size_t want = 1 + (size_t)(kwt_random(state) % max), len = 0;

    out[0] = '\0';
    for (;;) {
        const char *piece = pieces[kwt_random(state) % (sizeof(pieces) / sizeof(pieces[0]))];
        size_t size = strlen(piece);
        if (len + size > want)
            break;
        memcpy(out + len, piece, size + 1);
        len += size;
    }
    if (len == 0)
        memcpy(out, "x", 2);
}

static char *owned(uint64_t *state, size_t max)
{
    char *out = malloc(max + 1);

    if (out == NULL)
        abort();
    text(state, out, max);
    return out;
}

static struct kw_energy energy(uint64_t *state)
{
    return (struct kw_energy){number(state), number(state), number(state), number(state),
                              number(state)};
}

struct kw_sample kwt_sample(uint64_t *state)
{
    struct kw_sample sample = {
        .epoch = number(state),
        .seq = number(state),
        .t_unix_ms = (int64_t)number(state),
        .interval_ns = number(state),
        .n_packages = (uint32_t)(kwt_random(state) % (KW_PACKAGES_MAX + 1)),
        .watts_mw = number(state),
        .used_mcpu = number(state),
        .allocatable_mcpu = number(state),
        .idle_mw = number(state),
        .idle_sigma_mw = number(state),
        .quality = (uint32_t)(kwt_random(state) % (UINT32_C(1) << KW_QUALITY__MAX)),
        .self_cpu_ns = number(state),
        .self_rss_bytes = number(state),
        .self_uj = number(state),
    };

    text(state, sample.node, sizeof(sample.node) - 1);
    text(state, sample.boot_id, sizeof(sample.boot_id) - 1);
    text(state, sample.meter, sizeof(sample.meter) - 1);
    text(state, sample.method, sizeof(sample.method) - 1);
    text(state, sample.idle_policy, sizeof(sample.idle_policy) - 1);
    sample.idle_unshared_uj = number(state);
    text(state, sample.accounting, sizeof(sample.accounting) - 1);
    for (uint32_t i = 0; i < sample.n_packages; i++) {
        sample.packages[i].package = i * 3;
        sample.packages[i].cpu = energy(state);
        sample.packages[i].has_dram = kwt_random(state) % 2 == 0;
        if (sample.packages[i].has_dram)
            sample.packages[i].dram = energy(state);
    }
    if (kwt_random(state) % 2 == 0)
        sample.system = (struct kw_system_sample){.present = true,
                                                  .root_uj = number(state),
                                                  .root_cpu_ns = number(state),
                                                  .slices_uj = number(state),
                                                  .slices_cpu_ns = number(state),
                                                  .other_uj = number(state),
                                                  .other_cpu_ns = number(state)};
    if (sample.system.present && kwt_random(state) % 2 == 0) {
        sample.system.has_kernel = true;
        sample.system.kernel_uj = number(state);
        sample.system.kernel_cpu_ns = number(state);
    }
    if (sample.system.present && kwt_random(state) % 2 == 0) {
        sample.system.has_interrupts = true;
        sample.system.interrupts_uj = number(state);
        sample.system.interrupts_cpu_ns = number(state);
    }
    sample.totals.present = kwt_random(state) % 2 == 0;
    if (sample.totals.present) {
        sample.totals.apart = kwt_random(state) % 2 == 0;
        sample.totals.has_dram = kwt_random(state) % 2 == 0;
        sample.totals.has_counters = kwt_random(state) % 2 == 0;
        sample.totals.cpu_uj = number(state);
        sample.totals.dram_uj = sample.totals.has_dram ? number(state) : 0;
        sample.totals.cpu_ns = number(state);
        sample.totals.cycles = sample.totals.has_counters ? number(state) : 0;
        sample.totals.instructions = sample.totals.has_counters ? number(state) : 0;
        sample.totals.llc_misses = sample.totals.has_counters ? number(state) : 0;
    }
    sample.has_work = kwt_random(state) % 2 == 0;
    sample.work_mcpu = sample.has_work ? number(state) : 0;
    sample.platform.present = kwt_random(state) % 2 == 0;
    if (sample.platform.present) {
        sample.platform.mw = number(state);
        sample.platform.age_ms = number(state);
        text(state, sample.platform.source, sizeof(sample.platform.source) - 1);
    }
    return sample;
}

struct kw_curve kwt_curve(uint64_t *state)
{
    struct kw_curve curve = {.capacity_mcpu = 1 + (number(state) >> 1),
                             .estimated = kwt_random(state) % 2 == 0,
                             .by_core = kwt_random(state) % 2 == 0,
                             .n = 2 + (uint32_t)(kwt_random(state) % (KW_CURVE_KNOTS - 1))};

    for (uint32_t i = 0; i < curve.n; i++) {
        curve.knots[i].load_permille = i + 1 == curve.n ? 1000 : i * 90;
        curve.knots[i].mw = (i > 0 ? curve.knots[i - 1].mw : 0) +
                            (uint32_t)(kwt_random(state) % (UINT32_MAX / (KW_CURVE_KNOTS + 1)));
        curve.knots[i].confidence_permille = (uint32_t)(kwt_random(state) % 1001);
    }
    if (kwt_random(state) % 2 == 0)
        text(state, curve.machine, sizeof(curve.machine) - 1);
    curve.platform.present = kwt_random(state) % 2 == 0;
    for (uint32_t i = 0; curve.platform.present && i < curve.n; i++) {
        curve.platform.mw[i] = curve.knots[i].mw + 100 * i;
        curve.platform.confidence_permille[i] = (uint32_t)(kwt_random(state) % 1001);
    }
    return curve;
}

struct kw_node_info kwt_node_info(uint64_t *state)
{
    struct kw_node_info info = {.packages = (uint32_t)number(state),
                                .cores = (uint32_t)number(state),
                                .threads = (uint32_t)number(state)};

    text(state, info.node, sizeof(info.node) - 1);
    text(state, info.cpu_model, sizeof(info.cpu_model) - 1);
    text(state, info.kernel, sizeof(info.kernel) - 1);
    text(state, info.version, sizeof(info.version) - 1);
    return info;
}

struct kw_pod_record kwt_pod_record(uint64_t *state)
{
    struct kw_pod_record record = {
        .kind = (enum kw_workload_kind)(kwt_random(state) % KW_WORKLOAD__MAX),
        .id = owned(state, 200),
        .name = owned(state, 60),
        .namespace_ = owned(state, 30),
        .owner_kind = owned(state, 20),
        .owner_name = owned(state, 60),
        .qos = (enum kw_qos)(kwt_random(state) % KW_QOS__MAX),
        .runtime = owned(state, 10),
        .cgroup = owned(state, 4095),
        .epoch = number(state),
        .started_unix_ms = (int64_t)number(state),
        .ended_unix_ms = (int64_t)number(state),
        .t_unix_ms = (int64_t)number(state),
        .cpu_ns = number(state),
        .active_uj = number(state),
        .dram_uj = number(state),
        .idle_uj = number(state),
        .sigma_uj = number(state),
        .watts_mw = number(state),
        .shared_ns = number(state),
        .cycles = number(state),
        .instructions = number(state),
        .llc_misses = number(state),
        .dram_mw = number(state),
        .sigma_mw = number(state),
        .cpu_intensity = {number(state), 1},
        .dram_intensity = {number(state), 1000},
        .idle_equal_mw = number(state),
        .idle_requests_mw = number(state),
        .memory_bytes = number(state),
        .estimated = kwt_random(state) % 2 == 0,
        .n_containers = (size_t)(kwt_random(state) % 4),
    };

    record.containers = calloc(record.n_containers + 1, sizeof(*record.containers));
    if (record.containers == NULL)
        abort();
    for (size_t i = 0; i < record.n_containers; i++) {
        char *id = malloc(64);
        if (id == NULL)
            abort();
        (void)snprintf(id, 64, "%03zu-container", i);
        record.containers[i] = (struct kw_container_record){.id = id,
                                                            .name = owned(state, 60),
                                                            .cpu_ns = number(state),
                                                            .active_uj = number(state),
                                                            .memory_bytes = number(state),
                                                            .request_mcpu = number(state),
                                                            .request_bytes = number(state),
                                                            .limit_mcpu = number(state),
                                                            .limit_bytes = number(state)};
    }
    record.labels.items = calloc(1, sizeof(*record.labels.items));
    if (record.labels.items == NULL)
        abort();
    record.labels.items[record.labels.n++] =
        (struct kw_label_pair){.key = owned(state, 60), .value = owned(state, 60)};
    return record;
}

struct kw_advice kwt_advice(uint64_t *state)
{
    struct kw_advice advice = {.t_unix_ms = (int64_t)number(state),
                               .samples = number(state),
                               .history_s = number(state),
                               .n_containers = (size_t)(kwt_random(state) % 4)};

    text(state, advice.workload, sizeof(advice.workload) - 1);
    advice.containers = calloc(advice.n_containers + 1, sizeof(*advice.containers));
    if (advice.containers == NULL)
        abort();
    for (size_t i = 0; i < advice.n_containers; i++) {
        struct kw_container_advice *container = &advice.containers[i];
        text(state, container->name, sizeof(container->name) - 1);
        container->target_mcpu = number(state);
        container->lower_mcpu = number(state);
        container->upper_mcpu = number(state);
        container->target_bytes = number(state);
        container->lower_bytes = number(state);
        container->upper_bytes = number(state);
    }
    return advice;
}

struct kw_node_view kwt_node_view(uint64_t *state)
{
    struct kw_node_view view = {.info = kwt_node_info(state),
                                .sample = kwt_sample(state),
                                .curve = kwt_curve(state),
                                .departed_uj = number(state),
                                .departed_idle_uj = number(state),
                                .n_pods = (size_t)(kwt_random(state) % 5)};

    view.pods = calloc(view.n_pods + 1, sizeof(*view.pods));
    if (view.pods == NULL)
        abort();
    for (size_t i = 0; i < view.n_pods; i++)
        view.pods[i] = kwt_pod_record(state);
    return view;
}
