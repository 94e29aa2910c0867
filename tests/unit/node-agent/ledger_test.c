/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/ledger.h"
#include "tests/support/cmocka.h"

#define S UINT64_C(1000000000)

static struct agent_ledger *ledger;
static const struct agent_attribution_ops *method;
static void *method_state;

static int setup(void **state)
{
    (void)state;
    method = agent_attributions[0];
    assert_int_equal(method->open(AGENT_WORKLOADS_MAX + 1, &method_state), 0);
    return agent_ledger_new(2, &ledger);
}

static int teardown(void **state)
{
    (void)state;
    agent_ledger_free(&ledger);
    method->close(&method_state);
    return 0;
}

static struct agent_workload *attach(const char *id, const char *container,
                                     struct agent_label **ret_container)
{
    struct agent_identity *identity = calloc(1, sizeof(*identity));
    struct agent_workload *workload = NULL;
    struct agent_label *label = NULL;

    assert_non_null(identity);
    identity->kind = KW_WORKLOAD_POD;
    (void)snprintf(identity->id, sizeof(identity->id), "%s", id);
    (void)snprintf(identity->container_id, sizeof(identity->container_id), "%s", container);
    assert_int_equal(agent_ledger_attach(ledger, identity, "/x", 1000, &workload, &label), 0);
    free(identity);
    if (ret_container != NULL)
        *ret_container = label;
    else
        agent_label_unref(&label);
    return workload;
}

static void use(struct agent_workload *workload, const struct agent_label *label, uint64_t p0,
                uint64_t p1)
{
    const uint64_t cpu_ns[2] = {p0, p1};

    agent_ledger_use(ledger, workload, label, cpu_ns, NULL);
}

static void split(unsigned package, bool dram, uint64_t measured_uj, uint64_t idle_mw, bool known)
{
    struct agent_ledger_energy energy = {
        .slot = 2 * package + dram,
        .dram = dram,
        .package = package,
        .measured_uj = measured_uj,
        .interval_ns = S,
        .idle_prior_mw = idle_mw,
        .usage_known = known,
    };
    uint64_t sigma_mw;

    (void)agent_ledger_split(ledger, method, method_state, &energy, &sigma_mw);
}

static void assert_conserved(void)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads);
    uint64_t pods_uj = 0, listed_uj = agent_ledger_departed_uj(ledger);

    for (unsigned slot = 0; slot < AGENT_SLOTS_MAX; slot++) {
        const struct kw_energy *total = agent_ledger_total(ledger, slot);
        assert_int_equal(total->measured_uj, total->idle_uj + total->pods_uj + total->system_uj +
                                                 total->unattributed_uj);
        pods_uj += total->pods_uj;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t containers_uj = 0;
        for (size_t k = 0; k < workloads[i]->n_containers; k++)
            containers_uj += workloads[i]->containers[k].active_uj;
        assert_true(containers_uj <= workloads[i]->cpu_uj + workloads[i]->dram_uj);
        listed_uj += workloads[i]->cpu_uj + workloads[i]->dram_uj;
    }
    assert_int_equal(pods_uj, listed_uj);
}

static void test_by_package(void **state)
{
    struct agent_workload *a = attach("a", "", NULL), *b = attach("b", "", NULL);

    (void)state;
    agent_ledger_begin(ledger);
    use(a, NULL, 100, 0);
    use(b, NULL, 0, 100);
    use(NULL, NULL, 100, 0);
    split(0, false, 10000000, 2000, true);
    split(1, false, 5000000, 2000, true);
    split(1, true, 1000000, 0, true);
    split(7, false, 300, 0, true); /* not told apart: by all CPU time */
    agent_ledger_end(ledger, S, S, NULL, NULL);
    assert_int_equal(a->cpu_uj, 4000000 + 100);
    assert_int_equal(b->cpu_uj, 3000000 + 100);
    assert_int_equal(b->dram_uj, 1000000);
    assert_int_equal(agent_ledger_total(ledger, 0)->system_uj, 4000000);
    assert_int_equal((int)b->cpu_mw, 3000);
    assert_int_equal((int)b->dram_mw, 1000);
    assert_conserved();
}

/** What was counted beside time adds up over packages and windows, also of what ended since. */
static void test_counts(void **state)
{
    struct agent_workload *a = attach("a", "", NULL);
    static const uint64_t cpu_ns[2] = {100, 50};
    static const struct agent_counts counts[2] = {{40, 300, 200, 1}, {2, 3, 4, 5}};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        agent_ledger_begin(ledger);
        agent_ledger_use(ledger, a, NULL, cpu_ns, counts);
        agent_ledger_use(ledger, NULL, NULL, cpu_ns, counts); /* the system's are its own */
        agent_ledger_end(ledger, (i + 1) * S, S, NULL, NULL);
    }
    assert_int_equal(a->counts.shared_ns, 84);
    assert_int_equal(a->counts.cycles, 606);
    assert_int_equal(a->counts.instructions, 408);
    assert_int_equal(a->counts.llc_misses, 12);
}

