/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static void fitted(const char *text, unsigned width, int right_align, const char *want)
{
    struct kw_buf out = {0};

    cli_text_fit(&out, text, width, right_align);
    assert_string_equal(out.data != NULL ? out.data : "", want);
    kw_buf_free(&out);
}

static void pads_and_cuts_in_the_middle(void **state)
{
    (void)state;
    fitted("abc", 5, false, "abc  ");
    fitted("abc", 5, true, "  abc");
    fitted("abc", 3, false, "abc");
    fitted("abcdefghijklmnop", 10, false, "abcd...nop");
    fitted("abcdefghijklmnop", 9, false, "abc...nop");
    fitted("abcdefghijkl", 7, false, "abcdefg");
    fitted("abc", 0, false, "");
    fitted("", 2, false, "  ");
}

static void wide_characters_take_two_columns(void **state)
{
    (void)state;
    assert_int_equal(cli_text_width("a世b"), 4);
    assert_int_equal(cli_text_width("äöü"), 3);
    fitted("世世世世世世", 9, false, "世...世世");
    fitted("世世", 3, false, "世 ");
}

static void what_moves_the_cursor_is_not_shown(void **state)
{
    (void)state;
    fitted("a\033[2Jb", 6, false, "a?[2Jb");
    fitted("a\nb\rc\td", 7, false, "a?b?c?d");
    fitted("\xc2\x9b"
           "x",
           2, false, "?x"); /* C1 control */
    fitted("\xe2\x80\xae"
           "x",
           2, false, "?x"); /* right-to-left override */
    fitted("\xff\xc0\xaf"
           "x",
           4, false, "???x");                /* no UTF-8 */
    fitted("\xed\xa0\x80", 3, false, "???"); /* a surrogate */
    fitted("\xe4\xb8", 2, false, "??");      /* cut off */
}

static void numbers_are_short(void **state)
{
    (void)state;
    char out[CLI_NUMBER_MAX];
    static const struct {
        uint64_t value;
        const char *watts, *joules, *bytes;
    } rows[] = {
        {0, "0.00", "0.00", "0"},
        {1234, "1.23", "0.00", "1.21Ki"},
        {999999, "1000.0", "1.00", "977Ki"},
        {12345678, "12345.7", "12.3", "11.8Mi"},
        {999600000, "999600.0", "1.00k", "953Mi"},
        {UINT64_C(4500000000000), "4500000000.0", "4.50M", "4.09Ti"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        cli_text_watts(out, rows[i].value);
        assert_string_equal(out, rows[i].watts);
        cli_text_joules(out, rows[i].value);
        assert_string_equal(out, rows[i].joules);
        cli_text_bytes(out, rows[i].value);
        assert_string_equal(out, rows[i].bytes);
    }
    cli_text_cores(out, 2500);
    assert_string_equal(out, "2.50");
}

static void paragraphs_are_broken_at_blanks(void **state)
{
    (void)state;
    static const struct {
        const char *text, *broken;
    } rows[] = {
        {"", "\n"},
        {"one two", "one two\n"},
        {"one two three four", "one two\nthree four\n"},
        {"a 123456789012345678901234 b", "a\n1234567890\n1234567890\n1234 b\n"},
        {"\033[2J evil", "?[2J evil\n"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_buf out = {0};
        cli_text_wrap(&out, rows[i].text, 10);
        assert_string_equal(out.data, rows[i].broken);
        kw_buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pads_and_cuts_in_the_middle),
        cmocka_unit_test(wide_characters_take_two_columns),
        cmocka_unit_test(what_moves_the_cursor_is_not_shown),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(paragraphs_are_broken_at_blanks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
