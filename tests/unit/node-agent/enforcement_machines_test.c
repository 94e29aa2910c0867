/* SPDX-License-Identifier: Apache-2.0 */
/* A cap on trees of real machines: which limit gets it, or why none does. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "node-agent/enforcement.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/machine_rig.h"

static struct kwt_machines machines;

static const struct kwt_machine *find(const char *name)
{
    for (size_t i = 0; i < machines.n; i++) {
        if (strcmp(machines.items[i].name, name) == 0)
            return &machines.items[i];
    }
    fail_msg("no machine %s", name);
    return NULL;
}

static void assert_limit(const struct kwt_tree *tree, const char *zone, uint64_t uw)
{
    char path[256];
    uint64_t found = 0;

    (void)snprintf(path, sizeof(path), "%s/class/powercap/%s/constraint_0_power_limit_uw",
                   tree->root, zone);
    assert_int_equal(kw_file_read_u64_at(AT_FDCWD, path, &found), 0);
    assert_int_equal(found, uw);
}

/** @param limit zone that gets it; NULL: none, and `why` is said. */
static void check_machine(const char *name, double cap_w, const char *limit, const char *why)
{
    struct kwt_tree tree;
    struct agent_topology topology;
    struct agent_enforcement *enforcement = NULL;
    struct kw_err err = {0};
    char record[128];

    kwt_tree_make(&tree);
    kwt_machine_build(find(name), &tree);
    assert_int_equal(agent_topology_read(tree.root, tree.root, &topology), 0);
    (void)snprintf(record, sizeof(record), "%s/limits", tree.root);
    const struct agent_enforcement_conf conf = {.sysfs_root = tree.root,
                                                .topology = &topology,
                                                .cap_w = cap_w,
                                                .record_path = record,
                                                .boot_id = "boot"};
    int rc = agent_enforcement_start(&conf, &enforcement, &err);
    if (limit == NULL ? rc == 0 || strstr(err.text, why) == NULL : rc < 0)
        fail_msg("%s: %d %s", name, rc, err.text);
    if (limit != NULL)
        assert_limit(&tree, limit, (uint64_t)(cap_w * 1e6));
    if (strcmp(name, "ultrabook-mmio-twin") == 0)
        assert_limit(&tree, "intel-rapl-mmio:0", 15000000);
    agent_enforcement_stop(&enforcement);
    kwt_tree_remove(&tree);
}

static void test_real_machines(void **state)
{
    static const struct {
        const char *machine;
        double cap_w;
        const char *limit; /* file that gets it; NULL: refused */
        const char *why;
    } cases[] = {
        {"client-95w", 94, "intel-rapl:0", NULL},
        {"laptop-psys-55w", 54, "intel-rapl:0", NULL},
        {"ultrabook-mmio-twin", 27, "intel-rapl:0", NULL},
        {"tablet-i5-1035g4", 14, "intel-rapl:0", NULL},
        {"tablet-i5-1035g4", 16, NULL, "above the 15.000 W"},
        {"two-epyc-7301", 100, NULL, "package-0 takes no long-term limit"},
        {"threadripper-1950x-dies", 100, NULL, "package-0-die-0 takes no long-term limit"},
        {"two-xeon-5118", 100, NULL, "package-0 takes no long-term limit"},
        {"no-powercap-kernel", 100, NULL, "no powercap in "},
        {"container-dangling-links", 100, NULL, "zones are listed that cannot be read"},
        {"kvm-guest", 100, NULL, "zones are listed that cannot be read"},
        {"other-control-types", 100, NULL, "package-0 takes no long-term limit"},
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++)
        check_machine(cases[i].machine, cases[i].cap_w, cases[i].limit, cases[i].why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_real_machines)};

    kwt_machines_read(&machines);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kwt_machines_free(&machines);
    return failed;
}
