/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/power_model.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "tests/support/cmocka.h"

static struct kw_power_model model;
static const char *why;

/** As close as two ways of adding the same up are. */
static void assert_near(double value, double expected)
{
    assert_true(fabs(value - expected) < 1e-9);
}

static int decode(const char *json, const char *file_name)
{
    why = "";
    memset(&model, 0, sizeof(model));
    return kw_power_model_decode(json, strlen(json), file_name, &model, &why);
}

/** The package model of a Kepler file with one component. */
static const struct kw_model *kepler(const char *weights, const char *file_name)
{
    char json[2048];

    (void)snprintf(json, sizeof(json), "{\"package\": {\"All_Weights\": {%s}}}", weights);
    assert_int_equal(decode(json, file_name), 0);
    return &model.parts[KW_MODEL_PACKAGE];
}

static double at(const struct kw_model *package, double x)
{
    const double features[KW_MODEL_FEATURES_MAX] = {x};

    return kw_model_watts(package, features);
}

static const struct kw_model terms = {
    .present = true,
    .base_w = 10,
    .n = 2,
    .features =
        {{.name = "cpu_time", .scale = 4, .beyond = KW_BEYOND_HELD, .weights_w = {1, 2, 4, 8}},
         {.name = "cycles", .scale = 1e9, .beyond = KW_BEYOND_HELD, .weights_w = {0, 3, 0, 0}}},
};

static void test_terms(void **state)
{
    const double quarter[] = {1, 0.5e9}, most[] = {4, 1e9}, beyond[] = {400, 1e12};

    (void)state;
    assert_near(kw_model_watts(&terms, quarter), 10 + 0.5 + 0.5 + 0.25 + 0.125 + 1.5);
    assert_near(kw_model_watts(&terms, most), 28);
    assert_near(kw_model_watts(&terms, beyond), 28);
    assert_near(kw_model_idle_w(&terms), 10);
    assert_near(kw_model_top_w(&terms), 28);
}

/** Whatever comes out is a power: no number, infinity or negative value leaves. */
static void test_always_a_power(void **state)
{
    static const double xs[] = {0, -1, 1e300, -1e300, INFINITY, -INFINITY, NAN};
    struct kw_model wild = {.present = true,
                            .base_w = -5,
                            .n = 1,
                            .features = {{.name = "cycles", .scale = 1e-9, .weights_w = {0, 9}}}};

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(xs); i++) {
        double watts = at(&wild, xs[i]);
        assert_true(watts >= 0 && watts <= KW_MODEL_MAX_W);
        const double both[] = {xs[i], xs[i]};
        watts = kw_model_watts(&terms, both);
        assert_true(watts >= 0 && watts <= 28);
    }
}

static void test_round_trip(void **state)
{
    kw_cleanup_free char *json = NULL;
    size_t len = 0;

    (void)state;
    memset(&model, 0, sizeof(model));
    model.threads = 8;
    model.parts[KW_MODEL_PACKAGE] = terms;
    model.parts[KW_MODEL_DRAM] = terms;
    model.parts[KW_MODEL_DRAM].error =
        (struct kw_model_error){.mae_w = 1.5,
                                .prior_mae_w = -1,
                                .mean_mae_w = 4,
                                .n_groups = 2,
                                .groups = {{"a", 3, 1}, {"b", 4, 2}}};
    assert_int_equal(kw_power_model_encode(&model, &json, &len), 0);
    struct kw_power_model before = model;
    assert_int_equal(decode(json, "m.json"), 0);
    assert_memory_equal(&model.parts[KW_MODEL_DRAM], &before.parts[KW_MODEL_DRAM],
                        sizeof(struct kw_model));
    assert_true(model.parts[KW_MODEL_PACKAGE].present);
    assert_false(model.parts[KW_MODEL_PLATFORM].present);
    assert_int_equal(model.threads, 8);
    assert_false(model.foreign);
}

#define FEATURE                                                                               \
    "{\"name\": \"cycles\", \"most\": 1e9, \"root_w\": 0, \"linear_w\": 1, \"square_w\": 0, " \
    "\"cube_w\": 0}"
#define OWN(part) "{\"schema\": 1, \"power_model\": {\"package\": " part "}}"

