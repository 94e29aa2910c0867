/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of decisions: what was written is read, the latest first, and nobody waits. */
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/decisions.h"
#include "tests/support/cmocka.h"

struct fixture {
    struct ext_decisions *decisions;
    struct kw_buf page;
};

static int set_up(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    *state = &f;
    return ext_decisions_new(&f.decisions);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ext_decisions_free(&f->decisions);
    kw_buf_free(&f->page);
    return 0;
}

static void keep(struct fixture *f, const char *ns, const char *pod)
{
    struct ext_decision *decision = ext_decisions_next(f->decisions);

    assert_non_null(decision);
    decision->t_unix_ms = INT64_C(1767225600000);
    (void)snprintf(decision->ns, sizeof(decision->ns), "%s", ns);
    (void)snprintf(decision->pod, sizeof(decision->pod), "%s", pod);
    decision->outlook.mcpu = 1500;
    decision->outlook.from = EXT_CPU_REQUEST;
    decision->outlook.life_ms = 3600000;
    decision->outlook.life_from = EXT_LIFE_DEFAULT;
    decision->candidates = 500;
    decision->known = 498;
    decision->min_mw = 4100;
    decision->max_mw = 19400;
    decision->data_age_ms = 700;
    decision->n_best = 1;
    decision->best[0] = (struct ext_candidate){
        .node = "barn-a", .mw = 4100, .fill = 0.5, .used_mcpu = 4000, .score = 10};
    ext_decisions_done(f->decisions, decision);
}

/** Page about a pod. @return how many decisions it holds. */
static int page(struct fixture *f, const char *pod, enum ext_form form)
{
    kw_buf_reset(&f->page);
    return ext_decisions_page(f->decisions, pod, form, NULL, &f->page);
}

static void test_forms(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(page(f, NULL, EXT_FORM_JSON), 0);
    assert_string_equal(f->page.data, "{\"decisions\":[]}\n");
    assert_int_equal(page(f, NULL, EXT_FORM_TEXT), 0);
    keep(f, "orchard", "pear");
    assert_int_equal(page(f, NULL, EXT_FORM_JSON), 1);
    assert_string_equal(
        f->page.data,
        "{\"decisions\":[{\"t_unix_ms\":1767225600000,\"verb\":\"prioritize\",\"namespace\":"
        "\"orchard\",\"pod\":\"pear\","
        "\"placement\":\"efficient\",\"dry_run\":false,\"mcpu\":1500,\"mcpu_from\":\"requests\","
        "\"candidates\":500,\"known\":498,\"min_mw\":4100,\"max_mw\":19400,\"life_ms\":3600000,"
        "\"data_"
        "age_ms\":700,"
        "\"starting_pods_unseen\":false,"
        "\"neutral\":null,\"profile\":null,\"life_from\":\"default\",\"lived_ms\":0,\"ended_"
        "permille\":0,\"wake_over_ms\":3600000,\"zones\":null,\"best\":[{\"node\":\"barn-a\","
        "\"mw\":"
        "4100,\"used_"
        "mcpu\":4000,"
        "\"fill_permille\":500,\"score\":10,\"wake_j\":null}],\"soft_capped\":0,\"capped\":{"
        "\"node\":0,"
        "\"domain\":0,\"cluster\":0,\"sleep\":0,\"start\":0},\"chosen\":null}]}\n");
    assert_int_equal(page(f, NULL, EXT_FORM_TEXT), 1);
    assert_string_equal(f->page.data,
                        "2026-01-01T00:00:00Z  orchard/pear\n"
                        "  500 candidates, 498 known; 1.500 cores (requests), life 3600 s "
                        "(default), placement efficient; nodes read 0.7 s "
                        "before\n"
                        "  it would add 4.1 W where that is cheapest, 19.4 W where dearest\n"
                        "  10  +4.1 W   50 % full  barn-a\n");
}

