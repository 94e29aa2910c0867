/* SPDX-License-Identifier: Apache-2.0 */
/* What caps say of nodes: tables of cases, and rooms as pods move in. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/node.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "extender/caps.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/cap_trees.h"

#define NODES 4

struct fixture {
    struct ext_cap_policy policy;
    struct ext_cap_tree *tree;
    struct ext_node_table *table;
    struct ext_watts watts[NODES];
    struct ext_cap_input inputs[NODES];
    struct ext_caps *caps;
};

static size_t index_of(const void *user, const char *name)
{
    (void)user;
    return name[0] >= 'a' && name[0] < 'a' + NODES ? (size_t)(name[0] - 'a') : SIZE_MAX;
}

static size_t before_of(const void *user, size_t index)
{
    (void)user;
    return index;
}

static void put_node(struct fixture *f, const char *name, const char *domain, uint64_t cap_mw,
                     bool asleep)
{
    struct kw_node node = {.cap_mw = cap_mw, .falling_asleep = asleep};

    (void)snprintf(node.name, sizeof(node.name), "%s", name);
    (void)snprintf(node.domain, sizeof(node.domain), "%s", domain);
    assert_int_equal(ext_node_table_put(f->table, &node, 1), 0);
}

static void put_all(struct fixture *f, const char *domain, uint64_t cap_mw)
{
    for (char name[] = "a"; name[0] < 'a' + NODES; name[0]++)
        put_node(f, name, domain, cap_mw, false);
}

/** Nodes a to d: 8 cores, 100 W idle, 10 W a core up to half, 30 W a core above; 1 core in use. */
static void begin(struct fixture *f, const char *caps)
{
    const struct kw_curve curve = {.capacity_mcpu = 8000,
                                   .n = 3,
                                   .knots = {{0, 100000, 0}, {500, 140000, 0}, {1000, 260000, 0}}};

    *f = (struct fixture){.policy = {.sigmas = 2, .soft_permille = 900}};
    f->tree = kwt_cap_tree(caps);
    f->table = ext_node_table_new(7);
    for (size_t i = 0; i < NODES; i++) {
        struct kw_sample sample = {.watts_mw = 105000};
        ext_watts_sample(&f->watts[i], &sample);
        ext_watts_curve(&f->watts[i], &curve);
        f->inputs[i] = (struct ext_cap_input){.watts = &f->watts[i], .used_mcpu = 1000};
    }
}

static void build(struct fixture *f)
{
    struct ext_caps *before = f->caps;
    const struct ext_caps_sources sources = {.policy = &f->policy,
                                             .tree = f->tree,
                                             .table = f->table,
                                             .inputs = f->inputs,
                                             .n = NODES,
                                             .index_of = index_of,
                                             .before = before,
                                             .before_of = before_of};

    f->caps = ext_caps_build(&sources);
    assert_non_null(f->caps);
    ext_caps_free(&before);
}

static void end(struct fixture *f)
{
    ext_caps_free(&f->caps);
    ext_node_table_free(&f->table);
    ext_cap_tree_free(&f->tree);
}

static enum ext_cap_verdict verdict(const struct fixture *f, char node, double mcpu, double held)
{
    const struct ext_cap_need need = {.mcpu = mcpu, .held_mcpu = held};

    return ext_caps_check(f->caps, (size_t)(node - 'a'), &need);
}

