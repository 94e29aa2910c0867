/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/quality.h"
#include "common/clock.h"
#include "node-agent/metering.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

#define RANGE "262143328850\n"
#define S     KW_NS_PER_S

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_meter_conf conf;
static struct agent_metering *metering;
static struct agent_metering_window window;
static uint64_t busy_ns[AGENT_PACKAGES_MAX];

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    conf = (struct agent_meter_conf){
        .topology = &topology, .sysfs_root = tree.root, .idle_mw = 10000, .full_mw = 50000};
    memset(busy_ns, 0, sizeof(busy_ns));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_metering_free(&metering);
    kwt_tree_remove(&tree);
    return 0;
}

static void energy(unsigned zone, uint64_t uj)
{
    char path[128], text[32];

    (void)snprintf(path, sizeof(path), "class/powercap/intel-rapl:%u/energy_uj", zone);
    (void)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)uj);
    kwt_tree_write(&tree, path, text);
}

static int read_at(uint64_t now_ns)
{
    struct agent_meter_load load = {.interval_ns = S, .busy_ns = busy_ns};

    return agent_metering_read(metering, &load, now_ns, 0, &window);
}

static uint64_t cpu_uj(unsigned package)
{
    return window.slots[agent_slot(package, AGENT_DOMAIN_CPU)].delta_uj;
}

static void test_two_packages(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "100\n", RANGE);
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    assert_string_equal(agent_metering_ops(metering)->name, "powercap");
    assert_int_equal(agent_metering_read(metering, NULL, S, 0, &window), 0);
    assert_int_equal(cpu_uj(0) + cpu_uj(1), 0);
    energy(0, 1100);
    energy(1, 400);
    assert_int_equal(read_at(2 * S), 0);
    assert_int_equal(cpu_uj(0), 1000);
    assert_int_equal(cpu_uj(1), 300);
    assert_int_equal(window.n_packages, 2);
    assert_int_equal(window.quality, 0);
    assert_false(window.slots[agent_slot(0, AGENT_DOMAIN_DRAM)].metered);
}

static void test_dies_add_up(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0-die-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-0-die-1\n", "200\n", RANGE);
    assert_int_equal(agent_metering_new("powercap", &conf, &metering, NULL), 0);
    (void)read_at(S);
    energy(0, 111);
    energy(1, 222);
    (void)read_at(2 * S);
    assert_int_equal(cpu_uj(0), 33);
}

static void test_platform(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "psys\n", "100\n", RANGE);
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    (void)read_at(S);
    assert_false(window.has_platform);
    energy(1, 200);
    (void)read_at(2 * S);
    assert_true(window.has_platform);
    assert_string_equal(window.platform_source, "psys");
    assert_int_equal(cpu_uj(0), 0);
}

/** A zone that goes away and comes back: its sibling goes on, and what it drew meanwhile is counted
 * when it is there again. */
static void test_zone_comes_and_goes(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "100\n", RANGE);
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    (void)read_at(S);
    kwt_tree_write(&tree, "class/powercap/intel-rapl:1/energy_uj", "");
    energy(0, 150);
    assert_int_equal(read_at(2 * S), 0);
    assert_int_equal(cpu_uj(0), 50);
    assert_int_equal(window.quality, KW_QUALITY_BIT(KW_QUALITY_STALE));
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:1");
    energy(0, 160);
    (void)read_at(4 * S); /* looked again after the error */
    assert_int_equal(cpu_uj(0), 10);
    assert_int_equal(window.n_packages, 1);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "7000\n", RANGE);
    energy(0, 170);
    (void)read_at(70 * S);
    assert_int_equal(cpu_uj(0), 10);
    assert_int_equal(cpu_uj(1), 6900);
    energy(1, 7005);
    (void)read_at(71 * S);
    assert_int_equal(cpu_uj(1), 5);
    /* gone again, and back from a counter that began anew: nothing is invented */
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:1");
    (void)read_at(72 * S);
    (void)read_at(74 * S);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "3\n", RANGE);
    (void)read_at(150 * S);
    assert_int_equal(cpu_uj(1), 0);
    assert_true((window.quality & KW_QUALITY_BIT(KW_QUALITY_RESET)) != 0);
}

/** The same directory under another name is another zone. */
static void test_zones_change_places(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "900\n", RANGE);
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    (void)read_at(S);
    kwt_meter_zone(&tree, "intel-rapl:0", "package-1\n", "950\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-0\n", "120\n", RANGE);
    (void)read_at(62 * S);
    assert_int_equal(cpu_uj(0) + cpu_uj(1), 0); /* new baselines */
}

