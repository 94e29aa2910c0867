/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds for every codec of api/: decode(encode(x)) is x for random x; encode(decode(text)) of
 * that is the same text, and what jansson prints of it; a field taken away is either an error that
 * names it or a default; a field of another type, negative or too large is an error that names it;
 * an error leaves the output untouched; and running out of memory at any allocation is an error
 * without a leak.
 *
 * Values are compared through their encoded text: structs have padding and pointers.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#include "tests/unit/api/samples.h"

/** One codec behind one signature; values are on the heap. */
struct codec {
    const char *name;
    size_t size;
    void (*make)(uint64_t *state, void *out);
    int (*encode)(const void *value, char **ret, size_t *ret_len);
    int (*decode)(const char *json, size_t len, void *ret, const char **ret_why);
    void (*clear)(void *value);
    const char *required; /**< keys of the document that have no default, each between blanks */
};

#define CODEC(name, clear_body)                                                             \
    static void make_##name(uint64_t *state, void *out)                                     \
    {                                                                                       \
        struct kw_##name value = kwt_##name(state);                                         \
        memcpy(out, &value, sizeof(value));                                                 \
    }                                                                                       \
    static int encode_##name(const void *value, char **ret, size_t *ret_len)                \
    {                                                                                       \
        return kw_##name##_encode(value, ret, ret_len);                                     \
    }                                                                                       \
    static int decode_##name(const char *json, size_t len, void *ret, const char **ret_why) \
    {                                                                                       \
        return kw_##name##_decode(json, len, ret, ret_why);                                 \
    }                                                                                       \
    static void clear_##name(void *value)                                                   \
    {                                                                                       \
        struct kw_##name *typed = value;                                                    \
        clear_body;                                                                         \
    }
#define ROW(name, required)                                                                       \
    {                                                                                             \
#name, sizeof(struct kw_##name), make_##name, encode_##name, decode_##name, clear_##name, \
            required                                                                              \
    }

CODEC(sample, (void)typed)
CODEC(curve, (void)typed)
CODEC(node_info, (void)typed)
CODEC(pod_record, kw_pod_record_clear(typed))
CODEC(advice, kw_advice_clear(typed))
CODEC(node_view, kw_node_view_clear(typed))

static const struct codec codecs[] = {
    ROW(sample, " schema node epoch seq t_unix_ms interval_ns packages watts_mw used_mcpu "
                "allocatable_mcpu idle_mw meter "),
    ROW(curve, " schema capacity_mcpu knots "),
    ROW(node_info, " schema node "),
    ROW(pod_record, " schema kind id epoch t_unix_ms cpu_ns active_uj "),
    ROW(advice, " schema workload t_unix_ms containers "),
    ROW(node_view, " schema info sample curve pods "),
};

static char *encoded(const struct codec *codec, const void *value, size_t *ret_len)
{
    char *text = NULL;

    assert_int_equal(codec->encode(value, &text, ret_len), 0);
    assert_int_equal(strlen(text), *ret_len);
    return text;
}

static void test_random_values_survive_a_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 42;

    for (size_t i = 0; i < KW_ARRAY_SIZE(codecs); i++) {
        const struct codec *codec = &codecs[i];
        for (unsigned round = 0; round < 60; round++) {
            kw_cleanup_free void *value = malloc(codec->size);
            kw_cleanup_free void *again = malloc(codec->size);
            size_t len, len_again;
            const char *why = NULL;
            codec->make(&seed, value);
            kw_cleanup_free char *text = encoded(codec, value, &len);
            int rc = codec->decode(text, len, again, &why);
            if (rc != 0)
                fail_msg("%s: %d %s in %s", codec->name, rc, why, text);
            kw_cleanup_free char *text_again = encoded(codec, again, &len_again);
            assert_string_equal(text, text_again);
            json_t *tree = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
            kw_cleanup_free char *printed = json_dumps(tree, JSON_COMPACT);
            json_decref(tree);
            assert_string_equal(text, printed);
            codec->clear(value);
            codec->clear(again);
        }
    }
}

/** Decodes and checks that an error leaves the output as it was. */
static int decode_text(const struct codec *codec, const char *text, const char **ret_why)
{
    kw_cleanup_free unsigned char *value = malloc(codec->size);
    kw_cleanup_free unsigned char *before = malloc(codec->size);

    memset(value, 0xa5, codec->size);
    memset(before, 0xa5, codec->size);
    int rc = codec->decode(text, strlen(text), value, ret_why);
    if (rc == 0) {
        codec->clear(value);
    } else {
        assert_memory_equal(value, before, codec->size);
        assert_non_null(*ret_why);
    }
    return rc;
}

static int decode_tree(const struct codec *codec, const json_t *tree, const char **ret_why)
{
    kw_cleanup_free char *text = json_dumps(tree, JSON_COMPACT);

    assert_non_null(text);
    return decode_text(codec, text, ret_why);
}

static json_t *make_tree(const struct codec *codec, uint64_t *seed)
{
    kw_cleanup_free void *value = malloc(codec->size);
    size_t len;

    codec->make(seed, value);
    kw_cleanup_free char *text = encoded(codec, value, &len);
    codec->clear(value);
    json_t *tree = json_loads(text, 0, NULL);
    assert_non_null(tree);
    return tree;
}

