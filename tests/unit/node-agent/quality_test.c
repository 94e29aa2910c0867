/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each quality flag by its cause, on whole samples: a powercap tree of files, the sampler as it is,
 * and clocks that this test moves (wrapped at link time). Whatever happens, each package's books
 * balance, and the joules are those that the tree says. The last test is that no flag was left out.
 * Of a PMU that is shared see bpf_multiplexed_test.c, of a full map bpf_room_test.c: what they
 * count is played here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/quality.h"
#include "common/clock.h"
#include "node-agent/sampler.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"
#include "tests/unit/node-agent/quality_rig.h"

#define RANGE_UJ   UINT64_C(262143328850)
#define RANGE_TEXT "262143328850\n"
#define UNIT_UJ    61
#define WINDOW_NS  (500 * KW_NS_PER_MS)

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_metering *metering;
static struct agent_sampler *sampler;
static struct agent_snapshot *shown;
static uint64_t counter_uj[3];

static void set_counter(unsigned zone, uint64_t uj)
{
    char path[128], text[32];

    counter_uj[zone] = uj;
    (void)snprintf(path, sizeof(path), "class/powercap/intel-rapl:%u/energy_uj", zone);
    (void)snprintf(text, sizeof(text), "%-20llu\n", (unsigned long long)uj);
    kwt_tree_write(&tree, path, text);
}

static void draw(unsigned zone, uint64_t uj)
{
    set_counter(zone, counter_uj[zone] + uj);
}

static void start(const char *meter)
{
    struct agent_meter_conf meter_conf = {.topology = &topology, .sysfs_root = tree.root};
    struct agent_sampler_conf conf = {
        .topology = &topology,
        .accounting = &kwt_played_accounting,
        .method = agent_attributions[0],
        .prior = {.idle_mw = 2000, .full_mw = 20000},
        .node = "test",
        .boot_id = "boot",
    };

    assert_int_equal(agent_metering_new(meter, &meter_conf, &metering, NULL), 0);
    conf.metering = metering;
    assert_int_equal(agent_sampler_new(&conf, &sampler), 0);
}

static int setup(void **state)
{
    (void)state;
    memset(&kwt_clocks, 0, sizeof(kwt_clocks));
    memset(&kwt_played, 0, sizeof(kwt_played));
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    for (unsigned zone = 0; zone < 2; zone++) {
        char dir[32], name[32];
        (void)snprintf(dir, sizeof(dir), "intel-rapl:%u", zone);
        (void)snprintf(name, sizeof(name), "package-%u\n", zone);
        kwt_meter_zone(&tree, dir, name, "0\n", RANGE_TEXT);
        set_counter(zone, 1000);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (shown != NULL)
        agent_snapshot_recycle(shown);
    shown = NULL;
    agent_sampler_free(&sampler);
    agent_metering_free(&metering);
    kwt_tree_remove(&tree);
    return 0;
}

/** A window of the usual length, in which both packages drew a joule and a CPU ran. */
static void window(void)
{
    struct agent_sample_notes notes;

    kwt_pass_ns(WINDOW_NS);
    kwt_played.system_ns += WINDOW_NS / 2;
    agent_sampler_window(sampler, WINDOW_NS, &notes);
}

static void show(void)
{
    struct agent_snapshot *next = NULL;

    assert_int_equal(agent_sampler_show(sampler, &next), 0);
    if (shown != NULL)
        agent_snapshot_recycle(shown);
    shown = next;
    for (unsigned p = 0; p < shown->sample.n_packages; p++)
        assert_int_equal(kw_energy_error_uj(&shown->sample.packages[p].cpu), 0);
}

static uint64_t measured_uj(void)
{
    return kw_sample_total(&shown->sample).measured_uj;
}

/** What any sample of any test said. */
static uint32_t ever_shown;

static uint32_t shown_quality(void)
{
    ever_shown |= shown->sample.quality;
    /* said of every window where there are none */
    assert_int_equal((shown->sample.quality & KW_QUALITY_BIT(KW_QUALITY_NO_COUNTERS)) != 0,
                     kwt_played.enabled_ns == 0);
    return shown->sample.quality & ~KW_QUALITY_BIT(KW_QUALITY_NO_COUNTERS);
}

static void assert_quality(uint32_t expected)
{
    if (shown_quality() != expected)
        fail_msg("quality is %x, not %x", shown_quality(), expected);
}

/** What was wrong in one of a sample's windows is wrong with the sample, and with the epoch; the
 * next sample has its own. */
static void test_wrapped(void **state)
{
    (void)state;
    set_counter(0, RANGE_UJ - 999999);
    start("powercap");
    draw(1, 1000000);
    set_counter(0, 1000000 - 1000000 + UNIT_UJ * 2); /* a wrap is a joule, less two units, on */
    window();
    draw(0, 1000000);
    draw(1, 1000000);
    window();
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_WRAPPED));
    assert_int_equal(shown->quality_windows[KW_QUALITY_WRAPPED], 1);
    assert_int_equal(shown->sample.interval_ns, 2 * WINDOW_NS);
    assert_int_equal(shown->sample.packages[0].cpu.measured_uj,
                     999999 + UNIT_UJ + UNIT_UJ * 2 + 1000000);
    draw(0, 1000000);
    draw(1, 1000000);
    window();
    show();
    assert_quality(0);
    assert_int_equal(shown->sample.interval_ns, WINDOW_NS);
    assert_true((shown->sample.quality_epoch & KW_QUALITY_BIT(KW_QUALITY_WRAPPED)) != 0);
    /* powers are those of the shown windows */
    assert_int_equal(shown->slot_mw[0], 2000);
    assert_int_equal(shown->slot_idle_mw[0], 1000);
    assert_int_equal(shown->sample.used_mcpu, 500);
}

