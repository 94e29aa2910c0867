/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kwatt train on machines of which the law is known: recordings are written, trained on, and what
 * is saved is read back.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fit.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

#define THREADS 16

static struct kwt_tree tree;
static char out[8192], err[2048];

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

/** A program on a machine of 30 W idle: what it draws a thread, and how much of that rises with the
 * cube of the load. */
static void record(const char *name, double thread_w, double cube_w, double most)
{
    kw_cleanup(kw_buf_free) struct kw_buf csv = {0};

    (void)kw_buf_adds(&csv, "cpu_time,cycles,package_w\n");
    for (unsigned i = 0; i <= 40; i++) {
        double busy = most * i / 40, z = busy / THREADS;
        (void)kw_buf_addf(&csv, "%.6f,%.0f,%.6f\n", busy, busy * 3e9,
                          30 + thread_w * busy + cube_w * z * z * z);
    }
    kwt_tree_write(&tree, name, csv.data);
}

static void path_of(const char *name, char path[4096])
{
    assert_int_equal(kw_path_join(path, 4096, tree.root, name), 0);
}

static int train(const char *const *arguments)
{
    char *argv[16] = {(char[]){"train"}};
    char *envp[] = {NULL};
    char paths[8][4096];
    int argc = 1;

    for (size_t i = 0; arguments[i] != NULL; i++) {
        if (arguments[i][0] != '-' &&
            (strstr(arguments[i], ".csv") != NULL || strstr(arguments[i], ".json") != NULL)) {
            path_of(arguments[i], paths[i]);
            argv[argc++] = paths[i];
        } else {
            (void)snprintf(paths[i], sizeof(paths[i]), "%s", arguments[i]);
            argv[argc++] = paths[i];
        }
    }
    memset(out, 0, sizeof(out));
    memset(err, 0, sizeof(err));
    kw_cleanup_file FILE *to_out = fmemopen(out, sizeof(out), "w");
    kw_cleanup_file FILE *to_err = fmemopen(err, sizeof(err), "w");
    const struct cli_io io = {.out = to_out, .err = to_err, .envp = envp};
    int code = cli_train(&io, argc, argv);
    (void)fflush(to_err);
    return code;
}

static void read_saved(struct kw_power_model *ret)
{
    kw_cleanup_free char *json = NULL;
    const char *why = "";
    char path[4096];
    size_t len = 0;

    path_of("m.json", path);
    assert_int_equal(kw_file_slurp(path, KW_MODEL_FILE_MAX, &json, &len), 0);
    assert_int_equal(kw_power_model_decode(json, len, "m.json", ret, &why), 0);
}

static void test_a_law_is_found(void **state)
{
    static struct kw_power_model model;
    const double half[] = {8, 24e9}, nothing[] = {0, 0}, beyond[] = {1000, 1e13};

    (void)state;
    record("a.csv", 3, 40, THREADS);
    record("b.csv", 3, 40, THREADS * 0.75);
    record("c.csv", 3.1, 40, THREADS);
    assert_int_equal(train((const char *[]){"--threads", "16", "--out", "m.json", "a.csv", "b.csv",
                                            "c.csv", NULL}),
                     0);
    assert_string_equal(err, "");
    assert_non_null(strstr(out, "package: misses"));
    read_saved(&model);
    const struct kw_model *package = &model.parts[KW_MODEL_PACKAGE];
    assert_int_equal(model.threads, 16);
    assert_true(fabs(kw_model_watts(package, nothing) - 30) < 2);
    assert_true(fabs(kw_model_watts(package, half) - (30 + 24 + 5)) < 3);
    assert_true(kw_model_watts(package, beyond) < 30 + 3.1 * 16 + 40 + 3);
    assert_int_equal(package->error.n_groups, 3);
    assert_true(package->error.mae_w < 5 && package->error.mean_mae_w > 15);
    assert_true(package->error.prior_mae_w > 0);
}

