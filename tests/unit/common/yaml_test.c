/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/yaml.h"
#include "tests/support/cmocka.h"

static struct kw_yaml *parse(const char *text)
{
    struct kw_yaml *doc = NULL;
    struct kw_err err = {0};
    if (kw_yaml_parse("f.yaml", text, strlen(text), &doc, &err) < 0)
        fail_msg("%s", err.text);
    return doc;
}

static void a_tree_remembers_lines(void **state)
{
    (void)state;
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc = parse("# comment\n"
                                                         "redis:\n"
                                                         "  url: redis://h:1 # comment\n"
                                                         "  timeout: '2s'\n"
                                                         "list:\n"
                                                         "- one\n"
                                                         "- {a: b}\n"
                                                         "text: |\n"
                                                         "  two\n"
                                                         "  lines\n");
    assert_int_equal(doc->type, KW_YAML_MAP);
    assert_int_equal(doc->n, 3);
    assert_string_equal(doc->keys[1], "list");
    assert_int_equal(doc->key_lines[1], 5);
    const struct kw_yaml *redis = kw_yaml_get(doc, "redis");
    assert_string_equal(kw_yaml_text(redis, "url"), "redis://h:1");
    assert_string_equal(kw_yaml_text(redis, "timeout"), "2s");
    assert_int_equal(kw_yaml_get(redis, "timeout")->line, 4);
    const struct kw_yaml *list = kw_yaml_get(doc, "list");
    assert_int_equal(list->type, KW_YAML_LIST);
    assert_int_equal(list->n, 2);
    assert_string_equal(list->children[0].text, "one");
    assert_string_equal(kw_yaml_text(&list->children[1], "a"), "b");
    assert_string_equal(kw_yaml_text(doc, "text"), "two\nlines\n");
}

static void a_byte_order_mark_is_passed_over(void **state)
{
    (void)state;
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc = parse("\xef\xbb\xbf"
                                                         "a: 1\r\n"
                                                         "b:\r\n"
                                                         "  c: 2\r\n");
    assert_string_equal(kw_yaml_text(doc, "a"), "1");
    assert_string_equal(kw_yaml_text(kw_yaml_get(doc, "b"), "c"), "2");
    assert_int_equal(doc->key_lines[1], 2);
}

static void lookups_of_the_wrong_kind_give_null(void **state)
{
    (void)state;
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc = parse("a: {b: c}\nl: [x]\n");
    assert_null(kw_yaml_get(NULL, "a"));
    assert_null(kw_yaml_get(doc, "none"));
    assert_null(kw_yaml_text(doc, "a"));
    assert_null(kw_yaml_text(doc, "none"));
    assert_null(kw_yaml_get(kw_yaml_get(doc, "l"), "x"));
    assert_null(kw_yaml_get(kw_yaml_get(kw_yaml_get(doc, "a"), "b"), "c"));
}

static void nothing_is_told_from_an_empty_text(void **state)
{
    (void)state;
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc =
        parse("a:\nb: ~\nc: null\nd: \"\"\ne: 'null'\nf: Null\n");
    static const struct {
        const char *key, *text;
        bool null;
    } cases[] = {
        {"a", "", true},  {"b", "", true},      {"c", "", true},
        {"d", "", false}, {"e", "null", false}, {"f", "Null", false},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        assert_int_equal(kw_yaml_get(doc, cases[i].key)->null, cases[i].null);
        assert_string_equal(kw_yaml_text(doc, cases[i].key), cases[i].text);
    }
}

static void empty_documents_are_empty_maps(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "\n\n", "# only a comment\n", "---\n", "---\n...\n", "\xef\xbb\xbf", "{}"};
    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++) {
        kw_cleanup(kw_yaml_free) struct kw_yaml *doc = parse(texts[i]);
        assert_int_equal(doc->type, KW_YAML_MAP);
        assert_int_equal(doc->n, 0);
    }
}

static void a_root_may_be_a_list_or_text(void **state)
{
    (void)state;
    kw_cleanup(kw_yaml_free) struct kw_yaml *list = parse("- a\n");
    assert_int_equal(list->type, KW_YAML_LIST);
    kw_cleanup(kw_yaml_free) struct kw_yaml *text = parse("just text\n");
    assert_int_equal(text->type, KW_YAML_SCALAR);
    assert_string_equal(text->text, "just text");
}

static void expect_error(const char *bytes, size_t len, const char *text)
{
    struct kw_yaml *doc = (struct kw_yaml *)&len; /* stays untouched */
    struct kw_err err = {0};
    assert_int_equal(kw_yaml_parse("f.yaml", bytes, len, &doc, &err), -EINVAL);
    assert_ptr_equal(doc, &len);
    if (strncmp(err.text, text, strlen(text)) != 0)
        fail_msg("\"%s\" instead of \"%s\"", err.text, text);
    assert_int_equal(kw_yaml_parse("f.yaml", bytes, len, &doc, NULL), -EINVAL);
}