#define TREES(trees)                                                                            \
    "{\"schema\": 2, \"power_model\": {\"package\": {\"base_w\": 1, \"features\": [{\"name\": " \
    "\"cpu_time\", \"most\": 8}, {\"name\": \"cycles\", \"most\": 1e9}], \"trees\": " trees "}}}"

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *json, *why;
    } rows[] = {
        {"", "not valid JSON"},
        {"[]", "not a JSON object"},
        {"{}", "neither kwatt's power model nor Kepler's weights"},
        {"{\"schema\": 3, \"power_model\": {}}", "schema"},
        {"{\"schema\": 2, \"power_model\": {}}", "power_model"},
        {"{\"schema\": 1, \"power_model\": {}}", "power_model"},
        {OWN("{\"base_w\": -1, \"features\": [" FEATURE "]}"), "base_w"},
        {OWN("{\"base_w\": 1, \"features\": []}"), "features"},
        {OWN("{\"base_w\": 1, \"features\": [7]}"), "features"},
        {OWN("{\"base_w\": 1, \"features\": [" FEATURE "," FEATURE "]}"), "a feature twice"},
        {OWN("{\"base_w\": 1, \"features\": [{\"name\": \"x\", \"most\": 0}]}"), "most"},
        {OWN("{\"base_w\": 1, \"features\": [{\"name\": \"x\", \"most\": 1, \"root_w\": -1}]}"),
         "root_w"},
        {OWN("{\"base_w\": 1, \"features\": [" FEATURE "], \"error\": {\"mae_w\": 1}}"), "groups"},
        {OWN("{\"base_w\": 1, \"features\": [{\"name\": \"x\", \"most\": 1, \"root_w\": 0, "
             "\"linear_w\": 1, \"square_w\": 0, \"cube_w\": 0, \"beyond\": \"stars\"}]}"),
         "beyond"},
        {TREES("7"), "trees"},
        {TREES("[]"), "trees"},
        {TREES("[[]]"), "trees"},
        {TREES("[[[]]]"), "trees"},
        {TREES("[[[-1]]]"), "trees"},
        {TREES("[[[1, 2]]]"), "trees"},
        {TREES("[[[\"x\"]]]"), "trees"},
        {TREES("[[[1e300]]]"), "trees"},
        {TREES("[[[0, 1e300, 1, 2], [1], [2]]]"), "trees"},
        {TREES("[[[2, 5, 1, 2], [1], [2]]]"), "trees"}, /* no such feature */
        {TREES("[[[0.5, 5, 1, 2], [1], [2]]]"), "trees"},
        {TREES("[[[0, 5, 1, 3], [1], [2]]]"), "trees"}, /* no such node */
        {TREES("[[[0, 5, 1, -2], [1], [2]]]"), "trees"},
        {TREES("[[[0, 5, 0, 2], [1], [2]]]"), "trees"}, /* goes in a circle */
        {TREES("[[[1]], [[0, 5, 1, 0], [1]]]"), "trees"},
        {TREES("[[[1]], [[0, 5, 1, 2], [1]], [[3]]]"), "trees"}, /* into the next one */
        {TREES("[[[0, 5, 1, 2], [0, 4, 0, 3], [2], [3]]]"), "trees"},
        {TREES("[[[0, 5, 1, 2], [2], [1]]]"), "trees"}, /* falls */
        {TREES("[[[0, 5, 1, 2], [1, 7, 3, 4], [5], [1], [6]]]"), "trees"},
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        assert_true(decode(rows[i].json, "x.json") < 0);
        assert_string_equal(why, rows[i].why);
        assert_false(model.parts[KW_MODEL_PACKAGE].present); /* untouched */
    }
}

static void test_what_cannot_be_written(void **state)
{
    char *json = NULL;
    size_t len = 0;

    (void)state;
    memset(&model, 0, sizeof(model));
    assert_int_equal(kw_power_model_encode(&model, &json, &len), -EINVAL); /* no part */
    model.parts[KW_MODEL_PACKAGE] = terms;
    model.parts[KW_MODEL_PACKAGE].features[0].weights_w[0] = -1;
    assert_int_equal(kw_power_model_encode(&model, &json, &len), -EINVAL);
    model.parts[KW_MODEL_PACKAGE] = terms;
    model.foreign = true;
    assert_int_equal(kw_power_model_encode(&model, &json, &len), -EINVAL);
    assert_null(json);
}

/** By the logarithm from the most on, as steep there as before, and no further than a hundred times
 * as much. */