static void test_containers(void **state)
{
    struct agent_label *c1 = NULL, *c2 = NULL;
    struct agent_workload *pod = attach("pod", "c2", &c2);

    (void)state;
    assert_ptr_equal(attach("pod", "c1", &c1), pod);
    (void)attach("pod", "", NULL);
    assert_int_equal(pod->cgroups, 3);
    assert_int_equal(pod->n_containers, 2);
    assert_string_equal(pod->containers[0].label->id, "c1");
    agent_ledger_begin(ledger);
    use(pod, c1, 100, 0);
    use(pod, c2, 0, 200);
    use(pod, NULL, 100, 0);
    split(0, false, 4000, 0, true);
    split(1, true, 400, 0, true);
    agent_ledger_end(ledger, S, S, NULL, NULL);
    assert_int_equal(pod->cpu_uj, 4000);
    assert_int_equal(pod->containers[0].active_uj, 1100);
    assert_int_equal(pod->containers[1].active_uj, 2200);
    assert_int_equal(pod->containers[1].dram_uj, 200);
    assert_true(pod->containers[1].cpu_mw == 2.0); /* 2000 microjoules in a second */
    assert_true(pod->containers[1].dram_mw == 0.2);
    assert_int_equal(pod->containers[1].cpu_ns, 200);
    assert_conserved();
    agent_label_unref(&c1);
    agent_label_unref(&c2);
}

static void test_unknown_usage(void **state)
{
    struct agent_workload *a = attach("a", "", NULL);

    (void)state;
    agent_ledger_begin(ledger);
    split(0, false, 10000, 1, false);
    agent_ledger_end(ledger, S, S, NULL, NULL);
    assert_int_equal(a->cpu_uj, 0);
    assert_int_equal(agent_ledger_total(ledger, 0)->idle_uj, 1000);
    assert_int_equal(agent_ledger_total(ledger, 0)->unattributed_uj, 9000);
}

static void invent(void *self, const struct agent_window *window, struct agent_split *ret)
{
    (void)self;
    ret->idle_uj = window->measured_uj;
    for (size_t i = 0; i < window->n; i++)
        ret->shares[i] = (struct agent_share){.active_uj = 1};
}

/** A method that does not add up cannot break the books. */
static void test_a_lying_method(void **state)
{
    const struct agent_attribution_ops liar = {.name = "liar", .split = invent};
    struct agent_workload *a = attach("a", "", NULL);

    (void)state;
    agent_ledger_begin(ledger);
    use(a, NULL, 1, 1);
    const struct agent_attribution_ops *before = method;
    method = &liar;
    split(0, false, 500, 0, true);
    method = before;
    agent_ledger_end(ledger, S, S, NULL, NULL);
    assert_int_equal(a->cpu_uj, 0);
    assert_int_equal(agent_ledger_total(ledger, 0)->unattributed_uj, 500);
    assert_conserved();
}

static void count_departed(void *user, uint64_t number)
{
    (void)number;
    (*(unsigned *)user)++;
}

static void test_end_and_departure(void **state)
{
    struct agent_label *container = NULL;
    struct agent_workload *a = attach("a", "c", &container);
    struct agent_workload *const *workloads = NULL;
    unsigned departed = 0;

    (void)state;
    agent_ledger_begin(ledger);
    use(a, container, 10, 0);
    split(0, false, 700, 0, true);
    agent_ledger_end(ledger, S, S, count_departed, &departed);
    agent_ledger_detach(a, container, 2 * S, 2000);
    assert_int_equal(a->ended_unix_ms, 2000);
    agent_ledger_begin(ledger);
    agent_ledger_end(ledger, 3 * S, S, count_departed, &departed);
    assert_int_equal(agent_ledger_workloads(ledger, &workloads), 1);
    assert_int_equal(a->cpu_mw, 0);
    assert_int_equal(a->cpu_uj, 700);
    /* the same pod again before it departs: it goes on */
    struct agent_label *again = NULL;
    assert_ptr_equal(attach("a", "c", &again), a);
    assert_int_equal(a->ended_unix_ms, 0);
    agent_ledger_detach(a, again, 4 * S, 4000);
    agent_label_unref(&again);
    agent_label_unref(&container);
    agent_ledger_begin(ledger);
    agent_ledger_end(ledger, 4 * S + AGENT_DEPART_NS, S, count_departed, &departed);
    assert_int_equal(departed, 1);
    assert_int_equal(agent_ledger_workloads(ledger, &workloads), 0);
    assert_int_equal(agent_ledger_departed_uj(ledger), 700);
    assert_conserved();
}

