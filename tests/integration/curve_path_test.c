/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's curve from the agent's windows to the extender's price, through the documents that lie
 * between them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "extender/ingest.h"
#include "node-agent/curve_feed.h"
#include "tests/support/cmocka.h"

#define WINDOW (KW_NS_PER_S / 5)

/* 16 cores of two threads: 20 W, and 3 W for every core's worth of work. */
#define CORES     16
#define IDLE_MW   20000
#define MW_A_CORE 3000

static struct agent_topology topology = {.n_cpus = 2 * CORES, .n_online = 2 * CORES};
static struct kw_sample sample, scratch;

/** Publishes what was learnt beside a sample at so much load, and takes it in as the extender. */
static struct ext_node publish(const struct kw_curve *curve, uint64_t used_mcpu, bool has_work,
                               uint64_t work_mcpu)
{
    kw_cleanup_free char *curve_text = NULL;
    kw_cleanup_free char *digest = NULL;
    size_t curve_len = 0, digest_len = 0;
    uint64_t skipped[EXT_SKIP__MAX] = {0};
    struct ext_node node = {0};
    const struct ext_instant now = {.now_ns = 1000000000000, .unix_ms = 1800000000000};

    sample = (struct kw_sample){.node = "n",
                                .epoch = 1,
                                .seq = 1,
                                .t_unix_ms = now.unix_ms,
                                .interval_ns = KW_NS_PER_S,
                                .used_mcpu = used_mcpu,
                                .has_work = has_work,
                                .work_mcpu = work_mcpu,
                                .meter = "powercap"};
    assert_int_equal(kw_curve_encode(curve, &curve_text, &curve_len), 0);
    assert_int_equal(kw_sample_encode_digest(&sample, &digest, &digest_len), 0);
    const struct ext_record record = {.name = "n",
                                      .sample = digest,
                                      .sample_len = digest_len,
                                      .curve = curve_text,
                                      .curve_len = curve_len};
    assert_int_equal(ext_ingest(&record, NULL, &now, &scratch, skipped, &node), 0);
    for (unsigned i = 0; i < EXT_SKIP__MAX; i++)
        assert_int_equal(skipped[i], 0);
    assert_true(node.has_curve);
    return node;
}

/** Watches the machine at loads from nothing to all of its threads. @param shares_told the
 * accounting tells how long siblings ran side by side. */
static struct kw_curve watch(bool shares_told)
{
    struct agent_curve_feed feed;
    struct kw_curve ret;
    const struct agent_curve_basis basis = {.domains = agent_curve_domain(0, 0),
                                            .capacity_mcpu =
                                                agent_work_capacity_mcpu(&topology, shares_told),
                                            .by_core = shares_told};

    agent_curve_feed_init(&feed, 30000, 150000);
    for (unsigned i = 0; i < 30000; i++) {
        uint64_t threads = i / 10 % (2 * CORES + 1); /* cores fill first, as the scheduler has it */
        uint64_t paired = threads > CORES ? 2 * (threads - CORES) : 0;
        uint64_t cpu_ns = threads * WINDOW, shared_ns = paired * WINDOW;
        uint64_t work_ns = agent_work_ns(cpu_ns, shared_ns);
        uint64_t mw = IDLE_MW + work_ns * MW_A_CORE / WINDOW;
        const struct agent_curve_window window = {.basis = basis,
                                                  .fit = true,
                                                  .measured_uj = mw * (WINDOW / 1000000),
                                                  .work_ns = shares_told ? work_ns : cpu_ns,
                                                  .interval_ns = WINDOW,
                                                  .platform_mw = 40000 + mw * 5 / 4,
                                                  .platform_t_ns = (1 + i) * WINDOW};
        agent_curve_feed_take(&feed, &window);
    }
    agent_curve_feed_get(&feed, &basis, &ret);
    return ret;
}

static void setup_topology(void)
{
    for (unsigned cpu = 0; cpu < 2 * CORES; cpu++)
        topology.cpu_sibling[cpu] = (uint16_t)(1 + (cpu ^ 1));
}

/** By work, a core's worth costs the same at any load, and the node stands where it is. */
static void test_by_core(void **state)
{
    (void)state;
    setup_topology();
    struct kw_curve curve = watch(true);
    assert_true(curve.by_core);
    assert_int_equal(curve.capacity_mcpu, CORES * 1300);
    assert_true(curve.knots[0].confidence_permille > 0);
    struct ext_node node = publish(&curve, 24000, true, 18400); /* 8 cores of one, 8 of two */
    assert_true(node.capacity_mcpu == CORES * 1300 && node.used_mcpu == 18400);
    /* caps go by the machine's own meter: 25 % is lost in its power supply */
    double wall = ext_watts_slope(&node.watts, &(const struct ext_watts_load){.used_mcpu = 18400,
                                                                              .held_mcpu = 1000})
                      .mw_per_mcpu *
                  1000;
    assert_true(fabs(wall - MW_A_CORE * 1.25) < MW_A_CORE * 0.05);
    for (unsigned cores = 0; cores < CORES; cores += 3) {
        double mw = ext_hull_marginal_mw(&node.hull, cores * 1000.0, 1000);
        assert_true(fabs(mw - MW_A_CORE) < MW_A_CORE * 0.03);
    }
}

/** By threads, the same machine's curve bends where cores begin to be shared, and its hull makes a
 * core look cheaper than it is: as a logical CPU. */
static void test_by_thread(void **state)
{
    (void)state;
    setup_topology();
    struct kw_curve curve = watch(false);
    assert_false(curve.by_core);
    struct ext_node node = publish(&curve, 24000, false, 0);
    assert_true(node.capacity_mcpu == 2 * CORES * 1000 && node.used_mcpu == 24000);
    double mw = ext_hull_marginal_mw(&node.hull, 20000, 1000);
    assert_true(mw > 0 && mw < MW_A_CORE * 0.75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_core),
        cmocka_unit_test(test_by_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
