/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model meter with a model from a file: which files it takes, and what it makes of a window.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/counts.h"
#include "node-agent/meter.h"
#include "node-agent/model_file.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

static struct kwt_tree tree;

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

static int read_model(const char *name, const char *json, bool counters,
                      struct kw_power_model **ret, struct kw_err *err)
{
    char path[4096];

    kwt_tree_write(&tree, name, json);
    (void)snprintf(path, sizeof(path), "%s/%s", tree.root, name);
    return agent_model_read(path, counters, ret, err);
}

#define FEATURE(name, most, linear)                                                     \
    "{\"name\": \"" name "\", \"most\": " most ", \"root_w\": 0, \"linear_w\": " linear \
    ", \"square_w\": 0, \"cube_w\": 0}"
#define PART(base, features) "{\"base_w\": " base ", \"features\": [" features "]}"
/* 20 W, 2 W a busy thread, and 1 W a billion instructions a second, of a machine of 8 threads */
#define COUNTING                                                            \
    "{\"schema\": 1, \"threads\": 8, \"power_model\": {\"package\": " PART( \
        "20", FEATURE("cpu_time", "8", "16") "," FEATURE(                   \
                  "instructions", "1e10",                                   \
                  "10")) ", \"dram\": " PART("4", FEATURE("cache_misses", "1e8", "10")) "}}"
#define TIME                                                     \
    "{\"schema\": 1, \"power_model\": {\"package\": " PART("20", \
                                                           FEATURE("cpu_time", "8", "16")) "}}"

static void test_which_files_are_taken(void **state)
{
    static const struct {
        const char *name, *json;
        bool counters;
        const char *why;
    } rows[] = {
        {"a.json", COUNTING, false, "hardware counters are not counted here"},
        {"b.json", "{}", true, "neither"},
        {"c.json",
         "{\"schema\": 2, \"power_model\": {\"package\": {\"base_w\": 1, \"features\": [{\"name\": "
         "\"cpu_time\", \"most\": 8}], \"trees\": [[[0, 4, 0, 2], [1], [5]]]}}}",
         true, "not as documented (docs/power-models.md): trees"},
        {"AbsPower.json",
         "{\"package\": {\"All_Weights\": {\"Bias_Weight\": 40, \"Numerical_Variables\": "
         "{\"kubelet_cpu_usage\": {\"scale\": 190, \"weight\": 9}}}}}",
         true, "goes by kubelet_cpu_usage"},
        {"DynPower.json",
         "{\"package\": {\"All_Weights\": {\"Bias_Weight\": 4, \"Numerical_Variables\": "
         "{\"bpf_cpu_time_ms\": {\"scale\": 4000, \"weight\": 9}}}}}",
         true, "AbsPower"},
        {"acpi.json",
         "{\"platform\": {\"All_Weights\": {\"Bias_Weight\": 40, \"Numerical_Variables\": "
         "{\"bpf_cpu_time_ms\": {\"scale\": 4000, \"weight\": 9}}}}}",
         true, "no model of packages"},
        {"diverged.json",
         "{\"package\": {\"All_Weights\": {\"Bias_Weight\": 40, \"Numerical_Variables\": "
         "{\"bpf_cpu_time_ms\": {\"scale\": 4000, \"weight\": 900}}}}}",
         true, "diverged: adds 900 W"},
    };
    struct kw_power_model *model = NULL;

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_err err = {0};
        assert_true(read_model(rows[i].name, rows[i].json, rows[i].counters, &model, &err) < 0);
        assert_non_null(strstr(err.text, rows[i].why));
        assert_non_null(strstr(err.text, rows[i].name));
        assert_null(model);
    }
    struct kw_err err = {0};
    assert_int_equal(agent_model_read("/nonexistent/m.json", true, &model, &err), -ENOENT);
}

/** Features of no weight need not be counted; the file begins with a byte order mark. */
static void test_a_feature_of_no_weight(void **state)
{
    struct kw_power_model *model = NULL;

    (void)state;
    assert_int_equal(read_model("x.json",
                                "\xef\xbb\xbf{\"package\": {\"All_Weights\": {\"Bias_Weight\": 40, "
                                "\"Numerical_Variables\": "
                                "{\"bpf_cpu_time_ms\": {\"scale\": 4000, \"weight\": 9}, "
                                "\"bpf_page_cache_hit\": {\"scale\": 1, \"weight\": 0}}}}}",
                                false, &model, NULL),
                     0);
    free(model);
}

