/* SPDX-License-Identifier: Apache-2.0 */
/* What was learnt outlives the agent: another one attributes as the first would have. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "node-agent/learnt.h"
#include "tests/sim/node/node_sim.h"
#include "tests/support/cmocka.h"

#define WORKLOADS 2000
#define NOW_MS    INT64_C(1800000000000)

static const struct agent_attribution_ops *method = &agent_attribution_kalman;
static struct agent_curve_feed curve;
static const struct agent_learnt_machine machine = {.cpu_model = "Some CPU",
                                                    .meter = "perf",
                                                    .n_packages = 1,
                                                    .n_cores = 16,
                                                    .n_online = 32,
                                                    .has = AGENT_HAS_COUNTERS,
                                                    .idle_mw = 28000};

static struct agent_share shares[2][WORKLOADS];

static void split(void *self, const struct sim_node *node, const struct sim_window *seen,
                  struct agent_split *ret)
{
    struct agent_window window = {.interval_ns = seen->interval_ns,
                                  .has = AGENT_HAS_SMT | AGENT_HAS_FREQUENCY | AGENT_HAS_COUNTERS,
                                  .n_cpus = sim_node_cpus(node),
                                  .mhz = seen->mhz,
                                  .measured_uj = seen->cpu_uj,
                                  .idle_prior_mw = 28000,
                                  .n = seen->n,
                                  .features = seen->features};

    method->split(self, &window, ret);
    window.domain = 1;
    window.dram = true;
    window.measured_uj = seen->dram_uj;
    window.idle_prior_mw = 7000;
    ret->shares += WORKLOADS / 2;
    method->split(self, &window, ret);
    ret->shares -= WORKLOADS / 2;
}

/** A method that watched a node of so many pods for a while. */
static void *learn(size_t pods, struct sim_node **ret_node)
{
    struct sim_node_conf conf = sim_node_defaults(5, pods, 12);
    void *self = NULL;

    assert_int_equal(method->open(WORKLOADS, &self), 0);
    conf.owners = pods / 10; /* replicas are tied to each other */
    conf.unlike = 0.05;
    *ret_node = sim_node_new(&conf);
    assert_non_null(*ret_node);
    for (unsigned k = 0; k < 100; k++) {
        struct agent_split answer = {.shares = shares[0]};
        split(self, *ret_node, sim_node_run(*ret_node, 100 * KW_NS_PER_MS), &answer);
    }
    return self;
}

static int load(const struct kw_buf *bytes, size_t len, const struct agent_learnt_machine *where,
                int64_t now_ms, void **ret, struct kw_err *err)
{
    int64_t age_ms = 0;

    return agent_learnt_load(method, WORKLOADS, where, now_ms, bytes->data, len, NULL, NULL, ret,
                             &curve, &age_ms, err);
}

static void test_attributes_as_before(void **state)
{
    struct sim_node *node = NULL;
    struct kw_buf bytes = {0};
    struct kw_err err = {0};
    void *before = learn(20, &node), *after = NULL;

    (void)state;
    assert_int_equal(agent_learnt_save(method, before, &curve, &machine, NOW_MS, &bytes), 0);
    assert_int_equal(load(&bytes, bytes.len, &machine, NOW_MS + 5000, &after, &err), 0);
    for (unsigned k = 0; k < 50; k++) {
        const struct sim_window *seen = sim_node_run(node, 100 * KW_NS_PER_MS);
        struct agent_split one = {.shares = shares[0]}, two = {.shares = shares[1]};
        memset(shares, 0, sizeof(shares));
        split(before, node, seen, &one);
        split(after, node, seen, &two);
        assert_memory_equal(shares[0], shares[1], sizeof(shares[0]));
        assert_int_equal(one.idle_uj, two.idle_uj);
        assert_int_equal(one.idle_mw, two.idle_mw);
        assert_int_equal(one.idle_sigma_mw, two.idle_sigma_mw);
    }
    print_message("%zu bytes for 20 pods, 2 domains\n", bytes.len);
    method->close(&before);
    method->close(&after);
    sim_node_free(&node);
    kw_buf_free(&bytes);
}

