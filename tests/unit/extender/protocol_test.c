/* SPDX-License-Identifier: Apache-2.0 */
/* What the scanner reads of a request and a pod, and the bytes of the answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/preempt.h"
#include "extender/protocol.h"
#include "tests/support/cmocka.h"

static int scan(const char *body, struct ext_args *args)
{
    const char *why = NULL;
    int rc = ext_args_scan(body, strlen(body), NULL, EXT_ARGS_NAMES, args, &why);

    if (rc < 0)
        assert_non_null(why);
    return rc;
}

/** Scans a body that must be understood, and checks the answer of filter. */
static void check_filter(const char *body, const char *want)
{
    struct ext_args args = {0};
    struct kw_buf out = {0};

    assert_int_equal(scan(body, &args), 0);
    assert_int_equal(ext_answer_filter(&args, &out), 0);
    assert_string_equal(out.data, want);
    assert_int_equal(out.len, strlen(want));
    kw_buf_free(&out);
    ext_args_free(&args);
}

#define FAILED "\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}"

static void test_forms(void **state)
{
    (void)state;
    check_filter("{\"Pod\":{},\"Nodes\":null,\"NodeNames\":[\"a\",\"b\"]}",
                 "{\"Nodes\":null,\"NodeNames\":[\"a\",\"b\"]," FAILED);
    check_filter("{\"NODENAMES\":[],\"future\":{\"NodeNames\":[7]}}",
                 "{\"Nodes\":null,\"NodeNames\":[]," FAILED);
    check_filter(" {\"nodeNames\" : [ \"a\" , null , \"a\" ] , \"pod\" : null } ",
                 "{\"Nodes\":null,\"NodeNames\":[\"a\",\"\",\"a\"]," FAILED);
    check_filter("{\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"a\"}},\n {\"x\":1, "
                 "\"metadata\":null}, null]}}",
                 "{\"Nodes\":{\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"a\"}},{\"x\":1, "
                 "\"metadata\":null},null]},\"NodeNames\":null," FAILED);
    check_filter("{\"Nodes\":{\"items\":null}}",
                 "{\"Nodes\":{\"metadata\":{},\"items\":[]},\"NodeNames\":null," FAILED);
    /* fields in any case at any depth, as Go takes them; of two spellings the last counts */
    check_filter("{\"nodes\":{\"ITEMS\":[{\"Metadata\":{\"NAME\":\"a\"}}]}}",
                 "{\"Nodes\":{\"metadata\":{},\"items\":[{\"Metadata\":{\"NAME\":\"a\"}}]},"
                 "\"NodeNames\":null," FAILED);
    check_filter("{\"NODES\":{\"items\":[{\"x\":1}],\"\\u0049tems\":[null]}}",
                 "{\"Nodes\":{\"metadata\":{},\"items\":[null]},\"NodeNames\":null," FAILED);
    /* both given: both come back */
    check_filter("{\"Nodes\":{\"items\":[{}]},\"NodeNames\":[\"q\"]}",
                 "{\"Nodes\":{\"metadata\":{},\"items\":[{}]},\"NodeNames\":[\"q\"]," FAILED);
    /* the key may be spelt with escapes; the names keep theirs */
    check_filter("{\"\\u004eodeNames\":[\"\\u0061\\n\\/\",\"\xc3\xa9\"]}",
                 "{\"Nodes\":null,\"NodeNames\":[\"\\u0061\\n\\/\",\"\xc3\xa9\"]," FAILED);
    check_filter("{\"NodeNames\":[null,null,\"a\",\"b\",null,\"c\"]}",
                 "{\"Nodes\":null,\"NodeNames\":[\"\",\"\",\"a\",\"b\",\"\",\"c\"]," FAILED);
    /* of a field given twice the last counts */
    check_filter("{\"NodeNames\":[\"a\"],\"NodeNames\":[\"b\",\"c\"]}",
                 "{\"Nodes\":null,\"NodeNames\":[\"b\",\"c\"]," FAILED);
}

/** Names of every length, more of them than the first list has room for, come back as they were. */
static void test_names_of_every_length(void **state)
{
    (void)state;
    struct kw_buf body = {0}, want = {0};

    (void)kw_buf_adds(&body, "{\"NodeNames\":[");
    (void)kw_buf_adds(&want, "{\"Nodes\":null,\"NodeNames\":[");
    for (unsigned i = 0; i < 3000; i++) {
        char name[256];
        unsigned len = i % 253;
        for (unsigned k = 0; k < len; k++)
            name[k] = (char)('a' + (i + k) % 26);
        for (unsigned k = 0; k < 2; k++)
            (void)kw_buf_addf(k == 0 ? &body : &want, "%s\"%.*s\"", i > 0 ? "," : "", (int)len,
                              name);
    }
    (void)kw_buf_adds(&body, "]}");
    (void)kw_buf_adds(&want, "]," FAILED);
    check_filter(body.data, want.data);
    kw_buf_free(&body);
    kw_buf_free(&want);
}