/** What a stand-in counted is not counted again when the zone that it stood in for comes back. */
static void test_stand_ins(void **state)
{
    static const struct {
        const char *vendor, *dir, *name, *other_dir, *other_name;
    } cases[] = {
        {"GenuineIntel", "intel-rapl:0", "package-0\n", "intel-rapl-mmio:0", "package-0\n"},
        {"GenuineIntel", "intel-rapl:0", "package-0\n", "intel-rapl:a", "package-0\n"},
        {"GenuineIntel", "intel-rapl:0", "package-0\n", "intel-rapl:0", "package-0-die-0\n"},
        {"AuthenticAMD", "intel-rapl:0", "package-0-die-0\n", "intel-rapl:1", "package-0-die-1\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t raw_uj = 1000, start_uj = raw_uj, counted_uj = 0, now_ns = 0;
        char text[32], path[64];
        kwt_meter_topology(&topology, 1, cases[i].vendor);
        for (unsigned turn = 0; turn < 5; turn++) {
            bool away = turn % 2 == 1;
            const char *dir = away ? cases[i].other_dir : cases[i].dir;
            (void)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)raw_uj);
            kwt_meter_zone(&tree, dir, away ? cases[i].other_name : cases[i].name, text, RANGE);
            if (turn == 0)
                assert_int_equal(agent_metering_new("powercap", &conf, &metering, NULL), 0);
            (void)snprintf(path, sizeof(path), "class/powercap/%s/energy_uj", dir);
            for (unsigned step = 0; step < 3; step++) {
                now_ns += 61 * S;
                (void)read_at(now_ns);
                counted_uj += cpu_uj(0);
                /* between the two zones nobody looked */
                assert_int_equal((window.quality & KW_QUALITY_BIT(KW_QUALITY_GAP)) != 0,
                                 turn > 0 && step == 0);
                assert_int_equal(cpu_uj(0), step == 0 ? 0 : 500);
                raw_uj += 500;
                (void)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)raw_uj);
                kwt_tree_write(&tree, path, text);
            }
            kwt_tree_delete(&tree, "class/powercap");
        }
        assert_true(counted_uj <= raw_uj - start_uj);
        agent_metering_free(&metering);
    }
}

static void test_frozen(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "100\n", RANGE);
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    for (unsigned i = 0; i < 5; i++) {
        energy(0, 100 + i);
        (void)read_at((i + 1) * S);
        assert_int_equal((window.quality & KW_QUALITY_BIT(KW_QUALITY_FROZEN)) != 0, i >= 3);
    }
}

/** A counter that never moves, with no other one beside it: no watts are no measurement. */
static void test_frozen_alone(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    for (unsigned i = 0; i < 20; i++) {
        if (i == 15)
            energy(0, 101);
        (void)read_at((i + 1) * S);
        assert_int_equal((window.quality & KW_QUALITY_BIT(KW_QUALITY_FROZEN)) != 0,
                         i >= 10 && i < 15);
    }
}

static void test_model(void **state)
{
    const struct agent_meter_reason *reasons = NULL;

    (void)state;
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    assert_string_equal(agent_metering_ops(metering)->name, "model");
    /* all of them, in order of preference, and then the platform's */
    assert_int_equal(agent_metering_reasons(metering, &reasons), 7);
    assert_string_equal(reasons[0].meter, "perf");
    assert_string_equal(reasons[1].meter, "powercap");
    assert_false(reasons[1].used);
    assert_non_null(strstr(reasons[1].text, "no intel-rapl zones"));
    assert_string_equal(reasons[5].meter, "model");
    assert_true(reasons[5].used);
    assert_string_equal(reasons[6].meter, "acpi");
    assert_int_equal(agent_metering_read(metering, NULL, S, 0, &window), 0);
    busy_ns[0] = S;     /* one of the package's two threads */
    busy_ns[1] = 5 * S; /* more than there are: full */
    (void)read_at(2 * S);
    assert_int_equal(cpu_uj(0), 5000000 + 10000000);
    assert_int_equal(cpu_uj(1), 25000000);
    assert_int_equal(window.quality, KW_QUALITY_BIT(KW_QUALITY_ESTIMATED));
}

