/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of measurement (docs/meters.md), each by its number, through the whole of metering on a
 * tree of files. Energies are small: readings follow each other within milliseconds, and the
 * ceiling on power applies.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/quality.h"
#include "common/clock.h"
#include "node-agent/counter.h"
#include "node-agent/doubt.h"
#include "node-agent/metering.h"
#include "node-agent/powercap_zones.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

#define RANGE   "262143328850\n"
#define S       KW_NS_PER_S
#define BIT(q)  KW_QUALITY_BIT(KW_QUALITY_##q)
#define ZONE(d) "class/powercap/intel-rapl" d

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_meter_conf conf;
static struct agent_metering *metering;
static struct agent_metering_window window;
static uint64_t now_ns;

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    conf = (struct agent_meter_conf){.topology = &topology, .sysfs_root = tree.root};
    now_ns = S;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_metering_free(&metering);
    kwt_tree_remove(&tree);
    return 0;
}

static void start(void)
{
    struct kw_err err = {0};

    if (agent_metering_new("powercap", &conf, &metering, &err) < 0)
        fail_msg("%s", err.text);
    (void)agent_metering_read(metering, NULL, now_ns, 0, &window);
}

static void energy(const char *zone, uint64_t uj)
{
    char path[128], text[32];

    (void)snprintf(path, sizeof(path), ZONE("%s/energy_uj"), zone);
    (void)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)uj);
    kwt_tree_write(&tree, path, text);
}

static int after_s(unsigned seconds)
{
    now_ns += seconds * S;
    return agent_metering_read(metering, NULL, now_ns, 0, &window);
}

static uint64_t cpu_uj(unsigned package)
{
    return window.slots[agent_slot(package, AGENT_DOMAIN_CPU)].delta_uj;
}

static uint64_t dram_uj(unsigned package)
{
    return window.slots[agent_slot(package, AGENT_DOMAIN_DRAM)].delta_uj;
}

/** Directory numbers are hexadecimal and in no order; control types that are no meters hold zones
 * of the same names. */
static void test_rule_1_names_not_numbers(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:1f", "package-0\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1f:a", "dram\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0", "psys\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:b", "package-1\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "dtpm:0", "package-0\n", "10\n", RANGE);
    kwt_meter_zone(&tree, "arm-scmi:0", "package-1\n", "10\n", RANGE);
    start();
    energy(":1f", 110);
    energy(":1f:a", 15);
    energy(":b", 1010);
    kwt_tree_write(&tree, "class/powercap/dtpm:0/energy_uj", "999999\n");
    (void)after_s(1);
    assert_int_equal(cpu_uj(0), 100);
    assert_int_equal(dram_uj(0), 5);
    assert_int_equal(cpu_uj(1), 1000);
}

static void test_rule_2_packages_and_memory_only(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:0", "core\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:1", "uncore\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:2", "dram\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "psys\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl-mmio:0", "package-0\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl-mmio:0:0", "dram\n", "0\n", RANGE);
    start();
    energy(":0", 100);
    energy(":0:0", 70);
    energy(":0:1", 20);
    energy(":0:2", 9);
    energy(":1", 130);
    energy("-mmio:0", 100);
    energy("-mmio:0:0", 9);
    (void)after_s(1);
    assert_int_equal(window.n_packages, 1);
    assert_int_equal(cpu_uj(0), 100);
    assert_int_equal(dram_uj(0), 9);
    assert_true(window.has_platform);
}

