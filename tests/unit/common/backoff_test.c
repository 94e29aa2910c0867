/* SPDX-License-Identifier: Apache-2.0 */

#include "common/backoff.h"
#include "tests/support/cmocka.h"

static void doubles_to_the_maximum(void **state)
{
    (void)state;
    struct kw_backoff backoff = {.min_ms = 100, .max_ms = 700};

    assert_int_equal(kw_backoff_next_ms(&backoff, 0), 100);
    assert_int_equal(kw_backoff_next_ms(&backoff, 0), 200);
    assert_int_equal(kw_backoff_next_ms(&backoff, 0), 400);
    assert_int_equal(kw_backoff_next_ms(&backoff, 0), 700);
    assert_int_equal(kw_backoff_next_ms(&backoff, 0), 700);
    kw_backoff_reset(&backoff);
    assert_int_equal(kw_backoff_next_ms(&backoff, 0), 100);
}

static void jitter_takes_at_most_half(void **state)
{
    (void)state;
    struct kw_backoff backoff = {.min_ms = 100, .max_ms = UINT32_MAX};

    assert_int_equal(kw_backoff_next_ms(&backoff, UINT32_MAX), 50);
    assert_int_equal(kw_backoff_next_ms(&backoff, UINT32_MAX / 2), 151);
    for (int i = 0; i < 40; i++) {
        uint32_t wait = kw_backoff_next_ms(&backoff, kw_random_u32());
        assert_true(wait >= 100);
    }
    assert_int_equal(kw_backoff_next_ms(&backoff, 0), UINT32_MAX);
}

static void wait_is_never_zero(void **state)
{
    (void)state;
    struct kw_backoff backoff = {.min_ms = 1, .max_ms = 1};

    assert_int_equal(kw_backoff_next_ms(&backoff, UINT32_MAX), 1);
    assert_int_equal(kw_backoff_next_ms(&backoff, UINT32_MAX), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_to_the_maximum),
        cmocka_unit_test(jitter_takes_at_most_half),
        cmocka_unit_test(wait_is_never_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
