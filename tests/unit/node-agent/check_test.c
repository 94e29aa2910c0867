/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/check.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

static struct kwt_tree tree;

static char *run(const struct agent_options *options)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    assert_int_equal(agent_check(options, out), 0);
    (void)fclose(out);
    return text;
}

/** Every line has four columns and one of three states, whatever this machine has. */
static void test_lines(void **state)
{
    struct agent_options options = {.sysfs_root = tree.root,
                                    .procfs_root = (char *)"/proc",
                                    .cgroup_root = (char *)"/",
                                    .redis.url = "unix:///nonexistent/redis.sock"};
    kw_cleanup_free char *text = run(&options);
    unsigned lines = 0;

    (void)state;
    for (const char *line = text; *line != '\0'; lines++) {
        size_t len = strcspn(line, "\n");
        unsigned tabs = 0;
        for (size_t i = 0; i < len; i++)
            tabs += line[i] == '\t';
        assert_int_equal(tabs, 3);
        assert_true(strncmp(line, "ok\t", 3) == 0 || strncmp(line, "degraded\t", 9) == 0 ||
                    strncmp(line, "missing\t", 8) == 0);
        assert_int_equal(line[len], '\n');
        line += len + 1;
    }
    assert_true(lines >= 8);
    assert_non_null(strstr(text, "missing\tmeter-powercap\tpowercap: no intel-rapl zones"));
    assert_non_null(strstr(text, "degraded\tmeter-model\t"));
    assert_non_null(strstr(text, "missing\tredis\t"));
}

static void test_with_a_meter(void **state)
{
    struct agent_options options = {
        .sysfs_root = tree.root, .procfs_root = (char *)"/proc", .cgroup_root = (char *)"/"};

    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "5\n", "262143328850\n");
    kw_cleanup_free char *text = run(&options);
    assert_non_null(strstr(text, "ok\tmeter-powercap\t1 domains: package-0/0"));
    assert_null(strstr(text, "redis"));
}

/** A socket that cannot be read is named, and why. */
static void test_with_a_broken_meter(void **state)
{
    struct agent_options options = {
        .sysfs_root = tree.root, .procfs_root = (char *)"/proc", .cgroup_root = (char *)"/"};

    (void)state;
    kwt_meter_zone(&tree, "intel-rapl:0", "package-0\n", "5\n", "262143328850\n");
    kwt_meter_zone(&tree, "intel-rapl:1", "package-1\n", "-5\n", "262143328850\n");
    kw_cleanup_free char *text = run(&options);
    assert_non_null(strstr(text, "degraded\tmeter-powercap\t2 domains: package-0/0 package-1/1, in "
                                 "use, but package-1/1 cannot be read: Bad message\t"));
    kwt_meter_zone(&tree, "intel-rapl:2", "package-2\n", "", "262143328850\n");
    kw_cleanup_free char *more = run(&options);
    assert_non_null(strstr(more, "in use, but 2 of them cannot be read, the first is package-1/1"));
}

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_with_a_meter, setup, teardown),
        cmocka_unit_test_setup_teardown(test_with_a_broken_meter, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
