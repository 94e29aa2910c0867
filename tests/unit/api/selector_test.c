/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/selector.h"
#include "tests/support/cmocka.h"

static struct kw_label_pair pairs[] = {
    {(char *)"app", (char *)"web"},
    {(char *)"empty", (char *)""},
    {(char *)"kwatt.io/tier", (char *)"a"},
};
static const struct kw_labels labels = {.n = 3, .items = pairs};

static void test_text(void **state)
{
    static const struct {
        const char *text;
        int rc;
        bool match;
    } rows[] = {
        {"app=web", 0, true},
        {"app==web", 0, true},
        {" app = web ", 0, true},
        {"app=db", 0, false},
        {"app!=db", 0, true},
        {"app!=web", 0, false},
        {"missing!=x", 0, true},
        {"app", 0, true},
        {"!app", 0, false},
        {"!missing", 0, true},
        {"missing", 0, false},
        {"empty=", 0, true},
        {"app=", 0, false},
        {"app in (web,db)", 0, true},
        {"app in (db)", 0, false},
        {"app notin (db)", 0, true},
        {"app notin (web,db)", 0, false},
        {"missing notin (x)", 0, true},
        {"empty in (,x)", 0, true},
        {"kwatt.io/tier in ( a , b ),app=web", 0, true},
        {"app=web,kwatt.io/tier=b", 0, false},
        {"", 0, false}, /* no requirement: nothing, never everything */
        {"  ", 0, false},
        {",", -EBADMSG, false},
        {"app=web,", -EBADMSG, false},
        {"app=web x", -EBADMSG, false},
        {"app in", -EBADMSG, false},
        {"app in (a", -EBADMSG, false},
        {"app in a)", -EBADMSG, false},
        {"=web", -EBADMSG, false},
        {"!", -EBADMSG, false},
        {"app=web;drop", -EBADMSG, false},
        {"app>1", -EBADMSG, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kw_selector selector = {0};
        const char *why = NULL;
        assert_int_equal(kw_selector_parse(rows[i].text, strlen(rows[i].text), &selector, &why),
                         rows[i].rc);
        if (rows[i].rc < 0)
            assert_non_null(why);
        assert_int_equal(kw_selector_match(&selector, &labels), rows[i].match);
        kw_selector_clear(&selector);
    }
}

static void test_labels(void **state)
{
    (void)state;
    assert_string_equal(kw_labels_get(&labels, "app"), "web");
    assert_string_equal(kw_labels_get(&labels, "empty"), "");
    assert_string_equal(kw_labels_get(&labels, "kwatt.io/tier"), "a");
    assert_null(kw_labels_get(&labels, "aaa"));
    assert_null(kw_labels_get(&labels, "zzz"));
    assert_null(kw_labels_get(&(struct kw_labels){0}, "app"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
