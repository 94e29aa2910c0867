/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a cap, and the record of former limits. */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/limit_record.h"
#include "node-agent/power_limit.h"
#include "tests/support/cmocka.h"

#define W UINT64_C(1000000)

static void test_divide(void **state)
{
    static const struct {
        uint64_t cap_uw;
        size_t n;
        struct {
            uint64_t min_uw, max_uw, former_uw, wanted_uw;
        } limits[3];
        int rc;
    } cases[] = {
        /* alike, and in proportion */
        {200 * W, 2, {{0, 150 * W, 150 * W, 100 * W}, {0, 150 * W, 150 * W, 100 * W}}, 0},
        {150 * W, 2, {{0, 100 * W, 100 * W, 50 * W}, {0, 200 * W, 200 * W, 100 * W}}, 0},
        /* rounded down */
        {100 * W,
         3,
         {{0, 9 * W, 99 * W, 9 * W}, {0, 90 * W, 99 * W, 90 * W}, {0, W, 99 * W, W}},
         0},
        {1, 2, {{0, W, W, 0}, {0, W, W, 0}}, -ERANGE},
        {7, 2, {{0, W, W, 3}, {0, W, W, 3}}, 0},
        /* the maximum itself, and one above */
        {95 * W, 1, {{0, 95 * W, 4090 * W, 95 * W}}, 0},
        {95 * W + 1, 1, {{0, 95 * W, 4090 * W, 0}}, -ERANGE},
        /* a lower limit stays */
        {90 * W, 1, {{0, 95 * W, 60 * W, 60 * W}}, 0},
        /* no maximum, or an absurd one: the limit that is in force */
        {60 * W, 2, {{0, 0, 80 * W, 40 * W}, {0, 262144 * W, 40 * W, 20 * W}}, 0},
        {60 * W, 2, {{0, 0, 80 * W, 0}, {0, 0, 0, 0}}, -ENODATA},
        {60 * W, 1, {{0, 0, 262144 * W, 0}}, -ENODATA},
        /* an absurd former limit is none */
        {60 * W, 1, {{0, 80 * W, 262144 * W, 60 * W}}, 0},
        {60 * W, 1, {{0, 80 * W, 0, 60 * W}}, 0},
        /* the minimum, and below */
        {60 * W, 1, {{60 * W, 80 * W, 80 * W, 60 * W}}, 0},
        {59 * W, 1, {{60 * W, 80 * W, 80 * W, 0}}, -ERANGE},
        /* nothing overflows */
        {UINT64_MAX, 1, {{UINT64_MAX, UINT64_MAX, UINT64_MAX, 0}}, -ENODATA},
        {UINT64_MAX, 1, {{0, 20000 * W, 0, 0}}, -ERANGE},
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct agent_power_limit limits[3] = {{.name = "package-0"}};
        struct kw_err err = {0};
        uint64_t sum_uw = 0;
        for (size_t k = 0; k < cases[i].n; k++) {
            limits[k].min_uw = cases[i].limits[k].min_uw;
            limits[k].max_uw = cases[i].limits[k].max_uw;
            limits[k].former_uw = cases[i].limits[k].former_uw;
        }
        assert_int_equal(agent_power_limits_divide(cases[i].cap_uw, limits, cases[i].n, &err),
                         cases[i].rc);
        assert_int_equal(err.code, cases[i].rc);
        for (size_t k = 0; k < cases[i].n; k++) {
            assert_int_equal(limits[k].wanted_uw, cases[i].limits[k].wanted_uw);
            sum_uw += limits[k].wanted_uw;
        }
        assert_true(sum_uw <= cases[i].cap_uw);
    }
}

static void test_judge(void **state)
{
    (void)state;
    assert_int_equal(agent_power_limit_judge(200 * W, 90 * W, 90 * W), AGENT_LIMIT_SET);
    assert_int_equal(agent_power_limit_judge(200 * W, 90 * W, 89 * W), AGENT_LIMIT_SET);
    assert_int_equal(agent_power_limit_judge(200 * W, 90 * W, 90 * W + 125000), AGENT_LIMIT_SET);
    assert_int_equal(agent_power_limit_judge(200 * W, 90 * W, 100 * W), AGENT_LIMIT_HIGHER);
    assert_int_equal(agent_power_limit_judge(200 * W, 90 * W, 200 * W), AGENT_LIMIT_IGNORED);
    /* that already was as low as that */
    assert_int_equal(agent_power_limit_judge(90 * W, 90 * W, 90 * W), AGENT_LIMIT_SET);
}

