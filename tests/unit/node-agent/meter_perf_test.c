/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The perf meter: its descriptions read exactly, its events on played system calls (no machine of
 * ours has the PMU), and at the end real events of the kernel through the same code.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/metering.h"
#include "node-agent/perf_pmu.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

#define PMU        "bus/event_source/devices/power/"
#define RAPL_SCALE "2.3283064365386962890625e-10\n"

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_meter_conf conf;

/* The played kernel: one event a row. */
static struct played {
    int fd; /* 0: free */
    unsigned cpu;
    uint64_t config, count, enabled_ns;
    bool dead;
} played[32];
static int open_error;

static int played_open(void *user, uint32_t type, uint64_t config, unsigned cpu)
{
    (void)user;
    assert_int_equal(type, 21);
    if (open_error != 0)
        return open_error;
    for (size_t i = 0; i < KW_ARRAY_SIZE(played); i++) {
        if (played[i].fd != 0)
            continue;
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fd > 0);
        played[i] = (struct played){.fd = fd, .cpu = cpu, .config = config};
        return fd;
    }
    return -EMFILE;
}

static ssize_t played_read(void *user, int fd, uint64_t ret[3])
{
    (void)user;
    for (size_t i = 0; i < KW_ARRAY_SIZE(played); i++) {
        if (played[i].fd != fd)
            continue;
        if (!played[i].dead)
            played[i].enabled_ns = kw_now_ns();
        ret[0] = played[i].count;
        ret[1] = ret[2] = played[i].enabled_ns;
        return 3 * sizeof(uint64_t);
    }
    return -EBADF;
}

static const struct agent_perf_port port = {.open = played_open, .read = played_read};

/** Adds to a living event. @return how many there are. */
static unsigned count(uint64_t config, unsigned cpu, uint64_t joules)
{
    unsigned n = 0;

    for (size_t i = 0; i < KW_ARRAY_SIZE(played); i++) {
        if (played[i].fd == 0 || played[i].config != config || played[i].cpu != cpu ||
            played[i].dead)
            continue;
        played[i].count += joules << 32;
        n++;
    }
    return n;
}

static void event(const char *name, const char *config)
{
    char path[128];

    (void)snprintf(path, sizeof(path), PMU "events/%s", name);
    kwt_tree_write(&tree, path, config);
    (void)snprintf(path, sizeof(path), PMU "events/%s.scale", name);
    kwt_tree_write(&tree, path, RAPL_SCALE);
    (void)snprintf(path, sizeof(path), PMU "events/%s.unit", name);
    kwt_tree_write(&tree, path, "Joules\n");
}

static void place(unsigned cpu, const char *package, const char *die)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "devices/system/cpu/cpu%u/topology/physical_package_id",
                   cpu);
    kwt_tree_write(&tree, path, package);
    (void)snprintf(path, sizeof(path), "devices/system/cpu/cpu%u/topology/die_id", cpu);
    kwt_tree_write(&tree, path, die);
}