static void test_beyond_the_most(void **state)
{
    static struct kw_model part = {.present = true,
                                   .base_w = 10,
                                   .n = 1,
                                   .features = {{.name = "cache_misses",
                                                 .scale = 1e6,
                                                 .beyond = KW_BEYOND_LOGARITHM,
                                                 .weights_w = {1, 2, 0, 0, 4}}}};

    (void)state;
    assert_near(at(&part, 1e6 / 16), 10 + 0.25 + 0.125 + 2);
    assert_near(at(&part, 1e6), 17);
    assert_near(at(&part, 8e6), 17 + (0.5 + 2 + 1) * log(8));
    assert_near(at(&part, 1e18), 17 + 3.5 * log(100));
    assert_near(kw_model_top_w(&part), 17);
}

/** A reader of schema 1 would pass over what is new; what is not stays readable for it. */
static void test_which_schema_is_written(void **state)
{
    static const char *const schemas[] = {"\"schema\": 1", "\"schema\": 2", "\"schema\": 2"};

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(schemas); i++) {
        kw_cleanup_free char *json = NULL;
        size_t len = 0;
        memset(&model, 0, sizeof(model));
        model.parts[KW_MODEL_DRAM] = terms;
        if (i == 1)
            model.parts[KW_MODEL_DRAM].features[0].weights_w[KW_TERM_FOURTH_ROOT] = 5;
        if (i == 2)
            model.parts[KW_MODEL_DRAM].features[1].beyond = KW_BEYOND_LOGARITHM;
        struct kw_model before = model.parts[KW_MODEL_DRAM];
        assert_int_equal(kw_power_model_encode(&model, &json, &len), 0);
        assert_non_null(strstr(json, schemas[i]));
        assert_int_equal(decode(json, "m.json"), 0);
        assert_memory_equal(&model.parts[KW_MODEL_DRAM], &before, sizeof(before));
    }
}

static void test_trees(void **state)
{
    kw_cleanup_free char *json = NULL;
    static const struct {
        double x[2], power_w;
    } rows[] = {{{0, 0}, 1},
                {{3, 0}, 1 + 2},
                {{5, 0}, 1 + 4},
                {{5, 2e9}, 1 + 4 + 10},
                {{3.999, 1e9}, 1 + 2 + 10},
                {{-5, -5}, 1},
                {{1e300, 1e300}, 1 + 4 + 10}};
    size_t len = 0;

    (void)state;
    assert_int_equal(
        decode(TREES("[[[0, 4, 1, 2], [0, 2, 3, 4], [4], [0], [2]], [[1, 1e9, 1, 2], [0], [10]]]"),
               "m.json"),
        0);
    const struct kw_model *package = &model.parts[KW_MODEL_PACKAGE];
    assert_int_equal(package->shape, KW_SHAPE_TREES);
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++)
        assert_near(kw_model_watts(package, rows[i].x), rows[i].power_w);
    assert_near(kw_model_watts(package, (const double[]){NAN, NAN}), 1);
    assert_near(kw_model_idle_w(package), 1);
    assert_near(kw_model_top_w(package), 15);
    assert_true(kw_model_needs(package, 0) && kw_model_needs(package, 1));
    struct kw_model before = *package;
    assert_int_equal(kw_power_model_encode(&model, &json, &len), 0);
    assert_non_null(strstr(json, "\"schema\": 2"));
    assert_int_equal(decode(json, "m.json"), 0);
    assert_memory_equal(package, &before, sizeof(before));
    assert_int_equal(decode(TREES("[[[1, 5, 1, 2], [0], [3]]]"), "m.json"), 0);
    assert_false(kw_model_needs(package, 0));
}

/** As many nodes as there is room for, and one more. */
static void test_trees_are_bounded(void **state)
{
    static char json[64 * KW_MODEL_NODES_MAX];

    (void)state;
    for (int n = KW_MODEL_NODES_MAX; n <= KW_MODEL_NODES_MAX + 1; n++) {
        int at = snprintf(json, sizeof(json),
                          "{\"schema\": 2, \"power_model\": {\"package\": {\"base_w\": 1, "
                          "\"features\": [{\"name\": \"cycles\", \"most\": 1}], \"trees\": [[[1]");
        for (int i = 1; i < n; i++)
            at += snprintf(&json[at], sizeof(json) - (size_t)at, ",[1]");
        (void)snprintf(&json[at], sizeof(json) - (size_t)at, "]]}}}");
        assert_int_equal(decode(json, "m.json"), n == KW_MODEL_NODES_MAX ? 0 : -EBADMSG);
    }
}

