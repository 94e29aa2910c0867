/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_load.h"
#include "tests/support/cmocka.h"

static void test_bodies_are_bounded_together(void **state)
{
    struct kw_http_load load = {0};

    (void)state;
    kw_http_load_init(&load, 100);
    assert_true(kw_http_load_charge(&load, 60));
    assert_true(kw_http_load_charge(&load, 40));
    assert_false(kw_http_load_charge(&load, 1));
    kw_http_load_refund(&load, 41);
    assert_true(kw_http_load_charge(&load, 1));
    kw_http_load_destroy(&load);
}

/* Two charges at the same time are both too many; as soon as one has given up, the other fits. */
static void test_no_more_give_up_than_must(void **state)
{
    struct kw_http_load load = {0};

    (void)state;
    kw_http_load_init(&load, 100);
    assert_true(kw_http_load_charge(&load, 60));
    assert_true(kw_http_load_charge(&load, 40));
    assert_false(kw_http_load_charge(&load, 1));
    assert_false(kw_http_load_charge(&load, 2));
    assert_true(kw_http_load_give_up(&load, 1, 41));
    assert_false(kw_http_load_give_up(&load, 2, 62));
    assert_int_equal(load.body_bytes, 62);
    kw_http_load_destroy(&load);
}

static void test_kept_memory_is_bounded(void **state)
{
    const size_t one = (size_t)4 << 20;
    struct kw_http_load load = {0};
    unsigned kept = 0;

    (void)state;
    kw_http_load_init(&load, 100);
    assert_false(kw_http_load_keep(&load, one + 1));
    while (kept < 1000 && kw_http_load_keep(&load, one))
        kept++;
    assert_int_equal(kept, 16);
    assert_false(kw_http_load_keep(&load, 1));
    kw_http_load_unkeep(&load, one);
    assert_true(kw_http_load_keep(&load, 1));
    kw_http_load_destroy(&load);
}

static void test_limit_of_bodies_does_not_wrap(void **state)
{
    (void)state;
    assert_int_equal(kw_http_limit_of_bodies(1000), 8000);
    assert_true(kw_http_limit_of_bodies(SIZE_MAX / 2) == SIZE_MAX);
}

static void test_waiting_ends_when_idle_or_too_long(void **state)
{
    struct kw_http_load load = {0};

    (void)state;
    kw_http_load_init(&load, 100);
    kw_http_load_begin(&load);
    kw_http_load_wait_idle(&load, 1000000); /* 1 ms: given up */
    kw_http_load_end(&load);
    kw_http_load_wait_idle(&load, UINT64_C(60000000000)); /* at once */
    kw_http_load_destroy(&load);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_are_bounded_together),
        cmocka_unit_test(test_no_more_give_up_than_must),
        cmocka_unit_test(test_kept_memory_is_bounded),
        cmocka_unit_test(test_limit_of_bodies_does_not_wrap),
        cmocka_unit_test(test_waiting_ends_when_idle_or_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