static void test_reset(void **state)
{
    (void)state;
    set_counter(0, 130000000000);
    start("powercap");
    set_counter(0, 5000000); /* half of the range back: no wrap that the machine can draw */
    draw(1, 1000000);
    window();
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_RESET));
    assert_int_equal(measured_uj(), 1000000);
}

static void test_implausible(void **state)
{
    (void)state;
    start("powercap");
    draw(0, 100000000000); /* 200 kW */
    draw(1, 1000000);
    window();
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_IMPLAUSIBLE));
    assert_int_equal(measured_uj(), 1000000);
}

static void test_stale(void **state)
{
    (void)state;
    start("powercap");
    kwt_tree_write(&tree, "class/powercap/intel-rapl:0/energy_uj", "");
    draw(1, 1000000);
    window();
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_STALE));
    draw(0, 2000000);
    draw(1, 1000000);
    window();
    show();
    assert_quality(0);
    assert_int_equal(measured_uj(), 4000000);
    /* CPU time that cannot be read: the energy is nobody's, and said to be */
    kwt_played.error = -EIO;
    draw(0, 1500000);
    draw(1, 1500000);
    window();
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_STALE));
    assert_int_equal(kw_sample_total(&shown->sample).unattributed_uj, 2000000);
}

static void test_frozen(void **state)
{
    (void)state;
    start("powercap");
    for (unsigned i = 0; i < 12; i++) {
        draw(1, 1000000);
        window();
        show();
        assert_quality(i >= 5 ? KW_QUALITY_BIT(KW_QUALITY_FROZEN) : 0);
    }
}

static void test_estimated(void **state)
{
    (void)state;
    start("model");
    window();
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_ESTIMATED));
    assert_true(measured_uj() > 0);
}

/** Once a cgroup did not fit, and not for ever after. */
static void test_overflow(void **state)
{
    static const bool grows[] = {false, true, false, true, false};

    (void)state;
    start("powercap");
    for (size_t i = 0; i < 5; i++) {
        kwt_played.overflow_ns += grows[i] ? 1000000 : 0;
        draw(0, 1000000);
        draw(1, 1000000);
        window();
        show();
        assert_quality(grows[i] ? KW_QUALITY_BIT(KW_QUALITY_OVERFLOW) : 0);
    }
}