#define SPLIT(condition, yes, no)                                        \
    "{\"nodeid\": 0, \"split\": \"f0\", \"split_condition\": " condition \
    ", \"yes\": 1, \"no\": 2, "                                          \
    "\"missing\": 2, \"children\": [{\"nodeid\": 2, \"leaf\": " no       \
    "}, {\"nodeid\": 1, \"leaf\": " yes "}]}"

/** Trees as XGBoost dumps them; their lowest leaf goes into what is drawn at no load. */
static void test_dumped_trees(void **state)
{
    static const char *const refused[] = {
        "",
        "{}",
        "[]",
        SPLIT("\"x\"", "1", "2"),
        SPLIT("1", "2", "1"),
        SPLIT("1", "\"x\"", "2"),
        "{\"split\": \"f0\", \"split_condition\": 1}",
        "{\"split\": \"f7\", \"split_condition\": 1}",
        "{\"split\": \"f\", \"split_condition\": 1}",
        "{\"split\": \"f00\", \"split_condition\": 1}",
    };
    static struct kw_model part;

    (void)state;
    part = terms;
    part.shape = KW_SHAPE_TREES;
    part.base_w = 50;
    for (size_t i = 0; i < KW_ARRAY_SIZE(refused); i++) {
        assert_int_equal(kw_model_add_xgboost(&part, refused[i], strlen(refused[i])), -EBADMSG);
        assert_int_equal(part.trees.n_nodes, 0);
    }
    const char *tree = SPLIT("3.5", "-20", "30.25"), *leaf = "{\"nodeid\": 0, \"leaf\": 2}";
    assert_int_equal(kw_model_add_xgboost(&part, tree, strlen(tree)), 0);
    assert_int_equal(kw_model_add_xgboost(&part, leaf, strlen(leaf)), 0);
    assert_near(part.base_w, 32);
    assert_near(at(&part, 3.4), 32);
    assert_near(at(&part, 3.6), 82.25);
    while (part.trees.n < KW_MODEL_TREES_MAX)
        assert_int_equal(kw_model_add_xgboost(&part, leaf, strlen(leaf)), 0);
    assert_int_equal(kw_model_add_xgboost(&part, leaf, strlen(leaf)), -E2BIG);
}

/** A scale above 1 divides, below 1 multiplies: the same machine, told in both ways. */
static void test_two_meanings_of_scale(void **state)
{
    const struct kw_model *package;

    (void)state;
    package = kepler("\"Bias_Weight\": 30, \"Numerical_Variables\": {\"bpf_cpu_time_ms\": "
                     "{\"scale\": 20000, \"weight\": 100}}",
                     "AbsPower.json");
    assert_true(package->present);
    assert_string_equal(package->features[0].name, "cpu_time");
    assert_near(at(package, 10), 80); /* 10 CPU seconds a second */
    package = kepler("\"Bias_Weight\": 30, \"Numerical_Variables\": {\"bpf_cpu_time_us\": "
                     "{\"scale\": 5e-05, \"mean\": 0, \"variance\": 0, \"weight\": 100}}",
                     "AbsPower.json");
    assert_true(package->present);
    assert_near(at(package, 10), 80);
    package = kepler("\"Bias_Weight\": 1, \"Numerical_Variables\": {\"cpu_cycles\": {\"scale\": "
                     "5e-11, \"weight\": 1}, \"cache_miss\": {\"scale\": 5e7, \"weight\": 1}}",
                     "AbsPower.json");
    assert_false(package->present);
    assert_non_null(strstr(package->refused, "factors or divisors"));
}

static void test_mean_and_variance(void **state)
{
    (void)state;
    const struct kw_model *package =
        kepler("\"Bias_Weight\": 400, \"Numerical_Variables\": {\"kubelet_cpu_usage\": "
               "{\"mean\": 6, \"variance\": 64, \"weight\": 100}}",
               "x.json");
    assert_true(package->present);
    assert_near(at(package, 6), 400);
    assert_near(at(package, 14), 500);
}

#define CURVE(list)                                                                 \
    "\"Numerical_Variables\": {\"bpf_cpu_time_ms\": {\"scale\": 4000}, \"other\": " \
    "{\"scale\": 1}}, \"CurveFit_Weights\": [" list "]"