static void what_is_refused_is_named_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"a: 1\nb: 2\na: 3\n", "f.yaml:3: key \"a\" was already given in line 1"},
        {"x:\n  \"b\": 2\n  c: 1\n  b: 3\n", "f.yaml:4: key \"b\" was already given in line 2"},
        {"a: &x 1\n", "f.yaml:1: anchors (&name) are not supported"},
        {"a: 1\nb: *x\n", "f.yaml:2: aliases (*name) are not supported"},
        {"a: &x {b: c}\n", "f.yaml:1: anchors"},
        {"a: &x [b]\n", "f.yaml:1: anchors"},
        {"&x a: b\n", "f.yaml:1: anchors"},
        {"a: !!binary eA==\n", "f.yaml:1: tags (!name) are not supported"},
        {"a: !x {b: c}\n", "f.yaml:1: tags"},
        {"a:\n  <<: {b: c}\n", "f.yaml:2: merge keys (<<) are not supported"},
        {"a: 1\n---\nb: 2\n", "f.yaml:2: a second document; only one is expected"},
        {"? [a]\n: b\n", "f.yaml:1: a key must be a plain text"},
        {"a: \"x\\0y\"\n", "f.yaml:1: a NUL byte in a text"},
        {"ok: 1\n\"x\\0y\": b\n", "f.yaml:2: a NUL byte in a text"},
        {"a: 1\n b: 2\n", "f.yaml:2: no valid YAML: "},
        {"a: [1, 2\n", "f.yaml:2: no valid YAML: "},
        {"a: \"open\n", "f.yaml:2: no valid YAML: "},
        {"a:\tb\n\tc: d\n", "f.yaml:2: no valid YAML: "},
        {"a: 1\nb: \xff\n", "f.yaml:2: no valid YAML: "},
        {"a: 1\nb: \x01\n", "f.yaml:2: no valid YAML: "},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++)
        expect_error(cases[i].bytes, strlen(cases[i].bytes), cases[i].text);
    expect_error("a: \0b\n", 6, "f.yaml:1: no valid YAML: ");
}

static void add_many(struct kw_buf *buf, const char *text, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(kw_buf_adds(buf, text), 0);
}

static void depth_count_and_size_are_bounded(void **state)
{
    (void)state;
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    add_many(&buf, "[", 32);
    add_many(&buf, "]", 32);
    kw_cleanup(kw_yaml_free) struct kw_yaml *deep = parse(buf.data);
    assert_non_null(deep);
    kw_buf_reset(&buf);
    add_many(&buf, "[", 33);
    add_many(&buf, "]", 33);
    expect_error(buf.data, buf.len, "f.yaml:1: nested too deeply (at most 32 levels)");
    kw_buf_reset(&buf);
    add_many(&buf, "{a: ", 100000);
    expect_error(buf.data, buf.len, "f.yaml:1: nested too deeply (at most 32 levels)");
    kw_buf_reset(&buf);
    add_many(&buf, "- a\n", 70000);
    expect_error(buf.data, buf.len, "f.yaml:65536: too many values (at most 65536)");
    kw_buf_reset(&buf);
    add_many(&buf, "#2345678\n", (4U << 20) / 9 + 1);
    expect_error(buf.data, buf.len, "f.yaml:1: larger than 4 MiB");
}

static void many_keys_are_still_fast(void **state)
{
    (void)state;
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    for (unsigned i = 0; i < 30000; i++)
        assert_int_equal(kw_buf_addf(&buf, "k%u: %u\n", i, i), 0);
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc = parse(buf.data);
    assert_int_equal(doc->n, 30000);
    assert_string_equal(kw_yaml_text(doc, "k29999"), "29999");
    assert_int_equal(kw_buf_adds(&buf, "k7: again\n"), 0);
    expect_error(buf.data, buf.len, "f.yaml:30001: key \"k7\" was already given in line 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_remembers_lines),
        cmocka_unit_test(a_byte_order_mark_is_passed_over),
        cmocka_unit_test(lookups_of_the_wrong_kind_give_null),
        cmocka_unit_test(nothing_is_told_from_an_empty_text),
        cmocka_unit_test(empty_documents_are_empty_maps),
        cmocka_unit_test(a_root_may_be_a_list_or_text),
        cmocka_unit_test(what_is_refused_is_named_with_its_line),
        cmocka_unit_test(depth_count_and_size_are_bounded),
        cmocka_unit_test(many_keys_are_still_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
