/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "common/utf8.h"
#include "tests/support/cmocka.h"

/* Encodes without any check: the reference of the test. */
static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static void every_code_point_and_no_surrogate(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x120000; c++) {
        char bytes[4];
        size_t n = encode(c, bytes);
        uint32_t decoded = 0xffffffff;
        size_t width = kw_utf8_next(bytes, n, &decoded);
        int valid = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
        if (width != (valid ? n : 0) || decoded != (valid ? c : 0xffffffff))
            fail_msg("U+%04x: %zu, U+%04x", c, width, decoded);
        if (kw_utf8_next(bytes, n - 1, NULL) != 0)
            fail_msg("U+%04x cut short was taken", c);
    }
}

static void overlong_forms_are_refused(void **state)
{
    (void)state;
    assert_int_equal(kw_utf8_next("\xc0\x80", 2, NULL), 0);
    assert_int_equal(kw_utf8_next("\xc1\xbf", 2, NULL), 0);
    assert_int_equal(kw_utf8_next("\xe0\x9f\xbf", 3, NULL), 0);
    assert_int_equal(kw_utf8_next("\xf0\x8f\xbf\xbf", 4, NULL), 0);
    assert_int_equal(kw_utf8_next("\xf8\x88\x80\x80\x80", 5, NULL), 0);
    assert_int_equal(kw_utf8_next("\xe2\x28\xa1", 3, NULL), 0);
}

static void byte_order_marks_have_three_bytes(void **state)
{
    (void)state;
    assert_int_equal(kw_utf8_mark("\xef\xbb\xbf", 3), 3);
    assert_int_equal(kw_utf8_mark("\xef\xbb\xbf\xef\xbb\xbf", 6), 3);
    assert_int_equal(kw_utf8_mark("\xef\xbb\xbf", 2), 0);
    assert_int_equal(kw_utf8_mark("a\xef\xbb\xbf", 4), 0);
    assert_int_equal(kw_utf8_mark("\xfe\xff", 2), 0);
    assert_int_equal(kw_utf8_mark("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_and_no_surrogate),
        cmocka_unit_test(overlong_forms_are_refused),
        cmocka_unit_test(byte_order_marks_have_three_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