static void test_curves(void **state)
{
    const struct kw_model *package;

    (void)state;
    package = kepler(CURVE("10, 1, 20"), "ExponentialRegressionTrainer_0.json");
    assert_near(at(package, 2), 10 * exp(0.5) + 20);
    assert_near(at(package, 400), 10 * exp(1) + 20); /* no further than full scale */
    package = kepler(CURVE("10, 3, 20"), "LogarithmicRegressionTrainer_0.json");
    assert_near(at(package, 2), 10 * log(2.5) + 20);
    package = kepler(CURVE("40, 0.5, 4, 30"), "any.json");
    assert_near(at(package, 2), 50);
    package = kepler(CURVE("10, 1, 20"), "any.json");
    assert_false(package->present);
    assert_non_null(strstr(package->refused, "exponential or a logarithm"));
    package = kepler(CURVE("10, 1"), "any.json");
    assert_false(package->present);
}

static void test_diverged(void **state)
{
    static const struct {
        const char *weights, *file_name, *why;
    } rows[] = {
        {"\"Bias_Weight\": 86, \"Numerical_Variables\": {\"cpu_cycles\": {\"scale\": 5.7e10, "
         "\"weight\": 375}, \"cache_miss\": {\"scale\": 1.4e8, \"weight\": 127}}",
         "AbsPower", "none draws more than 16 W"},
        {"\"Bias_Weight\": -4, \"Numerical_Variables\": {\"bpf_cpu_time_ms\": {\"scale\": 4000, "
         "\"weight\": 10}}",
         "AbsPower", "-4 W with nothing to do"},
        {CURVE("-2305, 1, 2326"), "Exponential", "diverged: -"},
        {CURVE("1, 800, 20"), "Exponential", "diverged: "},
        {CURVE("40, 1e7, -300"), "Logarithmic", "with nothing to do"},
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        const struct kw_model *package = kepler(rows[i].weights, rows[i].file_name);
        assert_false(package->present);
        assert_non_null(strstr(package->refused, rows[i].why));
    }
}

static void test_above_idle(void **state)
{
    const char *weights = "\"Bias_Weight\": -2, \"Numerical_Variables\": {\"bpf_cpu_time_ms\": "
                          "{\"scale\": 4000, \"weight\": 10}}";

    (void)state;
    assert_true(kepler(weights, "intel_rapl_DynPowerModel.json")->present);
    assert_true(model.active_only);
    (void)kepler(weights, "intel_rapl_AbsPowerModel.json");
    assert_false(model.active_only);
}

/** Every published file can be read, and of the regressions those are refused that never converged.
 */
static void test_published(void **state)
{
    const char *shared = getenv("KWATT_SHARED"), *source = getenv("KWATT_SOURCE_DIR");
    char folder[2048];
    unsigned n = 0;

    (void)state;
    if (shared != NULL)
        (void)snprintf(folder, sizeof(folder), "%s/data/power-models/weights", shared);
    else
        (void)snprintf(folder, sizeof(folder), "%s/../shared/data/power-models/weights",
                       source != NULL ? source : ".");
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        printf("SKIP: no weights in %s (KWATT_SHARED names their folder)\n", folder);
        skip();
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        kw_cleanup_free char *json = NULL;
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        assert_int_equal(kw_file_slurp(path, KW_MODEL_FILE_MAX, &json, NULL), 0);
        assert_int_equal(decode(json, entry->d_name), 0);
        bool sgd_with_counters = strstr(entry->d_name, "v06-nx12") != NULL &&
                                 (strstr(entry->d_name, "Basic-SGD") != NULL ||
                                  strstr(entry->d_name, "CounterOnly-SGD") != NULL);
        bool regression =
            strstr(entry->d_name, "Linear") != NULL || strstr(entry->d_name, "SGD") != NULL;
        for (size_t p = 0; p < KW_MODEL__MAX && regression; p++) {
            const struct kw_model *part = &model.parts[p];
            if (part->present || part->refused[0] != '\0')
                assert_int_equal(part->present, !sgd_with_counters);
        }
        n++;
    }
    (void)closedir(dir);
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_always_a_power),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_beyond_the_most),
        cmocka_unit_test(test_which_schema_is_written),
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_trees_are_bounded),
        cmocka_unit_test(test_dumped_trees),
        cmocka_unit_test(test_two_meanings_of_scale),
        cmocka_unit_test(test_mean_and_variance),
        cmocka_unit_test(test_curves),
        cmocka_unit_test(test_diverged),
        cmocka_unit_test(test_above_idle),
        cmocka_unit_test(test_published),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
