/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What real kube-schedulers sent (e2e/record_extender.py), the oldest and the newest that are
 * supported, answered and held against a tree of the request: as it came, with the names of its
 * fields in other cases, among fields that nobody knows, and cut off in some two thousand places.
 */
#include <ctype.h>
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "extender/service.h"
#include "tests/support/cmocka.h"

static struct ext_service service;
static struct kw_buf out;

static enum ext_verb verb_of(const char *path)
{
    return strstr(path, "_filter_") != NULL       ? EXT_VERB_FILTER
           : strstr(path, "_prioritize_") != NULL ? EXT_VERB_PRIORITIZE
                                                  : EXT_VERB_PREEMPT;
}

static unsigned ask(enum ext_verb verb, const char *body, size_t len)
{
    kw_buf_reset(&out);
    return ext_service_answer(&service, verb, NULL, 0, body, len, &out);
}

/** Whether two lists or objects are the same; null is as good as none. */
static void assert_same(const json_t *a, const json_t *b)
{
    bool none = a == NULL || json_is_null(a);

    if (none)
        assert_true(b == NULL || json_is_null(b));
    else
        assert_true(json_equal(a, b));
}

static void check_filter(const json_t *asked, const json_t *answer)
{
    static const char *const empty[] = {"FailedNodes", "FailedAndUnresolvableNodes"};

    assert_same(json_object_get(asked, "NodeNames"), json_object_get(answer, "NodeNames"));
    assert_same(json_object_get(json_object_get(asked, "Nodes"), "items"),
                json_object_get(json_object_get(answer, "Nodes"), "items"));
    for (size_t i = 0; i < KW_ARRAY_SIZE(empty); i++)
        assert_int_equal(json_object_size(json_object_get(answer, empty[i])), 0);
    assert_string_equal(json_string_value(json_object_get(answer, "Error")), "");
}

static const char *node_name(const json_t *asked, size_t i)
{
    const json_t *names = json_object_get(asked, "NodeNames");
    const json_t *items = json_object_get(json_object_get(asked, "Nodes"), "items");

    if (json_is_array(names))
        return json_string_value(json_array_get(names, i));
    return json_string_value(
        json_object_get(json_object_get(json_array_get(items, i), "metadata"), "name"));
}

static void check_prioritize(const json_t *asked, const json_t *answer)
{
    assert_true(json_array_size(answer) == 3);
    for (size_t i = 0; i < json_array_size(answer); i++) {
        const json_t *element = json_array_get(answer, i);
        const json_t *score = json_object_get(element, "Score");
        assert_int_equal(json_object_size(element), 2);
        assert_string_equal(json_string_value(json_object_get(element, "Host")),
                            node_name(asked, i));
        assert_true(json_is_integer(score));
        assert_in_range(json_integer_value(score), 0, 10);
    }
}

static void check_preempt(const json_t *asked, json_t *answer)
{
    const json_t *meta = json_object_get(asked, "NodeNameToMetaVictims");
    json_t *victims = json_object_get(asked, "NodeNameToVictims");
    json_t *got = json_object_get(answer, "NodeNameToMetaVictims");
    const char *node;
    json_t *value;

    assert_int_equal(json_object_size(answer), 1);
    if (json_is_object(meta)) {
        assert_true(json_object_size(meta) > 0);
        assert_same(meta, got);
        return;
    }
    assert_true(json_object_size(victims) > 0);
    assert_int_equal(json_object_size(got), json_object_size(victims));
    json_object_foreach (victims, node, value) {
        json_t *pods = json_object_get(value, "Pods");
        json_t *uids = json_object_get(json_object_get(got, node), "Pods");
        assert_true(json_array_size(pods) > 0);
        assert_int_equal(json_array_size(uids), json_array_size(pods));
        for (size_t i = 0; i < json_array_size(pods); i++)
            assert_same(
                json_object_get(json_object_get(json_array_get(pods, i), "metadata"), "uid"),
                json_object_get(json_array_get(uids, i), "UID"));
        assert_same(json_object_get(value, "NumPDBViolations"),
                    json_object_get(json_object_get(got, node), "NumPDBViolations"));
    }
}

