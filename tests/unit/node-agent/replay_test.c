/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings: what the benchmark says of a simulated node, its recording says, too; and files that
 * are wrong are refused with what is wrong. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "node-agent/replay.h"
#include "tests/bench/attribution_run.h"
#include "tests/sim/node/sim_recording.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

static struct kwt_tree tree;
static char file[128];

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    (void)snprintf(file, sizeof(file), "%s/r.jsonl", tree.root);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

/* ---- the simulator's recording gives the benchmark's figures ---- */

static void record(const struct scenario *scenario, const struct method *method, unsigned seed)
{
    struct sim_recording_conf conf = {.node = scenario->conf,
                                      .has = method->has,
                                      .idle_factor = method->no_idle ? 0 : scenario->idle_factor,
                                      .interval_ns = 100 * KW_NS_PER_MS,
                                      .seconds = RUN_S};
    FILE *out = fopen(file, "we");

    assert_non_null(out);
    conf.node.seed += 1000 * (uint64_t)seed;
    assert_int_equal(sim_recording_write(&conf, out), 0);
    assert_int_equal(fclose(out), 0);
}

/** What a truth that is rounded to the microjoule may change. */
static void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-5 * fabs(expected)))
        fail_msg("replayed %.12g, the benchmark says %.12g", got, expected);
}

static void assert_same_figures(const struct scenario *scenario, const struct method *method)
{
    double misattributed[SEEDS], squares[SEEDS], inside[SEEDS];

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        struct agent_replay replay;
        struct kw_err err = {0};
        record(scenario, method, seed);
        int rc = agent_replay_run(&replay, file, method->ops->name, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(rc, 0);
        const struct agent_score_sums *sums = agent_replay_score_sums(&replay.methods[0].scores[0]);
        misattributed[seed] = agent_score_misattributed(sums);
        squares[seed] = sums->square_error / (double)sums->count;
        inside[seed] = (double)sums->inside / (double)sums->count;
        assert_int_equal(replay.methods[0].domains[0].unbalanced_uj, 0);
        assert_int_equal(replay.windows, RUN_S * 10);
        agent_replay_free(&replay);
    }
    struct result expected = run_seeds(scenario, method, 100 * KW_NS_PER_MS);
    assert_near(run_median(misattributed, SEEDS), expected.misattributed);
    assert_near(run_median(squares, SEEDS), expected.squares);
    /* a truth may lie on the very edge of 2 sigma */
    assert_float_equal(run_median(inside, SEEDS), expected.inside, 1e-3);
}

static void test_figures_of_the_benchmark(void **state)
{
    static const unsigned methods[] = {KWATT, KWATT_TIME, RATIO, TOTAL, KEPLER, POLYNOMIAL};
    struct scenario scenario = {.conf = sim_node_defaults(3, 6, 2), .idle_factor = 1};

    (void)state;
    scenario.conf.churn_per_s = 0.2; /* workloads end, too */
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        assert_same_figures(&scenario, &run_methods[methods[i]]);
}