static void test_profiles(void **state)
{
    struct fixture *f = *state;
    struct ext_decision *decision = ext_decisions_next(f->decisions);

    decision->t_unix_ms = INT64_C(1767225600000);
    decision->owner = (struct kw_top_owner){.kind = "Deployment", .name = "press"};
    decision->outlook = (struct ext_outlook){
        .mcpu = 460,
        .from = EXT_CPU_PROFILE,
        .profile = {.pods_permille = 6000,
                    .used_mcpu = 433,
                    .sigma_mcpu = 21,
                    .core_mw = 3900,
                    .t_unix_ms = 5,
                    .estimated = true},
        .assumed_mcpu = 500,
        .assumed_from = EXT_CPU_REQUEST,
        .weight_permille = 600,
        .life_ms = 297000,
        .life_from = EXT_LIFE_PROFILE,
        .lived_ms = 10800000,
        .ended_permille = 37250,
    };
    ext_decisions_done(f->decisions, decision);
    assert_int_equal(page(f, NULL, EXT_FORM_JSON), 1);
    assert_non_null(strstr(f->page.data, "\"mcpu\":460,\"mcpu_from\":\"profile\""));
    assert_non_null(
        strstr(f->page.data,
               "\"profile\":{\"kind\":\"Deployment\",\"name\":\"press\",\"pods_permille\":6000,"
               "\"used_mcpu\":433,\"sigma_mcpu\":21,\"core_mw\":3900,\"estimated\":true,"
               "\"t_unix_ms\":5,\"weight_permille\":600,\"assumed_mcpu\":500,"
               "\"assumed_from\":\"requests\"},\"life_from\":\"profile\",\"lived_ms\":10800000,"
               "\"ended_permille\":37250,\"wake_over_ms\":1800000,"));
    assert_int_equal(page(f, NULL, EXT_FORM_TEXT), 1);
    assert_non_null(strstr(
        f->page.data, "\n  6 pods of Deployment press used 0.433 cores each, +- 0.021 from pod "
                      "to pod; this weighs 60 %, 0.500 cores (requests) the rest\n"
                      "  pods of Deployment press were there for 3.0 h, all together, and 37.25 of "
                      "them ended; waking a node counts over 1800 s\n"));
    assert_non_null(strstr(f->page.data, ", life 297 s (profile), placement"));
}

/** What caps leave out, and where a pod went then. */
static void test_caps_and_bindings(void **state)
{
    struct fixture *f = *state;
    struct ext_decision *decision = ext_decisions_next(f->decisions);
    double saved_mw = 0;

    decision->t_unix_ms = 1;
    decision->filter = true;
    decision->unseen = true;
    decision->candidates = 9;
    decision->capped[EXT_CAP_PASSES] = 2;
    decision->capped[EXT_CAP_NODE] = 4;
    decision->capped[EXT_CAP_CLUSTER] = 3;
    (void)snprintf(decision->pod, sizeof(decision->pod), "fig");
    (void)snprintf(decision->uid, sizeof(decision->uid), "u-1");
    ext_decisions_done(f->decisions, decision);
    assert_int_equal(page(f, "fig", EXT_FORM_TEXT), 1);
    assert_non_null(strstr(f->page.data, "\n  9 candidates; 0.000 cores"));
    assert_non_null(strstr(f->page.data, "\n  the API server was away: pods that started"));
    assert_non_null(strstr(f->page.data, "caps let 2 of 9 candidates pass; the others:\n"
                                         "       4  kwatt: no room under the node's power cap\n"
                                         "       3  kwatt: no room under the cluster's power cap"));
    decision = ext_decisions_next(f->decisions);
    decision->t_unix_ms = 1;
    decision->dry = true;
    decision->known = 5;
    decision->n_best = 1;
    decision->best[0].mw = 2000;
    (void)snprintf(decision->pod, sizeof(decision->pod), "date");
    (void)snprintf(decision->uid, sizeof(decision->uid), "u-1");
    ext_decisions_done(f->decisions, decision);
    assert_false(ext_decisions_bound(f->decisions, "u-2", "barn-x", 7000, &saved_mw));
    assert_false(ext_decisions_bound(f->decisions, "", "barn-x", 7000, &saved_mw));
    assert_true(ext_decisions_bound(f->decisions, "u-1", "barn-x", 7000, &saved_mw));
    assert_true(saved_mw == 5000);
    assert_false(ext_decisions_bound(f->decisions, "u-1", "barn-x", 7000, &saved_mw)); /* once */
    assert_int_equal(page(f, "date", EXT_FORM_TEXT), 1);
    assert_non_null(strstr(f->page.data,
                           "bound to barn-x, where it adds 7.0 W; the best node would "
                           "have saved 5.0 W\n"));
    assert_int_equal(page(f, "date", EXT_FORM_JSON), 1);
    assert_non_null(strstr(f->page.data, "\"chosen\":\"barn-x\",\"chosen_mw\":7000}"));
    /* each is followed once, in order */
    struct ext_decision copy;
    uint64_t seen = 0;
    assert_true(ext_decisions_follow(f->decisions, &seen, &copy));
    assert_string_equal(copy.pod, "fig");
    assert_true(ext_decisions_follow(f->decisions, &seen, &copy));
    assert_string_equal(copy.pod, "date");
    assert_false(ext_decisions_follow(f->decisions, &seen, &copy));
    /* where one node alone passed, scores were not asked for */
    decision = ext_decisions_next(f->decisions);
    decision->t_unix_ms = 1;
    decision->filter = true;
    decision->capped[EXT_CAP_PASSES] = 1;
    (void)snprintf(decision->pod, sizeof(decision->pod), "plum");
    (void)snprintf(decision->uid, sizeof(decision->uid), "u-3");
    ext_decisions_done(f->decisions, decision);
    (void)ext_decisions_bound(f->decisions, "u-3", "barn-y", 4000, &saved_mw);
    assert_int_equal(page(f, "plum", EXT_FORM_TEXT), 1);
    assert_non_null(strstr(f->page.data, "\n  bound to barn-y, where it adds 4.0 W\n"));
}