/** Asks with `body`, and holds the answer against what was recorded. */
static void check(const char *path, const char *body, size_t len, json_t *asked)
{
    enum ext_verb verb = verb_of(path);

    if (ask(verb, body, len) != 200)
        fail_msg("%s: %s", path, out.data);
    json_t *answer = json_loadb(out.data, out.len, 0, NULL);
    assert_non_null(answer);
    if (verb == EXT_VERB_FILTER)
        check_filter(asked, answer);
    else if (verb == EXT_VERB_PRIORITIZE)
        check_prioritize(asked, answer);
    else
        check_preempt(asked, answer);
    json_decref(answer);
}

/** The request with its own fields spelt by `spell`, and others between them. */
static char *respelt(json_t *asked, int (*spell)(int))
{
    json_t *other = json_object();
    const char *key;
    json_t *value;

    json_object_foreach (asked, key, value) {
        char name[64];
        size_t n = strlen(key);
        for (size_t i = 0; i <= n; i++)
            name[i] = (char)spell((unsigned char)key[i]);
        (void)json_object_set_new(other, "Future", json_pack("{s:[n,{s:f}]}", "Pod", "x", 1e300));
        (void)json_object_set(other, name, value);
        (void)json_object_set_new(other, "NodeNamesAndMore", json_pack("[i]", 1));
    }
    char *text = json_dumps(other, JSON_INDENT(1));
    json_decref(other);
    return text;
}

static void check_file(const char *path)
{
    kw_cleanup_free char *body = NULL;
    size_t len;

    assert_int_equal(kw_file_slurp(path, 1 << 20, &body, &len), 0);
    json_t *asked = json_loadb(body, len, JSON_ALLOW_NUL, NULL);
    assert_non_null(asked);
    check(path, body, len, asked);
    kw_cleanup_free char *lower = respelt(asked, tolower);
    check(path, lower, strlen(lower), asked);
    kw_cleanup_free char *upper = respelt(asked, toupper);
    check(path, upper, strlen(upper), asked);
    /* what Go ends a document with, and what is no document: refused, in the form of the verb */
    while (len > 0 && body[len - 1] != '}')
        len--;
    for (size_t cut = 0; cut < len; cut += 1 + len / 2000) {
        unsigned status = ask(verb_of(path), body, cut);
        bool said = status == 200 && strstr(out.data, "\"Error\":\"kwatt: ") != NULL;
        assert_true(verb_of(path) == EXT_VERB_FILTER ? said : status == 400);
    }
    json_decref(asked);
}

static void test_recorded(void **state)
{
    const struct ext_policy policy = {.stale_after_ns = UINT64_C(30000000000),
                                      .assumptions = {100, 100}};
    char pattern[4096];
    glob_t found = {0};

    (void)state;
    assert_int_equal(ext_service_init(&service, 1, &policy), 0);
    assert_int_equal(kw_path_join(pattern, sizeof(pattern), getenv("KWATT_SOURCE_DIR"),
                                  "tests/unit/extender/recorded/v1.*/*.json"),
                     0);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 2 * 8); /* versions; two forms of four requests */
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_file(found.gl_pathv[i]);
    globfree(&found);
    ext_service_clear(&service);
    kw_buf_free(&out);
}

/** What is read of the pod that has all that a pod can have. */
static void test_rich_pod(void **state)
{
    static const char *const versions[] = {"v1.33.13", "v1.36.3"};
    const char *why;

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(versions); i++) {
        kw_cleanup_free char *body = NULL;
        struct ext_args args = {0};
        char path[4096];
        size_t len;
        (void)snprintf(path, sizeof(path),
                       "%s/tests/unit/extender/recorded/%s/nodes_filter_rich.json",
                       getenv("KWATT_SOURCE_DIR"), versions[i]);
        assert_int_equal(kw_file_slurp(path, 1 << 20, &body, &len), 0);
        assert_int_equal(ext_args_scan(body, len, NULL, EXT_ARGS_NAMES, &args, &why), 0);
        assert_string_equal(args.pod.name, "rich");
        assert_string_equal(args.pod.ns, "nodes");
        /* the largest init container; main, side and proxy together ask for less */
        assert_int_equal(args.pod.request_mcpu, 1500);
        assert_int_equal(args.pod.expected_mcpu, 750);
        assert_int_equal(args.pod.bad_values, 0);
        assert_false(args.pod.mirror);
        ext_args_free(&args);
    }
}

int main(void)
{
    if (getenv("KWATT_SOURCE_DIR") == NULL) {
        printf("SKIP: KWATT_SOURCE_DIR is not set\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_rich_pod),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