static void test_all_methods_conserve(void **state)
{
    struct sim_recording_conf conf = {.node = sim_node_defaults(9, 20, 8),
                                      .has = COUNTERS,
                                      .idle_factor = 1,
                                      .interval_ns = 100 * KW_NS_PER_MS,
                                      .seconds = 5,
                                      .dram = true};
    struct agent_replay replay;
    struct kw_err err = {0};
    FILE *out = fopen(file, "we");

    (void)state;
    assert_int_equal(sim_recording_write(&conf, out), 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(agent_replay_run(&replay, file, "all", &err), 0);
    assert_int_equal(replay.n_methods, 7);
    for (size_t m = 0; m < replay.n_methods; m++) {
        for (size_t slot = 0; slot < 2; slot++) {
            const struct agent_replay_domain *domain = &replay.methods[m].domains[slot];
            assert_int_equal(domain->measured_uj, domain->idle_uj + domain->pods_uj +
                                                      domain->system_uj + domain->unattributed_uj);
            assert_true(domain->measured_uj > 0);
            assert_int_equal(domain->unbalanced_uj, 0);
        }
    }
    FILE *shown = tmpfile();
    assert_int_equal(agent_replay_print(&replay, shown), 0);
    assert_int_equal(agent_replay_print_json(&replay, shown), 0);
    assert_int_equal(fclose(shown), 0);
    agent_replay_free(&replay);
}

/* ---- files that are wrong ---- */

#define HEADER                                                                              \
    "{\"kwatt_recording\":1,\"method\":\"ratio-cpu\",\"features\":[\"cpu_ns\",\"cycles\"]," \
    "\"cpus_online\":2,\"packages\":[{\"package\":0,\"cpus\":2}]}\n"
#define WINDOW(t, rows)                                                                            \
    "{\"t_ns\":" t                                                                                 \
    ",\"interval_ns\":100,\"packages\":[{\"package\":0,\"cpu\":{\"uj\":1000},\"workloads\":[" rows \
    "]}]}\n"
#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define SYSTEM          "{\"w\":0,\"f\":[1,1]}"

static int replay_text(const char *text, struct agent_replay *replay, struct kw_err *err)
{
    kwt_tree_write(&tree, "r.jsonl", text);
    return agent_replay_run(replay, file, NULL, err);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *why;
        int rc;
    } cases[] = {
        {"", "no recording", -ENODATA},
        {"\n\n", "no recording", -ENODATA},
        {"hello\n", "line 1", -EBADMSG},
        {"{}\n", "kwatt_recording", -EBADMSG},
        {"[1]\n", "not an object", -EBADMSG},
        {"{\"kwatt_recording\":2}\n", "version 1", -EPROTONOSUPPORT},
        {"{\"kwatt_recording\":-1}\n", "is -1", -EBADMSG},
        {"{\"kwatt_recording\":1,\"features\":[\"cpu_ns\",\"cpu_ns\"]}\n",
         "\"cpu_ns\" is there twice; it is given once", -EBADMSG},
        {"{\"kwatt_recording\":1,\"packages\":[{\"package\":64}]}\n", "0 to 63", -EBADMSG},
        {"{\"kwatt_recording\":1,\"node\":7}\n", "\"node\" is 7", -EBADMSG},
        {"{\"kwatt_recording\":\"1\"}\n", "is \"1\", not a whole number", -EBADMSG},
        {HEADER BYTE_ORDER_MARK WINDOW("200", SYSTEM), "line 2", -EBADMSG},
        {HEADER WINDOW("200", SYSTEM) WINDOW("200", SYSTEM), "line 3: \"t_ns\" is 200", -EBADMSG},
        {HEADER WINDOW("200", SYSTEM) WINDOW("100", SYSTEM), "line 3: \"t_ns\" is 100", -EBADMSG},
        {HEADER WINDOW("-1", SYSTEM), "is -1", -EBADMSG},
        {HEADER WINDOW("NaN", SYSTEM), "line 2", -EBADMSG},
        {HEADER WINDOW("1e3", SYSTEM), "is 1e3", -EBADMSG},
        {HEADER WINDOW("9223372036854775808", SYSTEM), "line 2", -EBADMSG},
        {HEADER WINDOW("100", ""), "lacks the system", -EBADMSG},
        {HEADER WINDOW("100", "{\"w\":5,\"f\":[1,1]}"), "first workload", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM "," SYSTEM), "\"w\" is 0 twice", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"w\":5},{\"w\":5}"), "\"w\" is 5 twice", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"f\":[1,1]}"), "no \"w\"", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"w\":1,\"f\":[1]}"), "shorter", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"w\":1,\"f\":[1,2,3]}"), "longer", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"w\":1,\"f\":[1,-2]}"), "\"cycles\" is -2", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"w\":1,\"f\":[18446744073709551615,0]}"), "line 2",
         -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"w\":9007199254740993}"), "\"w\" is", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"w\":1,\"w\":2}"), "given once", -EBADMSG},
        {HEADER WINDOW("100", SYSTEM ",{\"w\":1,\"truth_uj\":[1]}"), "truth_uj", -EBADMSG},
        {HEADER "{\"t_ns\":1,\"interval_ns\":1,\"packages\":[{\"package\":0,\"cpu\":{}}]}\n",
         "no \"uj\"", -EBADMSG},
        {HEADER "{\"t_ns\":1,\"interval_ns\":1,\"packages\":[{\"cpu\":{\"uj\":1}}]}\n",
         "no \"package\"", -EBADMSG},
        {HEADER "{\"t_ns\":1,\"interval_ns\":1,\"packages\":[{\"package\":0},{\"package\":0}]}\n",
         "twice", -EBADMSG},
        {HEADER "{\"t_ns\":1,\"interval_ns\":1,\"packages\":[{\"package\":0,"
                "\"cpu\":{\"uj\":1000000000000001}}]}\n",
         "\"uj\" is", -EBADMSG},
        {HEADER "{\"t_ns\":1,\"packages\":[]}\n", "interval_ns", -EBADMSG},
        {HEADER "{\"t_ns\":1,\"interval_ns\":1} x\n", "more on the line", -EBADMSG},
        {HEADER "{\"t_ns\":1,\"interval_ns\":1\n", "line 2", -EBADMSG},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agent_replay replay;
        struct kw_err err = {0};
        int rc = replay_text(cases[i].text, &replay, &err);
        if (rc != cases[i].rc || strstr(err.text, cases[i].why) == NULL ||
            strstr(err.text, file) == NULL)
            fail_msg("%s: %d, \"%s\"", cases[i].text, rc, err.text);
        agent_replay_free(&replay);
    }
}