static void test_many_containers(void **state)
{
    struct agent_workload *pod = NULL;
    char id[16];

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        struct agent_label *container = NULL;
        (void)snprintf(id, sizeof(id), "c%u", i);
        pod = attach("pod", id, &container);
        agent_ledger_begin(ledger);
        use(pod, container, 10, 0);
        split(0, false, 11, 0, true);
        agent_ledger_end(ledger, (i + 1) * S, S, NULL, NULL);
        agent_ledger_detach(pod, container, (i + 1) * S, 1000);
        agent_label_unref(&container);
    }
    assert_int_equal(pod->n_containers, 64);
    assert_int_equal(pod->cpu_uj, 2200);
    assert_conserved();
}

/** Names that are no UTF-8 stay apart and become text that JSON can hold. */
static void test_names_of_any_bytes(void **state)
{
    struct agent_label *container = NULL;
    struct agent_workload *a = attach("/a\xff\xc3", "c\x80", &container);

    (void)state;
    assert_string_equal(a->label->id, "/a\\xff\\xc3");
    assert_string_equal(a->containers[0].label->id, "c\\x80");
    assert_ptr_equal(attach("/a\xff\xc3", "", NULL), a);
    assert_ptr_not_equal(attach("/a\xfe\xc3", "", NULL), a);
    assert_string_equal(attach("/\xc3\xa4", "", NULL)->label->id, "/\xc3\xa4");
    agent_label_unref(&container);
}

static void test_too_many_workloads(void **state)
{
    struct agent_identity *identity = calloc(1, sizeof(*identity));
    struct agent_workload *workload = NULL;
    struct agent_label *label = NULL;
    int rc = 0;

    (void)state;
    assert_non_null(identity);
    /* every one is searched for among all before: ids that differ early keep this quick */
    for (unsigned i = 0; i <= AGENT_WORKLOADS_MAX && rc == 0; i++) {
        (void)snprintf(identity->id, sizeof(identity->id), "%08x", i * 2654435761U);
        rc = agent_ledger_attach(ledger, identity, "/x", 1, &workload, &label);
    }
    assert_int_equal(rc, -ENOSPC);
    free(identity);
}

/** Random life: workloads come, run, end and depart; books balance to the microjoule after each
 * window. */
static void test_random_life(void **state)
{
    struct agent_workload *alive[20] = {NULL};
    struct agent_label *labels[20] = {NULL};
    uint64_t measured[4] = {0}, now_ns = 0;
    unsigned born = 0;

    (void)state;
    srandom(3);
    for (unsigned round = 0; round < 4000; round++) {
        unsigned i = (unsigned)random() % 20;
        uint64_t step_ns = random() % 40 == 0 ? AGENT_DEPART_NS : S;
        char id[16];
        now_ns += step_ns;
        if (alive[i] == NULL) {
            (void)snprintf(id, sizeof(id), "p%u", born++ % 60);
            alive[i] = attach(id, random() % 2 != 0 ? "c" : "", &labels[i]);
        } else if (random() % 3 == 0) {
            agent_ledger_detach(alive[i], labels[i], now_ns, (int64_t)(now_ns / 1000000));
            agent_label_unref(&labels[i]);
            alive[i] = NULL;
        }
        agent_ledger_begin(ledger);
        use(NULL, NULL, (uint64_t)random() % 1000, (uint64_t)random() % 1000);
        for (unsigned k = 0; k < 20; k++) {
            if (alive[k] != NULL && random() % 2 == 0)
                use(alive[k], labels[k], (uint64_t)random(), (uint64_t)random());
        }
        for (unsigned slot = 0; slot < 4; slot++) {
            uint64_t uj = random() % 5 == 0 ? 0 : (uint64_t)random();
            measured[slot] += uj;
            split(slot / 2, slot % 2 == 1, uj, (uint64_t)random() % 3000, random() % 10 != 0);
        }
        agent_ledger_end(ledger, now_ns, step_ns, NULL, NULL);
        assert_conserved();
    }
    for (unsigned slot = 0; slot < 4; slot++)
        assert_int_equal(agent_ledger_total(ledger, slot)->measured_uj, measured[slot]);
    for (unsigned i = 0; i < 20; i++)
        agent_label_unref(&labels[i]);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_by_package),         TEST(test_counts),         TEST(test_containers),
        TEST(test_unknown_usage),      TEST(test_a_lying_method), TEST(test_end_and_departure),
        TEST(test_many_containers),    TEST(test_random_life),    TEST(test_names_of_any_bytes),
        TEST(test_too_many_workloads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
