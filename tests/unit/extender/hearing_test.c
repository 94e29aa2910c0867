/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a watch that comes and goes. */
#include "extender/hearing.h"
#include "tests/support/cmocka.h"

#define SECOND INT64_C(1000000000)

static void test_said_once(void **state)
{
    (void)state;
    struct ext_hearing hearing = {0};
    int64_t now_ns = 7 * SECOND;

    assert_true(ext_hearing_up(&hearing, now_ns));
    assert_false(ext_hearing_up(&hearing, now_ns));
    assert_false(ext_hearing_is_back(&hearing, now_ns + 60 * SECOND));
    assert_true(ext_hearing_down(&hearing));
    /* back for a moment, again and again */
    for (unsigned i = 0; i < 100; i++) {
        now_ns += 30 * SECOND;
        assert_false(ext_hearing_is_back(&hearing, now_ns));
        assert_false(ext_hearing_up(&hearing, now_ns));
        assert_false(ext_hearing_is_back(&hearing, now_ns + EXT_HEARING_STEADY_NS - 1));
        assert_false(ext_hearing_down(&hearing));
    }
    /* and for good */
    assert_false(ext_hearing_up(&hearing, now_ns));
    assert_false(ext_hearing_up(&hearing, now_ns + EXT_HEARING_STEADY_NS - 1));
    assert_true(ext_hearing_is_back(&hearing, now_ns + EXT_HEARING_STEADY_NS));
    assert_false(ext_hearing_is_back(&hearing, now_ns + EXT_HEARING_STEADY_NS));
    assert_true(ext_hearing_down(&hearing));
}

static void test_never_heard(void **state)
{
    (void)state;
    struct ext_hearing hearing = {0};

    assert_true(ext_hearing_down(&hearing));
    assert_false(ext_hearing_down(&hearing));
    assert_false(ext_hearing_is_back(&hearing, 60 * SECOND));
    assert_false(ext_hearing_up(&hearing, 60 * SECOND));
    assert_true(ext_hearing_is_back(&hearing, 70 * SECOND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_said_once),
        cmocka_unit_test(test_never_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