static void test_rule_3_dies(void **state)
{
    static const char *const vendors[] = {"GenuineIntel", "AuthenticAMD", "HygonGenuine"};

    (void)state;
    for (unsigned v = 0; v < 3; v++) {
        kwt_meter_topology(&topology, 2, vendors[v]);
        for (unsigned z = 0; z < 4; z++) {
            char dir[32], name[32];
            (void)snprintf(dir, sizeof(dir), "intel-rapl:%u", z);
            (void)snprintf(name, sizeof(name), "package-%u-die-%u\n", z / 2, z % 2);
            kwt_meter_zone(&tree, dir, name, "0\n", RANGE);
            (void)snprintf(dir, sizeof(dir), "intel-rapl:%u:0", z);
            kwt_meter_zone(&tree, dir, v == 0 ? "dram\n" : "core\n", "0\n", RANGE);
        }
        start();
        energy(":0", 100);
        energy(":1", 100);
        energy(":2", 30);
        energy(":3", 30);
        energy(":0:0", 4);
        energy(":1:0", 4);
        (void)after_s(1);
        assert_int_equal(cpu_uj(0), v == 0 ? 200 : 100);
        assert_int_equal(cpu_uj(1), v == 0 ? 60 : 30);
        assert_int_equal(dram_uj(0), v == 0 ? 8 : 0);
        agent_metering_free(&metering);
    }
}

static void test_rule_4_wrap_per_zone(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "262143328840\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:0:0", "dram\n", "65712999600\n", "65712999613\n");
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "262143328840\n", NULL);
    start();
    assert_int_equal(cpu_uj(0) + cpu_uj(1) + dram_uj(0), 0); /* a baseline */
    energy(":0", 20);
    energy(":0:0", 5);
    energy(":1", 20);
    (void)after_s(1);
    assert_int_equal(cpu_uj(0), 11 + 61 - 1 + 20); /* range and one unit of 61 uJ */
    assert_int_equal(dram_uj(0), 14 + 15 - 1 + 5); /* of 15 uJ */
    assert_int_equal(cpu_uj(1), 0);                /* without a range nobody knows */
    assert_int_equal(window.quality, BIT(WRAPPED) | BIT(RESET));
    energy(":0", 100000000000);
    (void)after_s(1); /* implausible, and the new baseline */
    energy(":0", 40);
    (void)after_s(1);
    assert_int_equal(cpu_uj(0), 0); /* a wrap would be 162 kJ in milliseconds */
    assert_int_equal(window.quality & BIT(RESET), BIT(RESET));
}

static void test_rule_4_sleep_is_a_gap(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "262143328840\n", RANGE);
    start();
    energy(":0", 7);
    assert_int_equal(agent_metering_read(metering, NULL, 2 * S, 3600 * S, &window), 0);
    assert_int_equal(cpu_uj(0), 0);
    assert_int_equal(window.quality, BIT(RESET) | BIT(GAP));
}

static uint64_t ceiling_of(const char *attribute, const char *value)
{
    struct agent_zones zones;
    char path[128];

    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "0\n", RANGE);
    (void)snprintf(path, sizeof(path), ZONE(":0/%s"), attribute);
    kwt_tree_write(&tree, path, value);
    assert_int_equal(agent_zones_scan(tree.root, &topology, &zones), 0);
    uint64_t mw = zones.items[0].domain.max_mw;
    agent_zones_free(&zones);
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:0");
    return mw;
}

/** Twice the largest of every constraint's maximum, every present limit, and the class bound. */
static void test_rule_5_ceiling(void **state)
{
    (void)state;
    assert_int_equal(ceiling_of("constraint_0_max_power_uw", "55000000\n"), 3000000);
    assert_int_equal(ceiling_of("constraint_0_max_power_uw", "1600000000\n"), 3200000);
    assert_int_equal(ceiling_of("constraint_1_power_limit_uw", "1700000000\n"), 3400000);
    assert_int_equal(ceiling_of("constraint_2_power_limit_uw", "1800000000\n"), 3600000);
    assert_int_equal(ceiling_of("constraint_3_max_power_uw", "1900000000\n"), 3800000);
    assert_int_equal(ceiling_of("constraint_0_max_power_uw", "262143000000\n"),
                     3000000); /* "none" */
    assert_int_equal(ceiling_of("constraint_0_max_power_uw", ""), 3000000);
    assert_int_equal(ceiling_of("constraint_0_max_power_uw", "-1\n"), 3000000);
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "0\n", RANGE);
    start();
    energy(":0", 200000000000);
    (void)after_s(1);
    assert_int_equal(cpu_uj(0), 0);
    assert_int_equal(window.quality & BIT(IMPLAUSIBLE), BIT(IMPLAUSIBLE));
    energy(":0", 200000000300);
    (void)after_s(1);
    assert_int_equal(cpu_uj(0), 300);
}

