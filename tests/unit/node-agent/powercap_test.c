/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The powercap meter on trees as real machines show them. F numbers are those of the table of real
 * machines in the measurement design.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "node-agent/powercap_zones.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

#define RANGE "262143328850\n"

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_zones zones;

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 1, "GenuineIntel");
    zones = (struct agent_zones){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_zones_free(&zones);
    kwt_tree_remove(&tree);
    return 0;
}

static void scan(void)
{
    assert_int_equal(agent_zones_scan(tree.root, &topology, &zones), 0);
}

static void assert_zone(size_t i, const char *dir, enum agent_domain_kind kind, unsigned package)
{
    assert_true(i < zones.n);
    assert_string_equal(zones.items[i].dir, dir);
    assert_int_equal(zones.items[i].domain.kind, kind);
    assert_int_equal(zones.items[i].domain.package, package);
}

static void test_names(void **state)
{
    static const struct {
        const char *name;
        enum agent_domain_kind kind;
        uint32_t package;
        int die;
    } cases[] = {
        {"package-0", AGENT_DOMAIN_CPU, 0, -1},
        {"package-15", AGENT_DOMAIN_CPU, 15, -1},
        {"package-1-die-3", AGENT_DOMAIN_CPU, 1, 3},
        {"dram", AGENT_DOMAIN_DRAM, 0, -1},
        {"psys", AGENT_DOMAIN_PLATFORM, 0, -1},
        {"psys-1", AGENT_DOMAIN_PLATFORM, 1, -1},
        {"core", AGENT_DOMAIN__MAX, 0, -1},
        {"uncore", AGENT_DOMAIN__MAX, 0, -1},
        {"package-", AGENT_DOMAIN__MAX, 0, -1},
        {"package-0x1", AGENT_DOMAIN__MAX, 0, -1},
        {"package-0-die-", AGENT_DOMAIN__MAX, 0, -1},
        {"package-99999999999", AGENT_DOMAIN__MAX, 0, -1},
        {"psys-x", AGENT_DOMAIN__MAX, 0, -1},
        {"", AGENT_DOMAIN__MAX, 0, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agent_zone_name parsed;
        agent_zone_name_parse(cases[i].name, &parsed);
        assert_int_equal(parsed.kind, cases[i].kind);
        assert_int_equal(parsed.package, cases[i].package);
        assert_int_equal(parsed.die, cases[i].die);
    }
}

static void test_directories(void **state)
{
    bool mmio = true;
    unsigned depth = 0;

    (void)state;
    assert_true(agent_zone_dir_parse("intel-rapl:a", &mmio, &depth));
    assert_false(mmio);
    assert_int_equal(depth, 1);
    assert_true(agent_zone_dir_parse("intel-rapl-mmio:0:1f", &mmio, &depth));
    assert_true(mmio);
    assert_int_equal(depth, 2);
    assert_false(agent_zone_dir_parse("intel-rapl", &mmio, &depth));
    assert_false(agent_zone_dir_parse("intel-rapl:", &mmio, &depth));
    assert_false(agent_zone_dir_parse("intel-rapl:g", &mmio, &depth));
    assert_false(agent_zone_dir_parse("dtpm:0", &mmio, &depth));
    assert_false(agent_zone_dir_parse("arm-scmi:0", &mmio, &depth));
}

/** F1: laptop with core, uncore, dram, psys and an mmio twin. */
static void test_laptop(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:0", "core\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:1", "uncore\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:2", "dram\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "psys\n", "300\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl-mmio:0", "package-0\n", "100\n", RANGE);
    scan();
    assert_int_equal(zones.n, 3);
    assert_zone(0, "intel-rapl:0", AGENT_DOMAIN_CPU, 0);
    assert_zone(1, "intel-rapl:0:2", AGENT_DOMAIN_DRAM, 0);
    assert_zone(2, "intel-rapl:1", AGENT_DOMAIN_PLATFORM, 0);
    assert_int_equal(zones.items[0].domain.range_uj, 262143328911);
    assert_int_equal(zones.items[0].domain.max_mw, 3000000);
}

/** A dram zone that only the mmio twin has is taken from there; a whole mmio package only where
 * there is no other. */