/** Sums that would wrap are refused, not wrapped. */
static void test_sums_do_not_wrap(void **state)
{
    struct agent_replay replay;
    struct kw_err err = {0};
    struct kw_buf text = {0};

    (void)state;
    (void)kw_buf_adds(&text, HEADER);
    for (unsigned i = 1; i <= 10000; i++)
        (void)kw_buf_addf(&text,
                          "{\"t_ns\":%u,\"interval_ns\":1,\"packages\":[{\"package\":0,\"cpu\":"
                          "{\"uj\":1000000000000000}}]}\n",
                          i);
    assert_int_equal(replay_text(text.data, &replay, &err), -EOVERFLOW);
    assert_non_null(strstr(err.text, "2^63"));
    assert_true(replay.flags.implausible > 9000);
    agent_replay_free(&replay);
    kw_buf_free(&text);
}

static void test_a_million_workloads_are_refused(void **state)
{
    struct agent_replay replay;
    struct kw_err err = {0};
    struct kw_buf text = {0};

    (void)state;
    (void)kw_buf_adds(&text, HEADER "{\"t_ns\":1,\"interval_ns\":1,\"packages\":[{\"package\":0,"
                                    "\"cpu\":{\"uj\":5},\"workloads\":[{\"w\":0}");
    for (unsigned i = 1; i <= 1000000; i++)
        (void)kw_buf_addf(&text, ",{\"w\":%u}", i);
    (void)kw_buf_adds(&text, "]}]}\n");
    assert_int_equal(replay_text(text.data, &replay, &err), -E2BIG);
    assert_non_null(strstr(err.text, "16384 workloads"));
    agent_replay_free(&replay);
    kw_buf_free(&text);
}

