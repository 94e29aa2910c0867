/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node-agent/accounting.h"
#include "node-agent/attribution.h"
#include "node-agent/meter.h"
#include "node-agent/options.h"
#include "node-agent/roots.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

/** What can be chosen is what there is, in the same order. */
static void test_choices_are_the_tables(void **state)
{
    size_t i = 0;

    (void)state;
    for (i = 0; agent_meters[i] != NULL; i++)
        assert_string_equal(agent_meter_choices[i + 1], agent_meters[i]->name);
    assert_null(agent_meter_choices[i + 1]);
    for (i = 0; agent_accounting_backends[i] != NULL; i++)
        assert_string_equal(agent_accounting_choices[i + 1], agent_accounting_backends[i]->name);
    assert_null(agent_accounting_choices[i + 1]);
    for (i = 0; agent_attributions[i] != NULL; i++)
        assert_string_equal(agent_attribution_choices[i + 1], agent_attributions[i]->name);
    assert_null(agent_attribution_choices[i + 1]);
    assert_string_equal(agent_attribution_choices[0], "auto");
}

static int load(char **argv, struct agent_options *options, struct kw_err *err)
{
    int argc = 0;

    while (argv[argc] != NULL)
        argc++;
    return kw_conf_load(&agent_program, argc, argv, NULL, options, stderr, NULL, err);
}

static void test_defaults(void **state)
{
    char *argv[] = {(char *)"kwatt-node-agent", NULL};
    struct agent_options options = {0};
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(load(argv, &options, &err), KW_CONF_RUN);
    assert_null(options.node_name);
    assert_int_equal(options.interval_ns, 5000000000);
    assert_string_equal(options.sysfs_root, "/sys");
    assert_string_equal(options.listen, ":9891");
    assert_int_equal(options.meter, 0);
    assert_false(options.check);
    kw_conf_free(&agent_program, &options);
}

static void test_windows_too_short_are_refused(void **state)
{
    char *argv[] = {(char *)"kwatt-node-agent", (char *)"--interval", (char *)"99ms", NULL};
    struct agent_options options = {0};
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(load(argv, &options, &err), -22);
    assert_non_null(strstr(err.text, "interval"));
}

/** What is refused names the flag and its value; a root that is not there is no machine without
 * meters. */
static void test_whole_options_are_checked(void **state)
{
    static const struct {
        const char *args[4];
        const char *text; /* NULL: accepted */
        int code;
    } cases[] = {
        {{"--node-name", "rack-7.Node_1"}, NULL, 0},
        {{"--node-name", ""}, NULL, 0},
        {{"--node-name", "a b"}, "--node-name: \"a b\"", -EINVAL},
        {{"--node-name", "a\nb"}, "--node-name", -EINVAL},
        {{"--node-name", "\xff"}, "--node-name", -EINVAL},
        {{"--sysfs", "/nonexistent"}, "--sysfs /nonexistent: No such file", -ENOENT},
        {{"--procfs", "/dev/null"}, "--procfs /dev/null: Not a directory", -ENOTDIR},
        {{"--idle-watts", "50", "--full-watts", "20"},
         "--idle-watts: 50 is more than the 20",
         -EINVAL},
        {{"--idle-watts", "50"}, NULL, 0},
        {{"--replay-method", "kalman"}, "--replay-method is given without", -EINVAL},
        {{"--json"}, "--json is given without", -EINVAL},
        {{"--json", "--replay", "/dev/null"}, NULL, 0},
        {{"--once", "--record", "-"}, "--once prints its sample where --record - writes", -EINVAL},
        {{"--once", "--record", "file"}, NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *argv[6] = {(char *)"kwatt-node-agent"};
        struct agent_options options = {0};
        struct kw_err err = {0};
        for (size_t k = 0; k < 4; k++)
            argv[k + 1] = (char *)cases[i].args[k];
        assert_int_equal(load(argv, &options, &err), KW_CONF_RUN);
        assert_int_equal(agent_options_check(&options, &err), cases[i].code);
        if (cases[i].text != NULL && strstr(err.text, cases[i].text) == NULL)
            fail_msg("%s does not say %s", err.text, cases[i].text);
        kw_conf_free(&agent_program, &options);
    }
}

static void test_roots(void **state)
{
    struct kwt_tree tree;
    struct agent_roots roots;

    (void)state;
    kwt_tree_make(&tree);
    struct agent_options options = {.sysfs_root = tree.root, .procfs_root = (char *)"/proc"};
    assert_int_equal(agent_roots_find(&options, &roots), 0);
    assert_string_equal(roots.sysfs, tree.root);
    assert_string_equal(roots.cgroup_sysfs, "/sys");
    kwt_tree_mkdir(&tree, "fs/cgroup");
    assert_int_equal(agent_roots_find(&options, &roots), 0);
    assert_string_equal(roots.cgroup_sysfs, tree.root);
    kwt_tree_remove(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices_are_the_tables),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_windows_too_short_are_refused),
        cmocka_unit_test(test_whole_options_are_checked),
        cmocka_unit_test(test_roots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