static void test_mmio_fills_gaps(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl-mmio:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl-mmio:0:0", "dram\n", "10\n", RANGE);
    scan();
    assert_int_equal(zones.n, 2);
    assert_zone(0, "intel-rapl:0", AGENT_DOMAIN_CPU, 0);
    assert_zone(1, "intel-rapl-mmio:0:0", AGENT_DOMAIN_DRAM, 0);
    agent_zones_free(&zones);
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:0");
    scan();
    assert_zone(0, "intel-rapl-mmio:0", AGENT_DOMAIN_CPU, 0);
}

/** Of two views of one counter the one that can be read is taken, and nothing is taken twice. */
static void test_mute_twins(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "-1\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:0", "dram\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl-mmio:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl-mmio:0:0", "dram\n", "10\n", RANGE);
    scan();
    assert_int_equal(zones.n, 2);
    assert_zone(0, "intel-rapl-mmio:0", AGENT_DOMAIN_CPU, 0);
    assert_zone(1, "intel-rapl:0:0", AGENT_DOMAIN_DRAM, 0);
    agent_zones_free(&zones);
    /* a whole package that cannot be read stands beside none of its dies */
    kwt_tree_delete(&tree, "class/powercap/intel-rapl-mmio:0");
    kwt_meter_zone(&tree, "intel-rapl:1", "package-0-die-0\n", "1\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:2", "package-0-die-1\n", "", RANGE);
    scan();
    assert_int_equal(zones.n, 3);
    assert_zone(0, "intel-rapl:1", AGENT_DOMAIN_CPU, 0);
    assert_zone(1, "intel-rapl:2", AGENT_DOMAIN_CPU, 0);
    agent_zones_free(&zones);
    /* where no view can be read the first one is kept, and says why */
    kwt_tree_write(&tree, "class/powercap/intel-rapl:1/energy_uj", "");
    scan();
    assert_zone(0, "intel-rapl:0", AGENT_DOMAIN_CPU, 0);
}

/** F4: sixteen sockets; the zone numbers are hexadecimal and not in the order of the packages. */
static void test_sixteen_sockets(void **state)
{
    char dir[32], name[32];

    (void)state;
    kwt_meter_topology(&topology, 16, "GenuineIntel");
    for (unsigned z = 0; z < 16; z++) {
        (void)snprintf(dir, sizeof(dir), "intel-rapl:%x", z);
        (void)snprintf(name, sizeof(name), "package-%u\n", 15 - z);
        kwt_meter_zone(&tree, dir, name, "1\n", RANGE);
        (void)snprintf(dir, sizeof(dir), "intel-rapl:%x:0", z);
        kwt_meter_zone(&tree, dir, "dram\n", "1\n", RANGE);
    }
    scan();
    assert_int_equal(zones.n, 32);
    assert_zone(0, "intel-rapl:f", AGENT_DOMAIN_CPU, 0);
    assert_zone(1, "intel-rapl:f:0", AGENT_DOMAIN_DRAM, 0);
    assert_zone(30, "intel-rapl:0", AGENT_DOMAIN_CPU, 15);
    assert_zone(31, "intel-rapl:0:0", AGENT_DOMAIN_DRAM, 15);
}

/** F5: dies mirror the socket's counter on AMD and add up on Intel. */
static void test_dies(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0-die-0\n", "1\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-0-die-1\n", "1\n", RANGE);
    scan();
    assert_int_equal(zones.n, 2);
    agent_zones_free(&zones);
    kwt_meter_topology(&topology, 1, "AuthenticAMD");
    scan();
    assert_int_equal(zones.n, 1);
    assert_zone(0, "intel-rapl:0", AGENT_DOMAIN_CPU, 0);
}