static void test_node_caps(void **state)
{
    (void)state;
    struct fixture f;

    begin(&f, "domains: {}");
    assert_false(ext_caps_any(f.tree, f.table));
    put_node(&f, "a", "", 150000, false); /* draws 110 W by its curve, more than measured */
    put_node(&f, "b", "", 0, false);
    put_node(&f, "c", "", 105000, false); /* passed already */
    put_node(&f, "d", "", 0, true);
    assert_true(ext_caps_any(f.tree, f.table));
    build(&f);
    assert_int_equal(verdict(&f, 'a', 3000, 0), EXT_CAP_PASSES);  /* 140 W, at the knot */
    assert_int_equal(verdict(&f, 'a', 3300, 0), EXT_CAP_PASSES);  /* 149 W */
    assert_int_equal(verdict(&f, 'a', 3400, 0), EXT_CAP_NODE);    /* 152 W */
    assert_int_equal(verdict(&f, 'a', 1400, 2000), EXT_CAP_NODE); /* with those let in before */
    assert_int_equal(verdict(&f, 'b', 100000, 0), EXT_CAP_PASSES);
    assert_int_equal(verdict(&f, 'c', 0, 0), EXT_CAP_NODE);
    assert_int_equal(verdict(&f, 'd', 1, 0), EXT_CAP_ASLEEP);
    const struct ext_cap_need said = {.mw = 40000};
    const struct ext_cap_need more = {.mw = 40001};
    assert_int_equal(ext_caps_check(f.caps, 0, &said), EXT_CAP_PASSES);
    assert_int_equal(ext_caps_check(f.caps, 0, &more), EXT_CAP_NODE);
    assert_true(ext_caps_headroom_mw(f.caps, 0) == 40000);
    assert_true(ext_caps_headroom_mw(f.caps, 1) > 1e300);
    assert_true(ext_caps_headroom_mw(f.caps, 2) == 0);
    /* pods move in */
    ext_caps_move(f.caps, 0, 2000, 0, 0);
    assert_true(ext_caps_headroom_mw(f.caps, 0) == 20000);
    assert_int_equal(verdict(&f, 'a', 1300, 0), EXT_CAP_PASSES); /* 10 W to the knot, 9 W behind */
    assert_int_equal(verdict(&f, 'a', 1400, 0), EXT_CAP_NODE);
    /* of silent nodes the last figures hold, and they fall asleep all the same */
    f.inputs[0].stale = f.inputs[2].stale = f.inputs[3].stale = true;
    build(&f);
    assert_int_equal(verdict(&f, 'a', 3300, 0), EXT_CAP_PASSES);
    assert_int_equal(verdict(&f, 'a', 3400, 0), EXT_CAP_NODE);
    assert_int_equal(verdict(&f, 'c', 1, 0), EXT_CAP_NODE);
    assert_int_equal(verdict(&f, 'd', 9000, 0), EXT_CAP_ASLEEP);
    /* one of which nothing was ever heard passes */
    f.watts[2].heard = false;
    build(&f);
    assert_int_equal(verdict(&f, 'c', 9000, 0), EXT_CAP_PASSES);
    end(&f);
}

static void test_domain_caps(void **state)
{
    (void)state;
    struct fixture f;

    /* each node draws 110 W */
    begin(&f, "cluster: 600\ndomains: {dc1: 250, dc1/row1: 170, dc2: 500}\n");
    put_node(&f, "a", "dc1/row1/rack1", 0, false);
    put_node(&f, "b", "dc1/row2", 0, false);
    put_node(&f, "c", "dc2", 0, false);
    build(&f); /* d has no domain and is the cluster's alone */
    assert_int_equal(verdict(&f, 'a', 3000, 0), EXT_CAP_PASSES); /* 30 W of the 30 W of dc1 */
    assert_int_equal(verdict(&f, 'a', 3100, 0), EXT_CAP_DOMAIN);
    assert_int_equal(verdict(&f, 'b', 3000, 0), EXT_CAP_PASSES);
    assert_int_equal(verdict(&f, 'b', 3100, 0), EXT_CAP_DOMAIN);
    assert_int_equal(verdict(&f, 'c', 7000, 0), EXT_CAP_PASSES);  /* 150 W of 160 W */
    assert_int_equal(verdict(&f, 'd', 7500, 0), EXT_CAP_CLUSTER); /* 165 W */
    /* whoever was let in before may have gone to the dearest node */
    assert_int_equal(verdict(&f, 'b', 1000, 700), EXT_CAP_DOMAIN);
    /* what a moves takes from b */
    ext_caps_move(f.caps, 0, 2000, 0, 0);
    assert_int_equal(verdict(&f, 'b', 1000, 0), EXT_CAP_PASSES);
    assert_int_equal(verdict(&f, 'b', 1100, 0), EXT_CAP_DOMAIN);
    /* one whose use is not sure takes what it may use, by twice its deviation */
    ext_caps_move(f.caps, 0, 100, 0, 200 * 200);
    assert_int_equal(verdict(&f, 'b', 500, 0), EXT_CAP_PASSES);
    assert_int_equal(verdict(&f, 'b', 501, 0), EXT_CAP_DOMAIN);
    /* one that counts for twice what is expected of it, and may use 100 mcpu more */
    f.caps->use = (struct ext_use){.flight = 2, .spread = 0.5};
    ext_caps_move(f.caps, 0, 100, 0, 0);
    assert_int_equal(verdict(&f, 'b', 200, 0), EXT_CAP_PASSES);
    assert_int_equal(verdict(&f, 'b', 201, 0), EXT_CAP_DOMAIN);
    /* a silent node counts by its last figures, an unheard one by the mean */
    f.inputs[0].stale = true;
    put_node(&f, "x", "dc2", 0, false);
    build(&f);
    const struct ext_cap_domain *dc1 = &f.caps->domains[ext_cap_tree_find(f.tree, "dc1") - 1];
    const struct ext_cap_domain *dc2 = &f.caps->domains[ext_cap_tree_find(f.tree, "dc2") - 1];
    assert_true(dc1->watts_mw == 220000 && dc1->n_nodes == 2 && dc1->n_stale == 1);
    assert_true(dc2->watts_mw == 220000 && dc2->n_nodes == 2 && dc2->n_unknown == 1);
    end(&f);
}

