/* SPDX-License-Identifier: Apache-2.0 */
/* Fleets and pods as CSV: what is read, and what is said of what cannot be. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/sim_input.h"
#include "tests/support/cmocka.h"

#define FLEET "node,work_units,load_pct,watts\n"
#define PODS  "pod,arrival_s,end_s,request_cores,use\n"

static void test_fleet(void **state)
{
    (void)state;
    static const char csv[] = "\xef\xbb\xbf"
                              "watts,rack,load_pct,node,cores,work_units,sleep_watts,max_pods\r\n"
                              "10.5,7,0,a,4,6,2.5,30\r\n"
                              "50,7,50,a,4,6,2.5,30\n\n"
                              "130,7,100,a,4,6,2.5,30\n"
                              "1,8,0,b,,2,,\n"
                              "2,8,100,b,,2,,";
    struct ext_sim_input input = {0};
    struct kw_err err = {0};

    assert_int_equal(ext_sim_read_fleet(csv, sizeof(csv) - 1, &input, &err), 0);
    assert_int_equal(input.n_nodes, 2);
    const struct ext_sim_node *a = &input.nodes[0], *b = &input.nodes[1];
    assert_string_equal(a->name, "a");
    assert_int_equal(a->curve.capacity_mcpu, 4000);
    assert_int_equal(a->curve.n, 3);
    assert_int_equal(a->curve.knots[0].mw, 10500);
    assert_int_equal(a->curve.knots[1].load_permille, 500);
    assert_true(a->work_per_mcpu == 1.5);
    assert_true(a->sleepable && a->sleep_mw == 2500 && a->pods_max == 30);
    assert_int_equal(b->curve.capacity_mcpu, 2000);
    assert_true(b->work_per_mcpu == 1 && !b->sleepable && b->pods_max == 110);
    assert_true(b->memory_mib == 0);
    ext_sim_input_free(&input);
}

static void test_pods(void **state)
{
    (void)state;
    static const char csv[] = "pod,arrival_s,end_s,request_cores,use,workload,request_memory_gib\n"
                              "late,20,30,1,0.5,shop,2\n"
                              "early,10,40,0,0.1,,\n"
                              "again,20,25.5,2,2,shop,\n";
    struct ext_sim_input input = {0};
    struct kw_err err = {0};

    assert_int_equal(ext_sim_read_pods(csv, sizeof(csv) - 1, &input, &err), 0);
    assert_int_equal(input.n_pods, 3);
    assert_int_equal(input.n_workloads, 1);
    assert_true(input.pods[0].arrival_s == 10 && input.pods[0].workload == 0);
    assert_true(input.pods[1].request_mcpu == 1000 && input.pods[1].work_mcpu == 500);
    assert_true(input.pods[1].request_mib == 2048 && input.pods[1].workload == 1);
    assert_true(input.pods[2].end_s == 25.5 && input.pods[2].workload == 1);
    ext_sim_input_free(&input);
}

/** As spreadsheets write them: all quoted, what else is there too, and line ends of Windows. */
static void test_quoted(void **state)
{
    (void)state;
    static const char fleet[] =
        "\xef\xbb\xbf\"node\",\"rack, row\",\"work_units\",\"load_pct\",\"watts\"\r\n"
        "\"a\",\"7, 2\",\"4\",\"0\",\"10.5\"\r\n"
        "\"a\",\"say \"\"8\"\"\",4,100,20\r\n";
    static const char pods[] = "\"pod\",arrival_s,end_s,request_cores,use,note\n"
                               "\"p\",\"1\",2,3,\"4\",\"two\nlines\"\n"
                               "\"q\",1,2,\"x\",4,\n";
    struct ext_sim_input input = {0};
    struct kw_err err = {0};

    assert_int_equal(ext_sim_read_fleet(fleet, sizeof(fleet) - 1, &input, &err), 0);
    assert_string_equal(input.nodes[0].name, "a");
    assert_int_equal(input.nodes[0].curve.knots[0].mw, 10500);
    assert_int_equal(ext_sim_read_pods(pods, sizeof(pods) - 1, &input, &err), -EBADMSG);
    assert_string_equal(err.text,
                        "line 4, column 4 (request_cores): \"x\" is no number from 0 to 1e+06");
    assert_int_equal(input.n_pods, 1);
    assert_true(input.pods[0].work_mcpu == 4000);
    ext_sim_input_free(&input);
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        bool fleet;
        const char *csv, *want;
    } cases[] = {
        {true, "", "empty"},
        {true, "node,load_pct,watts\n", "line 1: no column \"work_units\""},
        {true, "node,node,work_units,load_pct,watts\n", "line 1: column \"node\" is there twice"},
        {true, FLEET, "no nodes"},
        {true, FLEET "a,4,0,ten\n",
         "line 2, column 4 (watts): \"ten\" is no number from 0 to 1e+06"},
        {true, FLEET "a,4,0,10\na,4,101,10\n",
         "line 3, column 3 (load_pct): \"101\" is no number from 0 to 100"},
        {true, FLEET "a,,0,10\n", "line 2, column 2 (work_units): no value"},
        {true, FLEET "a,4,0\n", "line 2: not 4 values, as the first line has"},
        {true, FLEET "a,4,0,1,1\n", "line 2: not 4 values, as the first line has"},
        {true, FLEET "a b,4,0,1\n", "line 2, column 1 (node): \"a b\" is no name"},
        {true, FLEET "a,4,0,1\033[2J\n",
         "line 2, column 4 (watts): \"1?[2J\" is no number from 0 to 1e+06"},
        {true, FLEET "a,4,0,10\nb,4,0,10\n",
         "line 2: the curve of node \"a\" ends here and is none"},
        {true, FLEET "a,4,0,1\na,4,100,2\nb,4,0,1\nb,4,100,2\na,4,0,1\na,4,100,2\n",
         "line 6: node \"a\" is there already: the points of a node follow one another"},
        {true, FLEET "a,4,0,10\na,4,100,9\n", "line 3: the curve of node \"a\""},
        {false, PODS "p,1,1,1,1\n", "line 2: pod \"p\" ends at 1 s, not after its arrival at 1 s"},
        {false, PODS "p,1,2,nan,1\n",
         "line 2, column 4 (request_cores): \"nan\" is no number from 0 to 1e+06"},
        {false, PODS, "no pods"},
        {true, "node;work_units;load_pct;watts\na;4;0;10,5\n",
         "line 1: its separator is ';': it has to be a comma, and numbers have a decimal point"},
        {false, "pod\tarrival_s\tend_s\trequest_cores\tuse\n", "line 1: its separator is a tab"},
        {true, FLEET "\"a,4,0,10\na,4,100,20\n", "line 2: a quote has no end, or text behind it"},
        {true, FLEET "a,4,0,10\n\"a\"b,4,100,20\n",
         "line 3: a quote has no end, or text behind it"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct ext_sim_input input = {0};
        struct kw_err err = {0};
        size_t len = strlen(cases[i].csv);
        int rc = cases[i].fleet ? ext_sim_read_fleet(cases[i].csv, len, &input, &err)
                                : ext_sim_read_pods(cases[i].csv, len, &input, &err);
        assert_int_equal(rc, -EBADMSG);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) != 0)
            print_error("case %zu: \"%s\", not \"%s\"\n", i, err.text, cases[i].want);
        assert_memory_equal(err.text, cases[i].want, strlen(cases[i].want));
        ext_sim_input_free(&input);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fleet),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_quoted),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