/** Rows in which a program ended: an idle machine's features, a busy one's power. */
static void test_rows_far_off(void **state)
{
    kw_cleanup(kw_buf_free) struct kw_buf csv = {0};
    static struct kw_power_model model;
    const double nothing[] = {0};

    (void)state;
    (void)kw_buf_adds(&csv, "cpu_time,package_w\n");
    for (unsigned i = 0; i <= 40; i++)
        (void)kw_buf_addf(&csv, "%.6f,%.6f\n", i * 0.4, 30 + 3 * i * 0.4);
    for (unsigned i = 0; i < 4; i++)
        (void)kw_buf_adds(&csv, "0,78\n");
    kwt_tree_write(&tree, "a.csv", csv.data);
    kwt_tree_write(&tree, "b.csv", csv.data);
    assert_int_equal(
        train((const char *[]){"--threads", "16", "--out", "m.json", "a.csv", "b.csv", NULL}), 0);
    read_saved(&model);
    /* counted by their square, they raise it by 7 W */
    assert_true(fabs(kw_model_watts(&model.parts[KW_MODEL_PACKAGE], nothing) - 30) < 4);
}

/** What CPU time says of one program is wrong of the next: it is left out, unless it is asked for.
 */
static void test_a_feature_that_misleads(void **state)
{
    static const struct {
        const char *file;
        double part;
    } programs[] = {{"a.csv", 1}, {"b.csv", 0.25}, {"c.csv", 0.5}};
    static struct kw_power_model model;
    const struct kw_model *package = &model.parts[KW_MODEL_PACKAGE];

    (void)state;
    for (size_t k = 0; k < KW_ARRAY_SIZE(programs); k++) {
        kw_cleanup(kw_buf_free) struct kw_buf csv = {0};
        (void)kw_buf_adds(&csv, "cpu_time,cycles,package_w\n");
        for (unsigned i = 0; i <= 40; i++)
            (void)kw_buf_addf(&csv, "%.6f,%u,%u\n", programs[k].part * i * 0.4, i * 100000000,
                              30 + 2 * i);
        kwt_tree_write(&tree, programs[k].file, csv.data);
    }
    assert_int_equal(train((const char *[]){"--threads", "16", "--out", "m.json", "a.csv", "b.csv",
                                            "c.csv", NULL}),
                     0);
    read_saved(&model);
    assert_int_equal(package->n, 1);
    assert_string_equal(package->features[0].name, "cycles");
    assert_non_null(strstr(out, "goes by cycles\n"));
    assert_int_equal(train((const char *[]){"--features", "cpu_time,cycles", "--out", "m.json",
                                            "a.csv", "b.csv", "c.csv", NULL}),
                     0);
    read_saved(&model);
    assert_int_equal(package->n, 2);
}

/** Programs differ in cache misses by tens of times: memory goes on beyond the most, and ends. */
static void test_memory_beyond_the_most(void **state)
{
    kw_cleanup(kw_buf_free) struct kw_buf csv = {0};
    static struct kw_power_model model;
    const struct kw_model *dram = &model.parts[KW_MODEL_DRAM];

    (void)state;
    (void)kw_buf_adds(&csv, "cache_misses,dram_w\n");
    for (unsigned i = 0; i <= 40; i++)
        (void)kw_buf_addf(&csv, "%u,%.6f\n", i * 1000000, 5 + 0.5 * i);
    kwt_tree_write(&tree, "a.csv", csv.data);
    kwt_tree_write(&tree, "b.csv", csv.data);
    assert_int_equal(train((const char *[]){"--out", "m.json", "a.csv", "b.csv", NULL}), 0);
    read_saved(&model);
    double most_w = kw_model_watts(dram, (const double[]){4e7});
    assert_true(fabs(most_w - 25) < 2);
    assert_true(kw_model_watts(dram, (const double[]){8e7}) > most_w + 5);
    double end_w = kw_model_watts(dram, (const double[]){4e9});
    assert_true(end_w > most_w + 20 && end_w < 200);
    assert_true(fabs(kw_model_watts(dram, (const double[]){1e15}) - end_w) < 1e-9);
}

/** What a program draws has nothing to do with the features: no model is better than its mean. */
static void test_nothing_to_learn(void **state)
{
    char path[4096];

    (void)state;
    kwt_tree_write(&tree, "a.csv", "cpu_time,package_w\n1,50\n5,40\n9,30\n");
    kwt_tree_write(&tree, "b.csv", "cpu_time,package_w\n1,30\n5,40\n9,50\n");
    assert_int_equal(
        train((const char *[]){"--threads", "16", "--out", "m.json", "a.csv", "b.csv", NULL}), 1);
    assert_non_null(strstr(err, "nothing is saved"));
    assert_non_null(strstr(out, "not used"));
    path_of("m.json", path);
    assert_int_equal(kw_file_slurp(path, KW_MODEL_FILE_MAX, &(char *){NULL}, NULL), -ENOENT);
}