/** The sum stands where all pods do, and in each document. */
static void test_sum_of_a_dry_run(void **state)
{
    static const struct {
        struct ext_dry_run sum;
        const char *text, *json;
    } cases[] = {
        {{0, 0},
         "dry run: no pod was seen bound yet",
         "\"dry_run\":{\"pods\":0,\"saved_mw\":0}}\n"},
        {{12, 34500},
         "added 34.5 W less, all together\n",
         "\"dry_run\":{\"pods\":12,\"saved_mw\":34500}}\n"},
        {{1, -200},
         "dry run: 1 pod was seen bound since the start; on the nodes that kwatt found "
         "best that would have added 0.2 W more",
         "\"dry_run\":{\"pods\":1,\"saved_mw\":-200}}\n"},
    };
    struct fixture *f = *state;

    /* nothing was asked, and nothing is said */
    assert_int_equal(ext_decisions_page(f->decisions, NULL, EXT_FORM_TEXT, &cases[0].sum, &f->page),
                     0);
    assert_int_equal(f->page.len, 0);
    keep(f, "orchard", "pear");
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        kw_buf_reset(&f->page);
        assert_int_equal(
            ext_decisions_page(f->decisions, NULL, EXT_FORM_TEXT, &cases[i].sum, &f->page), 1);
        assert_non_null(strstr(f->page.data, cases[i].text));
        kw_buf_reset(&f->page);
        assert_int_equal(
            ext_decisions_page(f->decisions, "pear", EXT_FORM_TEXT, &cases[i].sum, &f->page), 1);
        assert_null(strstr(f->page.data, "dry run"));
        kw_buf_reset(&f->page);
        assert_int_equal(
            ext_decisions_page(f->decisions, "pear", EXT_FORM_JSON, &cases[i].sum, &f->page), 1);
        assert_non_null(strstr(f->page.data, cases[i].json));
    }
}

static void test_pods_are_told_apart(void **state)
{
    struct fixture *f = *state;

    keep(f, "orchard", "pear");
    keep(f, "garden", "pear");
    keep(f, "orchard", "apple");
    keep(f, "orchard", "pear");
    assert_int_equal(page(f, NULL, EXT_FORM_JSON), 4);
    assert_int_equal(page(f, "orchard/pear", EXT_FORM_JSON), 2);
    assert_int_equal(page(f, "garden/pear", EXT_FORM_JSON), 1);
    assert_int_equal(page(f, "pear", EXT_FORM_JSON), 3);
    assert_int_equal(page(f, "orchard/", EXT_FORM_JSON), 0);
    assert_int_equal(page(f, "orchar/pear", EXT_FORM_JSON), 0);
    assert_int_equal(page(f, "", EXT_FORM_JSON), 0);
}

