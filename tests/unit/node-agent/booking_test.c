/* SPDX-License-Identifier: Apache-2.0 */
/* Booking without a cgroup tree: what is new, what falls, and when a key that nobody knows is let
 * go of. */
#include <string.h>

#include "node-agent/booking.h"
#include "tests/support/cmocka.h"

#define S UINT64_C(1000000000)

static uint64_t keys[4];
static uint64_t cpu_ns[4 * 2];
static struct agent_usage usage;
static struct agent_ledger *ledger;
static struct agent_booking *booking;
static size_t n_forgotten;
static uint64_t last_forgotten;

static void forget(void *self, const uint64_t *gone, size_t n)
{
    (void)self;
    n_forgotten += n;
    last_forgotten = gone[n - 1];
}

static const struct agent_accounting_ops accounting = {.name = "played", .forget = forget};

static int setup(void **state)
{
    (void)state;
    memset(cpu_ns, 0, sizeof(cpu_ns));
    usage = (struct agent_usage){.n_packages = 2, .keys = keys, .cpu_ns = cpu_ns};
    n_forgotten = 0;
    if (agent_ledger_new(2, &ledger) < 0)
        return -1;
    struct agent_booking_conf conf = {.n_packages = 2, .accounting = &accounting, .ledger = ledger};
    return agent_booking_new(&conf, &booking);
}

static int teardown(void **state)
{
    (void)state;
    agent_booking_free(&booking);
    agent_ledger_free(&ledger);
    return 0;
}

static void row(size_t i, uint64_t key, uint64_t p0, uint64_t p1)
{
    keys[i] = key;
    cpu_ns[2 * i] = p0;
    cpu_ns[2 * i + 1] = p1;
    if (usage.n <= i)
        usage.n = i + 1;
}

/** CPU time of both packages that is new since the last take. */
static uint64_t busy(void)
{
    uint64_t busy_ns[AGENT_PACKAGES_MAX];

    agent_booking_busy(booking, &usage, busy_ns, NULL);
    return busy_ns[0] + busy_ns[1];
}

static void take(bool baseline, uint64_t now_ns)
{
    agent_ledger_begin(ledger);
    assert_int_equal(agent_booking_take(booking, &usage, baseline, now_ns, 1000), 0);
}

static void test_what_is_new(void **state)
{
    (void)state;
    row(0, AGENT_KEY_SYSTEM, 100, 50);
    take(true, S);
    assert_int_equal(busy(), 0);
    row(0, AGENT_KEY_SYSTEM, 110, 51);
    row(1, 77, 5, 0); /* first seen: new as a whole */
    assert_int_equal(busy(), 16);
    take(false, 2 * S);
    assert_int_equal(busy(), 0);
    assert_int_equal(agent_booking_take(booking, NULL, false, 3 * S, 1000), 0);
    assert_int_equal(busy(), 0);
}

static void test_a_count_that_falls(void **state)
{
    (void)state;
    row(0, 77, 1000, 1000);
    take(true, S);
    row(0, 77, 900, 1001);
    assert_int_equal(busy(), 1);
    take(false, 2 * S);
    row(0, 77, 910, 1001);
    assert_int_equal(busy(), 10);
}

/** Unknown keys go when they have stood still for a minute; the system's and the overflow's never.
 */
static void test_unknown_keys_go(void **state)
{
    (void)state;
    row(0, AGENT_KEY_SYSTEM, 1, 0);
    row(1, 77, 1, 0);
    row(2, 78, 1, 0);
    row(3, AGENT_KEY_OVERFLOW, 1, 0);
    take(true, S);
    take(false, 60 * S);
    assert_int_equal(n_forgotten, 0);
    row(2, 78, 2, 0); /* this one lives */
    take(false, 61 * S);
    assert_int_equal(n_forgotten, 1);
    assert_int_equal(last_forgotten, 77);
    take(false, 100 * S); /* 77 counts from nothing again, as an accounting that forgot it does */
    assert_int_equal(n_forgotten, 1);
}

/** Who the system's energy and time belong to. */
static void test_parts_of_the_system(void **state)
{
    struct kw_system_sample shown;

    (void)state;
    row(0, AGENT_KEY_SYSTEM, 0, 0);
    take(true, S);
    row(0, AGENT_KEY_SYSTEM, 30, 0);
    row(1, AGENT_KEY_KERNEL, 10, 10);
    row(2, 77, 1, 0);
    row(3, AGENT_KEY_INTERRUPTS, 0, 7);
    take(false, 2 * S);
    agent_system_parts_show(agent_ledger_system(ledger), false, &shown);
    assert_true(shown.has_kernel);
    assert_int_equal(shown.kernel_cpu_ns, 20);
    assert_int_equal(shown.root_cpu_ns, 30);
    assert_true(shown.has_interrupts);
    assert_int_equal(shown.interrupts_cpu_ns, 7);
    assert_int_equal(shown.slices_cpu_ns, 0);
    assert_int_equal(shown.other_cpu_ns, 1);
    /* an accounting that does not tell them apart says nothing of them */
    agent_system_parts_show(agent_ledger_system(ledger), true, &shown);
    assert_false(shown.has_kernel);
    /* the kernel's key is never let go of */
    take(false, 100 * S);
    take(false, 200 * S);
    for (size_t i = 0; i < n_forgotten; i++)
        assert_int_equal(last_forgotten, 77);
}

static struct agent_more more[4 * 2];

/** What the workload-less rows of package 0 did in the last window, by way of the split. */
static struct agent_features seen;

