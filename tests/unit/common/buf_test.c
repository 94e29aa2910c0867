/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static void appends_and_stays_terminated(void **state)
{
    (void)state;
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    assert_int_equal(kw_buf_adds(&buf, "ab"), 0);
    assert_int_equal(kw_buf_add(&buf, "c\0d", 3), 0);
    assert_int_equal(kw_buf_addf(&buf, "%d-%s", 12, "x"), 0);
    assert_int_equal(buf.len, 9);
    assert_memory_equal(buf.data, "abc\0d12-x", 10);
    assert_false(buf.failed);
}

static void grows_over_many_sizes(void **state)
{
    (void)state;
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    size_t expected = 0;
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(kw_buf_addf(&buf, "%d,", i), 0);
        expected += i < 10 ? 2 : i < 100 ? 3 : i < 1000 ? 4 : 5;
    }
    assert_int_equal(buf.len, expected);
    assert_int_equal(strlen(buf.data), expected);
    assert_string_equal(buf.data + expected - 5, "2999,");
}

static void formats_longer_than_the_room(void **state)
{
    (void)state;
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    char text[500];
    memset(text, 'z', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(kw_buf_addf(&buf, "<%s>", text), 0);
    assert_int_equal(buf.len, 501);
    assert_int_equal(buf.data[500], '>');
}

static void reset_keeps_the_memory(void **state)
{
    (void)state;
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    kw_buf_reset(&buf);
    assert_null(buf.data);
    assert_int_equal(kw_buf_adds(&buf, "something"), 0);
    const char *memory = buf.data;
    buf.failed = true;
    kw_buf_reset(&buf);
    assert_ptr_equal(buf.data, memory);
    assert_int_equal(buf.len, 0);
    assert_string_equal(buf.data, "");
    assert_false(buf.failed);
}

static void impossible_growth_fails_and_keeps_what_was(void **state)
{
    (void)state;
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    assert_int_equal(kw_buf_adds(&buf, "kept"), 0);
    assert_int_equal(kw_buf_reserve(&buf, SIZE_MAX), -ENOMEM);
    assert_int_equal(kw_buf_reserve(&buf, SIZE_MAX / 2), -ENOMEM);
    assert_true(buf.failed);
    assert_string_equal(buf.data, "kept");
    assert_int_equal(kw_buf_adds(&buf, "!"), 0);
    assert_true(buf.failed);
    assert_null(kw_buf_take(&buf, NULL));
    assert_null(buf.data);
    assert_false(buf.failed);
}

static void take_hands_the_bytes_over(void **state)
{
    (void)state;
    struct kw_buf buf = {0};
    size_t len = 99;
    assert_null(kw_buf_take(&buf, &len));
    assert_int_equal(len, 99);
    assert_int_equal(kw_buf_add(&buf, "", 0), 0);
    kw_cleanup_free char *empty = kw_buf_take(&buf, &len);
    assert_string_equal(empty, "");
    assert_int_equal(len, 0);
    assert_int_equal(kw_buf_adds(&buf, "abc"), 0);
    kw_cleanup_free char *text = kw_buf_take(&buf, &len);
    assert_string_equal(text, "abc");
    assert_int_equal(len, 3);
    assert_null(buf.data);
    assert_int_equal(buf.cap, 0);
}

static void json_strings_are_escaped_and_valid(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        const char *json;
    } cases[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
        {"\n\r\t", 3, "\"\\n\\r\\t\""},
        {"\x01\x1f\0", 3, "\"\\u0001\\u001f\\u0000\""},
        {"\xc3\xbc\xe2\x82\xac\xf0\x9f\x8c\xb1", 9, "\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x8c\xb1\""},
        /* lone continuation, cut sequence, overlong '/', surrogate, above U+10FFFF, 0xff */
        {"a\x80z", 3, "\"a\xef\xbf\xbdz\""},
        {"\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xff", 1, "\"\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
        assert_int_equal(kw_buf_add_json(&buf, cases[i].text, cases[i].len), 0);
        assert_string_equal(buf.data, cases[i].json);
        assert_int_equal(buf.len, strlen(cases[i].json));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_and_stays_terminated),
        cmocka_unit_test(grows_over_many_sizes),
        cmocka_unit_test(formats_longer_than_the_room),
        cmocka_unit_test(reset_keeps_the_memory),
        cmocka_unit_test(impossible_growth_fails_and_keeps_what_was),
        cmocka_unit_test(take_hands_the_bytes_over),
        cmocka_unit_test(json_strings_are_escaped_and_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