/** With many workloads the covariance stays behind: intensities and idle are there. */
static void test_many_workloads(void **state)
{
    struct sim_node *node = NULL;
    struct kw_buf bytes = {0};
    struct kw_err err = {0};
    void *before = learn(900, &node), *after = NULL;
    size_t told = 0;

    (void)state;
    assert_int_equal(agent_learnt_save(method, before, &curve, &machine, NOW_MS, &bytes), 0);
    assert_true(bytes.len < 128u << 10);
    assert_int_equal(load(&bytes, bytes.len, &machine, NOW_MS, &after, &err), 0);
    for (uint64_t workload = 0; workload <= 900; workload++) {
        double one = 0, two = 0, sigma_one = 0, sigma_two = 0;
        bool known = method->tell(before, 0, workload, &one, &sigma_one);
        assert_int_equal(method->tell(after, 0, workload, &two, &sigma_two), known);
        assert_true(one == two && sigma_one == sigma_two);
        told += known;
    }
    assert_true(told > 500);
    for (unsigned k = 0; k < 20; k++) { /* and it goes on, no more than a few per cent apart */
        const struct sim_window *seen = sim_node_run(node, 100 * KW_NS_PER_MS);
        struct agent_split one = {.shares = shares[0]}, two = {.shares = shares[1]};
        double off = 0, sum = 0;
        split(before, node, seen, &one);
        split(after, node, seen, &two);
        for (size_t i = 0; i < seen->n; i++) {
            sum += (double)shares[0][i].active_uj;
            off += fabs((double)shares[0][i].active_uj - (double)shares[1][i].active_uj);
        }
        assert_true(off < 0.1 * sum);
    }
    method->close(&before);
    method->close(&after);
    sim_node_free(&node);
    kw_buf_free(&bytes);
}

static bool is_odd(void *user, uint64_t workload)
{
    (void)user;
    return workload % 2 == 1;
}

static void test_who_ended_is_let_go_of(void **state)
{
    struct sim_node *node = NULL;
    struct kw_buf bytes = {0};
    struct kw_err err = {0};
    void *before = learn(20, &node), *after = NULL;
    int64_t age_ms = 0;

    (void)state;
    assert_int_equal(agent_learnt_save(method, before, &curve, &machine, NOW_MS, &bytes), 0);
    assert_int_equal(agent_learnt_load(method, WORKLOADS, &machine, NOW_MS + 7000, bytes.data,
                                       bytes.len, is_odd, NULL, &after, &curve, &age_ms, &err),
                     0);
    assert_int_equal(age_ms, 7000);
    for (uint64_t workload = 0; workload <= 20; workload++) {
        double one = 0, two = 0, sigma = 0;
        bool known = method->tell(before, 0, workload, &one, &sigma);
        bool wanted = known && (workload == 0 || workload % 2 == 1);
        assert_int_equal(method->tell(after, 0, workload, &two, &sigma), wanted);
        assert_true(!wanted || one == two);
    }
    method->close(&before);
    method->close(&after);
    sim_node_free(&node);
    kw_buf_free(&bytes);
}

static void test_refused(void **state)
{
    struct agent_learnt_machine others[] = {machine, machine, machine, machine,
                                            machine, machine, machine};
    static const char *const why[] = {"kind of CPU", "meter",    "packages",  "cores",
                                      "CPUs",        "features", "idle power"};
    struct sim_node *node = NULL;
    struct kw_buf bytes = {0};
    struct kw_err err = {0};
    void *before = learn(5, &node), *after = NULL;

    (void)state;
    others[0].cpu_model = "Another CPU";
    others[1].meter = "powercap";
    others[2].n_packages = 2;
    others[3].n_cores = 8;
    others[4].n_online = 16;
    others[5].has = 0;
    others[6].idle_mw = 1;
    assert_int_equal(agent_learnt_save(method, before, &curve, &machine, NOW_MS, &bytes), 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(load(&bytes, bytes.len, &others[i], NOW_MS, &after, &err), -EBADMSG);
        assert_non_null(strstr(err.text, why[i]));
    }
    assert_int_equal(load(&bytes, bytes.len, &machine, NOW_MS + 3601000, &after, &err), -EBADMSG);
    assert_string_equal(err.text, "it is too old");
    assert_int_equal(load(&bytes, bytes.len, &machine, NOW_MS - 3600000, &after, &err), -EBADMSG);
    assert_string_equal(err.text, "it is of the future");
    for (size_t len = 0; len < bytes.len; len += 7)
        assert_int_equal(load(&bytes, len, &machine, NOW_MS, &after, &err), -EBADMSG);
    (void)kw_buf_add(&bytes, "x", 1);
    assert_int_equal(load(&bytes, bytes.len, &machine, NOW_MS, &after, &err), -EBADMSG);
    assert_null(after);
    assert_int_equal(
        agent_learnt_save(&agent_attribution_ratio_cpu, NULL, &curve, &machine, NOW_MS, &bytes),
        -ENOTSUP);
    method->close(&before);
    sim_node_free(&node);
    kw_buf_free(&bytes);
}