/** Counters that shared their PMU in one window say so of that one. */
static void test_multiplexed(void **state)
{
    (void)state;
    kwt_played.enabled_ns = kwt_played.running_ns = 1;
    start("powercap");
    kwt_played.system_ns += 1000;
    kwt_played.enabled_ns += 1000;
    kwt_played.running_ns += 500;
    draw(0, 1000000);
    draw(1, 1000000);
    window();
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_MULTIPLEXED));
    kwt_played.system_ns += 1000;
    kwt_played.enabled_ns += 1000;
    kwt_played.running_ns += 1000;
    draw(0, 1000000);
    draw(1, 1000000);
    window();
    show();
    assert_quality(0);
}

/** Stopped for a minute: the counters went on, so the energy is exact and has its owner; flagged
 * all the same. */
static void test_stopped(void **state)
{
    struct agent_sample_notes notes;

    (void)state;
    start("powercap");
    kwt_pass_ns(60 * KW_NS_PER_S);
    kwt_played.system_ns += 30 * KW_NS_PER_S;
    draw(0, 600000000);
    draw(1, 600000000);
    agent_sampler_window(sampler, WINDOW_NS, &notes);
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_GAP));
    assert_int_equal(measured_uj(), 1200000000);
    assert_int_equal(kw_sample_total(&shown->sample).unattributed_uj, 0);
    assert_int_equal(shown->sample.interval_ns, 60 * KW_NS_PER_S);
    assert_int_equal(shown->sample.used_mcpu, 500);
    /* late, as timers are on a busy machine, is not stopped */
    kwt_pass_ns(1400 * KW_NS_PER_MS);
    draw(0, 1000000);
    draw(1, 1000000);
    agent_sampler_window(sampler, WINDOW_NS, &notes);
    show();
    assert_quality(0);
}

/** A machine that slept for 100 s and whose counters went on: nobody ran, so idle is taken off for
 * all of it and the rest is nobody's; no power is a hundred seconds' energy in half a second. */
static void test_slept(void **state)
{
    struct agent_sample_notes notes;

    (void)state;
    start("powercap");
    kwt_pass_ns(WINDOW_NS);
    kwt_clocks.boot += 100 * KW_NS_PER_S;
    kwt_clocks.real += 100 * KW_NS_PER_S;
    kwt_played.system_ns += WINDOW_NS / 2;
    draw(0, 103000000); /* 1 W each, and a little more */
    draw(1, 103000000);
    agent_sampler_window(sampler, WINDOW_NS, &notes);
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_GAP));
    struct kw_energy total = kw_sample_total(&shown->sample);
    assert_int_equal(total.measured_uj, 206000000);
    assert_int_equal(total.idle_uj, 201000000); /* 2 W for 100.5 s */
    assert_int_equal(total.unattributed_uj, 5000000);
    assert_int_equal(total.system_uj, 0);
    assert_int_equal(shown->sample.interval_ns, WINDOW_NS);
    assert_true(shown->slot_mw[0] < 1100);
}

/** And one whose counters started again. */
static void test_slept_and_reset(void **state)
{
    struct agent_sample_notes notes;

    (void)state;
    set_counter(0, 90000000);
    set_counter(1, 90000000);
    start("powercap");
    kwt_pass_ns(WINDOW_NS);
    kwt_clocks.boot += 3600 * KW_NS_PER_S;
    set_counter(0, 1000);
    set_counter(1, 1000);
    agent_sampler_window(sampler, WINDOW_NS, &notes);
    show();
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_GAP) | KW_QUALITY_BIT(KW_QUALITY_RESET));
    assert_int_equal(measured_uj(), 0);
}