static struct agent_reading readings[4];
static struct agent_domain domains[4];
static size_t n_domains;

/** Energy of one window. */
static void measure(const struct kw_power_model *model, const struct agent_topology *topology,
                    const struct agent_meter_load *load, unsigned windows)
{
    struct agent_meter_conf conf = {.topology = topology, .sysfs_root = "/", .model = model};
    struct kw_err err = {0};
    void *self = NULL;

    assert_int_equal(agent_meter_model.open(&conf, &self, &err), 0);
    const struct agent_domain *shown = NULL;
    n_domains = agent_meter_model.domains(self, &shown);
    assert_in_range(n_domains, 1, 4);
    memcpy(domains, shown, n_domains * sizeof(domains[0]));
    assert_int_equal(agent_meter_model.read(self, NULL, readings), 0);
    for (unsigned i = 0; i < windows; i++)
        assert_int_equal(agent_meter_model.read(self, load, readings), 0);
    agent_meter_model.close(&self);
}

/** Two packages of two threads each, by a model of eight: each is a quarter of that machine. */
static void test_a_window(void **state)
{
    struct kw_power_model *model = NULL;
    struct agent_topology topology;
    const uint64_t busy_ns[] = {KW_NS_PER_S, 0};
    const struct agent_counts counts[] = {{.instructions = 1000000000, .llc_misses = 10000000},
                                          {0}};
    const struct agent_meter_load load = {KW_NS_PER_S, busy_ns, counts};

    (void)state;
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    assert_int_equal(read_model("m.json", COUNTING, true, &model, NULL), 0);
    measure(model, &topology, &load, 1);
    assert_int_equal(n_domains, 4);
    assert_int_equal(domains[1].kind, AGENT_DOMAIN_DRAM);
    assert_int_equal(domains[2].package, 1);
    /* a quarter of 20 W + 4 threads x 2 W + 4e9 instructions a second */
    assert_in_range(readings[0].counter_uj, 7999999, 8000001);
    assert_in_range(readings[1].counter_uj, 1999999, 2000001); /* (4 + 4) / 4 */
    assert_in_range(readings[2].counter_uj, 4999999, 5000001);
    assert_in_range(readings[3].counter_uj, 999999, 1000001);
    free(model);
}

/** A model that does not say how large its machine is takes this one for it. */
static void test_the_same_machine(void **state)
{
    struct kw_power_model *model = NULL;
    struct agent_topology topology;
    const uint64_t busy_ns[] = {KW_NS_PER_S};
    const struct agent_meter_load load = {KW_NS_PER_S, busy_ns, NULL};

    (void)state;
    kwt_meter_topology(&topology, 1, "GenuineIntel");
    assert_int_equal(read_model("m.json", TIME, false, &model, NULL), 0);
    measure(model, &topology, &load, 1);
    assert_int_equal(n_domains, 1);
    assert_in_range(readings[0].counter_uj, 21999999, 22000001);
    free(model);
}

/** Windows too short for a microjoule add up all the same. */
static void test_short_windows(void **state)
{
    struct kw_power_model *model = NULL;
    struct agent_topology topology;
    const uint64_t busy_ns[] = {5};
    const struct agent_meter_load load = {10, busy_ns, NULL};

    (void)state;
    kwt_meter_topology(&topology, 1, "GenuineIntel");
    assert_int_equal(read_model("m.json", TIME, false, &model, NULL), 0);
    measure(model, &topology, &load, 100000); /* 21 W for a millisecond */
    assert_in_range(readings[0].counter_uj, 20999, 21001);
    free(model);
}

static void test_known_power(void **state)
{
    struct kw_power_model *model = NULL;
    struct agent_topology topology;

    (void)state;
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    assert_int_equal(read_model("m.json", COUNTING, true, &model, NULL), 0);
    struct agent_model_power power = agent_model_power_of(model, &topology, 0, 0);
    assert_int_equal(power.idle_mw, 10000); /* 4 threads of 8 */
    assert_int_equal(power.full_mw, 23000);
    assert_int_equal(power.dram_idle_mw, 2000);
    power = agent_model_power_of(model, &topology, 7, 0);
    assert_int_equal(power.idle_mw, 7000);
    power = agent_model_power_of(NULL, &topology, 0, 0);
    assert_int_equal(power.idle_mw + power.full_mw + power.dram_idle_mw, 0);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_which_files_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_feature_of_no_weight, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_same_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_windows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_known_power, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
