/* SPDX-License-Identifier: Apache-2.0 */
/* hwmon sensors as meters: which are taken, and energy out of powers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/hwmon.h"
#include "node-agent/integrator.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

#define S KW_NS_PER_S

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_meter_conf conf;

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 2, "AuthenticAMD");
    conf = (struct agent_meter_conf){.topology = &topology, .sysfs_root = tree.root};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

static void file(const char *below, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "class/hwmon/%s", below);
    kwt_tree_write(&tree, path, text);
}

static void test_names(void **state)
{
    static const struct {
        const char *chip, *label;
        bool energy;
        enum agent_domain_kind kind;
        uint32_t socket;
    } cases[] = {
        {"amd_energy", "Esocket1", true, AGENT_DOMAIN_CPU, 1},
        {"amd_energy", "Ecore001", true, AGENT_DOMAIN__MAX, 0},
        {"amd_energy", "Esocket", true, AGENT_DOMAIN__MAX, 0},
        {"amd_energy", "Esocket1", false, AGENT_DOMAIN__MAX, 0},
        {"amd_energy", "Esocket64", true, AGENT_DOMAIN__MAX, 0},
        {"amd_hsmp_hwmon", "", false, AGENT_DOMAIN_CPU, 0},
        {"power_meter", "", false, AGENT_DOMAIN_PLATFORM, 0},
        {"power_meter", "Module Power Socket 1", false, AGENT_DOMAIN_PLATFORM, 1},
        {"power_meter", "CPU Power Socket 1", false, AGENT_DOMAIN_CPU, 1},
        {"power_meter", "Grace Power Socket 0", false, AGENT_DOMAIN__MAX, 0},
        {"power_meter", "System Board", false, AGENT_DOMAIN_PLATFORM, 0},
        {"power_meter", "", true, AGENT_DOMAIN__MAX, 0},
        {"power_meter", "SysIO Power Socket 0", false, AGENT_DOMAIN__MAX, 0},
        {"apm_xgene", "CPU power", false, AGENT_DOMAIN_CPU, 0},
        {"apm_xgene", "IO power", false, AGENT_DOMAIN__MAX, 0},
        {"zenpower", "SVI2_P_Core", false, AGENT_DOMAIN__MAX, 0},
        {"amdgpu", "PPT", false, AGENT_DOMAIN__MAX, 0},
        {"", "", false, AGENT_DOMAIN__MAX, 0},
    };
    bool energy = false, average = false;
    unsigned number = 0;

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct agent_hwmon_what what =
            agent_hwmon_classify(cases[i].chip, cases[i].label, cases[i].energy);
        assert_int_equal(what.kind, cases[i].kind);
        assert_int_equal(what.socket, cases[i].socket);
    }
    assert_true(agent_hwmon_value_file("power12_average", &energy, &number, &average));
    assert_true(!energy && average && number == 12);
    assert_true(agent_hwmon_value_file("energy1_input", &energy, &number, &average));
    assert_true(energy && !average && number == 1);
    assert_false(agent_hwmon_value_file("power1_average_interval", &energy, &number, &average));
    assert_false(agent_hwmon_value_file("power_input", &energy, &number, &average));
    assert_false(agent_hwmon_value_file("power0_input", &energy, &number, &average));
    assert_false(agent_hwmon_value_file("energy1_average", &energy, &number, &average));
    assert_false(agent_hwmon_value_file("temp1_input", &energy, &number, &average));
}

/** Energies are sums of trapezoids, exact to what is left below a microjoule. */
static void test_integration(void **state)
{
    struct agent_integrator one = {0}, many = {0};

    (void)state;
    assert_int_equal(agent_integrator_take(&one, 10000000, S), 0);
    assert_int_equal(one.counter_uj, 0);
    assert_int_equal(agent_integrator_take(&one, 20000000, 3 * S), 0);
    assert_int_equal(one.counter_uj, 30000000);                        /* 15 W for 2 s */
    assert_int_equal(agent_integrator_take(&one, 99000000, 3 * S), 0); /* no time has passed */
    assert_int_equal(one.counter_uj, 30000000);
    /* many short windows give what one long one does */
    for (unsigned i = 0; i <= 9999; i++)
        assert_int_equal(agent_integrator_take(&many, 12345678, S + i * (S / 9999)), 0);
    assert_in_range(many.counter_uj, 12345677, 12345678);
}

/** What is no reading is no power, and a gap is not filled. */
static void test_sentinels(void **state)
{
    struct agent_integrator integrator = {0};

    (void)state;
    assert_int_equal(agent_integrator_take(&integrator, UINT64_C(4294967295000), S), -ENODATA);
    assert_int_equal(agent_integrator_take(&integrator, 0, S), -ENODATA);
    assert_int_equal(agent_integrator_take(&integrator, UINT64_C(100000000000), S), -ENODATA);
    assert_int_equal(agent_integrator_take(&integrator, 100000000, S), 0);
    assert_int_equal(agent_integrator_take(&integrator, 0, 2 * S), -ENODATA);
    assert_int_equal(agent_integrator_take(&integrator, 100000000, 3 * S), 0);
    assert_int_equal(integrator.counter_uj, 200000000); /* bridged: both ends are known */
    assert_int_equal(integrator.series, 0);
    assert_int_equal(agent_integrator_take(&integrator, 100000000, 40 * S), 0);
    assert_int_equal(integrator.counter_uj, 200000000);
    assert_int_equal(integrator.series, 1);
    assert_int_equal(agent_integrator_take(&integrator, 100000000, 41 * S), 0);
    assert_int_equal(integrator.counter_uj, 300000000);
}

