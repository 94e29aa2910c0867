/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees that the XGBoost library grows, and what kwatt says by them. Where the library is missing
 * there is nothing to compare with; in CI it is there.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/boost.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

#define ROWS 600

static struct cli_boost *boost;

/** A machine of which the law is known, with noise; its programs are of three kinds. */
static void record(struct cli_recording *ret, uint64_t seed)
{
    kw_cleanup(kw_buf_free) struct kw_buf csv = {0};

    (void)kw_buf_adds(&csv, "cpu_time,cycles,instructions,cache_misses,kind,package_w\n");
    for (unsigned i = 0; i < ROWS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double busy = (double)(seed >> 40) / (1 << 24) * 16, noise = (double)(seed % 1000) / 250;
        double misses = busy * (i % 3) * 1e6;
        (void)kw_buf_addf(&csv, "%.6f,%.0f,%.0f,%.0f,%u,%.6f\n", busy, busy * 2.7e9,
                          busy * (double)(1 + i % 3) * 1.1e9, misses, i % 3,
                          30 + 3 * busy + 0.2 * busy * busy + misses * 2e-7 + noise);
    }
    assert_int_equal(cli_recording_add(ret, csv.data, csv.len, "kind", NULL, NULL), 0);
}

static int setup(void **state)
{
    (void)state;
    return cli_boost_open(&boost, NULL);
}

static int teardown(void **state)
{
    (void)state;
    cli_boost_free(&boost);
    return 0;
}

/** kwatt's sum of leaves is XGBoost's, within what its floats are rounded to. */
static void test_says_what_xgboost_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        kw_cleanup(cli_recording_free) struct cli_recording recording = {0};
        static struct kw_model model;
        static float theirs_w[ROWS];
        struct kw_err err = {0};
        record(&recording, seed);
        assert_int_equal(cli_boost_fit(boost, &recording, KW_MODEL_PACKAGE, NULL, &model, &err), 0);
        assert_int_equal(model.shape, KW_SHAPE_TREES);
        assert_in_range(model.trees.n, 10, KW_MODEL_TREES_MAX);
        assert_int_equal(cli_boost_predict(boost, &recording, KW_MODEL_PACKAGE, theirs_w, &err), 0);
        for (size_t row = 0; row < ROWS; row++) {
            double ours_w = kw_model_watts(&model, &recording.x[row * recording.n_features]);
            assert_true(fabs(ours_w - (double)theirs_w[row]) < 1e-3);
        }
        assert_true(cli_fit_mae_w(&recording, KW_MODEL_PACKAGE, NULL, &model, NULL) < 3);
    }
}

/** The saved model says it, too; and the same rows give the same file. */
static void test_the_same_file_twice(void **state)
{
    kw_cleanup(cli_recording_free) struct cli_recording recording = {0};
    kw_cleanup_free struct kw_power_model *model = calloc(2, sizeof(*model));
    char *json[2] = {NULL};
    size_t len[2] = {0};
    const char *why = "";

    (void)state;
    record(&recording, 7);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(cli_boost_fit(boost, &recording, KW_MODEL_PACKAGE, NULL,
                                       &model[0].parts[KW_MODEL_PACKAGE], NULL),
                         0);
        assert_int_equal(kw_power_model_encode(&model[0], &json[i], &len[i]), 0);
    }
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(json[0], json[1], len[0]);
    assert_int_equal(kw_power_model_decode(json[0], len[0], "m.json", &model[1], &why), 0);
    for (size_t row = 0; row < ROWS; row++) {
        const double *x = &recording.x[row * recording.n_features];
        assert_true(fabs(kw_model_watts(&model[0].parts[KW_MODEL_PACKAGE], x) -
                         kw_model_watts(&model[1].parts[KW_MODEL_PACKAGE], x)) < 1e-9);
    }
    free(json[0]);
    free(json[1]);
}

/** More work never costs less, even where it did in every row. */
static void test_power_never_falls(void **state)
{
    kw_cleanup(cli_recording_free) struct cli_recording recording = {0};
    static struct kw_model model;
    double last_w = -1;

    (void)state;
    record(&recording, 9);
    for (size_t row = 0; row < recording.n; row++)
        recording.watts[row * KW_MODEL__MAX] = 200 - recording.watts[row * KW_MODEL__MAX] / 2;
    assert_int_equal(cli_boost_fit(boost, &recording, KW_MODEL_PACKAGE, NULL, &model, NULL), 0);
    for (double busy = 0; busy < 40; busy += 0.25) {
        const double x[] = {busy, busy * 1e9, busy * 1e9, busy * 1e6};
        double watts = kw_model_watts(&model, x);
        assert_true(watts >= last_w);
        last_w = watts;
    }
}

static void test_nothing_to_learn_from(void **state)
{
    kw_cleanup(cli_recording_free) struct cli_recording recording = {0};
    const bool nobody[KW_MODEL_GROUPS_MAX] = {false};
    static struct kw_model model;
    struct kw_err err = {0};

    (void)state;
    record(&recording, 11);
    assert_int_equal(cli_boost_fit(boost, &recording, KW_MODEL_PACKAGE, nobody, &model, &err),
                     -ENODATA);
    assert_string_equal(err.text, "no rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_what_xgboost_says),
        cmocka_unit_test(test_the_same_file_twice),
        cmocka_unit_test(test_power_never_falls),
        cmocka_unit_test(test_nothing_to_learn_from),
    };
    const char *ci = getenv("CI");
    struct kw_err err = {0};

    if (cli_boost_open(&boost, &err) < 0) {
        printf("SKIP: %s\n", err.text);
        return ci != NULL && strcmp(ci, "true") == 0 ? 1 : 77;
    }
    cli_boost_free(&boost);
    return cmocka_run_group_tests(tests, setup, teardown);
}