static void test_names_of_nodes(void **state)
{
    (void)state;
    struct ext_args args = {0};

    assert_int_equal(scan("{\"Nodes\":{\"items\":[{\"metadata\":{\"labels\":{\"name\":\"no\"},"
                          "\"name\":\"a\"},\"name\":\"no\"},{\"metadata\":{\"name\":7}},{}]}}",
                          &args),
                     0);
    assert_true(args.has_nodes && !args.has_names);
    assert_int_equal(ext_args_count(&args), 3);
    assert_int_equal(ext_args_name(&args, 0)->len, 1);
    assert_memory_equal(ext_args_name(&args, 0)->at, "a", 1);
    assert_int_equal(ext_args_name(&args, 1)->len, 0);
    assert_int_equal(ext_args_name(&args, 2)->len, 0);
    ext_args_free(&args);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",
        " ",
        "null",
        "[]",
        "7",
        "\"NodeNames\"",
        "{",
        "{}x",
        "{} {}",
        "{\"NodeNames\":[\"a\",]}",
        "{\"NodeNames\":[\"a\"}",
        "{\"NodeNames\":[\"a\"]",
        "{\"NodeNames\":\"a\"}",
        "{\"NodeNames\":{}}",
        "{\"NodeNames\":[1]}",
        "{\"NodeNames\":[[]]}",
        "{\"NodeNames\":[{}]}",
        "{\"Nodes\":[]}",
        "{\"Nodes\":{\"items\":{}}}",
        "{\"Nodes\":{\"items\":[1]}}",
        "{\"Nodes\":true}",
        "{\"Pod\":[]}",
        "{\"Pod\":\"x\"}",
        "{\"Pod\":{\"spec\":}}",
        "{\"Pod\":{\"metadata\":{\"annotations\":{\"a\":\"\x01\"}}}}",
        "{\"NodeNames\":[\"\xff\"]}",
        "{'NodeNames':[]}",
        "{\"NodeNames\":[\"a\\x\"]}",
    };
    struct ext_args args = {0};

    for (size_t i = 0; i < KW_ARRAY_SIZE(bodies); i++) {
        if (scan(bodies[i], &args) != -EBADMSG)
            fail_msg("taken: %s", bodies[i]);
    }
    /* and the same reader goes on with a good one */
    assert_int_equal(scan("{\"NodeNames\":[\"a\"]}", &args), 0);
    assert_int_equal(args.n_names, 1);
    ext_args_free(&args);
}

static void test_every_prefix_is_refused(void **state)
{
    (void)state;
    static const char body[] =
        "{\"Pod\":{\"metadata\":{\"annotations\":{\"kwatt.io/placement\":\"off\"}},\"spec\":{"
        "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}]}},\"Nodes\":{\"items\":[{"
        "\"metadata\":{\"name\":\"a\"}}]},\"NodeNames\":[\"a\",null]}";
    struct ext_args args = {0};
    const char *why;

    for (size_t len = 0; len < sizeof(body) - 1; len++) {
        /* an exact copy, so that the sanitizer sees a read behind the end */
        kw_cleanup_free char *copy = malloc(len > 0 ? len : 1);
        memcpy(copy, body, len);
        assert_int_equal(ext_args_scan(copy, len, NULL, EXT_ARGS_NAMES, &args, &why), -EBADMSG);
    }
    assert_int_equal(ext_args_scan(body, sizeof(body) - 1, NULL, EXT_ARGS_NAMES, &args, &why), 0);
    ext_args_free(&args);
}

static void test_too_many_nodes(void **state)
{
    (void)state;
    struct ext_args args = {0};
    struct kw_buf body = {0};

    (void)kw_buf_adds(&body, "{\"NodeNames\":[\"n\"");
    for (unsigned i = 1; i < EXT_NODES_MAX; i++)
        (void)kw_buf_adds(&body, ",\"n\"");
    size_t full = body.len;
    (void)kw_buf_adds(&body, "]}");
    assert_int_equal(scan(body.data, &args), 0);
    assert_int_equal(args.n_names, EXT_NODES_MAX);
    body.len = full;
    (void)kw_buf_adds(&body, ",\"n\"]}");
    assert_int_equal(scan(body.data, &args), -E2BIG);
    kw_buf_free(&body);
    ext_args_free(&args);
}

static void test_prioritize(void **state)
{
    (void)state;
    static const uint8_t scores[] = {0, 10, 7};
    struct ext_args args = {0};
    struct kw_buf out = {0};

    assert_int_equal(scan("{\"NodeNames\":[\"a\\\"\",\"b\",\"c\"]}", &args), 0);
    assert_int_equal(ext_answer_prioritize(&args, scores, &out), 0);
    assert_string_equal(out.data,
                        "[{\"Host\":\"a\\\"\",\"Score\": 0},{\"Host\":\"b\",\"Score\":10},"
                        "{\"Host\":\"c\",\"Score\": 7}]");
    kw_buf_reset(&out);
    assert_int_equal(scan("{}", &args), 0);
    assert_int_equal(ext_answer_prioritize(&args, scores, &out), 0);
    assert_string_equal(out.data, "[]");
    kw_buf_free(&out);
    ext_args_free(&args);
}