/** F3: psys apart, and the DRAM unit of an old kernel corrected. */
static void test_sapphire_rapids(void **state)
{
    const struct agent_meter_ops *ops = &agent_meter_powercap;
    struct agent_meter_conf conf = {.topology = &topology, .sysfs_root = tree.root};
    struct agent_reading readings[3];
    void *self = NULL;

    (void)state;
    topology.cpu_family = 6;
    topology.cpu_model_number = 143;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "5\n", RANGE);
    kwt_tree_write(&tree, "class/powercap/intel-rapl:0/constraint_1_max_power_uw", "2000000000\n");
    kwt_meter_zone(&tree, "intel-rapl:0:0", "dram\n", "15300000\n", "65712999613\n");
    kwt_meter_zone(&tree, "intel-rapl:1", "psys\n", "60293987000000\n", "4294967295000000\n");
    assert_int_equal(ops->open(&conf, &self, NULL), 0);
    const struct agent_domain *domains = NULL;
    assert_int_equal(ops->domains(self, &domains), 3);
    assert_int_equal(domains[0].max_mw, 4000000);
    assert_int_equal(ops->read(self, NULL, readings), 0);
    assert_int_equal(readings[1].counter_uj, 61035000);
    assert_true(domains[1].range_uj > 262143000000 && domains[1].range_uj < 262144000000);
    assert_int_equal(readings[2].counter_uj, 60293987000000);
    assert_int_equal(domains[2].kind, AGENT_DOMAIN_PLATFORM);
    ops->close(&self);
    assert_null(self);
}

/** F18 and F12: zones of other control types and empty attributes harm nobody. */
static void test_strangers(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "5\n", RANGE);
    kwt_tree_write(&tree, "class/powercap/intel-rapl:0/constraint_0_max_power_uw", "");
    kwt_tree_write(&tree, "class/powercap/arm-scmi:0/name", "package-1\n");
    kwt_tree_write(&tree, "class/powercap/dtpm/enabled", "0\n");
    kwt_tree_write(&tree, "class/powercap/intel-rapl/uevent", "");
    scan();
    assert_int_equal(zones.n, 1);
    assert_int_equal(zones.seen, 1);
}

/** A package that the topology does not know gets a number behind those it knows. */
static void test_more_packages_than_topology(void **state)
{
    (void)state;
    topology.package_ids[0] = 1;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "5\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:0", "dram\n", "5\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "5\n", RANGE);
    scan();
    assert_zone(0, "intel-rapl:0", AGENT_DOMAIN_CPU, 1);
    assert_zone(1, "intel-rapl:0:0", AGENT_DOMAIN_DRAM, 1);
    assert_zone(2, "intel-rapl:1", AGENT_DOMAIN_CPU, 0);
    assert_int_equal(zones.items[2].domain.package_id, 1);
}

static void assert_open_fails(int code, const char *word)
{
    struct agent_meter_conf conf = {.topology = &topology, .sysfs_root = tree.root};
    struct kw_err err = {0};
    void *self = NULL;

    assert_int_equal(agent_meter_powercap.open(&conf, &self, &err), code);
    assert_null(self);
    assert_non_null(strstr(err.text, word));
}

static void test_nothing_there(void **state)
{
    (void)state;
    assert_open_fails(-ENODEV, "no intel-rapl zones");
    kwt_tree_write(&tree, "class/powercap/dtpm/enabled", "0\n");
    assert_open_fails(-ENODEV, "no intel-rapl zones");
}

/** A container that hides the targets: the links are listed and lead nowhere. */
static void test_dangling_links(void **state)
{
    (void)state;
    kwt_meter_link(&tree, "class/powercap/intel-rapl:0",
                   "../../devices/virtual/powercap/intel-rapl/intel-rapl:0");
    assert_open_fails(-ENOENT, "mount the host's /sys");
}

/** A pipe where the counter should be must not hold the agent up. */
static void test_pipe(void **state)
{
    char path[256];

    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "", RANGE);
    (void)snprintf(path, sizeof(path), "%s/class/powercap/intel-rapl:0/energy_uj", tree.root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_open_fails(-ESPIPE, "cannot be read");
}