static void test_the_latest_come_first(void **state)
{
    struct fixture *f = *state;
    char name[16];

    for (unsigned i = 0; i < EXT_DECISIONS + 10; i++) {
        (void)snprintf(name, sizeof(name), "p%u", i);
        keep(f, "orchard", name);
    }
    assert_int_equal(page(f, NULL, EXT_FORM_TEXT), EXT_DECISIONS);
    (void)snprintf(name, sizeof(name), "/p%d\n", EXT_DECISIONS + 9);
    assert_ptr_equal(strstr(f->page.data, name), strchr(f->page.data, '/'));
    assert_int_equal(page(f, "p9", EXT_FORM_TEXT), 0);
    assert_int_equal(page(f, "p10", EXT_FORM_TEXT), 1);
}

/** A place that is held is passed over by whoever writes and whoever reads. */
static void test_nobody_waits(void **state)
{
    struct fixture *f = *state;
    struct ext_decision *held = ext_decisions_next(f->decisions);

    assert_non_null(held);
    assert_int_equal(page(f, NULL, EXT_FORM_JSON), 0);
    for (unsigned i = 1; i < EXT_DECISIONS; i++)
        keep(f, "orchard", "pear");
    assert_null(ext_decisions_next(f->decisions));
    assert_int_equal(page(f, NULL, EXT_FORM_JSON), EXT_DECISIONS - 1);
    ext_decisions_done(f->decisions, held);
    assert_non_null(ext_decisions_next(f->decisions));
}

static void test_why_neutral(void **state)
{
    struct fixture *f = *state;
    static const struct {
        bool exempt, dry;
        enum kw_placement placement;
        uint64_t known;
        const char *json, *text;
    } cases[] = {
        {true, false, KW_PLACEMENT_EFFICIENT, 3, "kwatt's own", "neutral: a pod of kwatt's own"},
        {false, false, KW_PLACEMENT_OFF, 0, "placement is off", "neutral: kwatt.io/placement"},
        {false, false, KW_PLACEMENT_EFFICIENT, 0, "nothing is known", "neutral: nothing is known"},
        {false, true, KW_PLACEMENT_PERFORMANCE, 3, "\"dry_run\":true", "dry run"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct ext_decision *decision = ext_decisions_next(f->decisions);
        decision->t_unix_ms = 1;
        decision->exempt = cases[i].exempt;
        decision->dry = cases[i].dry;
        decision->placement = cases[i].placement;
        decision->known = cases[i].known;
        decision->data_age_ms = -1;
        (void)snprintf(decision->pod, sizeof(decision->pod), "%zu", i);
        ext_decisions_done(f->decisions, decision);
        assert_int_equal(page(f, decision->pod, EXT_FORM_JSON), 1);
        assert_non_null(strstr(f->page.data, cases[i].json));
        assert_int_equal(page(f, decision->pod, EXT_FORM_TEXT), 1);
        assert_non_null(strstr(f->page.data, cases[i].text));
        assert_non_null(strstr(f->page.data, "nodes never read"));
        assert_null(strstr(f->page.data, "it would add"));
    }
}

/** Names come from whoever may make pods: they reach JSON and terminals escaped. */
static void test_hostile_names(void **state)
{
    struct fixture *f = *state;

    keep(f, "orch\"ard", "\x1b[2Jpear\n");
    assert_int_equal(page(f, NULL, EXT_FORM_JSON), 1);
    assert_non_null(strstr(f->page.data, "\"orch\\\"ard\",\"pod\":\"\\u001b[2Jpear\\n\""));
    assert_int_equal(page(f, NULL, EXT_FORM_TEXT), 1);
    assert_non_null(strstr(f->page.data, "orch\"ard/?[2Jpear?\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_profiles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_caps_and_bindings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sum_of_a_dry_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pods_are_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_latest_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_why_neutral, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_names, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
