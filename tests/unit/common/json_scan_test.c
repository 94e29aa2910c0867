/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/json_scan.h"
#include "tests/support/cmocka.h"

static void begin(struct kw_json *json, const char *text)
{
    kw_json_begin(json, text, strlen(text));
}

/* Type of the first token that is no longer part of a good document: END or ERROR. */
static enum kw_json_type walk(const char *text, size_t len)
{
    struct kw_json json;
    struct kw_json_token token;
    enum kw_json_type type;

    kw_json_begin(&json, text, len);
    do
        type = kw_json_next(&json, &token);
    while (type != KW_JSON_END && type != KW_JSON_ERROR);
    return type;
}

/* The same by kw_json_skip; both ways must agree. */
static enum kw_json_type check(const char *text)
{
    struct kw_json json;
    struct kw_json_token token;
    enum kw_json_type walked = walk(text, strlen(text));
    enum kw_json_type skipped;

    begin(&json, text);
    skipped = kw_json_skip(&json, NULL);
    if (skipped != KW_JSON_ERROR)
        skipped = kw_json_next(&json, &token);
    assert_int_equal(walked, skipped);
    if (walked == KW_JSON_ERROR)
        assert_non_null(json.error);
    return walked;
}

static void expect(struct kw_json *json, enum kw_json_type type, const char *span)
{
    struct kw_json_token token = {0};

    assert_int_equal(kw_json_next(json, &token), type);
    assert_int_equal(token.type, type);
    assert_int_equal(token.len, strlen(span));
    assert_memory_equal(token.at, span, token.len);
}

static void test_tokens_come_in_order(void **state)
{
    struct kw_json json;
    struct kw_json_token token;

    (void)state;
    begin(&json, " {\"a\" : [1, -2.5e3,\"x\\n\"], \"b\":{}, \"c\":true,\"d\":false,\"e\":null} ");
    expect(&json, KW_JSON_OBJECT, "{");
    expect(&json, KW_JSON_KEY, "a");
    expect(&json, KW_JSON_ARRAY, "[");
    expect(&json, KW_JSON_NUMBER, "1");
    expect(&json, KW_JSON_NUMBER, "-2.5e3");
    expect(&json, KW_JSON_STRING, "x\\n");
    expect(&json, KW_JSON_ARRAY_END, "]");
    expect(&json, KW_JSON_KEY, "b");
    expect(&json, KW_JSON_OBJECT, "{");
    expect(&json, KW_JSON_OBJECT_END, "}");
    expect(&json, KW_JSON_KEY, "c");
    expect(&json, KW_JSON_TRUE, "true");
    expect(&json, KW_JSON_KEY, "d");
    expect(&json, KW_JSON_FALSE, "false");
    expect(&json, KW_JSON_KEY, "e");
    expect(&json, KW_JSON_NULL, "null");
    expect(&json, KW_JSON_OBJECT_END, "}");
    assert_int_equal(kw_json_next(&json, &token), KW_JSON_END);
    assert_int_equal(kw_json_next(&json, &token), KW_JSON_END);
    assert_null(json.error);
}

static void test_strings_come_in_rows(void **state)
{
    struct kw_json json;
    struct kw_json_text texts[4];
    struct kw_json_token token;

    (void)state;
    begin(&json, " [ \"a\" , \"b\\n\",\"\", \"d\",\"e\" , null, \"f\"] ");
    assert_int_equal(kw_json_strings(&json, texts, 4), 0); /* not in the array yet */
    expect(&json, KW_JSON_ARRAY, "[");
    assert_int_equal(kw_json_strings(&json, texts, 4), 4);
    assert_true(texts[1].escaped && !texts[2].escaped && texts[2].len == 0);
    assert_memory_equal(texts[3].at, "d", 1);
    assert_int_equal(kw_json_strings(&json, texts, 4), 1);
    assert_int_equal(kw_json_strings(&json, texts, 4), 0);
    expect(&json, KW_JSON_NULL, "null");
    assert_int_equal(kw_json_strings(&json, texts, 4), 1);
    expect(&json, KW_JSON_ARRAY_END, "]");
    assert_int_equal(kw_json_strings(&json, texts, 4), 0);
    assert_int_equal(kw_json_next(&json, &token), KW_JSON_END);
    /* none in an object; an error behind good ones is left to kw_json_next */
    begin(&json, "{\"a\":\"b\",\"c\":\"d\"}");
    expect(&json, KW_JSON_OBJECT, "{");
    assert_int_equal(kw_json_strings(&json, texts, 4), 0);
    expect(&json, KW_JSON_KEY, "a");
    assert_int_equal(kw_json_strings(&json, texts, 4), 0);
    expect(&json, KW_JSON_STRING, "b");
    assert_int_equal(kw_json_strings(&json, texts, 4), 0);
    begin(&json, "[\"a\",\"\\x\"]");
    expect(&json, KW_JSON_ARRAY, "[");
    assert_int_equal(kw_json_strings(&json, texts, 4), 1);
    assert_int_equal(kw_json_next(&json, &token), KW_JSON_ERROR);
    assert_int_equal(kw_json_strings(&json, texts, 4), 0);
}

