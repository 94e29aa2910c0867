/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are known again, beside reading them: a document and one that differs from it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/json_memo.h"
#include "tests/support/cmocka.h"

/** What a reader says of a document: whether it is good, and how much it passed over. */
struct said {
    bool good, whole;
    unsigned members; /**< of the object at "v" */
    const char *pos, *error;
};

static bool comes(struct kw_json *json, enum kw_json_type type)
{
    struct kw_json_token token;

    return kw_json_next(json, &token) == type;
}

/** Reads {"v":VALUE}: each member of the value is passed over. @param memo NULL: none. */
static struct said read_value(const char *text, size_t len, struct kw_json_memo *memo)
{
    struct kw_json json;
    struct kw_json_token token;
    struct said said = {0};

    kw_json_begin(&json, text, len);
    if (!comes(&json, KW_JSON_OBJECT) || !comes(&json, KW_JSON_KEY))
        return said;
    said.whole = memo != NULL && kw_json_memo_begin(memo, &json);
    if (!said.whole) {
        bool good = kw_json_next(&json, &token) == KW_JSON_OBJECT;
        while (good && kw_json_next(&json, &token) == KW_JSON_KEY) {
            good = kw_json_skip(&json, NULL) != KW_JSON_ERROR;
            said.members++;
        }
        good = good && token.type == KW_JSON_OBJECT_END && json.error == NULL;
        if (memo != NULL)
            kw_json_memo_end(memo, &json, good);
        if (!good)
            return said;
    }
    said.good = comes(&json, KW_JSON_OBJECT_END) && comes(&json, KW_JSON_END);
    said.pos = json.pos;
    said.error = json.error;
    return said;
}

static const char pod[] =
    "{\"v\":{\"name\":\"web-1\",\"env\":[{\"name\":\"A\",\"value\":\"some \\\"text\\\" \\u00e9\"},"
    "{\"name\":\"B\",\"value\":\"17\"}],\"short\":[],\"ports\":{\"http\":8080,\"metrics\":[9090,"
    "-1.5e3,true,null]},\"affinity\":{\"nodes\":{\"terms\":[\"zone-a\",\"zone-b\"]}}}}";

static void test_the_same_is_known(void **state)
{
    kw_cleanup_free struct kw_json_memo *memo = calloc(1, sizeof(*memo));

    (void)state;
    struct said first = read_value(pod, strlen(pod), memo);
    assert_true(first.good && !first.whole);
    assert_int_equal(first.members, 5);
    struct said again = read_value(pod, strlen(pod), memo);
    assert_true(again.good && again.whole);
    assert_ptr_equal(again.pos, first.pos);
    /* cut off within it, it is another */
    assert_false(read_value(pod, strlen(pod) - 2, memo).good);
    /* and what was bad is not kept */
    assert_false(read_value(pod, strlen(pod), memo).whole);
}

/** Each byte of a document another: what is said is what a reader says that remembers nothing. */
static void test_another_is_read(void **state)
{
    static const char others[] = {'"', '\\', ',', '{', '}', '[', ']', ':', '7', 'x', ' ', '\x01'};
    kw_cleanup_free struct kw_json_memo *memo = calloc(1, sizeof(*memo));
    unsigned good = 0;

    (void)state;
    for (size_t i = 0; i < strlen(pod); i++) {
        for (size_t k = 0; k < sizeof(others); k++) {
            char text[sizeof(pod)];
            memcpy(text, pod, sizeof(pod));
            text[i] = others[k];
            assert_true(read_value(pod, strlen(pod), memo).good);
            struct said with = read_value(text, strlen(text), memo);
            struct said without = read_value(text, strlen(text), NULL);
            assert_int_equal(with.good, without.good);
            assert_ptr_equal(with.pos, without.pos);
            assert_ptr_equal(with.error, without.error);
            assert_true(with.whole || with.members == without.members);
            good += with.good;
        }
    }
    assert_true(good > 100); /* texts that say something else */
}