static int no_open(size_t max_workloads, void **ret)
{
    (void)max_workloads;
    *ret = NULL;
    return 0;
}

static void look(void *self, const struct agent_window *window, struct agent_split *ret)
{
    (void)self;
    seen = window->features[0];
    ret->shares[0].active_uj = window->measured_uj;
    ret->shares[0].sigma_uj = 0;
}

/** What else is counted than time comes out of the window: what shared a PMU made up for, and
 * flagged; a count that falls, or never ran, as nothing. */
/** Where room gets short, at once; those that run stay. */
static void test_unknown_keys_make_room(void **state)
{
    (void)state;
    row(0, AGENT_KEY_SYSTEM, 1, 0);
    row(1, 77, 1, 0);
    row(2, 78, 1, 0);
    row(3, AGENT_KEY_OVERFLOW, 1, 0);
    take(true, S);
    usage.crowded = true;
    row(2, 78, 2, 0);
    take(false, 2 * S);
    assert_int_equal(n_forgotten, 1);
    assert_int_equal(last_forgotten, 77);
}

static void test_counts(void **state)
{
    static const struct agent_attribution_ops method = {
        .name = "look", .open = no_open, .split = look};
    struct agent_ledger_energy energy = {.measured_uj = 1, .interval_ns = S, .usage_known = true};
    uint64_t sigma_mw;

    (void)state;
    usage.features = AGENT_FEATURES_MORE;
    usage.more = more;
    memset(more, 0, sizeof(more));
    row(0, AGENT_KEY_SYSTEM, 100, 50);
    more[0] = (struct agent_more){
        .shared_ns = 40, .counters = {1000, 500, 7}, .enabled_ns = 1000, .running_ns = 1000};
    take(true, S);
    assert_false(agent_booking_multiplexed(booking));
    row(0, AGENT_KEY_SYSTEM, 200, 50);
    more[0] = (struct agent_more){
        .shared_ns = 90, .counters = {1600, 600, 8}, .enabled_ns = 1300, .running_ns = 1300};
    more[1] = (struct agent_more){
        .shared_ns = 5, .counters = {10, 0, 0}, .enabled_ns = 10, .running_ns = 10};
    take(false, 2 * S);
    assert_false(agent_booking_multiplexed(booking));
    (void)agent_ledger_split(ledger, &method, NULL, &energy, &sigma_mw);
    assert_int_equal(seen.cpu_ns, 100);
    assert_int_equal(seen.shared_ns, 50);
    assert_int_equal(seen.cycles, 600);
    assert_int_equal(seen.instructions, 100);
    assert_int_equal(seen.llc_misses, 1);
    energy.package = AGENT_PACKAGES_MAX; /* a meter of a package that nobody knows: all of them */
    (void)agent_ledger_split(ledger, &method, NULL, &energy, &sigma_mw);
    assert_int_equal(seen.shared_ns, 55);
    assert_int_equal(seen.cycles, 610);
    energy.package = 0;
    row(0, AGENT_KEY_SYSTEM, 300, 50);
    more[0] = (struct agent_more){
        .shared_ns = 80, .counters = {1700, 610, 8}, .enabled_ns = 1700, .running_ns = 1400};
    take(false, 3 * S);
    assert_true(agent_booking_multiplexed(booking));
    (void)agent_ledger_split(ledger, &method, NULL, &energy, &sigma_mw);
    assert_int_equal(seen.shared_ns, 0);
    assert_int_equal(seen.cycles, 400); /* 100 in a quarter of the time */
    assert_int_equal(seen.instructions, 40);
    row(0, AGENT_KEY_SYSTEM, 400, 50);
    more[0].enabled_ns = 2000;
    take(false, 4 * S);
    assert_true(agent_booking_multiplexed(booking));
    (void)agent_ledger_split(ledger, &method, NULL, &energy, &sigma_mw);
    assert_int_equal(seen.cycles, 0);
}

/** What a model is told of a window that is not booked yet: counts of all rows, by package. */
static void test_counts_of_a_window(void **state)
{
    struct agent_counts counts[AGENT_PACKAGES_MAX];
    uint64_t busy_ns[AGENT_PACKAGES_MAX];

    (void)state;
    memset(more, 0, sizeof(more));
    more[0] = (struct agent_more){.counters = {10, 20, 30}, .enabled_ns = 5, .running_ns = 5};
    row(0, AGENT_KEY_SYSTEM, 100, 50);
    row(1, 77, 5, 0);
    usage.features = AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS);
    usage.more = more;
    take(true, S);
    more[0].counters[AGENT_COUNTER_CYCLES] = 40;
    more[0].enabled_ns = more[0].running_ns = 9;
    more[3] = (struct agent_more){.counters = {0, 7, 0}, .enabled_ns = 2, .running_ns = 1};
    for (unsigned again = 0; again < 2; again++) { /* looking notes nothing */
        agent_booking_busy(booking, &usage, busy_ns, counts);
        assert_int_equal(counts[0].cycles, 30);
        assert_int_equal(counts[1].instructions, 14); /* it counted half of the time */
    }
    usage.features = 0;
    agent_booking_busy(booking, &usage, busy_ns, counts);
    assert_int_equal(counts[0].cycles, 0);
    usage.more = NULL;
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_new),
        TEST(test_a_count_that_falls),
        TEST(test_unknown_keys_go),
        TEST(test_unknown_keys_make_room),
        TEST(test_counts),
        TEST(test_counts_of_a_window),
        TEST(test_parts_of_the_system),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
