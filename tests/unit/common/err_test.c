/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "common/err.h"
#include "tests/support/cmocka.h"

static void set_returns_the_code_and_keeps_the_text(void **state)
{
    (void)state;
    struct kw_err err = {0};
    assert_int_equal(kw_err_set(&err, -EINVAL, "line %d", 7), -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_string_equal(err.text, "line 7");
}

static void no_error_object_is_fine(void **state)
{
    (void)state;
    assert_int_equal(kw_err_set(NULL, -ENOENT, "x"), -ENOENT);
    assert_int_equal(kw_err_wrap(NULL, "x"), 0);
}

static void wrap_puts_context_in_front(void **state)
{
    (void)state;
    struct kw_err err = {0};
    (void)kw_err_set(&err, -EIO, "no answer");
    assert_int_equal(kw_err_wrap(&err, "redis %s", "a:1"), -EIO);
    assert_string_equal(err.text, "redis a:1: no answer");
}

static void own_text_may_be_an_argument(void **state)
{
    (void)state;
    struct kw_err err = {0};
    (void)kw_err_set(&err, -EIO, "inner");
    (void)kw_err_set(&err, -EINVAL, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (inner)");
}

static void long_texts_end_in_dots(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct kw_err err = {0};
    (void)kw_err_set(&err, -EINVAL, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + sizeof(err.text) - 4, "...");
    (void)kw_err_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + sizeof(err.text) - 4, "...");
}

static void a_text_is_one_printable_line(void **state)
{
    (void)state;
    struct kw_err err = {0};
    (void)kw_err_set(&err, -EINVAL, "a\nb\x1b[0m\x7f");
    assert_string_equal(err.text, "a?b?[0m?");
}

static void errno_has_a_text_of_either_sign(void **state)
{
    (void)state;
    assert_string_equal(kw_errno_text(ENOENT), "No such file or directory");
    assert_string_equal(kw_errno_text(-ENOENT), "No such file or directory");
    assert_string_equal(kw_errno_text(-524), "unknown error");
    assert_string_equal(kw_errno_text(INT_MIN), "unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_returns_the_code_and_keeps_the_text),
        cmocka_unit_test(no_error_object_is_fine),
        cmocka_unit_test(wrap_puts_context_in_front),
        cmocka_unit_test(own_text_may_be_an_argument),
        cmocka_unit_test(long_texts_end_in_dots),
        cmocka_unit_test(a_text_is_one_printable_line),
        cmocka_unit_test(errno_has_a_text_of_either_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