/** A meter that appears is used from then on; when it vanishes the model takes over again. */
static void test_changes_of_meter(void **state)
{
    (void)state;
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    (void)read_at(S);
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    (void)read_at(2 * S);
    assert_false(window.changed);
    (void)read_at(62 * S);
    assert_true(window.changed);
    assert_string_equal(agent_metering_ops(metering)->name, "powercap");
    energy(0, 130);
    (void)read_at(63 * S);
    assert_false(window.changed);
    assert_int_equal(cpu_uj(0), 30);
    kwt_tree_write(&tree, "class/powercap/intel-rapl:0/energy_uj", "");
    assert_int_equal(read_at(64 * S), -ENODATA);
    assert_int_equal(window.quality, KW_QUALITY_BIT(KW_QUALITY_STALE));
    kwt_tree_delete(&tree, "class");
    (void)read_at(66 * S);
    assert_true(window.changed);
    assert_string_equal(agent_metering_ops(metering)->name, "model");
    (void)read_at(67 * S);
    assert_int_equal(cpu_uj(0), 5000000);
}

static void test_meter_asked_for(void **state)
{
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(agent_metering_new("powercap", &conf, &metering, &err), -ENODEV);
    assert_non_null(strstr(err.text, "no intel-rapl zones"));
    assert_int_equal(agent_metering_new("scales", &conf, &metering, &err), -EINVAL);
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    assert_int_equal(agent_metering_new("model", &conf, &metering, &err), 0);
    (void)read_at(S);
    (void)read_at(100 * S);
    assert_string_equal(agent_metering_ops(metering)->name, "model");
}

/** A meter that opens and counts nothing is left for the next one, and not tried again for a while.
 */
static void test_leaves_a_dead_meter(void **state)
{
    const struct agent_meter_reason *reasons = NULL;
    unsigned s = 1;

    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "100\n", RANGE);
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    for (; s < 60 && !window.changed; s++)
        (void)read_at(s * S);
    assert_in_range(s, 31, 33);
    assert_string_equal(agent_metering_ops(metering)->name, "model");
    (void)agent_metering_reasons(metering, &reasons);
    assert_non_null(strstr(reasons[1].text, "no package counts"));
    for (; s < 600; s++) {
        (void)read_at(s * S);
        assert_false(window.changed);
    }
    /* asked for by name it is kept, and flagged */
    agent_metering_free(&metering);
    assert_int_equal(agent_metering_new("powercap", &conf, &metering, NULL), 0);
    for (s = 1; s < 60; s++)
        (void)read_at(s * S);
    assert_string_equal(agent_metering_ops(metering)->name, "powercap");
    assert_true((window.quality & KW_QUALITY_BIT(KW_QUALITY_FROZEN)) != 0);
}

/* A meter of accelerators beside packages, as it will come: same table, domains of its own kind. */
static struct agent_domain mixed[] = {
    {.kind = AGENT_DOMAIN_CPU, .name = "package-0", .path = "mixed/0"},
    {.kind = AGENT_DOMAIN_GPU, .name = "gpu-0", .path = "mixed/1"},
    {.kind = AGENT_DOMAIN_PLATFORM, .name = "board", .path = "mixed/2"},
};
static uint64_t mixed_uj;

static int mixed_open(const struct agent_meter_conf *unused, void **ret, struct kw_err *err)
{
    (void)unused;
    (void)err;
    *ret = mixed;
    return 0;
}

static size_t mixed_domains(const void *self, const struct agent_domain **ret)
{
    (void)self;
    *ret = mixed;
    return 3;
}

static int mixed_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    (void)self;
    (void)load;
    for (size_t i = 0; i < 3; i++)
        ret[i] = (struct agent_reading){.counter_uj = mixed_uj << i, .t_ns = kw_now_ns()};
    return 0;
}

static void mixed_close(void **self)
{
    *self = NULL;
}

static void test_other_kinds_of_domains(void **state)
{
    static const struct agent_meter_ops ops = {.name = "mixed",
                                               .open = mixed_open,
                                               .domains = mixed_domains,
                                               .read = mixed_read,
                                               .close = mixed_close};
    static const struct agent_meter_ops *const meters[] = {&ops, NULL};
    uint64_t total_uj = 0;

    (void)state;
    conf.meters = meters;
    assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
    (void)read_at(S);
    mixed_uj = 10;
    (void)read_at(2 * S);
    for (unsigned slot = 0; slot < AGENT_SLOTS_MAX; slot++)
        total_uj += window.slots[slot].delta_uj;
    assert_int_equal(total_uj, 10);
    assert_string_equal(window.platform_source, "board");
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_two_packages),
        TEST(test_dies_add_up),
        TEST(test_platform),
        TEST(test_zone_comes_and_goes),
        TEST(test_zones_change_places),
        TEST(test_stand_ins),
        TEST(test_frozen),
        TEST(test_frozen_alone),
        TEST(test_model),
        TEST(test_changes_of_meter),
        TEST(test_meter_asked_for),
        TEST(test_leaves_a_dead_meter),
        TEST(test_other_kinds_of_domains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