static int setup(void **state)
{
    (void)state;
    memset(played, 0, sizeof(played));
    open_error = 0;
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    conf = (struct agent_meter_conf){.topology = &topology, .sysfs_root = tree.root, .perf = &port};
    kwt_tree_write(&tree, PMU "type", "21\n");
    kwt_tree_write(&tree, PMU "cpumask", "0,2\n");
    event("energy-pkg", "event=0x02\n");
    event("energy-ram", "event=0x03\n");
    event("energy-psys", "event=0x05\n");
    event("energy-cores", "event=0x01\n");
    for (unsigned cpu = 0; cpu < 4; cpu++)
        place(cpu, cpu < 2 ? "0\n" : "1\n", "0\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

static void test_scales(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t num, den;
    } cases[] = {
        {RAPL_SCALE, 0, 15625, 67108864},
        {"2.3283064365386962890625e-10", 0, 15625, 67108864},
        {"1", 0, 1000000, 1},
        {"1e-9\n", 0, 1, 1000},
        {"0.5", 0, 500000, 1},
        {".25E+0", 0, 250000, 1},
        {"6.103515625e-05", 0, 15625, 256},
        {"100", 0, 100000000, 1},
        {"1.000000000000000000000", 0, 1000000, 1},
        {"0", -ERANGE, 0, 0},
        {"0.0e5", -ERANGE, 0, 0},
        {"1e20", -ERANGE, 0, 0},
        {"1e-60", -ERANGE, 0, 0},
        {"3e-30", -ERANGE, 0, 0},
        {"1e9999", -EBADMSG, 0, 0},
        {"", -EBADMSG, 0, 0},
        {".", -EBADMSG, 0, 0},
        {"e5", -EBADMSG, 0, 0},
        {"-1", -EBADMSG, 0, 0},
        {"1.2.3", -EBADMSG, 0, 0},
        {"1e", -EBADMSG, 0, 0},
        {"1e-", -EBADMSG, 0, 0},
        {"1 J", -EBADMSG, 0, 0},
        {"nan", -EBADMSG, 0, 0},
        {"1234567890123456789012345678901234567891", -EBADMSG, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        uint64_t num = 0, den = 0;
        int rc = agent_perf_scale_parse(cases[i].text, strlen(cases[i].text), &num, &den);
        if (rc != cases[i].rc || num != cases[i].num || den != cases[i].den)
            fail_msg("%s: %d, %llu/%llu", cases[i].text, rc, (unsigned long long)num,
                     (unsigned long long)den);
    }
}

static void test_configs(void **state)
{
    uint64_t config = 7;

    (void)state;
    assert_int_equal(agent_perf_config_parse("event=0x02\n", 11, &config), 0);
    assert_int_equal(config, 2);
    assert_int_equal(agent_perf_config_parse("event=0xffffffffffffffff", 24, &config), 0);
    assert_int_equal(config, UINT64_MAX);
    assert_int_equal(agent_perf_config_parse("event=0x", 8, &config), -EBADMSG);
    assert_int_equal(agent_perf_config_parse("event=2", 7, &config), -EBADMSG);
    assert_int_equal(agent_perf_config_parse("event=0x2,umask=1", 17, &config), -EBADMSG);
    assert_int_equal(agent_perf_config_parse("event=0x10000000000000000", 25, &config), -EBADMSG);
}

static void *open_meter(size_t n_domains, const struct agent_domain **ret)
{
    struct kw_err err = {0};
    void *self = NULL;

    if (agent_meter_perf.open(&conf, &self, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(agent_meter_perf.domains(self, ret), n_domains);
    return self;
}

static void test_two_sockets(void **state)
{
    static const uint64_t expected_uj[] = {7000000, 2000000, 50000000, 11000000, 3000000};
    static const char *const names[] = {"package-0", "dram-0", "psys", "package-1", "dram-1"};
    const struct agent_domain *domains = NULL;
    struct agent_reading readings[5];

    (void)state;
    void *self = open_meter(5, &domains);
    (void)count(2, 0, 7);
    (void)count(3, 0, 2);
    (void)count(5, 0, 50);
    (void)count(2, 2, 11);
    (void)count(3, 2, 3);
    assert_int_equal(count(5, 2, 1), 0); /* the platform is one */
    assert_int_equal(count(1, 0, 1), 0); /* cores are part of their package */
    (void)usleep(2000);
    assert_int_equal(agent_meter_perf.read(self, NULL, readings), 0);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(readings[i].error, 0);
        assert_string_equal(domains[i].name, names[i]);
        assert_int_equal(readings[i].counter_uj, expected_uj[i]);
        assert_int_equal(domains[i].range_uj, 0);
    }
    agent_meter_perf.close(&self);
    assert_null(self);
}

/** A count of 2^63 units (2 GJ) is a number like any other. */
static void test_no_wrap(void **state)
{
    const struct agent_domain *domains = NULL;
    struct agent_reading readings[5];

    (void)state;
    void *self = open_meter(5, &domains);
    for (size_t i = 0; i < KW_ARRAY_SIZE(played); i++)
        played[i].count = UINT64_MAX;
    (void)usleep(2000);
    assert_int_equal(agent_meter_perf.read(self, NULL, readings), 0);
    assert_int_equal(readings[0].counter_uj, UINT64_C(4294967295999999));
    agent_meter_perf.close(&self);
}

static void test_dies(void **state)
{
    const struct agent_domain *domains = NULL;

    (void)state;
    kwt_tree_write(&tree, PMU "cpumask", "0-3\n");
    place(1, "0\n", "1\n");
    place(3, "1\n", "1\n");
    void *self = open_meter(9, &domains);
    assert_string_equal(domains[0].name, "package-0-die-0");
    assert_string_equal(domains[3].name, "package-0-die-1");
    assert_int_equal(domains[3].package, 0);
    agent_meter_perf.close(&self);
    kwt_meter_topology(&topology, 2, "AuthenticAMD");
    self = open_meter(5, &domains); /* each die shows its socket's counter */
    agent_meter_perf.close(&self);
}

/** The memory unit that old kernels mistook, as powercap's range betrays. */
static void test_dram_unit(void **state)
{
    const struct agent_domain *domains = NULL;
    struct agent_reading readings[5];

    (void)state;
    topology.cpu_family = 6;
    topology.cpu_model_number = 143;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "5\n", "262143328850\n");
    kwt_meter_zone(&tree, "intel-rapl:0:0", "dram\n", "5\n", "65712999613\n");
    void *self = open_meter(5, &domains);
    (void)count(3, 0, 2);
    (void)usleep(2000);
    assert_int_equal(agent_meter_perf.read(self, NULL, readings), 0);
    assert_int_equal(readings[1].counter_uj, 8000000);
    assert_int_equal(readings[0].counter_uj, 0);
    agent_meter_perf.close(&self);
}

/** The CPU of an event goes offline: moved by the kernel, or dead with its package, and back. */
static void test_hotplug(void **state)
{
    const struct agent_domain *domains = NULL;
    struct agent_reading readings[5];

    (void)state;
    void *self = open_meter(5, &domains);
    (void)count(2, 0, 5);
    (void)usleep(2000);
    assert_int_equal(agent_meter_perf.read(self, NULL, readings), 0);
    assert_int_equal(readings[0].counter_uj, 5000000);
    /* CPU 0 is gone, and the kernel moved the event to CPU 1: same descriptor, same count */
    kwt_tree_write(&tree, PMU "cpumask", "1,2\n");
    (void)usleep(2000);
    assert_false(agent_meter_perf.rescan(self));
    assert_int_equal(count(2, 1, 1), 0);
    (void)count(2, 0, 1);
    (void)usleep(2000);
    assert_int_equal(agent_meter_perf.read(self, NULL, readings), 0);
    assert_int_equal(readings[0].counter_uj, 6000000);
    /* the whole package goes, its event no longer counts, and is told apart from an idle one */
    for (size_t i = 0; i < KW_ARRAY_SIZE(played); i++)
        played[i].dead = played[i].cpu == 0;
    (void)usleep(2000);
    assert_int_equal(agent_meter_perf.read(self, NULL, readings), 0);
    assert_int_equal(readings[0].error, -ENODEV);
    assert_int_equal(readings[3].error, 0);
    /* and comes back: a new event goes on from the last value */
    (void)usleep(2000);
    assert_false(agent_meter_perf.rescan(self));
    assert_int_equal(count(2, 1, 4), 1);
    (void)usleep(2000);
    assert_int_equal(agent_meter_perf.read(self, NULL, readings), 0);
    assert_int_equal(readings[0].error, 0);
    assert_int_equal(readings[0].counter_uj, 10000000);
    /* gone for longer: its domains go, too */
    kwt_tree_write(&tree, PMU "cpumask", "2\n");
    (void)usleep(2000);
    assert_true(agent_meter_perf.rescan(self));
    assert_int_equal(agent_meter_perf.domains(self, &domains), 3);
    agent_meter_perf.close(&self);
}

static void assert_open_fails(int code, const char *word)
{
    struct kw_err err = {0};
    void *self = NULL;

    assert_int_equal(agent_meter_perf.open(&conf, &self, &err), code);
    assert_null(self);
    if (strstr(err.text, word) == NULL)
        fail_msg("%s", err.text);
}

static void test_refusals(void **state)
{
    (void)state;
    open_error = -EACCES;
    assert_open_fails(-EACCES, "CAP_PERFMON");
    open_error = -ENOENT;
    assert_open_fails(-ENODEV, "counts no package");
    open_error = 0;
    kwt_tree_write(&tree, PMU "events/energy-pkg.scale", "1,5e-9\n");
    assert_open_fails(-EBADMSG, "events/energy-pkg.scale");
    kwt_tree_write(&tree, PMU "events/energy-pkg.scale", RAPL_SCALE);
    kwt_tree_write(&tree, PMU "events/energy-pkg.unit", "Calories\n");
    assert_open_fails(-EBADMSG, "events/energy-pkg.unit");
    kwt_tree_write(&tree, PMU "events/energy-pkg.unit", "Joules\n");
    kwt_tree_write(&tree, PMU "cpumask", "nonsense\n");
    assert_open_fails(-EBADMSG, "cpumask");
    kwt_tree_delete(&tree, PMU "events/energy-pkg");
    assert_open_fails(-ENODATA, "no event energy-pkg");
    kwt_tree_delete(&tree, "bus");
    assert_open_fails(-ENOENT, "no power PMU");
}

/** Real events of the kernel through the same code: CPU clocks in ns, taken for nanojoules. */
static void test_real_events(void **state)
{
    struct agent_topology here;
    struct agent_meter_conf real = {.topology = &here, .sysfs_root = tree.root};
    const struct agent_domain *domains = NULL;
    struct agent_reading before, after;
    struct kw_err err = {0};
    void *self = NULL;

    (void)state;
    kwt_meter_topology(&here, 1, "GenuineIntel");
    kwt_tree_write(&tree, PMU "type", "1\n");
    kwt_tree_write(&tree, PMU "cpumask", "0\n");
    kwt_tree_delete(&tree, PMU "events");
    event("energy-pkg", "event=0x00\n");
    kwt_tree_write(&tree, PMU "events/energy-pkg.scale", "1e-9\n");
    if (agent_meter_perf.open(&real, &self, &err) < 0) {
        printf("not tried: %s\n", err.text);
        skip();
    }
    assert_int_equal(agent_meter_perf.domains(self, &domains), 1);
    (void)usleep(2000);
    uint64_t outer_ns = kw_now_ns();
    assert_int_equal(agent_meter_perf.read(self, NULL, &before), 0);
    uint64_t inner_ns = kw_now_ns();
    (void)usleep(20000);
    inner_ns = kw_now_ns() - inner_ns;
    assert_int_equal(agent_meter_perf.read(self, NULL, &after), 0);
    outer_ns = kw_now_ns() - outer_ns;
    /* the clock of a CPU goes as fast as time, in a virtual machine at times a little less */
    assert_in_range(after.counter_uj - before.counter_uj, inner_ns / 2000, outer_ns / 1000 + 100);
    (void)usleep(2000);
    assert_false(agent_meter_perf.rescan(self));
    assert_int_equal(agent_meter_perf.read(self, NULL, &before), 0);
    assert_true(before.counter_uj >= after.counter_uj);
    agent_meter_perf.close(&self);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_scales),  TEST(test_configs),  TEST(test_two_sockets),
        TEST(test_no_wrap), TEST(test_dies),     TEST(test_dram_unit),
        TEST(test_hotplug), TEST(test_refusals), TEST(test_real_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
