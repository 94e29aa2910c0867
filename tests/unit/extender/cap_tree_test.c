/* SPDX-License-Identifier: Apache-2.0 */
/* The file of caps, and which of them a path lies in. */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/cap_tree.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/cap_trees.h"

static void test_bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"cluster: none\n", "caps.yaml:1: cluster: \"none\" is no number of watts"},
        {"cluster: 0\n", "caps.yaml:1: cluster: \"0\" is no number of watts"},
        {"cluster: -4\n", "\"-4\" is no number of watts"},
        {"cluster: 1e13\n", "\"1e13\" is no number of watts"},
        {"cluster: [4]\n", "caps.yaml:1: cluster: not a number of watts"},
        {"clusters: 4\n", "caps.yaml:1: unknown key \"clusters\" (cluster, domains)"},
        {"domains: 4\n", "domains: not a map"},
        {"domains:\n  dc1/: 7\n", "caps.yaml:2: domains: \"dc1/\" is not a path such as"},
        {"domains:\n  a: 7\n  a b: 7\n", "caps.yaml:3: domains: \"a b\" is not"},
        {"domains:\n  a: {soft: 7}\n", "caps.yaml:2: a: \"hard\" is missing"},
        {"domains:\n  a: {hard: 7, soft: 8}\n", "a: soft (8 W) is above hard (7 W)"},
        {"domains:\n  a: {hard: 7, sof: 8}\n", "a: unknown key \"sof\" (hard, soft)"},
        {"domains:\n  a: {hard: x}\n", "caps.yaml:2: a: \"x\" is no number of watts"},
        {"domains:\n  a: 7\n  a: 8\n", "caps.yaml:3"},
        {"", "caps.yaml: empty"},
        {"- 7\n", "caps.yaml:1: not a map"},
        {"cluster: {\n", "caps.yaml:"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct ext_cap_tree *tree = NULL;
        struct kw_err err = {0};
        int rc =
            ext_cap_tree_parse("caps.yaml", cases[i].text, strlen(cases[i].text), 900, &tree, &err);
        assert_int_equal(rc, -EINVAL);
        if (strstr(err.text, cases[i].says) == NULL)
            fail_msg("\"%s\" says \"%s\"", cases[i].text, err.text);
    }
}

static void check_found(const struct ext_cap_tree *tree, const char *path, const char *want)
{
    uint32_t found = ext_cap_tree_find(tree, path);

    assert_int_equal(found != 0, want != NULL);
    if (want != NULL)
        assert_string_equal(tree->domains[found - 1].path, want);
}

static void test_paths(void **state)
{
    (void)state;
    struct ext_cap_tree *tree = kwt_cap_tree(
        "cluster: 10k\ndomains:\n  dc1/row2/rack7: {hard: 8, soft: 7}\n  dc1-b: 5\n  dc1: 9\n");

    assert_int_equal(tree->n, 4);
    check_found(tree, "", "");
    check_found(tree, "dc1", "dc1");
    check_found(tree, "dc10", "");
    check_found(tree, "dc1/row2", "dc1");
    check_found(tree, "dc1/row2/rack7", "dc1/row2/rack7");
    check_found(tree, "dc1/row2/rack70", "dc1");
    check_found(tree, "dc1/row2/rack7/pdu1", "dc1/row2/rack7");
    check_found(tree, "dc1-b/x", "dc1-b");
    uint32_t rack = ext_cap_tree_find(tree, "dc1/row2/rack7");
    assert_int_equal(tree->domains[rack - 1].parent, ext_cap_tree_find(tree, "dc1"));
    assert_int_equal(tree->domains[rack - 1].soft_mw, 7000);
    assert_int_equal(tree->domains[ext_cap_tree_find(tree, "dc1") - 1].soft_mw, 7200);
    ext_cap_tree_free(&tree);
    tree = kwt_cap_tree("domains: {a: 5}\n");
    check_found(tree, "b", NULL);
    check_found(tree, "", NULL);
    ext_cap_tree_free(&tree);
    tree = kwt_cap_tree("domains: {}\n");
    assert_int_equal(tree->n, 0);
    ext_cap_tree_free(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
