/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/node-agent/snapshot_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/quality.h"
#include "node-agent/curve.h"
#include "tests/support/cmocka.h"

const struct kw_node_info kwt_snapshot_info = {
    .node = "node-1", .cpu_model = "Test CPU", .packages = 2, .cores = 2, .threads = 4};

static struct agent_label *label(enum kw_workload_kind kind, const char *id, const char *name,
                                 const char *cgroup)
{
    struct agent_label texts = {.kind = kind,
                                .id = (char *)id,
                                .name = (char *)name,
                                .runtime = (char *)"containerd",
                                .cgroup = (char *)cgroup,
                                .started_unix_ms = 1700000000000};
    struct agent_label *ret = NULL;

    assert_int_equal(agent_label_new(&texts, &ret), 0);
    return ret;
}

static void fill_rows(struct agent_snapshot *snapshot)
{
    snapshot->rows[0] = (struct agent_row){
        .label = label(KW_WORKLOAD_POD, "pod-uid", "web", "/kubepods/podpod-uid"),
        .cpu_ns = 1234567890,
        .cpu_uj = 9007199254740993, /* one more than a double can hold */
        .dram_uj = 7,
        .idle_uj = 60,
        .cpu_mw = 1500,
        .dram_mw = 250,
        .sigma_mw = 80,
        .counts = {11, 12, 13, 14},
        .cpu_intensity = {1120, 50},
        .idle_equal_mw = 300,
        .idle_requests_mw = 900,
        .memory_bytes = 4096,
        .first_container = 0,
        .n_containers = 2,
    };
    snapshot->rows[1] = (struct agent_row){
        .label = label(KW_WORKLOAD_CONTAINER, "c0ffee", "c0ffee", "/default/c0ffee"),
        .ended_unix_ms = 1700000001000,
        .cpu_uj = 1,
        .first_container = 2,
        .n_containers = 1,
    };
    snapshot->rows[2] = (struct agent_row){
        .label = label(KW_WORKLOAD_UNIT, "/a\"b\\c.service", "a\"b\\c.service", "/a\"b\\c.service"),
        .cpu_uj = 2,
    };
    snapshot->n_rows = 3;
    static const char *const ids[] = {"aaa", "bbb", "c0ffee"};
    for (size_t i = 0; i < 3; i++)
        snapshot->containers[i] = (struct agent_container_row){
            .label = label(KW_WORKLOAD_CONTAINER, ids[i], "", "/x"), .cpu_ns = i, .active_uj = i};
    snapshot->n_containers = 3;
}

struct agent_snapshot *kwt_snapshot_make(struct agent_snapshot_pool *pool)
{
    struct agent_snapshot *snapshot = NULL;
    struct agent_curve curve;

    assert_int_equal(agent_snapshot_take(pool, &snapshot), 0);
    snapshot->rows = calloc(3, sizeof(*snapshot->rows));
    snapshot->containers = calloc(3, sizeof(*snapshot->containers));
    assert_non_null(snapshot->rows);
    assert_non_null(snapshot->containers);
    snapshot->cap_rows = snapshot->cap_containers = 3;
    fill_rows(snapshot);
    struct kw_sample *sample = &snapshot->sample;
    memset(sample, 0, sizeof(*sample));
    (void)snprintf(sample->node, sizeof(sample->node), "node-1");
    (void)snprintf(sample->meter, sizeof(sample->meter), "powercap");
    (void)snprintf(sample->method, sizeof(sample->method), "ratio-cpu");
    (void)snprintf(sample->accounting, sizeof(sample->accounting), "ebpf");
    (void)snprintf(sample->idle_policy, sizeof(sample->idle_policy), "equal");
    sample->idle_unshared_uj = 40;
    sample->epoch = 1700000000000;
    sample->seq = 3;
    sample->t_unix_ms = 1700000005000;
    sample->interval_ns = 5000000001;
    sample->allocatable_mcpu = 4000;
    sample->used_mcpu = 500;
    sample->quality = KW_QUALITY_BIT(KW_QUALITY_WRAPPED);
    sample->n_packages = 2;
    sample->packages[0] = (struct kw_package_sample){.package = 0,
                                                     .cpu = {.measured_uj = 9007199254741100,
                                                             .idle_uj = 100,
                                                             .pods_uj = 9007199254740996,
                                                             .system_uj = 4},
                                                     .has_dram = true,
                                                     .dram = {.measured_uj = 7, .pods_uj = 7}};
    sample->packages[1] =
        (struct kw_package_sample){.package = 1, .cpu = {.measured_uj = 3, .idle_uj = 3}};
    for (unsigned slot = 0; slot < 3; slot++) {
        snapshot->slots[slot].present = true;
        (void)snprintf(snapshot->slots[slot].path, sizeof(snapshot->slots[slot].path),
                       "/sys/class/powercap/intel-rapl:%u/energy_uj", slot);
        snapshot->slot_mw[slot] = 1000 * (slot + 1);
        snapshot->slot_idle_mw[slot] = 500;
    }
    agent_curve_init(&curve, 10000, 50000);
    agent_curve_get(&curve, 4000, false, &snapshot->curve);
    return snapshot;
}