/** A list of `n` objects, `depth` deep in lists. */
static void add_deep(struct kw_buf *out, unsigned depth, unsigned n)
{
    (void)kw_buf_adds(out, "{\"v\":{\"name\":\"");
    (void)kw_buf_addf(out, "%u\"", depth);
    for (unsigned i = 0; i < n; i++) {
        (void)kw_buf_addf(out, ",\"list %u\":", i);
        for (unsigned k = 0; k < depth; k++)
            (void)kw_buf_adds(out, "[");
        (void)kw_buf_adds(out, "{\"a\":\"a text that is long enough to be kept\"}");
        for (unsigned k = 0; k < depth; k++)
            (void)kw_buf_adds(out, "]");
    }
    (void)kw_buf_adds(out, "}}");
}

/** Documents of all lengths one after the other, those included that are too long or have too many
 * parts to be kept. */
static void test_long_ones(void **state)
{
    static const unsigned numbers[] = {0, 1, 2, 63, 64, 65, 66, 200, 300, 400, 64, 1};
    kw_cleanup_free struct kw_json_memo *memo = calloc(1, sizeof(*memo));

    (void)state;
    for (unsigned depth = 0; depth < 3; depth++) {
        for (size_t i = 0; i < KW_ARRAY_SIZE(numbers); i++) {
            kw_cleanup(kw_buf_free) struct kw_buf text = {0};
            add_deep(&text, depth, numbers[i]);
            for (unsigned round = 0; round < 2; round++) {
                struct said with = read_value(text.data, text.len, memo);
                assert_true(with.good);
                assert_int_equal(with.whole,
                                 round == 1 && text.len - strlen("{\"v\":}") <= KW_JSON_MEMO_BYTES);
                assert_true(with.whole || with.members == numbers[i] + 1);
            }
        }
    }
}

/** What was good where it stood may be nested too deep elsewhere. */
static void test_depth(void **state)
{
    kw_cleanup_free struct kw_json_memo *memo = calloc(1, sizeof(*memo));
    kw_cleanup(kw_buf_free) struct kw_buf value = {0}, shallow = {0}, deep = {0};
    struct kw_json json;
    struct kw_json_token token;

    (void)state;
    (void)kw_buf_adds(&value, "{\"a\":{\"b\":[");
    for (unsigned i = 0; i < KW_JSON_MAX_DEPTH - 4; i++)
        (void)kw_buf_adds(&value, "[");
    for (unsigned i = 0; i < KW_JSON_MAX_DEPTH - 4; i++)
        (void)kw_buf_adds(&value, "]");
    (void)kw_buf_adds(&value, "]}}");
    (void)kw_buf_addf(&shallow, "{\"v\":%s}", value.data);
    (void)kw_buf_addf(&deep, "{\"v\":{\"w\":%s}}", value.data);
    assert_true(read_value(shallow.data, shallow.len, memo).good);
    assert_true(read_value(shallow.data, shallow.len, memo).whole);
    assert_false(read_value(deep.data, deep.len, memo).good);
    /* the whole of it a level deeper */
    assert_true(read_value(shallow.data, shallow.len, memo).good);
    kw_json_begin(&json, deep.data, deep.len);
    for (unsigned i = 0; i < 4; i++)
        (void)kw_json_next(&json, &token);
    assert_int_equal(token.type, KW_JSON_KEY);
    assert_false(kw_json_memo_begin(memo, &json));
    assert_int_equal(kw_json_skip(&json, NULL), KW_JSON_ERROR);
    kw_json_memo_end(memo, &json, false);
}

static void test_no_object(void **state)
{
    static const char *const texts[] = {"{\"v\":null}", "{\"v\":[1]}", "{\"v\":7}", "{\"v\":"};
    kw_cleanup_free struct kw_json_memo *memo = calloc(1, sizeof(*memo));

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++) {
        assert_true(read_value(pod, strlen(pod), memo).good);
        assert_false(read_value(texts[i], strlen(texts[i]), memo).good);
        /* what is kept is of the last document */
        assert_false(read_value(pod, strlen(pod), memo).whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_is_known), cmocka_unit_test(test_another_is_read),
        cmocka_unit_test(test_long_ones),         cmocka_unit_test(test_depth),
        cmocka_unit_test(test_no_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