/** A root whose name is longer than the label can hold: zones are read, and told apart. */
static void test_long_root(void **state)
{
    struct agent_meter_conf conf = {.topology = &topology};
    const struct agent_domain *domains = NULL;
    struct agent_reading readings[2];
    char below[512], root[4096], path[1024];
    void *self = NULL;

    (void)state;
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    memset(below, 'd', 401);
    below[200] = '/';
    below[401] = '\0';
    for (unsigned p = 0; p < 2; p++) {
        (void)snprintf(path, sizeof(path), "%s/class/powercap/intel-rapl:%u/name", below, p);
        kwt_tree_write(&tree, path, p == 0 ? "package-0\n" : "package-1\n");
        (void)snprintf(path, sizeof(path), "%s/class/powercap/intel-rapl:%u/energy_uj", below, p);
        kwt_tree_write(&tree, path, p == 0 ? "5\n" : "6\n");
    }
    assert_int_equal(kw_path_join(root, sizeof(root), tree.root, below), 0);
    conf.sysfs_root = root;
    assert_int_equal(agent_meter_powercap.open(&conf, &self, NULL), 0);
    assert_int_equal(agent_meter_powercap.domains(self, &domains), 2);
    assert_string_not_equal(domains[0].path, domains[1].path);
    assert_non_null(strstr(domains[0].path, "class/powercap/intel-rapl:0/energy_uj"));
    assert_int_equal(agent_meter_powercap.read(self, NULL, readings), 0);
    assert_int_equal(readings[0].counter_uj, 5);
    assert_int_equal(readings[1].counter_uj, 6);
    agent_meter_powercap.close(&self);
}

static void test_only_memory(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "core\n", "5\n", RANGE);
    assert_open_fails(-ENODEV, "no zone is a CPU package");
}

/** One zone vanishes, another holds garbage: the third goes on; all come back by a rescan. */
static void test_one_bad_zone(void **state)
{
    const struct agent_meter_ops *ops = &agent_meter_powercap;
    struct agent_meter_conf conf = {.topology = &topology, .sysfs_root = tree.root};
    struct agent_reading readings[3];
    const struct agent_domain *domains = NULL;
    void *self = NULL;

    (void)state;
    kwt_meter_topology(&topology, 3, "GenuineIntel");
    conf.topology = &topology;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "5\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "6\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:2", "package-2\n", "7\n", RANGE);
    assert_int_equal(ops->open(&conf, &self, NULL), 0);
    assert_false(ops->rescan(self));
    kwt_tree_write(&tree, "class/powercap/intel-rapl:1/energy_uj", "12 34\n");
    kwt_tree_write(&tree, "class/powercap/intel-rapl:2/energy_uj", "");
    assert_int_equal(ops->read(self, NULL, readings), 0);
    assert_int_equal(readings[0].error, 0);
    assert_int_equal(readings[0].counter_uj, 5);
    assert_int_equal(readings[1].error, -EBADMSG);
    assert_int_equal(readings[2].error, -ENODATA);
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:2");
    assert_true(ops->rescan(self));
    assert_int_equal(ops->domains(self, &domains), 2);
    kwt_tree_write(&tree, "class/powercap/intel-rapl:1/energy_uj", "8\n");
    assert_int_equal(ops->read(self, NULL, readings), 0);
    assert_int_equal(readings[1].counter_uj, 8);
    kwt_tree_delete(&tree, "class");
    assert_true(ops->rescan(self));
    assert_int_equal(ops->domains(self, &domains), 0);
    assert_int_equal(ops->read(self, NULL, readings), -ENODEV);
    ops->close(&self);
}

/** A file that is replaced by rename, as virtual machines' folders are written. */
static void test_replaced_file(void **state)
{
    const struct agent_meter_ops *ops = &agent_meter_powercap;
    struct agent_meter_conf conf = {.topology = &topology, .sysfs_root = tree.root};
    struct agent_reading reading;
    char path[256];
    void *self = NULL;

    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "5\n", RANGE);
    assert_int_equal(ops->open(&conf, &self, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/class/powercap/intel-rapl:0/energy_uj", tree.root);
    assert_int_equal(kw_file_write_atomic(path, "77\n", 3, 0400), 0);
    assert_int_equal(ops->read(self, NULL, &reading), 0);
    assert_int_equal(reading.counter_uj, 77);
    ops->close(&self);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_names),         TEST(test_directories),
        TEST(test_laptop),        TEST(test_mmio_fills_gaps),
        TEST(test_mute_twins),    TEST(test_sixteen_sockets),
        TEST(test_dies),          TEST(test_sapphire_rapids),
        TEST(test_strangers),     TEST(test_more_packages_than_topology),
        TEST(test_nothing_there), TEST(test_dangling_links),
        TEST(test_pipe),          TEST(test_long_root),
        TEST(test_only_memory),   TEST(test_one_bad_zone),
        TEST(test_replaced_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