/** The curve goes on, an hour's fading less; where the rest is refused, the one at hand stays. */
static void test_curve_goes_on(void **state)
{
    struct sim_node *node = NULL;
    struct kw_buf bytes = {0};
    struct kw_err err = {0};
    void *before = learn(8, &node), *after = NULL;
    const struct agent_curve_window seen = {
        .basis = {.domains = 3, .capacity_mcpu = 20800, .by_core = true},
        .fit = true,
        .measured_uj = 65000000,
        .work_ns = 10400 * (KW_NS_PER_S / 1000),
        .interval_ns = KW_NS_PER_S};
    struct kw_curve was, is;
    int64_t age_ms = 0;

    (void)state;
    agent_curve_feed_init(&curve, 28000, 120000);
    for (unsigned i = 0; i < 200; i++)
        agent_curve_feed_take(&curve, &seen);
    agent_curve_feed_get(&curve, &seen.basis, &was);
    assert_int_equal(agent_learnt_save(method, before, &curve, &machine, NOW_MS, &bytes), 0);
    agent_curve_feed_init(&curve, 28000, 120000);
    assert_int_equal(load(&bytes, bytes.len - 8, &machine, NOW_MS, &after, &err), -EBADMSG);
    assert_int_equal(curve.basis.capacity_mcpu, 0);
    assert_int_equal(agent_learnt_load(method, WORKLOADS, &machine, NOW_MS + 3600000, bytes.data,
                                       bytes.len, NULL, NULL, &after, &curve, &age_ms, &err),
                     0);
    agent_curve_feed_get(&curve, &seen.basis, &is);
    assert_true(is.by_core && !is.estimated && is.capacity_mcpu == 20800);
    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++)
        assert_in_range(is.knots[k].mw, was.knots[k].mw - 20, was.knots[k].mw + 20);
    assert_in_range(is.knots[5].confidence_permille, 700, was.knots[5].confidence_permille - 1);
    assert_int_equal(is.knots[4].confidence_permille, 0);
    agent_curve_feed_init(&curve, 0, 0);
    method->close(&before);
    method->close(&after);
    sim_node_free(&node);
    kw_buf_free(&bytes);
}

/** Bytes that were changed are refused, or harmless: what follows adds up. */
static void test_changed_bytes(void **state)
{
    struct sim_node *node = NULL;
    struct kw_buf bytes = {0};
    void *before = learn(8, &node);
    size_t taken = 0;

    (void)state;
    assert_int_equal(agent_learnt_save(method, before, &curve, &machine, NOW_MS, &bytes), 0);
    const struct sim_window *seen = sim_node_run(node, 100 * KW_NS_PER_MS);
    for (size_t at = 0; at < bytes.len; at += 11) {
        struct kw_err err = {0};
        void *after = NULL;
        bytes.data[at] = (char)(bytes.data[at] ^ (1 << at % 8));
        if (load(&bytes, bytes.len, &machine, NOW_MS, &after, &err) == 0) {
            struct agent_split answer = {.shares = shares[0]};
            split(after, node, seen, &answer);
            uint64_t sum = answer.idle_uj + answer.unattributed_uj;
            for (size_t i = 0; i < seen->n; i++)
                sum += shares[0][WORKLOADS / 2 + i].active_uj;
            assert_int_equal(sum, seen->dram_uj);
            method->close(&after);
            taken++;
        }
        bytes.data[at] = (char)(bytes.data[at] ^ (1 << at % 8));
    }
    assert_true(taken > 0);
    method->close(&before);
    sim_node_free(&node);
    kw_buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes_as_before),   cmocka_unit_test(test_many_workloads),
        cmocka_unit_test(test_who_ended_is_let_go_of), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_curve_goes_on),          cmocka_unit_test(test_changed_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