/** A path of a hundred components, each with a cap; one that is longer than a path may be. */
static void test_deep_domains(void **state)
{
    (void)state;
    static const unsigned levels = 100;
    struct kw_buf caps = {0};
    char path[2 * 100] = "";
    struct fixture f;
    struct kw_err err = {0};
    struct ext_cap_tree *tree = NULL;

    /* the tightest, 500 W for 420 W that are drawn, is in the middle */
    (void)kw_buf_adds(&caps, "domains:\n");
    for (unsigned i = 0; i < levels; i++) {
        (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), i == 0 ? "a" : "/a");
        (void)kw_buf_addf(&caps, "  %s: %u\n", path, i == levels / 2 ? 500 : 1000 + i);
    }
    begin(&f, caps.data);
    put_all(&f, path, 0);
    build(&f);
    assert_int_equal(f.tree->n, levels);
    assert_int_equal(f.caps->nodes[0].domain, levels);
    assert_int_equal(f.caps->domains[levels - 1].n_nodes, NODES);
    assert_int_equal(verdict(&f, 'a', 3000, 0), EXT_CAP_PASSES);
    assert_int_equal(verdict(&f, 'a', 8000, 0), EXT_CAP_DOMAIN);
    ext_caps_move(f.caps, 1, 8000, 0, 0);
    assert_int_equal(verdict(&f, 'a', 1, 0), EXT_CAP_DOMAIN);
    end(&f);
    kw_buf_free(&caps);
    (void)kw_buf_adds(&caps, "domains:\n  a");
    for (unsigned i = 0; i < KW_POWER_DOMAIN_MAX / 2; i++)
        (void)kw_buf_adds(&caps, "/a");
    (void)kw_buf_adds(&caps, ": 5\n");
    assert_int_equal(ext_cap_tree_parse("f", caps.data, caps.len, 900, &tree, &err), -EINVAL);
    assert_null(tree);
    kw_buf_free(&caps);
}

/** Caps that nothing fits under, and ones that nothing can pass. */
static void test_absurd_caps(void **state)
{
    (void)state;
    static const struct {
        const char *caps;
        uint64_t node_mw;               /* 0: none */
        enum ext_cap_verdict pod, none; /* of a pod of a core, and of one that uses nothing */
    } cases[] = {
        {"cluster: 1m", 0, EXT_CAP_CLUSTER, EXT_CAP_CLUSTER},
        {"domains: {dc1: 1m}", 0, EXT_CAP_DOMAIN, EXT_CAP_DOMAIN},
        {"{cluster: 1, domains: {dc1: 1m}}", 1, EXT_CAP_CLUSTER, EXT_CAP_CLUSTER},
        {"{cluster: 1G, domains: {dc1: 1}}", 1, EXT_CAP_DOMAIN, EXT_CAP_DOMAIN},
        {"{cluster: 1G, domains: {dc1: 1G}}", 1, EXT_CAP_NODE, EXT_CAP_NODE},
        {"domains: {}", 100000, EXT_CAP_NODE, EXT_CAP_NODE}, /* its idle watts */
        {"{cluster: 1G, domains: {dc1: 1G}}", 1000000000, EXT_CAP_PASSES, EXT_CAP_PASSES},
        {"domains: {elsewhere: 1m, dc1/row1: 1m, dc: 1m}", 0, EXT_CAP_PASSES, EXT_CAP_PASSES},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fixture f;
        begin(&f, cases[i].caps);
        put_all(&f, "dc1", cases[i].node_mw);
        build(&f);
        for (size_t node = 0; node < NODES; node++) {
            assert_int_equal(verdict(&f, "abcd"[node], 1000, 0), cases[i].pod);
            assert_int_equal(verdict(&f, "abcd"[node], 0, 0), cases[i].none);
            double room = ext_caps_headroom_mw(f.caps, node);
            assert_true(cases[i].pod == EXT_CAP_PASSES ? room > 1e6 : room == 0);
        }
        end(&f);
    }
}

