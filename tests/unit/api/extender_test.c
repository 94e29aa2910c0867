/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of scheduler requests and of answers. (What it reads of a pod is checked, case by
 * case, together with the extender's scanner in tests/unit/extender/pod_test.c.) */
#include <errno.h>
#include <string.h>

#include "api/extender.h"
#include "tests/support/cmocka.h"

#define N(array) (sizeof(array) / sizeof(*(array)))

static void test_args(void **state)
{
    (void)state;
    static const char body[] =
        "{\"pod\":{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"250m\"}}}]}},"
        "\"NODES\":{\"items\":[{\"metadata\":{\"name\":\"a\"}},null,{}]},\"nodeNames\":[\"b\",null]"
        "}";
    struct kw_extender_args args = {0};

    assert_int_equal(kw_extender_args_decode(body, sizeof(body) - 1, &args, NULL), 0);
    assert_int_equal(args.pod.request_mcpu, 250);
    assert_true(args.has_names && args.has_nodes);
    assert_int_equal(args.n_names, 2);
    assert_string_equal(args.names[0].text, "b");
    assert_string_equal(args.names[1].text, "");
    assert_int_equal(args.n_nodes, 3);
    assert_string_equal(args.nodes[0].text, "a");
    assert_string_equal(args.nodes[1].text, "");
    kw_extender_args_clear(&args);
    assert_null(args.names);

    assert_int_equal(kw_extender_args_decode("{\"Nodes\":null}", 14, &args, NULL), 0);
    assert_false(args.has_names || args.has_nodes);
    kw_extender_args_clear(&args);
}

static void test_bad_args(void **state)
{
    (void)state;
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"", "malformed JSON"},
        {"{", "malformed JSON"},
        {"[]", "no JSON object"},
        {"{\"Pod\":1}", "Pod is no object"},
        {"{\"NodeNames\":{}}", "NodeNames is no list of names"},
        {"{\"NodeNames\":[\"a\",1]}", "NodeNames is no list of names"},
        {"{\"Nodes\":[]}", "Nodes is no list of nodes"},
        {"{\"Nodes\":{\"items\":1}}", "Nodes is no list of nodes"},
        {"{\"Nodes\":{\"items\":[{},1]}}", "Nodes is no list of nodes"},
    };
    struct kw_extender_args args = {.n_names = 77};

    for (size_t i = 0; i < N(cases); i++) {
        const char *why = NULL;
        assert_int_equal(kw_extender_args_decode(cases[i].body, strlen(cases[i].body), &args, &why),
                         -EBADMSG);
        assert_string_equal(why, cases[i].why);
        assert_int_equal(args.n_names, 77); /* untouched */
    }
}

static void test_filter_result(void **state)
{
    (void)state;
    static const char body[] =
        "{\"Nodes\":{\"items\":[{},{}]},\"NodeNames\":[\"a\"],\"FailedNodes\":{"
        "\"b\":\"x\"},\"FailedAndUnresolvableNodes\":{\"c\":\"y\"},\"Error\":\"e\"}";
    struct kw_filter_result result;

    assert_int_equal(kw_filter_result_decode(body, sizeof(body) - 1, &result, NULL), 0);
    assert_true(result.has_names);
    assert_int_equal(result.n_names, 1);
    assert_int_equal(result.n_nodes, 2);
    assert_int_equal(result.n_failed, 2);
    assert_string_equal(result.error, "e");
    kw_filter_result_clear(&result);
    assert_int_equal(kw_filter_result_decode("[]", 2, &result, NULL), -EBADMSG);
}

static void test_priorities(void **state)
{
    (void)state;
    static const char body[] = "[{\"Host\":\"a\",\"Score\":10},{\"Host\":\"\",\"Score\":0}]";
    static const char *const bad[] = {"{}", "[1]", "[{\"Host\":\"a\",\"Score\":7.5}]",
                                      "[{\"Host\":\"a\",\"Score\":1},{\"host\":\"b\"}]",
                                      "[{\"Host\":1,\"Score\":1}]"};
    struct kw_host_priority *list = NULL;
    size_t n = 0;

    assert_int_equal(kw_host_priorities_decode(body, sizeof(body) - 1, &list, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].host.text, "a");
    assert_int_equal(list[0].score, 10);
    kw_host_priorities_free(&list, n);
    assert_null(list);
    for (size_t i = 0; i < N(bad); i++)
        assert_int_equal(kw_host_priorities_decode(bad[i], strlen(bad[i]), &list, &n, NULL),
                         -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_args),
        cmocka_unit_test(test_bad_args),
        cmocka_unit_test(test_filter_result),
        cmocka_unit_test(test_priorities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