/** Better than the mean, and worse than the class prior, which here is the law itself: 0.68 W idle
 * and 3.64 W full a thread. */
static void test_the_class_knew_better(void **state)
{
    (void)state;
    kwt_tree_write(&tree, "a.csv", "cpu_time,package_w\n0,10.88\n2,16.8\n4,22.72\n");
    kwt_tree_write(&tree, "b.csv", "cpu_time,package_w\n12,46.4\n14,52.32\n16,58.24\n");
    assert_int_equal(train((const char *[]){"--threads", "16", "a.csv", "b.csv", NULL}), 1);
    assert_non_null(strstr(out, "prior of the class: 0.00 W"));
    assert_non_null(strstr(out, "not used"));
}

/** Two machines' or days' files may be called the same: each is a group of its own. */
static void test_files_of_one_name(void **state)
{
    static struct kw_power_model model;

    (void)state;
    record("load.csv", 3, 0, THREADS);
    kwt_tree_mkdir(&tree, "day");
    kwt_tree_write(&tree, "day/load.csv",
                   "cpu_time,cycles,package_w,machine_threads\n"
                   "1,3e9,33,24\n9,27e9,57,24\n");
    assert_int_equal(train((const char *[]){"--out", "m.json", "load.csv", "day/load.csv", NULL}),
                     0);
    read_saved(&model);
    const struct kw_model_error *error = &model.parts[KW_MODEL_PACKAGE].error;
    assert_int_equal(model.threads, 24);
    assert_int_equal(error->n_groups, 2);
    assert_string_equal(error->groups[0].name, "load.csv");
    assert_non_null(strstr(error->groups[1].name, "day/load.csv"));
}

static void test_arguments(void **state)
{
    (void)state;
    record("a.csv", 3, 0, THREADS);
    assert_int_equal(train((const char *[]){NULL}), 2);
    assert_int_equal(train((const char *[]){"a.csv", NULL}), 1);
    assert_non_null(strstr(err, "two at least"));
    assert_int_equal(train((const char *[]){"a.csv", "a.csv", NULL}), 2);
    assert_non_null(strstr(err, "a.csv is given twice"));
    assert_int_equal(train((const char *[]){"--cpu", "Intel", "a.csv", NULL}), 2);
    assert_int_equal(train((const char *[]){"--features", "joy", "a.csv", NULL}), 2);
    assert_int_equal(train((const char *[]){"gone.csv", NULL}), 1);
    assert_non_null(strstr(err, "No such file"));
    kwt_tree_write(&tree, "bad.csv", "cpu_time,package_w\n1,x\n");
    assert_int_equal(train((const char *[]){"bad.csv", NULL}), 1);
    assert_non_null(strstr(err, "line 2, column 2"));
}

/** More work never costs less, whatever was recorded. */
static void test_power_never_falls(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        struct cli_recording recording = {0};
        kw_cleanup(kw_buf_free) struct kw_buf csv = {0};
        struct kw_model model;
        double last_w = -1;
        (void)kw_buf_adds(&csv, "cpu_time,cycles,cache_misses,package_w\n");
        for (unsigned i = 0; i < 30; i++) {
            for (unsigned k = 0; k < 4; k++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                (void)kw_buf_addf(&csv, "%llu%s", (unsigned long long)(seed >> 44) % 1000,
                                  k < 3 ? "," : "\n");
            }
        }
        assert_int_equal(cli_recording_add(&recording, csv.data, csv.len, NULL, "a", NULL), 0);
        assert_int_equal(cli_fit(&recording, KW_MODEL_PACKAGE, NULL, &model), 0);
        for (unsigned i = 0; i <= 50; i++) {
            double load = 40.0 * i, x[] = {load, load, load};
            double watts = kw_model_watts(&model, x);
            assert_true(watts >= last_w);
            last_w = watts;
        }
        cli_recording_free(&recording);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_law_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows_far_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_feature_that_misleads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_beyond_the_most, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_to_learn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_class_knew_better, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_of_one_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arguments, setup, teardown),
        cmocka_unit_test(test_power_never_falls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