static void test_rule_6_units_of_sapphire_rapids(void **state)
{
    (void)state;
    topology.cpu_family = 6;
    for (unsigned model = 143; model <= 207; model += 64) {
        topology.cpu_model_number = model;
        kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "0\n", RANGE);
        kwt_meter_zone(&tree, "intel-rapl:0:0", "dram\n", "0\n", "65712999613\n");
        kwt_meter_zone(&tree, "intel-rapl:1", "psys\n", "60293987000000\n", "4294967295000000\n");
        start();
        energy(":0:0", 153000);
        energy(":1", 60293988000000);
        (void)after_s(1);
        assert_int_equal(dram_uj(0), 610350);
        assert_true(window.has_platform);
        assert_int_equal(window.quality, 0); /* a whole joule is no implausible step */
        agent_metering_free(&metering);
        /* a kernel that knows the unit shows another range, and is left alone */
        kwt_meter_zone(&tree, "intel-rapl:0:0", "dram\n", "0\n", RANGE);
        start();
        energy(":0:0", 153000);
        (void)after_s(1);
        assert_int_equal(dram_uj(0), 153000);
        agent_metering_free(&metering);
    }
}

/** EINVAL, ENODEV, EACCES and ENOENT of one zone are that zone's. */
static void test_rule_7_one_zone_marks_itself(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "0\n", RANGE);
    start();
    kwt_tree_write(&tree, ZONE(":1/energy_uj"), "");
    energy(":0", 10);
    assert_int_equal(after_s(1), 0);
    assert_int_equal(cpu_uj(0), 10);
    assert_int_equal(window.quality, BIT(STALE));
    kwt_tree_delete(&tree, ZONE(":1"));
    energy(":0", 20);
    assert_int_equal(after_s(2), 0); /* looked again: one zone, and nothing is wrong with it */
    assert_int_equal(cpu_uj(0), 10);
    assert_int_equal(window.quality, 0);
    assert_int_equal(window.n_packages, 1);
    /* the package comes back within a minute, and what it drew meanwhile with it */
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "500\n", RANGE);
    energy(":0", 30);
    assert_int_equal(after_s(60), 0);
    assert_int_equal(cpu_uj(0), 10);
    assert_int_equal(cpu_uj(1), 500);
}

/** A zone that stays unreadable is looked for ever more rarely, and its sibling counts on. */
static void test_rule_7_lasting_error(void **state)
{
    uint64_t total_uj = 0;

    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "x\n", RANGE);
    start();
    for (unsigned i = 1; i <= 100; i++) {
        energy(":0", 10 * i);
        assert_int_equal(after_s(1), 0);
        assert_int_equal(window.quality, BIT(STALE));
        total_uj += cpu_uj(0);
    }
    assert_int_equal(total_uj, 1000);
}

static void test_rule_7_frozen_beside_moving(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "0\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "0\n", RANGE);
    start();
    for (unsigned i = 1; i < 10; i++) {
        energy(":0", i);
        (void)after_s(1);
        assert_int_equal(window.quality & BIT(FROZEN), i >= 3 ? BIT(FROZEN) : 0);
    }
}

/** More than there is room for is said, and the rest is measured. */
static void test_rule_7_too_many(void **state)
{
    char dir[32], name[32];

    (void)state;
    for (unsigned z = 0; z < 70; z++) {
        (void)snprintf(dir, sizeof(dir), "intel-rapl:%x", z);
        (void)snprintf(name, sizeof(name), "package-%u\n", z);
        kwt_meter_zone(&tree, dir, name, "0\n", RANGE);
    }
    start();
    energy(":3f", 10);
    (void)after_s(1);
    assert_int_equal(window.left_out, 6);
    assert_int_equal(window.n_packages, 64);
    assert_int_equal(cpu_uj(63), 10);
    assert_int_equal(window.quality, BIT(INCOMPLETE));
    agent_metering_free(&metering);
    for (unsigned z = 70; z < 530; z++) {
        (void)snprintf(dir, sizeof(dir), "intel-rapl:%x", z);
        kwt_meter_zone(&tree, dir, "package-0\n", "0\n", RANGE);
    }
    start();
    assert_true(window.left_out >= 18);
    assert_int_equal(window.quality & BIT(INCOMPLETE), BIT(INCOMPLETE));
}