/** The wall clock jumps by a year, forth and back: joules, intervals and flags do not notice. */
static void test_clock_steps(void **state)
{
    static const int64_t steps_s[] = {0, 31536000, -31536000, -900, 3, 900};
    uint64_t epoch = 0;

    (void)state;
    kwt_clocks.real = 1700000000 * KW_NS_PER_S;
    start("powercap");
    for (size_t i = 0; i < 6; i++) {
        kwt_clocks.real += (uint64_t)(steps_s[i] * (int64_t)KW_NS_PER_S);
        draw(0, 1000000);
        draw(1, 1000000);
        window();
        show();
        epoch = i == 0 ? shown->sample.epoch : epoch;
        assert_quality(0);
        assert_int_equal(shown->sample.interval_ns, WINDOW_NS);
        assert_int_equal(shown->sample.epoch, epoch);
        assert_int_equal(shown->sample.seq, i + 1);
        assert_int_equal(measured_uj(), 2000000 * (i + 1));
        assert_int_equal(kw_sample_total(&shown->sample).unattributed_uj, 0);
        assert_int_equal(shown->sample.watts_mw, 4000);
    }
}

/** A machine whose only meter tells power. It is read in a thread of its own, by clocks that run.
 */
static void test_integrated(void **state)
{
    uint32_t quality = 0;
    uint64_t sum_uj = 0;

    (void)state;
    kwt_clocks.flow = true;
    kwt_tree_write(&tree, "class/hwmon/hwmon0/name", "apm_xgene\n");
    kwt_tree_write(&tree, "class/hwmon/hwmon0/power1_label", "CPU power\n");
    kwt_tree_write(&tree, "class/hwmon/hwmon0/power1_input", "5000000\n");
    start("hwmon-power");
    for (int i = 0; i < 600 && sum_uj == 0; i++) {
        struct agent_sample_notes notes;
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        agent_sampler_window(sampler, WINDOW_NS, &notes);
        show();
        quality |= shown_quality();
        sum_uj = measured_uj();
    }
    assert_true((quality & KW_QUALITY_BIT(KW_QUALITY_INTEGRATED)) != 0);
    assert_true(sum_uj > 0);
}

/** More packages than are told apart. */
static void test_incomplete(void **state)
{
    (void)state;
    for (unsigned zone = 2; zone < 70; zone++) {
        char dir[32], name[32];
        (void)snprintf(dir, sizeof(dir), "intel-rapl:%x", zone);
        (void)snprintf(name, sizeof(name), "package-%u\n", zone);
        kwt_meter_zone(&tree, dir, name, "0\n", RANGE_TEXT);
    }
    start("powercap");
    draw(0, 1000000);
    draw(1, 1000000);
    window();
    show();
    assert_true((shown_quality() & KW_QUALITY_BIT(KW_QUALITY_INCOMPLETE)) != 0);
}

/** Two packages that claim more than the whole machine draws, for longer than a moment. */
static void test_doubtful(void **state)
{
    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:2", "psys\n", "0\n", RANGE_TEXT);
    set_counter(2, 1000);
    start("powercap");
    for (unsigned i = 0; i < 200; i++) {
        draw(0, 1000000);
        draw(1, 1000000);
        draw(2, 500000);
        window();
        show();
        if ((shown_quality() & KW_QUALITY_BIT(KW_QUALITY_DOUBTFUL)) != 0)
            break;
        assert_quality(0);
    }
    assert_quality(KW_QUALITY_BIT(KW_QUALITY_DOUBTFUL));
}

/** Every flag there is was set by one of the tests above. */
static void test_none_left_out(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < KW_QUALITY__MAX; bit++) {
        if ((ever_shown & KW_QUALITY_BIT(bit)) == 0)
            fail_msg("no test sets \"%s\"", kw_quality_names[bit]);
    }
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_wrapped),     TEST(test_reset),
        TEST(test_implausible), TEST(test_stale),
        TEST(test_frozen),      TEST(test_estimated),
        TEST(test_overflow),    TEST(test_stopped),
        TEST(test_slept),       TEST(test_slept_and_reset),
        TEST(test_clock_steps), TEST(test_multiplexed),
        TEST(test_integrated),  TEST(test_incomplete),
        TEST(test_doubtful),    cmocka_unit_test(test_none_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