/** Strings of every length, each with each kind of byte at each place, in rows and one by one. */
static void test_rows_agree_with_tokens(void **state)
{
    static const char *const bits[] = {"x",        "!",  " ",    "\\n", "\\\"",
                                       "\xc3\xa9", "\"", "\x01", "\xff"};

    (void)state;
    for (size_t len = 0; len < 80; len++) {
        for (size_t at = 0; at <= len; at += 1 + len / 16) {
            for (size_t b = 0; b < KW_ARRAY_SIZE(bits); b++) {
                char text[512];
                struct kw_json rows, tokens;
                struct kw_json_text texts[8];
                struct kw_json_token token;
                static const char fill[] = "abcdefghijklmnopqrstuvwxyz-."
                                           "0123456789abcdefghijklmnopqrstuvwxyz-.0123456789abcdef";
                (void)snprintf(text, sizeof(text),
                               "[\"%.*s\",\"%.*s%s%.*s\",\"%.*s\",\"a\" ,\"%.*s\"]", (int)len, fill,
                               (int)at, fill, bits[b], (int)(len - at), fill, (int)len, fill,
                               (int)len, fill);
                begin(&rows, text);
                begin(&tokens, text);
                (void)kw_json_next(&rows, &token);
                (void)kw_json_next(&tokens, &token);
                size_t n = kw_json_strings(&rows, texts, KW_ARRAY_SIZE(texts));
                for (size_t i = 0; i < n; i++) {
                    assert_int_equal(kw_json_next(&tokens, &token), KW_JSON_STRING);
                    assert_ptr_equal(texts[i].at, token.at);
                    assert_int_equal(texts[i].len, token.len);
                    assert_int_equal(texts[i].escaped, token.escaped);
                }
                assert_int_equal(kw_json_next(&rows, &token), kw_json_next(&tokens, &token));
                assert_ptr_equal(rows.pos, tokens.pos);
            }
        }
    }
}

static void test_skip_gives_values_verbatim(void **state)
{
    struct kw_json json;
    struct kw_json_token span;

    (void)state;
    begin(&json, "[ {\"a\":[1,{\"b\":\"]\"}]} , \"t\\\"x\" ,7]");
    expect(&json, KW_JSON_ARRAY, "[");
    assert_int_equal(kw_json_skip(&json, &span), KW_JSON_OBJECT);
    assert_int_equal(span.len, strlen("{\"a\":[1,{\"b\":\"]\"}]}"));
    assert_memory_equal(span.at, "{\"a\":[1,{\"b\":\"]\"}]}", span.len);
    assert_int_equal(kw_json_skip(&json, &span), KW_JSON_STRING);
    assert_true(span.escaped);
    assert_int_equal(span.len, strlen("\"t\\\"x\""));
    assert_memory_equal(span.at, "\"t\\\"x\"", span.len);
    assert_int_equal(kw_json_skip(&json, &span), KW_JSON_NUMBER);
    assert_int_equal(kw_json_skip(&json, &span), KW_JSON_ARRAY_END);
    assert_int_equal(kw_json_skip(&json, &span), KW_JSON_END);
}