static void test_hysteresis(void **state)
{
    (void)state;
    struct fixture f;
    const struct ext_cap_need critical = {.mcpu = 100, .critical = true};

    begin(&f, "domains: {dc: {hard: 200, soft: 150}}\n");
    put_node(&f, "a", "dc", 0, false);
    static const struct {
        double used_mcpu; /* of a: 110 W + 10 W a core above 1 */
        enum ext_cap_verdict small, critical;
    } steps[] = {
        {1000, EXT_CAP_PASSES, EXT_CAP_PASSES}, {5000, EXT_CAP_PASSES, EXT_CAP_PASSES}, /* 170 W */
        {6000, EXT_CAP_DOMAIN, EXT_CAP_DOMAIN}, /* 200 W: closes */
        {5000, EXT_CAP_DOMAIN, EXT_CAP_PASSES}, /* still, but for critical pods */
        {4300, EXT_CAP_PASSES, EXT_CAP_PASSES}, /* 149 W: opens */
        {5000, EXT_CAP_PASSES, EXT_CAP_PASSES},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(steps); i++) {
        f.inputs[0].used_mcpu = steps[i].used_mcpu;
        build(&f);
        assert_int_equal(verdict(&f, 'a', 100, 0), steps[i].small);
        assert_int_equal(ext_caps_check(f.caps, 0, &critical), steps[i].critical);
    }
    /* 170 W and 3 W: 23 W into the band of 50 W */
    const struct ext_cap_need need = {.mcpu = 100};
    assert_int_equal(ext_caps_penalty(f.caps, 0, &need), 5);
    assert_int_equal(ext_caps_penalty(f.caps, 0, &critical), 0);
    assert_int_equal(ext_caps_penalty(f.caps, 1, &need), 0);
    end(&f);
}

/** Measurements that wander leave less room; those of many nodes do not wander together. */
static void test_sigmas(void **state)
{
    (void)state;
    struct fixture f;

    begin(&f, "cluster: 1000\n");
    for (size_t i = 0; i < NODES; i++) {
        put_node(&f, (const char[]){(char)('a' + i), 0}, "", 300000, false);
        f.watts[i].measured_mw = 200000;
        f.watts[i].mw.soon = 1e8F; /* 10 W */
    }
    build(&f);
    assert_true(ext_caps_headroom_mw(f.caps, 0) == 80000);
    assert_true(f.caps->domains[0].risk_mw == 40000);
    assert_true(f.caps->domains[0].own_hard_mw == 160000);
    end(&f);
}

/** A node of which nobody knows what it runs counts as full, under its own cap and in its domain,
 * and is no longer closed by that once it is known. */
static void test_unseen_nodes(void **state)
{
    (void)state;
    struct fixture f;
    const struct ext_cap_need critical = {.mcpu = 100, .critical = true};

    begin(&f, "domains: {dc: 500, dc2: 1000}\n");
    put_node(&f, "a", "dc", 250000, false); /* 260 W when it is full */
    put_node(&f, "b", "dc", 0, false);
    put_node(&f, "c", "dc2", 400000, false);
    f.inputs[0].unseen = f.inputs[2].unseen = true;
    build(&f);
    assert_int_equal(f.caps->n_unseen, 2);
    assert_int_equal(verdict(&f, 'a', 100, 0), EXT_CAP_UNSEEN);
    assert_int_equal(ext_caps_check(f.caps, 0, &critical), EXT_CAP_UNSEEN);
    assert_int_equal(verdict(&f, 'b', 3000, 0), EXT_CAP_PASSES); /* 260 W, 110 W, and 30 W */
    assert_int_equal(verdict(&f, 'b', 9000, 0), EXT_CAP_UNSEEN);
    assert_int_equal(verdict(&f, 'c', 1000, 0), EXT_CAP_PASSES); /* there is room for a full one */
    assert_int_equal(verdict(&f, 'd', 1e6, 0), EXT_CAP_PASSES);
    assert_true(ext_caps_headroom_mw(f.caps, 0) == 0);
    f.inputs[0].used_mcpu = 7800; /* 254 W: passed, and no one is sure of it */
    build(&f);
    assert_int_equal(verdict(&f, 'a', 100, 0), EXT_CAP_UNSEEN);
    f.inputs[0].used_mcpu = 7400; /* 242 W, above the soft threshold */
    f.inputs[0].unseen = f.inputs[2].unseen = false;
    build(&f);
    assert_int_equal(f.caps->n_unseen, 0);
    assert_int_equal(verdict(&f, 'a', 100, 0), EXT_CAP_PASSES);
    assert_int_equal(verdict(&f, 'a', 300, 0), EXT_CAP_NODE);
    end(&f);
}

/** Under a node's own cap a single pod counts for what it may use alone, where the node runs
 * others; one in flight does so until it is seen. */
