/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of strings that are passed over many bytes at a time, beside a byte at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/json_rows.h"
#include "common/json_scan.h"
#include "tests/support/cmocka.h"

/** What kw_json_rows_plain and kw_json_rows_wide are to do, a byte at a time. */
static const char *pass_rows(const char *p, const char *end, bool first, size_t *ret_n)
{
    const char *begin = p;
    const char *behind = p;

    for (*ret_n = 0;; first = false) {
        if (!first && (p == end || *p++ != ','))
            break;
        if (p == end || *p++ != '"')
            break;
        while (p < end && *p >= ' ' && *p != '"' && *p != '\\')
            p++;
        /* in the whole blocks alone */
        if (p == end || *p != '"' || p >= begin + (end - begin) / 64 * 64)
            break;
        behind = ++p;
        ++*ret_n;
    }
    return behind;
}

/** Both ways take what stands before the block with the first byte that is wrong, and no more. */
static void check_rows(const char *text, size_t len, bool first)
{
    kw_json_rows_fn *const ways[] = {kw_json_rows_plain, kw_json_rows_wide};
    kw_cleanup_free char *copy = malloc(len + 1); /* so that the sanitizer sees */
    size_t got[2] = {0};
    const char *ends[2] = {NULL};
    size_t most;

    assert_non_null(copy);
    memcpy(copy, text, len);
    const char *limit = pass_rows(copy, copy + len, first, &most);
    for (size_t way = 0; way < 1 + (size_t)kw_json_rows_is_wide(); way++) {
        ends[way] = ways[way](copy, copy + len, first, &got[way]);
        assert_in_range(got[way], 0, most);
        assert_true(ends[way] <= limit);
        assert_ptr_equal(ends[way], ends[0]);
        assert_int_equal(got[way], got[0]);
#ifdef __SSE2__
        /* at most a block and the string that begins in it are left */
        assert_true(limit - ends[way] < 64 + 64 + 200);
#endif
    }
}

static void test_rows_of_plain_strings(void **state)
{
    static const char odd[] = {'"', '\\', ',', ' ', '\n', 'x', '\x01', (char)0xC3, ']', '\0'};
    uint64_t seed = 5;

    (void)state;
    for (unsigned round = 0; round < 4000; round++) {
        char text[2048];
        size_t len = 0;
        bool first = round % 2 == 0;
        while (len < sizeof(text) - 300 && (seed = seed * 6364136223846793005u + 1) >> 58 != 0) {
            size_t name = (seed >> 33) % (round % 3 == 0 ? 4 : 90);
            if (len > 0 || !first)
                text[len++] = ',';
            text[len++] = '"';
            memset(text + len, 'a' + (int)(name % 26), name);
            len += name;
            text[len++] = '"';
        }
        check_rows(text, len, first);
        for (unsigned i = 0; i < 4 && len > 0; i++) { /* a byte of it is another */
            seed = seed * 6364136223846793005u + 1;
            size_t at = (seed >> 33) % len;
            char before = text[at];
            text[at] = odd[(seed >> 20) % sizeof(odd)];
            check_rows(text, len, first);
            text[at] = before;
        }
    }
}

/** Passed over in any list is what is taken of it. */
static void test_passing_strings(void **state)
{
    static const char *const lists[] = {
        "[]",
        "[\"a\"]",
        "[ \"a\" , \"b\"]",
        "[\"a\",\"b\",null,\"c\"]",
        "[\"a\",\"\\u0062\",\"\xc3\xa9\",\"c\"]",
        "[\"a\",\"b\",]",
        "[\"a\",\"b",
        "[\"a\"\"b\"]",
        "[\"a\",\"\\x\"]",
        "[[\"a\"],\"b\"]",
        "{\"a\":\"b\"}",
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(lists); i++) {
        for (size_t repeat = 0; repeat < 200; repeat += 40) {
            kw_cleanup(kw_buf_free) struct kw_buf text = {0};
            struct kw_json passed, taken;
            struct kw_json_token token;
            struct kw_json_text string;
            size_t n = 0;
            for (size_t k = 0; k < repeat; k++)
                (void)kw_buf_addf(&text, "%s\"node-%zu.rack-%zu.example.org\"", k == 0 ? "[" : ",",
                                  k, k / 40);
            (void)kw_buf_adds(&text, repeat > 0 && lists[i][1] != ']' ? "," : "");
            (void)kw_buf_adds(&text, lists[i] + (repeat > 0));
            kw_json_begin(&passed, text.data, text.len);
            (void)kw_json_next(&passed, &token);
            taken = passed;
            while (kw_json_strings(&taken, &string, 1) == 1)
                n++;
            assert_int_equal(kw_json_pass_strings(&passed), n);
            assert_ptr_equal(passed.pos, taken.pos);
            assert_int_equal(kw_json_next(&passed, &token), kw_json_next(&taken, &token));
            assert_ptr_equal(passed.error, taken.error);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_plain_strings),
        cmocka_unit_test(test_passing_strings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