static void test_skip_refuses_where_a_key_is_due(void **state)
{
    struct kw_json json;
    struct kw_json_token token;

    (void)state;
    begin(&json, "{\"a\":1}");
    expect(&json, KW_JSON_OBJECT, "{");
    assert_int_equal(kw_json_skip(&json, NULL), KW_JSON_ERROR);
    assert_non_null(json.error);
    assert_int_equal(kw_json_next(&json, &token), KW_JSON_ERROR);
}

static void test_malformed_documents_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "[1}",
        "{\"a\":1]",
        "{\"a\":1",
        "[1]]",
        "1 2",
        "tru",
        "trueX",
        "nul",
        "True",
        "01",
        "-",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "0x1",
        "1.e3",
        "NaN",
        "Infinity",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"a\nb\"",
        "\"\t\"",
        "'a'",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "[\"a\",\"b\"",
        "\"\\ud800\\u0041\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x82\"",
        "\"\xc3\"",
        "\xef\xbb\xbf[]",
        "{\"k\\u0000\":1}",
        "[1]x",
        "\v1",
        "/**/1",
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(bad); i++) {
        if (check(bad[i]) != KW_JSON_ERROR)
            fail_msg("accepted: %s", bad[i]);
    }
}

static void test_good_documents_are_accepted(void **state)
{
    static const char *const good[] = {
        "0",
        "-0",
        "[]",
        "{}",
        "\"\"",
        "null",
        " [ ] ",
        "\r\n\t {}",
        "-0",
        "1e5",
        "1E-5",
        "0.0e+00",
        "[[[]]]",
        "{\"\":{}}",
        "\"\\u0000\"",
        "\"\\ud83d\\ude00\"",
        "\"\xf0\x9f\x98\x80\"",
        "\"\xf4\x8f\xbf\xbf\"",
        "\"\x7f\"",
        "{\"a\":1,\"a\":2}",
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(good); i++) {
        if (check(good[i]) != KW_JSON_END)
            fail_msg("refused: %s", good[i]);
    }
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_int_equal(check("9223372036854775807"), KW_JSON_END);
    assert_int_equal(check("9223372036854775808"), KW_JSON_ERROR);
    assert_int_equal(check("-9223372036854775808"), KW_JSON_END);
    assert_int_equal(check("-9223372036854775809"), KW_JSON_ERROR);
    assert_int_equal(check("10000000000000000000"), KW_JSON_ERROR);
    assert_int_equal(check("1.7976931348623157e308"), KW_JSON_END);
    assert_int_equal(check("1.7976931348623158e+308"), KW_JSON_END);
    assert_int_equal(check("1.7976931348623159e308"), KW_JSON_ERROR);
    assert_int_equal(check("-1e309"), KW_JSON_ERROR);
    assert_int_equal(check("0.00000001e316"), KW_JSON_END);
    assert_int_equal(check("0.00000001e317"), KW_JSON_ERROR);
    assert_int_equal(check("1e-99999999999999999999999"), KW_JSON_END);
    assert_int_equal(check("1e99999999999999999999999"), KW_JSON_ERROR);
    assert_int_equal(check("0e99999999999999999999999"), KW_JSON_END);
    assert_int_equal(check("0.000e999"), KW_JSON_END);
}

/* Every cut of a good document is an error, and no byte behind the cut is looked at (ASan watches
 * the copy). */
static void test_truncated_documents_are_refused(void **state)
{
    static const char text[] = "{\"a long key that fills a vector\":[1,2.5,\"\\u00e4 text "
                               "\xe2\x82\xac longer than sixteen\"],"
                               "\"b\":{\"c\":true,\"d\":null}}";

    (void)state;
    for (size_t n = 0; n < sizeof(text) - 1; n++) {
        kw_cleanup_free char *copy = malloc(n + 1);

        assert_non_null(copy);
        memcpy(copy, text, n);
        copy = realloc(copy, n == 0 ? 1 : n);
        assert_non_null(copy);
        assert_int_equal(walk(copy, n), KW_JSON_ERROR);
    }
    assert_int_equal(walk(text, sizeof(text) - 1), KW_JSON_END);
}

