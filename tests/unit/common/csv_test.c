/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/csv.h"
#include "tests/support/cmocka.h"

/* Each field as <text>, with its line in front where a row begins. @return what ended it. */
static int spell(const char *text, char *out, size_t cap)
{
    struct kw_csv csv;
    const char *field = NULL;
    size_t len = 0, used = 0;
    bool first = true;
    int rc;

    kw_csv_begin(&csv, text, strlen(text));
    out[0] = '\0';
    while ((rc = kw_csv_next(&csv, &field, &len)) > 0) {
        if (first)
            used += (size_t)snprintf(out + used, cap - used, "%zu", csv.line);
        used += (size_t)snprintf(out + used, cap - used, "<%.*s>", (int)len, field);
        first = csv.last;
    }
    return rc;
}

static void test_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {"\n\r\n\n", ""},
        {"a", "1<a>"},
        {"a,b\n", "1<a><b>"},
        {"a,\n,b", "1<a><>2<><b>"},
        {",", "1<><>"},
        {"\xef\xbb\xbf\"a\",b\r\nc,d\r\n", "1<a><b>2<c><d>"},
        {"a\n\n\nb\n", "1<a>4<b>"},
        {"\"a,b\",\"\",\"c\"\n", "1<a,b><><c>"},
        {"\"say \"\"yes\"\"\",2", "1<say \"yes\"><2>"},
        {"\"\"\"\"", "1<\">"},
        {"\"two\nlines\",x\ny,z", "1<two\nlines><x>3<y><z>"},
        {"a\"b,c", "1<a\"b><c>"},
        {"a\rb\n", "1<a\rb>"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        char out[128];
        assert_int_equal(spell(cases[i].text, out, sizeof(out)), 0);
        assert_string_equal(out, cases[i].want);
    }
}

static void test_open_quotes(void **state)
{
    (void)state;
    static const char *const cases[] = {"\"",       "\"a",     "a,\"b\n", "\"a\"b",
                                        "\"a\" ,b", "\"a\"\"", "\"a\"\r"};

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        char out[64];
        assert_int_equal(spell(cases[i], out, sizeof(out)), -EBADMSG);
    }
}

/* What is longer than there is room for has its true length, and nothing is written behind it. */
static void test_long(void **state)
{
    (void)state;
    char text[2 * KW_CSV_QUOTED_MAX];
    struct kw_csv csv;
    const char *field = NULL;
    size_t len = 0;

    (void)memset(text, '"', sizeof(text));
    kw_csv_begin(&csv, text, sizeof(text));
    assert_int_equal(kw_csv_next(&csv, &field, &len), 1);
    assert_int_equal(len, KW_CSV_QUOTED_MAX - 1);
    (void)memset(text + 3, 'x', sizeof(text) - 4);
    kw_csv_begin(&csv, text, sizeof(text));
    assert_int_equal(kw_csv_next(&csv, &field, &len), 1);
    assert_int_equal(len, sizeof(text) - 3);
    assert_int_equal(kw_csv_next(&csv, &field, &len), 0);
}

static void test_separators(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        char want;
    } cases[] = {{"", 0},    {"a", 0},       {"a,b;c\n", 0}, {"a;b\n1,5;2", ';'},
                 {"\n;", 0}, {"a\tb", '\t'}, {"a;b\tc", ';'}};

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++)
        assert_int_equal(kw_csv_other_separator(cases[i].text, strlen(cases[i].text)),
                         cases[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_open_quotes),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_separators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
