/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters that share their PMU for real: somebody else opens an exclusive event on the same PMU,
 * so that the kernel lets the two take turns. Samples say so while it is so, and not before or
 * after. Where no CPU counts cycles, the kernel's PMU of RAPL energies is shared in the same way:
 * it is there also on virtual machines whose counters stand still.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "api/quality.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/bpf_counters.h"
#include "node-agent/sampler.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"

#define POWER_PMU "/sys/bus/event_source/devices/power"

/* On which PMU, and which CPU counts on it. */
static struct agent_counter_event events[AGENT_COUNTER__MAX];
static int cpu;

static int open_exclusive(const struct agent_counter_event *event)
{
    struct perf_event_attr attr = {
        .type = event->type, .config = event->config, .size = sizeof(attr), .exclusive = 1};

    return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool is_there(const struct agent_counter_event *event)
{
    kw_cleanup_close int fd = open_exclusive(event);

    return fd >= 0;
}

/* Any event of the RAPL PMU. */
static bool find_power_event(struct agent_counter_event *event)
{
    static const char *const names[] = {"energy-pkg", "energy-psys", "energy-cores", "energy-ram"};
    uint64_t value = 0;
    char text[64];

    if (kw_file_read_u64_at(AT_FDCWD, POWER_PMU "/type", &value) < 0)
        return false;
    event->type = (uint32_t)value;
    if (kw_file_read_u64_at(AT_FDCWD, POWER_PMU "/cpumask", &value) < 0)
        value = 0; /* "0,16": CPU 0 is always the first of its package */
    cpu = (int)value;
    for (size_t i = 0; i < KW_ARRAY_SIZE(names); i++) {
        char path[96];
        unsigned long long config;
        (void)snprintf(path, sizeof(path), POWER_PMU "/events/%s", names[i]);
        if (kw_file_read_at(AT_FDCWD, path, text, sizeof(text)) <= 0 ||
            sscanf(text, "event=%llx", &config) != 1)
            continue;
        event->config = config;
        if (is_there(event))
            return true;
    }
    return false;
}

static void find_events(void)
{
    memcpy(events, agent_counter_events, sizeof(events));
    if (is_there(&events[0]))
        return;
    if (!find_power_event(&events[0])) {
        printf("SKIP: no PMU that can be shared: no cycles, no RAPL\n");
        exit(77);
    }
    for (size_t i = 1; i < AGENT_COUNTER__MAX; i++)
        events[i] = events[0];
}

static pid_t spin_there(void)
{
    cpu_set_t set;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        _exit(1);
    for (;;)
        ;
}

static struct agent_topology topology;
static struct agent_sampler *sampler;

/* @return whether the sample says that counters were shared. */
static bool multiplexed(void)
{
    struct agent_sample_notes notes;
    struct agent_snapshot *snapshot = NULL;

    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    agent_sampler_window(sampler, 100 * KW_NS_PER_MS, &notes);
    assert_int_equal(notes.accounting_error, 0);
    assert_int_equal(agent_sampler_show(sampler, &snapshot), 0);
    uint32_t quality = snapshot->sample.quality;
    agent_snapshot_recycle(snapshot);
    assert_false((quality & KW_QUALITY_BIT(KW_QUALITY_NO_COUNTERS)) != 0);
    return (quality & KW_QUALITY_BIT(KW_QUALITY_MULTIPLEXED)) != 0;
}

static void test_shared_pmu(void **state)
{
    struct agent_metering *metering = NULL;
    struct agent_meter_conf meter_conf = {.topology = &topology, .sysfs_root = "/sys"};
    struct agent_accounting_conf accounting_conf = {.topology = &topology,
                                                    .sysfs_root = "/sys",
                                                    .procfs_root = "/proc",
                                                    .features =
                                                        AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS),
                                                    .events = events};
    struct agent_sampler_conf conf = {.topology = &topology,
                                      .accounting = &agent_accounting_ebpf,
                                      .method = agent_attributions[0],
                                      .prior = {.idle_mw = 2000, .full_mw = 20000},
                                      .node = "test",
                                      .boot_id = "boot"};
    struct kw_err err = {0};
    bool seen = false;

    (void)state;
    if (agent_accounting_ebpf.open(&accounting_conf, &conf.accounting_self, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(agent_metering_new("model", &meter_conf, &metering, NULL), 0);
    conf.metering = metering;
    assert_int_equal(agent_sampler_new(&conf, &sampler), 0);
    if (multiplexed()) {
        printf("SKIP: somebody shares the PMU already\n");
        exit(77);
    }
    pid_t pid = spin_there();
    int other = open_exclusive(&events[0]);
    assert_true(other >= 0);
    for (int i = 0; i < 100 && !seen; i++) /* turns are a few ms long */
        seen = multiplexed();
    assert_true(seen);
    (void)close(other);
    for (int i = 0; i < 100 && seen; i++) /* the first window began before */
        seen = multiplexed();
    assert_false(seen);
    kwt_kill(pid);
    agent_sampler_free(&sampler);
    agent_metering_free(&metering);
    agent_accounting_ebpf.close(&conf.accounting_self);
}

static int setup(void **state)
{
    struct agent_accounting_conf conf = {
        .topology = &topology, .sysfs_root = "/sys", .procfs_root = "/proc"};
    void *self = NULL;

    (void)state;
    if (agent_topology_read("/sys", "/proc", &topology) < 0)
        return -1;
    if (agent_accounting_ebpf.open(&conf, &self, NULL) < 0) {
        printf("SKIP: the kernel takes no BPF program from this process\n");
        exit(77);
    }
    agent_accounting_ebpf.close(&self);
    find_events();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared_pmu)};

    return cmocka_run_group_tests(tests, setup, NULL);
}