/* A special byte is found at every distance, in vectors and behind them. */
static void test_special_bytes_are_found_at_every_offset(void **state)
{
    char text[80];

    (void)state;
    for (size_t len = 2; len < sizeof(text); len++) {
        memset(text, 'a', len);
        text[0] = text[len - 1] = '"';
        assert_int_equal(walk(text, len), KW_JSON_END);
        for (size_t at = 1; at + 1 < len; at++) {
            static const char bytes[] = {'\n', '\\', '\x1f', '"', '\x80', '\xff', '\0'};

            for (size_t i = 0; i < sizeof(bytes); i++) {
                text[at] = bytes[i];
                assert_int_equal(walk(text, len), KW_JSON_ERROR);
            }
            text[at] = 'a';
        }
    }
}

static void test_depth_is_bounded(void **state)
{
    const size_t max = KW_JSON_MAX_DEPTH;
    kw_cleanup_free char *text = malloc(2 * max + 8);

    (void)state;
    assert_non_null(text);
    memset(text, '[', max);
    memset(text + max, ']', max);
    assert_int_equal(walk(text, 2 * max), KW_JSON_END);
    /* a scalar is a level of its own */
    memset(text, '[', max);
    text[max] = '1';
    memset(text + max + 1, ']', max);
    assert_int_equal(walk(text, 2 * max + 1), KW_JSON_ERROR);
    memset(text, '[', 2 * max);
    assert_int_equal(walk(text, 2 * max), KW_JSON_ERROR);
}

static void check_text(const char *span, const char *text, size_t len)
{
    struct kw_json_token token = {.type = KW_JSON_STRING,
                                  .escaped = strchr(span, '\\') != NULL,
                                  .at = span,
                                  .len = strlen(span)};
    char out[64];

    assert_int_equal(kw_json_unescape(&token, out), len);
    assert_memory_equal(out, text, len + 1);
    if (strlen(text) == len)
        assert_true(kw_json_equals(&token, text, false));
}

static void test_escapes_are_decoded(void **state)
{
    (void)state;
    check_text("", "", 0);
    check_text("plain", "plain", 5);
    check_text("\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8);
    check_text("\\u0041\\u00E4\\u20ac", "A\xc3\xa4\xe2\x82\xac", 6);
    check_text("\\ud83d\\uDE00!", "\xf0\x9f\x98\x80!", 5);
    check_text("a\\u0000b", "a\0b", 3);
}

static void test_names_are_compared(void **state)
{
    struct kw_json_token plain = {.at = "NodeNames", .len = 9};
    struct kw_json_token escaped = {.at = "N\\u006fdeNames", .len = 14, .escaped = true};
    struct kw_json_token nul = {.at = "a\\u0000", .len = 7, .escaped = true};

    (void)state;
    assert_true(kw_json_equals(&plain, "NodeNames", false));
    assert_false(kw_json_equals(&plain, "nodenames", false));
    assert_true(kw_json_equals(&plain, "nodenames", true));
    assert_false(kw_json_equals(&plain, "nodename", true));
    assert_false(kw_json_equals(&plain, "nodenamess", true));
    assert_false(kw_json_equals(&plain, "", true));
    assert_true(kw_json_equals(&escaped, "NodeNames", false));
    assert_true(kw_json_equals(&escaped, "NODENAMES", true));
    assert_false(kw_json_equals(&escaped, "NodeName", false));
    assert_false(kw_json_equals(&nul, "a", false));
    /* no folding beyond letters: '[' and '{' differ by the same bit */
    assert_false(kw_json_equals(&(struct kw_json_token){.at = "[", .len = 1}, "{", true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_come_in_order),
        cmocka_unit_test(test_strings_come_in_rows),
        cmocka_unit_test(test_rows_agree_with_tokens),
        cmocka_unit_test(test_skip_gives_values_verbatim),
        cmocka_unit_test(test_skip_refuses_where_a_key_is_due),
        cmocka_unit_test(test_malformed_documents_are_refused),
        cmocka_unit_test(test_good_documents_are_accepted),
        cmocka_unit_test(test_numbers_out_of_range_are_refused),
        cmocka_unit_test(test_truncated_documents_are_refused),
        cmocka_unit_test(test_special_bytes_are_found_at_every_offset),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_escapes_are_decoded),
        cmocka_unit_test(test_names_are_compared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
