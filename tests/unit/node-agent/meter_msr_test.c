/* SPDX-License-Identifier: Apache-2.0 */
/* The MSR meter on played registers, and what each CPU's counts are worth. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/metering.h"
#include "node-agent/msr_port.h"
#include "node-agent/msr_rapl.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_meter_conf conf;

/* The played registers: the same for the CPUs of a package. */
static struct {
    uint64_t unit, package[2], dram[2];
} played;
static unsigned cpu_of_fd[1024];
static int open_error, offline_cpu;

static int played_open(void *user, const char *dev_root, unsigned cpu)
{
    (void)user;
    assert_string_equal(dev_root, "/dev");
    if (open_error != 0)
        return open_error;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_in_range(fd, 1, 1023);
    cpu_of_fd[fd] = cpu;
    return fd;
}

static int played_read(void *user, int fd, uint32_t reg, uint64_t *ret)
{
    unsigned cpu = cpu_of_fd[fd];

    (void)user;
    if ((int)cpu == offline_cpu)
        return -ENXIO;
    switch (reg) {
    case 0x606:
    case 0xC0010299: *ret = played.unit; return 0;
    case 0x611:
    case 0xC001029B: *ret = played.package[cpu / 2]; return 0;
    case 0x619: *ret = played.dram[cpu / 2]; return 0;
    default: return -EIO;
    }
}

static const struct agent_msr_port port = {.open = played_open, .read = played_read};