static void test_a_line_without_end_is_refused(void **state)
{
    struct agent_replay replay;
    struct kw_err err = {0};
    struct kw_buf text = {0};

    (void)state;
    (void)kw_buf_adds(&text, HEADER "{\"x\":\"");
    while (text.len < AGENT_RECORDING_LINE_MAX + (1u << 20))
        (void)kw_buf_adds(&text,
                          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    assert_int_equal(replay_text(text.data, &replay, &err), -E2BIG);
    assert_non_null(strstr(err.text, "line 2 is longer"));
    agent_replay_free(&replay);
    kw_buf_free(&text);
}

/** What is odd and not wrong is counted, and no joule comes or goes. */
static void test_flags(void **state)
{
    static const char text[] = BYTE_ORDER_MARK HEADER WINDOW(
        "100", SYSTEM
        ",{\"w\":3,\"f\":[5,0],\"future\":[{}]}") "\r\n"
                                                  "{\"t_ns\":300,\"interval_ns\":100,\"lost\":7,"
                                                  "\"ended\":[3,99],\"packages\":[{\"package\":0,"
                                                  "\"cpu\":{\"uj\":50}}]}\n"
                                                  "{\"t_ns\":400,\"interval_ns\":100,\"packages\":["
                                                  "{\"package\":1,\"cpu\":{\"uj\":900000000},"
                                                  "\"workloads\":[{\"w\":0,\"f\":[100000,0]}]}]}\n"
                                                  "{\"t_ns\":500,\"inter";
    struct agent_replay replay;
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(replay_text(text, &replay, &err), 0);
    assert_string_equal(err.text, "");
    assert_int_equal(replay.windows, 3);
    assert_int_equal(replay.flags.lost, 7);
    assert_int_equal(replay.flags.usage_unknown, 1);
    assert_int_equal(replay.flags.without_domain, 1);
    assert_int_equal(replay.flags.implausible, 2); /* 1 mJ in 100 ns is 10 kW */
    assert_int_equal(replay.flags.too_much_time, 1);
    assert_true(replay.flags.cut);
    assert_int_equal(replay.methods[0].domains[0].measured_uj, 1050);
    assert_int_equal(replay.methods[0].domains[0].unattributed_uj, 50);
    assert_int_equal(replay.methods[0].domains[2].measured_uj, 900000000);
    agent_replay_free(&replay);
}

/** A recording comes from anywhere, and is shown on a terminal. */
static void test_texts_are_printable(void **state)
{
    static const char text[] =
        "{\"kwatt_recording\":1,\"node\":\"\\u001b[31mn\xc3\xa9\\u009b1m\",\"meter\":\"a\\nb\"}"
        "\n" WINDOW("100", "{\"w\":0},{\"w\":1,\"kind\":\"pod\",\"id\":\"x\\u202ey\\u0085\"}");
    const struct agent_recording_party *parties = NULL;
    struct agent_replay replay;
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(replay_text(text, &replay, &err), 0);
    assert_string_equal(agent_recording_header(replay.recording)->node, "?[31mn\xc3\xa9?1m");
    assert_string_equal(agent_recording_header(replay.recording)->meter, "a?b");
    assert_int_equal(agent_recording_parties(replay.recording, &parties), 2);
    assert_string_equal(parties[1].text, "pod x?y?");
    agent_replay_free(&replay);
}

static void test_methods_by_name(void **state)
{
    struct agent_replay replay;
    struct kw_err err = {0};

    (void)state;
    kwt_tree_write(&tree, "r.jsonl", HEADER);
    assert_int_equal(agent_replay_run(&replay, file, "guess", &err), -EINVAL);
    assert_non_null(strstr(err.text, "all, ratio-cpu, kalman"));
    agent_replay_free(&replay);
    err = (struct kw_err){0};
    assert_int_equal(agent_replay_run(&replay, "/nowhere/at/all", NULL, &err), -ENOENT);
    assert_string_equal(err.text, "/nowhere/at/all: No such file or directory");
    agent_replay_free(&replay);
    err = (struct kw_err){0};
    assert_int_equal(agent_replay_run(&replay, tree.root, NULL, &err), -EISDIR);
    agent_replay_free(&replay);
}

/* ---- seconds of a recording ---- */

#define HALF "\"interval_ns\":500000000,"

static int rows_of(const char *text, char *ret, size_t size, struct kw_err *err)
{
    struct agent_replay replay;
    kw_cleanup_file FILE *out = fmemopen(ret, size, "w");

    memset(ret, 0, size);
    assert_non_null(out);
    kwt_tree_write(&tree, "r.jsonl", text);
    int rc = agent_replay_run_rows(&replay, file, out, err);
    agent_replay_free(&replay);
    return rc;
}

/** Half seconds of one package: its energy, its time. */
static const char *half(unsigned k, const char *cpu, const char *more)
{
    static char lines[8][400];
    char *line = lines[k % 8];

    (void)snprintf(line, sizeof(lines[0]),
                   "{\"t_ns\":%u," HALF "%s\"packages\":[{\"package\":0%s,\"workloads\":[{\"w\":0,"
                   "\"f\":[100000000,7]},{\"w\":1,\"f\":[300000000,13]}]}]}\n",
                   (k + 1) * 500000000, more, cpu);
    return line;
}

static void test_rows(void **state)
{
    const char *cpu = ",\"cpu\":{\"uj\":10000000}", *none = "";
    const char *late = ",\"cpu\":{\"uj\":20000000,\"interval_ns\":1000000000}";
    const char *both = ",\"cpu\":{\"uj\":10000000},\"dram\":{\"uj\":1000000}";
    char text[4096], out[4096];
    struct kw_err err = {0};

    (void)state;
    /* a full second; one of which the meter told nothing; one that it told at its end; half a one
     */
    (void)snprintf(text, sizeof(text), "%s%s%s%s%s%s%s%s", HEADER, half(0, cpu, ""),
                   half(1, cpu, ""), half(2, none, ""), half(3, none, ""), half(4, none, ""),
                   half(5, late, ""), half(6, cpu, ""));
    assert_int_equal(rows_of(text, out, sizeof(out), &err), 0);
    assert_string_equal(out, "cpu_time,package_w,machine_threads\n"
                             "0.800000,20.000000,2\n0.800000,20.000000,2\n");
    /* windows that are missing in the midst of a second: the next one begins there */
    (void)snprintf(text, sizeof(text), "%s%s%s%s", HEADER, half(0, cpu, ""),
                   half(3, cpu, "\"lost\":2,"), half(4, cpu, ""));
    assert_int_equal(rows_of(text, out, sizeof(out), &err), 0);
    assert_string_equal(out, "cpu_time,package_w,machine_threads\n0.800000,20.000000,2\n");
    /* counters and memory where they are */
    (void)snprintf(
        text, sizeof(text),
        "{\"kwatt_recording\":1,\"has\":[\"counters\"],\"features\":[\"cpu_ns\",\"cycles\"]"
        ",\"packages\":[{\"package\":0,\"cpus\":2}]}\n%s%s%s%s",
        half(0, both, ""), half(1, both, ""), half(2, both, ""), half(3, cpu, ""));
    assert_int_equal(rows_of(text, out, sizeof(out), &err), 0);
    assert_string_equal(out, "cpu_time,cycles,instructions,cache_misses,package_w,dram_w\n"
                             "0.800000,40,0,0,20.000000,2.000000\n");
    assert_int_equal(rows_of(HEADER, out, sizeof(out), &err), -ENODATA);
    assert_non_null(strstr(err.text, "r.jsonl: no second in which"));
    err = (struct kw_err){0};
    assert_int_equal(
        rows_of("{\"kwatt_recording\":1,\"estimated\":true}\n", out, sizeof(out), &err), -EINVAL);
    assert_non_null(strstr(err.text, "comes from a model"));
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures_of_the_benchmark),
        cmocka_unit_test(test_all_methods_conserve),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_sums_do_not_wrap),
        cmocka_unit_test(test_a_million_workloads_are_refused),
        cmocka_unit_test(test_a_line_without_end_is_refused),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_texts_are_printable),
        cmocka_unit_test(test_methods_by_name),
        cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