static void test_record_comes_back(void **state)
{
    struct agent_former_limits limits = {
        .n = 2, .items = {{"package-0-die-1", 120 * W}, {"package-1", UINT64_MAX}}};
    struct agent_former_limits back = {0};
    kw_cleanup(kw_buf_free) struct kw_buf text = {0};

    (void)state;
    assert_int_equal(agent_former_limits_encode(&limits, "boot", &text), 0);
    assert_int_equal(agent_former_limits_decode(text.data, text.len, "boot", &back), 0);
    assert_int_equal(back.n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(back.items[i].name, limits.items[i].name);
        assert_int_equal(back.items[i].uw, limits.items[i].uw);
    }
    /* of another boot, or of one whose name begins alike */
    assert_int_equal(agent_former_limits_decode(text.data, text.len, "boot2", &back), 0);
    assert_int_equal(back.n, 0);
    assert_int_equal(agent_former_limits_decode(text.data, text.len, "boo", &back), 0);
    assert_int_equal(back.n, 0);
    /* cut off anywhere it is no record */
    for (size_t len = 1; len < text.len; len++)
        assert_int_equal(agent_former_limits_decode(text.data, len, "boot", &back), -EBADMSG);
    assert_int_equal(agent_former_limits_decode("", 0, "boot", &back), 0);
    /* what a longer one has left behind it */
    assert_int_equal(kw_buf_adds(&text, "ge-1 120000000\nend\n"), 0);
    assert_int_equal(agent_former_limits_decode(text.data, text.len, "boot", &back), 0);
    assert_int_equal(back.n, 2);
    (void)memcpy(limits.items[0].name, "a b", 4);
    assert_int_equal(agent_former_limits_encode(&limits, "boot", &text), -EINVAL);
}

static void test_what_is_no_record(void **state)
{
    static const char *const texts[] = {
        "\n",
        "end\n",
        "kwatt-power-limits 2 boot\nend\n",
        "kwatt-power-limits 1 boot\npackage-0\nend\n",
        "kwatt-power-limits 1 boot\npackage-0 \nend\n",
        "kwatt-power-limits 1 boot\npackage-0 -1\nend\n",
        "kwatt-power-limits 1 boot\npackage-0 18446744073709551616\nend\n",
        "kwatt-power-limits 1 boot\n 5\nend\n",
        "kwatt-power-limits 1 "
        "boot\nabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl 5\n"
        "end\n",
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++) {
        struct agent_former_limits back = {.n = 7};
        assert_int_equal(agent_former_limits_decode(texts[i], strlen(texts[i]), "boot", &back),
                         -EBADMSG);
        assert_int_equal(back.n, 7);
    }
}

/** As many as there can be fit the file, and one more is no record. */
static void test_largest_record(void **state)
{
    struct agent_former_limits limits = {.n = AGENT_PACKAGES_MAX}, back;
    kw_cleanup(kw_buf_free) struct kw_buf text = {0};

    (void)state;
    for (size_t i = 0; i < limits.n; i++) {
        memset(limits.items[i].name, 'x', sizeof(limits.items[i].name) - 1);
        limits.items[i].uw = UINT64_MAX;
    }
    assert_int_equal(
        agent_former_limits_encode(&limits, "01234567-0123-0123-0123-0123456789ab", &text), 0);
    assert_true(text.len < AGENT_LIMIT_RECORD_SIZE);
    assert_int_equal(agent_former_limits_decode(text.data, text.len,
                                                "01234567-0123-0123-0123-0123456789ab", &back),
                     0);
    assert_int_equal(back.n, AGENT_PACKAGES_MAX);
    text.len -= strlen("end\n");
    assert_int_equal(kw_buf_adds(&text, "y 1\nend\n"), 0);
    assert_int_equal(agent_former_limits_decode(text.data, text.len, "b", &back), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divide),
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_record_comes_back),
        cmocka_unit_test(test_what_is_no_record),
        cmocka_unit_test(test_largest_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