static int setup(void **state)
{
    (void)state;
    memset(&played, 0, sizeof(played));
    open_error = 0;
    offline_cpu = -1;
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    topology.cpu_family = 6;
    topology.cpu_model_number = 85;
    conf = (struct agent_meter_conf){.topology = &topology, .sysfs_root = tree.root, .msr = &port};
    kwt_tree_write(&tree, "devices/system/cpu/online", "0-3\n");
    played.unit = 0xA0E03;
    played.package[0] = played.package[1] = 16384;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

static void test_layouts(void **state)
{
    static const struct {
        const char *vendor;
        unsigned family, model;
        uint64_t unit;
        uint32_t unit_reg, package_reg, dram_reg;
        uint64_t package_uj, dram_uj; /* of 2^20 counts */
    } cases[] = {
        {"GenuineIntel", 6, 85, 0xA0E03, 0x606, 0x611, 0x619, 64000000, 16043212},
        {"GenuineIntel", 6, 143, 0xA0E03, 0x606, 0x611, 0x619, 64000000, 64000000},
        {"GenuineIntel", 6, 142, 0xA0E03, 0x606, 0x611, 0x619, 64000000, 64000000},
        {"GenuineIntel", 6, 45, 0xA1003, 0x606, 0x611, 0x619, 16000000, 16000000},
        {"GenuineIntel", 6, 55, 0x505, 0x606, 0x611, 0x619, 33554432, 33554432},
        {"AuthenticAMD", 25, 97, 0xA1000, 0xC0010299, 0xC001029B, 0, 16000000, 0},
        {"HygonGenuine", 24, 0, 0xA1000, 0xC0010299, 0xC001029B, 0, 16000000, 0},
        {"AuthenticAMD", 21, 2, 0xA1000, 0, 0, 0, 0, 0},
        {"ARM", 8, 1, 0, 0, 0, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct agent_topology cpu = {.cpu_family = cases[i].family,
                                     .cpu_model_number = cases[i].model};
        (void)snprintf(cpu.cpu_vendor, sizeof(cpu.cpu_vendor), "%s", cases[i].vendor);
        struct agent_msr_layout layout = agent_msr_layout(&cpu, cases[i].unit);
        assert_int_equal(layout.unit_reg, cases[i].unit_reg);
        assert_int_equal(layout.package.reg, cases[i].package_reg);
        assert_int_equal(layout.dram.reg, cases[i].dram_reg);
        if (layout.unit_reg == 0)
            continue;
        assert_int_equal(agent_msr_energy_uj(&layout.package, UINT64_C(0xabc00100000)),
                         cases[i].package_uj);
        if (layout.dram.reg != 0)
            assert_int_equal(agent_msr_energy_uj(&layout.dram, 1 << 20), cases[i].dram_uj);
    }
}

/** Both sockets, memory where it counts, and 32 bits that wrap. */
static void test_reading(void **state)
{
    const struct agent_domain *domains = NULL;
    struct agent_reading readings[3];
    void *self = NULL;

    (void)state;
    played.dram[1] = 10;
    assert_int_equal(agent_meter_msr.open(&conf, &self, NULL), 0);
    assert_int_equal(agent_meter_msr.domains(self, &domains), 3);
    assert_string_equal(domains[0].name, "package-0");
    assert_string_equal(domains[1].name, "package-1");
    assert_string_equal(domains[2].name, "dram-1");
    assert_int_equal(domains[0].range_uj, UINT64_C(262144000000));
    played.package[0] = UINT64_C(0x1ffffffff); /* bits above 32 are not of the counter */
    assert_int_equal(agent_meter_msr.read(self, NULL, readings), 0);
    assert_int_equal(readings[0].counter_uj, UINT64_C(262143999938));
    assert_int_equal(readings[1].counter_uj, 1000000);
    assert_int_equal(readings[2].counter_uj, 153);
    agent_meter_msr.close(&self);
}

/** A CPU that is taken offline is replaced by its sibling, without privileges to open anything. */
static void test_spare(void **state)
{
    struct agent_reading readings[2];
    void *self = NULL;

    (void)state;
    assert_int_equal(agent_meter_msr.open(&conf, &self, NULL), 0);
    open_error = -EPERM;
    offline_cpu = 0;
    assert_int_equal(agent_meter_msr.read(self, NULL, readings), 0);
    assert_int_equal(readings[0].error, 0);
    assert_int_equal(readings[0].counter_uj, 1000000);
    agent_meter_msr.close(&self);
}

static void test_refusals(void **state)
{
    static const struct {
        int error, code;
        const char *word;
    } cases[] = {{-ENOENT, -ENODEV, "load the kernel module msr"},
                 {-EPERM, -EPERM, "CAP_SYS_RAWIO"},
                 {-EACCES, -EACCES, "CAP_SYS_RAWIO"}};
    struct kw_err err = {0};
    void *self = NULL;

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        open_error = cases[i].error;
        assert_int_equal(agent_meter_msr.open(&conf, &self, &err), cases[i].code);
        assert_non_null(strstr(err.text, cases[i].word));
    }
    open_error = 0;
    played.package[0] = played.package[1] = 0; /* as hypervisors answer */
    assert_int_equal(agent_meter_msr.open(&conf, &self, &err), -ENODATA);
    (void)snprintf(topology.cpu_vendor, sizeof(topology.cpu_vendor), "ARM");
    assert_int_equal(agent_meter_msr.open(&conf, &self, &err), -ENODEV);
    assert_null(self);
}

/** Never used but where it is asked for by name. */
static void test_on_request(void **state)
{
    struct agent_metering *metering = NULL;
    const struct agent_meter_reason *reasons = NULL;

    (void)state;
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    assert_string_equal(agent_metering_ops(metering)->name, "model");
    assert_true(agent_metering_reasons(metering, &reasons) > 2);
    assert_string_equal(reasons[2].meter, "msr");
    assert_non_null(strstr(reasons[2].text, "asked for by name; --meter msr"));
    agent_metering_free(&metering);
    assert_int_equal(agent_metering_new("msr", &conf, &metering, NULL), 0);
    assert_string_equal(agent_metering_ops(metering)->name, "msr");
    agent_metering_free(&metering);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_layouts),  TEST(test_reading),    TEST(test_spare),
        TEST(test_refusals), TEST(test_on_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