static void test_missing_fields_are_named_or_have_a_default(void **state)
{
    (void)state;
    uint64_t seed = 7;

    for (size_t i = 0; i < KW_ARRAY_SIZE(codecs); i++) {
        const struct codec *codec = &codecs[i];
        json_t *tree = make_tree(codec, &seed);
        const char *key;
        json_t *value;
        json_object_foreach (tree, key, value) {
            char needle[64];
            const char *why = NULL;
            json_t *copy = json_copy(tree);
            (void)snprintf(needle, sizeof(needle), " %s ", key);
            json_object_del(copy, key);
            int rc = decode_tree(codec, copy, &why);
            if (strstr(codec->required, needle) != NULL) {
                assert_int_equal(rc, -EBADMSG);
                assert_string_equal(why, key);
            } else {
                assert_int_equal(rc, 0);
            }
            json_decref(copy);
        }
        json_decref(tree);
    }
}

static void test_wrong_types_and_ranges_are_named(void **state)
{
    (void)state;
    uint64_t seed = 11;

    for (size_t i = 0; i < KW_ARRAY_SIZE(codecs); i++) {
        const struct codec *codec = &codecs[i];
        json_t *tree = make_tree(codec, &seed);
        const char *key;
        json_t *value;
        json_object_foreach (tree, key, value) {
            json_t *bad[] = {json_null(),   json_real(1.5), json_integer(-1), json_false(),
                             json_object(), json_array(),   json_string("no")};
            for (size_t b = 0; b < KW_ARRAY_SIZE(bad); b++) {
                json_t *copy = json_copy(tree);
                const char *why = NULL;
                bool same_type = json_typeof(bad[b]) == json_typeof(value) ||
                                 (json_is_boolean(bad[b]) && json_is_boolean(value));
                json_object_set_new(copy, key, bad[b]);
                if (!same_type || json_is_integer(value)) {
                    int rc = decode_tree(codec, copy, &why);
                    if (rc != -EBADMSG)
                        fail_msg("%s: %s accepted as type %d", codec->name, key,
                                 (int)json_typeof(bad[b]));
                    assert_string_equal(why, key);
                }
                json_decref(copy);
            }
        }
        json_decref(tree);
    }
}

static void test_unknown_fields_are_ignored_and_other_schemas_told(void **state)
{
    (void)state;
    uint64_t seed = 13;

    for (size_t i = 0; i < KW_ARRAY_SIZE(codecs); i++) {
        const struct codec *codec = &codecs[i];
        json_t *tree = make_tree(codec, &seed);
        const char *why = NULL;
        json_object_set_new(tree, "from_the_future", json_pack("{s:[i,n]}", "x", 1));
        assert_int_equal(decode_tree(codec, tree, &why), 0);
        json_object_set_new(tree, "schema", json_integer(2));
        assert_int_equal(decode_tree(codec, tree, &why), -EPROTONOSUPPORT);
        assert_string_equal(why, "schema");
        json_decref(tree);
    }
}

static void test_bytes_that_are_no_document_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[]",
        "null",
        "1",
        "{}x",
        "{\"schema\":1,\"schema\":1}",
        "{\"schema\":\"1\"}",
        "{\"schema\":9223372036854775808}",
        "{\"schema\":1e999}",
        "{\"schema\":1,\"node\":\"\xff\"}",
        "{\"schema\":1,\"node\":\"a\\u0000b\"}",
        "{\"schema\":1,\"node\":\"\xed\xa0\x80\"}",
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(codecs); i++) {
        for (size_t t = 0; t < KW_ARRAY_SIZE(texts); t++) {
            const char *why = NULL;
            assert_int_equal(decode_text(&codecs[i], texts[t], &why), -EBADMSG);
        }
        kw_cleanup_free void *value = malloc(codecs[i].size);
        assert_int_equal(codecs[i].decode("{}", 2, value, NULL), -EBADMSG); /* why may be NULL */
    }
}

/*
 * Allocations of jansson fail from the nth on. Not just the nth: jansson's lexer overlooks a single
 * failed growth of its buffer and goes on without the byte, which no caller can see; as memory that
 * has run out stays out, the copy of the token fails next.
 */
static size_t allocations_left;

static void *failing_malloc(size_t size)
{
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    return malloc(size);
}

static void test_running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    uint64_t seed = 17;

    for (size_t i = 0; i < KW_ARRAY_SIZE(codecs); i++) {
        const struct codec *codec = &codecs[i];
        kw_cleanup_free void *value = malloc(codec->size);
        kw_cleanup_free void *again = malloc(codec->size);
        size_t len;
        codec->make(&seed, value);
        kw_cleanup_free char *text = encoded(codec, value, &len);
        int rc = -1;
        for (size_t n = 0; rc != 0; n++) {
            char *out = NULL;
            size_t out_len = 0;
            allocations_left = n;
            json_set_alloc_funcs(failing_malloc, free);
            rc = codec->encode(value, &out, &out_len);
            json_set_alloc_funcs(malloc, free);
            assert_true(rc == 0 || rc == -ENOMEM);
            if (rc == 0)
                assert_string_equal(out, text);
            free(out);
        }
        rc = -1;
        for (size_t n = 0; rc != 0; n++) {
            allocations_left = n;
            json_set_alloc_funcs(failing_malloc, free);
            rc = codec->decode(text, len, again, NULL);
            json_set_alloc_funcs(malloc, free);
            /* -EBADMSG: see the essay of api/codec.c */
            assert_true(rc == 0 || rc == -ENOMEM || rc == -EBADMSG);
        }
        kw_cleanup_free char *text_again = encoded(codec, again, &len);
        assert_string_equal(text, text_again);
        codec->clear(value);
        codec->clear(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_values_survive_a_round_trip),
        cmocka_unit_test(test_missing_fields_are_named_or_have_a_default),
        cmocka_unit_test(test_wrong_types_and_ranges_are_named),
        cmocka_unit_test(test_unknown_fields_are_ignored_and_other_schemas_told),
        cmocka_unit_test(test_bytes_that_are_no_document_are_refused),
        cmocka_unit_test(test_running_out_of_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