static void test_single_pods(void **state)
{
    (void)state;
    struct fixture f;
    const struct ext_cap_need need = {.mcpu = 1000, .alone_mcpu = 2000};
    const struct ext_cap_need huge = {.mcpu = 1000, .alone_mcpu = 1e6};
    const struct ext_cap_need homeless = {.mcpu = 1000, .alone_mcpu = 1e6, .nowhere_else = true};

    begin(&f, "domains: {dc: 600}\n");
    put_all(&f, "dc", 240000); /* above 110 W; at 30 W a core behind the knot */
    build(&f);
    f.caps->use = (struct ext_use){.flight = 1, .alone = 3};
    assert_int_equal(ext_caps_check(f.caps, 0, &need), EXT_CAP_PASSES); /* 10 W and 60 W of 130 W */
    assert_int_equal(ext_caps_check(f.caps, 0, &huge), EXT_CAP_NODE);
    assert_int_equal(ext_caps_check(f.caps, 0, &homeless), EXT_CAP_PASSES); /* 126 W at most */
    ext_caps_move(f.caps, 0, 1000, 0, 0); /* 10 W, and 60 W that no other one gets */
    assert_int_equal(verdict(&f, 'a', 2000, 0), EXT_CAP_PASSES);        /* 20 W of 60 W */
    assert_int_equal(ext_caps_check(f.caps, 0, &need), EXT_CAP_PASSES); /* it is kept free once */
    assert_int_equal(ext_caps_check(f.caps, 0, &homeless), EXT_CAP_NODE);
    assert_int_equal(verdict(&f, 'a', 4000, 0), EXT_CAP_NODE);
    assert_int_equal(verdict(&f, 'b', 4000, 0), EXT_CAP_PASSES);
    /* domains count what it counts as: others make up for it */
    assert_true(fabs(f.caps->domains[0].own_hard_mw - 150000) < 1);
    f.inputs[0].alone_mcpu = 2000;
    f.inputs[0].used_mcpu = 6000; /* 200 W: the one in flight may take the rest */
    build(&f);
    assert_int_equal(verdict(&f, 'a', 100, 0), EXT_CAP_NODE);
    f.inputs[0].alone_mcpu = 0;
    f.inputs[1].used_mcpu = 3000;
    build(&f);
    assert_int_equal(verdict(&f, 'a', 1000, 0), EXT_CAP_PASSES);
    assert_int_equal(ext_caps_check(f.caps, 0, &need), EXT_CAP_NODE);
    /* where next to nothing runs it is let in by what it counts as: it could be nowhere else */
    assert_int_equal(ext_caps_check(f.caps, 2, &homeless), EXT_CAP_PASSES);
    assert_int_equal(ext_caps_check(f.caps, 1, &homeless), EXT_CAP_NODE);
    assert_int_equal(verdict(&f, 'b', 1000, 0), EXT_CAP_PASSES);
    end(&f);
}

/** Names come and go; whoever is there is found. */
static void test_table(void **state)
{
    (void)state;
    struct ext_node_table *table = ext_node_table_new(3);
    bool there[300] = {false};
    unsigned seed = 1;

    for (unsigned round = 0; round < 20000; round++) {
        struct kw_node node = {0};
        seed = seed * 1103515245 + 12345;
        unsigned i = (seed >> 8) % KW_ARRAY_SIZE(there);
        (void)snprintf(node.name, sizeof(node.name), "node-%u", i);
        there[i] = (seed >> 20) % 3 != 0;
        if (there[i])
            assert_int_equal(ext_node_table_put(table, &node, 1), 0);
        else
            ext_node_table_drop(table, node.name);
    }
    size_t n = 0;
    for (unsigned i = 0; i < KW_ARRAY_SIZE(there); i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "node-%u", i);
        assert_int_equal(ext_node_table_find(table, name) != NULL, there[i]);
        n += there[i];
    }
    assert_int_equal(ext_node_table_count(table), n);
    ext_node_table_list_begin(table);
    struct kw_node last = {.name = "only"};
    assert_int_equal(ext_node_table_put(table, &last, 1), 0);
    ext_node_table_list_end(table);
    assert_int_equal(ext_node_table_count(table), 1);
    assert_non_null(ext_node_table_find(table, "only"));
    ext_node_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_caps),    cmocka_unit_test(test_domain_caps),
        cmocka_unit_test(test_deep_domains), cmocka_unit_test(test_absurd_caps),
        cmocka_unit_test(test_hysteresis),   cmocka_unit_test(test_sigmas),
        cmocka_unit_test(test_unseen_nodes), cmocka_unit_test(test_single_pods),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
