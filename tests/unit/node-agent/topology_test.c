/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "node-agent/topology.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

#define CPU "sys/devices/system/cpu/"

static void add_cpu(const struct kwt_tree *tree, unsigned cpu, const char *package,
                    const char *siblings)
{
    char path[128];

    (void)snprintf(path, sizeof(path), CPU "cpu%u/topology/physical_package_id", cpu);
    kwt_tree_write(tree, path, package);
    (void)snprintf(path, sizeof(path), CPU "cpu%u/topology/thread_siblings_list", cpu);
    kwt_tree_write(tree, path, siblings);
}

static void read_tree(const struct kwt_tree *tree, struct agent_topology *ret)
{
    char sys[PATH_MAX], proc[PATH_MAX];

    assert_int_equal(kw_path_join(sys, sizeof(sys), tree->root, "sys"), 0);
    assert_int_equal(kw_path_join(proc, sizeof(proc), tree->root, "proc"), 0);
    assert_int_equal(agent_topology_read(sys, proc, ret), 0);
}

/* Two sockets with sparse ids, SMT, one CPU offline, one possible that was never there. */
static void test_two_packages(void **state)
{
    static struct agent_topology topology;
    struct kwt_tree tree;

    (void)state;
    kwt_tree_make(&tree);
    kwt_tree_write(&tree, CPU "possible", "0-5\n");
    kwt_tree_write(&tree, CPU "online", "0-2,4\n");
    add_cpu(&tree, 0, "3\n", "0,2\n");
    add_cpu(&tree, 1, "0\n", "1\n");
    add_cpu(&tree, 2, "3\n", "0,2\n");
    add_cpu(&tree, 4, "0\n", "4\n");
    kwt_tree_write(
        &tree, "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
        "model name\t: AMD EPYC 9354 32-Core Processor\n\nprocessor\t: 1\nmodel\t: 99\n");
    read_tree(&tree, &topology);
    assert_int_equal(topology.n_cpus, 6);
    assert_int_equal(topology.n_online, 4);
    assert_int_equal(topology.n_cores, 3);
    assert_int_equal(topology.n_packages, 2);
    assert_int_equal(topology.package_ids[0], 0);
    assert_int_equal(topology.package_ids[1], 3);
    assert_int_equal(topology.cpu_package[0], 1);
    assert_int_equal(topology.cpu_package[1], 0);
    assert_int_equal(topology.cpu_package[2], 1);
    assert_int_equal(topology.threads_per_core, 2);
    assert_int_equal(topology.cpu_sibling[0], 1 + 2);
    assert_int_equal(topology.cpu_sibling[1], 0);
    assert_int_equal(topology.cpu_sibling[2], 1 + 0);
    assert_int_equal(topology.cpu_sibling[4], 0);
    assert_int_equal(topology.cpu_package[4], 0);
    assert_string_equal(topology.cpu_vendor, "AuthenticAMD");
    assert_string_equal(topology.cpu_model, "AMD EPYC 9354 32-Core Processor");
    assert_int_equal(topology.cpu_family, 25);
    assert_int_equal(topology.cpu_model_number, 17);
    kwt_tree_remove(&tree);
}

/* Nothing there: one package with the CPUs that the C library knows. */
static void test_empty_tree(void **state)
{
    static struct agent_topology topology;
    struct kwt_tree tree;

    (void)state;
    kwt_tree_make(&tree);
    read_tree(&tree, &topology);
    assert_true(topology.n_online >= 1 && topology.n_cpus >= topology.n_online);
    assert_int_equal(topology.n_packages, 1);
    assert_int_equal(topology.n_cores, topology.n_online);
    assert_string_equal(topology.cpu_model, "");
    kwt_tree_remove(&tree);
}

/* Boards and virtual machines that do not know their package say -1. */
static void test_unknown_package(void **state)
{
    static struct agent_topology topology;
    struct kwt_tree tree;

    (void)state;
    kwt_tree_make(&tree);
    kwt_tree_write(&tree, CPU "online", "0-1\n");
    add_cpu(&tree, 0, "-1\n", "0\n");
    add_cpu(&tree, 1, "nonsense", "garbage\n");
    read_tree(&tree, &topology);
    assert_int_equal(topology.n_cpus, 2);
    assert_int_equal(topology.n_packages, 1);
    assert_int_equal(topology.package_ids[0], 0);
    assert_int_equal(topology.n_cores, 2);
    kwt_tree_remove(&tree);
}

static void test_more_packages_than_fit(void **state)
{
    static struct agent_topology topology;
    struct kwt_tree tree;

    (void)state;
    kwt_tree_make(&tree);
    kwt_tree_write(&tree, CPU "online", "0-79\n");
    for (unsigned i = 0; i < 80; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "%u\n", i);
        add_cpu(&tree, i, id, id);
    }
    read_tree(&tree, &topology);
    assert_int_equal(topology.n_packages, AGENT_PACKAGES_MAX);
    assert_int_equal(topology.cpu_package[79], AGENT_PACKAGES_MAX - 1);
    kwt_tree_remove(&tree);
}

static int parse(const char *text, struct agent_cpu_set *ret)
{
    return agent_cpu_set_parse(text, strlen(text), ret);
}

static void test_cpu_lists(void **state)
{
    static const char *const bad[] = {"x",   "1-", "-1", "3-1",   "1,1",
                                      "2,1", "1,", ",1", "0-4,3", "1 2"};
    struct agent_cpu_set set = {0};

    (void)state;
    assert_int_equal(parse("0-3,8\n", &set), 0);
    assert_int_equal(set.n, 5);
    assert_int_equal(set.cpus[4], 8);
    assert_int_equal(parse("\n", &set), 0);
    assert_int_equal(set.n, 0);
    assert_int_equal(parse("0-4095", &set), 0);
    assert_int_equal(set.n, AGENT_CPUS_MAX);
    assert_int_equal(parse("5", &set), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i], &set), -EBADMSG);
        assert_int_equal(set.n, 1); /* untouched */
    }
}

static void test_cpuinfo_of_other_architectures(void **state)
{
    static struct agent_topology topology;
    static const char arm[] = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n\n";
    static const char odd[] =
        "vendor_id: \x01\xffX\nmodel name :\nmodel\t: -3\ncpu family: 9999999999";

    (void)state;
    agent_cpuinfo_parse(arm, sizeof(arm) - 1, &topology);
    assert_string_equal(topology.cpu_vendor, "");
    agent_cpuinfo_parse(odd, sizeof(odd) - 1, &topology);
    assert_string_equal(topology.cpu_vendor, "??X");
    assert_string_equal(topology.cpu_model, "");
    assert_int_equal(topology.cpu_model_number, 0);
    assert_int_equal(topology.cpu_family, 0);
}

static void test_this_machine(void **state)
{
    static struct agent_topology topology;

    (void)state;
    assert_int_equal(agent_topology_read("/sys", "/proc", &topology), 0);
    assert_int_equal(topology.n_online, sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(topology.n_cores >= 1 && topology.n_cores <= topology.n_online);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_packages),
        cmocka_unit_test(test_empty_tree),
        cmocka_unit_test(test_unknown_package),
        cmocka_unit_test(test_more_packages_than_fit),
        cmocka_unit_test(test_cpu_lists),
        cmocka_unit_test(test_cpuinfo_of_other_architectures),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