/** One chip a socket, without labels: in the order in which the kernel numbers them. */
static void test_unlabelled_chips(void **state)
{
    const struct agent_domain *domains = NULL;
    void *self = NULL;

    (void)state;
    file("hwmon10/name", "amd_hsmp_hwmon\n");
    file("hwmon10/power1_input", "150000000\n");
    file("hwmon2/name", "amd_hsmp_hwmon\n");
    file("hwmon2/power1_input", "140000000\n");
    file("hwmon2/power1_cap", "225000000\n");
    assert_int_equal(agent_meter_hwmon_power.open(&conf, &self, NULL), 0);
    assert_int_equal(agent_meter_hwmon_power.domains(self, &domains), 2);
    assert_non_null(strstr(domains[0].path, "/hwmon2/power1_input"));
    assert_non_null(strstr(domains[1].path, "/hwmon10/power1_input"));
    assert_int_equal(domains[1].package, 1);
    assert_true(domains[0].integrated);
    agent_meter_hwmon_power.close(&self);
}

/** Grace: many ACPI meters, in the device's folder, told apart by OEM information. */
static void test_grace(void **state)
{
    static const char *const info[] = {"Grace Power Socket 0\n", "CPU Power Socket 0\n",
                                       "SysIO Power Socket 0\n", "Module Power Socket 0\n",
                                       "CPU Power Socket 1  \t\n"}; /* filled up */
    const struct agent_domain *domains = NULL;
    char path[64];
    void *self = NULL;

    (void)state;
    for (unsigned i = 0; i < KW_ARRAY_SIZE(info); i++) {
        (void)snprintf(path, sizeof(path), "hwmon%u/name", i);
        file(path, "power_meter\n");
        (void)snprintf(path, sizeof(path), "hwmon%u/device/power1_average", i);
        file(path, "90000000\n");
        (void)snprintf(path, sizeof(path), "hwmon%u/device/power1_oem_info", i);
        file(path, info[i]);
    }
    assert_int_equal(agent_meter_hwmon_power.open(&conf, &self, NULL), 0);
    assert_int_equal(agent_meter_hwmon_power.domains(self, &domains), 2);
    assert_non_null(strstr(domains[0].path, "/hwmon1/device/power1_average"));
    assert_string_equal(domains[1].name, "package-1");
    agent_meter_hwmon_power.close(&self);
    assert_int_equal(agent_platform_acpi.open(&conf, &self, NULL), 0);
    assert_int_equal(agent_platform_acpi.domains(self, &domains), 1);
    assert_non_null(strstr(domains[0].path, "/hwmon3/device/power1_average"));
    agent_platform_acpi.close(&self);
}

/** A meter of a battery is not the machine's; a mean is preferred to a present value. */
static void test_machine(void **state)
{
    const struct agent_domain *domains = NULL;
    struct agent_reading reading;
    struct kw_err err = {0};
    void *self = NULL;

    (void)state;
    file("hwmon0/name", "power_meter\n");
    file("hwmon0/power1_average", "5000000\n");
    file("hwmon0/power1_is_battery", "1\n");
    assert_int_equal(agent_platform_acpi.open(&conf, &self, &err), -ENODEV);
    assert_non_null(strstr(err.text, "none of the 1 sensor chips"));
    file("hwmon1/name", "power_meter\n");
    file("hwmon1/power1_average", "262000000\n");
    file("hwmon1/power1_input", "270000000\n");
    file("hwmon2/device/name", "power_meter\n"); /* another view of the same machine */
    file("hwmon2/device/power1_average", "261000000\n");
    file("hwmon2/device/power1_oem_info", "0x42\n");
    assert_int_equal(agent_platform_acpi.open(&conf, &self, NULL), 0);
    assert_int_equal(agent_platform_acpi.domains(self, &domains), 1);
    assert_non_null(strstr(domains[0].path, "hwmon1/power1_average"));
    agent_platform_acpi.close(&self);
    kwt_tree_delete(&tree, "class/hwmon/hwmon2");
    assert_int_equal(agent_platform_acpi.open(&conf, &self, NULL), 0);
    assert_int_equal(agent_platform_acpi.domains(self, &domains), 1);
    assert_int_equal(agent_platform_acpi.read(self, NULL, &reading), 0);
    file("hwmon1/power1_average", "4294967295000\n");
    assert_int_equal(agent_platform_acpi.read(self, NULL, &reading), -ENODATA);
    file("hwmon1/power1_average", "garbage\n");
    assert_int_equal(agent_platform_acpi.read(self, NULL, &reading), -EBADMSG);
    file("hwmon1/power1_average", "262000000\n");
    uint64_t counted_uj = reading.counter_uj;
    (void)usleep(2000);
    assert_int_equal(agent_platform_acpi.read(self, NULL, &reading), 0);
    assert_true(reading.counter_uj > counted_uj);
    /* the chip goes, and comes back under another number */
    kwt_tree_delete(&tree, "class/hwmon/hwmon1");
    assert_true(agent_platform_acpi.rescan(self));
    assert_int_equal(agent_platform_acpi.domains(self, &domains), 0);
    assert_int_equal(agent_platform_acpi.read(self, NULL, &reading), -ENODEV);
    file("hwmon7/name", "power_meter\n");
    file("hwmon7/power1_average", "262000000\n");
    assert_true(agent_platform_acpi.rescan(self));
    assert_int_equal(agent_platform_acpi.domains(self, &domains), 1);
    assert_false(agent_platform_acpi.rescan(self));
    agent_platform_acpi.close(&self);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_names), TEST(test_integration), TEST(test_sentinels), TEST(test_unlabelled_chips),
        TEST(test_grace), TEST(test_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