/** A window is as long as the clock says, whatever was asked for. */
static void test_rule_8_measured_intervals(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "0\n", RANGE);
    uint64_t before_ns = kw_now_ns(), next_ns;
    start();
    for (unsigned i = 1; i <= 5; i++, before_ns = next_ns) {
        (void)usleep(3000 * i);
        energy(":0", 1000 * i);
        next_ns = kw_now_ns();
        (void)after_s(1);
        uint64_t interval_ns = window.slots[0].interval_ns;
        assert_true(interval_ns >= 3 * i * KW_NS_PER_MS);
        assert_true(interval_ns <= kw_now_ns() - before_ns);
    }
}

/** A gap of half an hour is covered by its counter, and said. */
static void test_rule_8_stopped_agent(void **state)
{
    struct agent_counter counter = {0};
    struct agent_counter_limits limits = {.modulus_uj = 262143328911, .max_mw = 3000000};
    struct agent_counter_step step;

    (void)state;
    agent_counter_take(&counter, &limits, 0, S, 0, &step);
    agent_counter_take(&counter, &limits, 120000000000, 1801 * S, 0, &step);
    assert_int_equal(step.delta_uj, 120000000000);
    assert_int_equal(step.interval_ns, 1800 * S);
    assert_int_equal(step.quality, BIT(GAP));
}

static bool doubts(uint64_t cpu_w, const uint64_t dram_w[2], uint64_t platform_w)
{
    struct agent_doubt doubt = {0};
    struct agent_doubt_window one = {.n_packages = 2,
                                     .cpu_uj = {cpu_w * 1000000, cpu_w * 1000000},
                                     .dram_uj = {dram_w[0] * 1000000, dram_w[1] * 1000000},
                                     .platform_mw = platform_w * 1000};
    bool doubtful = false;

    for (unsigned i = 1; i <= 41; i++)
        doubtful = agent_doubt_take(&doubt, &one, i * S);
    return doubtful;
}

/** F14: two sockets above what the whole machine draws. F17: one memory of 200 W beside one of 6.
 */
static void test_contradictions(void **state)
{
    (void)state;
    assert_true(doubts(65, (uint64_t[]){0, 0}, 102));
    assert_false(doubts(65, (uint64_t[]){0, 0}, 140));
    assert_false(doubts(65, (uint64_t[]){0, 0}, 125)); /* within what meters err */
    assert_false(doubts(65, (uint64_t[]){0, 0}, 0));   /* not known */
    assert_true(doubts(190, (uint64_t[]){200, 6}, 0));
    assert_false(doubts(190, (uint64_t[]){180, 6}, 0)); /* below its package */
    assert_false(doubts(20, (uint64_t[]){30, 25}, 0));  /* both alike */
    struct agent_doubt doubt = {0};
    struct agent_doubt_window one = {.n_packages = 1, .cpu_uj = {200000000}, .platform_mw = 100000};
    assert_false(agent_doubt_take(&doubt, &one, S));
    assert_false(agent_doubt_take(&doubt, &one, 22 * S)); /* once is chance */
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_rule_1_names_not_numbers),
        TEST(test_rule_2_packages_and_memory_only),
        TEST(test_rule_3_dies),
        TEST(test_rule_4_wrap_per_zone),
        TEST(test_rule_4_sleep_is_a_gap),
        TEST(test_rule_5_ceiling),
        TEST(test_rule_6_units_of_sapphire_rapids),
        TEST(test_rule_7_one_zone_marks_itself),
        TEST(test_rule_7_lasting_error),
        TEST(test_rule_7_frozen_beside_moving),
        TEST(test_rule_7_too_many),
        TEST(test_rule_8_measured_intervals),
        TEST(test_rule_8_stopped_agent),
        TEST(test_contradictions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