static void check_preempt(const char *body, const char *want)
{
    struct kw_buf out = {0};
    const char *why = NULL;

    assert_int_equal(ext_preempt_answer(body, strlen(body), NULL, &out, &why),
                     want == NULL ? -EBADMSG : 0);
    if (want != NULL)
        assert_string_equal(out.data, want);
    else
        assert_non_null(why);
    kw_buf_free(&out);
}

static void test_preempt(void **state)
{
    (void)state;
    check_preempt(
        "{\"Pod\":{},\"NodeNameToVictims\":null,\"NodeNameToMetaVictims\":{\"a\":{\"Pods\":"
        "[ {\"UID\":\"u\"}],\"NumPDBViolations\":0},\"b\":{\"Pods\":[]}}}",
        "{\"NodeNameToMetaVictims\":{\"a\":{\"Pods\":[ {\"UID\":\"u\"}],"
        "\"NumPDBViolations\":0},\"b\":{\"Pods\":[]}}}");
    check_preempt(
        "{\"nodenametovictims\":{\"a\\u0062\":{\"Pods\":[{\"metadata\":{\"uid\":\"u\"}},{"
        "\"spec\":[1],\"metadata\":{\"name\":\"x\",\"uid\":\"v\"}}],\"NumPDBViolations\":2},"
        "\"b\":{\"pods\":null},\"c\":null,\"d\":{}}}",
        "{\"NodeNameToMetaVictims\":{\"a\\u0062\":{\"Pods\":[{\"UID\":\"u\"},{\"UID\":\"v\"}],"
        "\"NumPDBViolations\":2},\"b\":{\"Pods\":[],\"NumPDBViolations\":0},\"c\":{\"Pods\":[],"
        "\"NumPDBViolations\":0},\"d\":{\"Pods\":[],\"NumPDBViolations\":0}}}");
    check_preempt("{}", "{\"NodeNameToMetaVictims\":{}}");
    check_preempt("{\"NodeNameToVictims\":{},\"NodeNameToMetaVictims\":null}",
                  "{\"NodeNameToMetaVictims\":{}}");
    check_preempt("", NULL);
    check_preempt("[]", NULL);
    check_preempt("{\"NodeNameToMetaVictims\":[]}", NULL);
    check_preempt("{\"NodeNameToVictims\":{\"a\":[]}}", NULL);
    check_preempt("{\"NodeNameToVictims\":{\"a\":{\"Pods\":[7]}}}", NULL);
    check_preempt("{\"NodeNameToMetaVictims\":{\"a\":}}", NULL);
    /* in any case, as Go reads it, and byte for byte */
    check_preempt("{\"nodenametometavictims\":{\"a\":{\"pods\":[{\"uid\":\"1\", \"x\":[]},null],"
                  "\"numpdbviolations\":-1},\"b\":null}}",
                  "{\"NodeNameToMetaVictims\":{\"a\":{\"pods\":[{\"uid\":\"1\", \"x\":[]},null],"
                  "\"numpdbviolations\":-1},\"b\":null}}");
    check_preempt("{\"nodeNameToVictims\":{\"a\":{\"PODS\":[{\"Metadata\":{\"UID\":\"1\"}}]}}}",
                  "{\"NodeNameToMetaVictims\":{\"a\":{\"Pods\":[{\"UID\":\"1\"}],"
                  "\"NumPDBViolations\":0}}}");
    /* what Go would not read back */
    static const char *const no_victims[] = {"7",
                                             "[]",
                                             "\"x\"",
                                             "{\"Pods\":{}}",
                                             "{\"Pods\":[7]}",
                                             "{\"Pods\":[[]]}",
                                             "{\"Pods\":[{\"UID\":7}]}",
                                             "{\"Pods\":[{\"UID\":{}}]}",
                                             "{\"NumPDBViolations\":\"1\"}",
                                             "{\"NumPDBViolations\":1.5}",
                                             "{\"NumPDBViolations\":1e2}",
                                             "{\"NumPDBViolations\":[]}"};
    for (size_t i = 0; i < KW_ARRAY_SIZE(no_victims); i++) {
        char body[256];
        (void)snprintf(body, sizeof(body), "{\"NodeNameToMetaVictims\":{\"b\":null,\"a\":%s}}",
                       no_victims[i]);
        check_preempt(body, NULL);
    }
    check_preempt("{\"NodeNameToVictims\":{\"a\":{\"NumPDBViolations\":1.5}}}", NULL);
    check_preempt("{} x", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),          cmocka_unit_test(test_names_of_nodes),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_every_prefix_is_refused),
        cmocka_unit_test(test_too_many_nodes), cmocka_unit_test(test_prioritize),
        cmocka_unit_test(test_preempt),        cmocka_unit_test(test_names_of_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
