/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cap on fixture trees: what is set, what is left alone, and that the former limits come back.
 * What a driver or a firmware makes of a limit is played by wrapped functions.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "node-agent/enforcement.h"
#include "node-agent/limit_zones.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

#define W UINT64_C(1000000)

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_enforcement *enforcement;
static struct kw_err err;
static char record_path[128];

/* What happens to a write of a package's limit. */
static struct {
    int rc;              /* its answer, where not 0 */
    int64_t package;     /* of which package; -1: none */
    bool ignored;        /* it succeeds, and nothing changes */
    uint64_t instead_uw; /* what is set in place of it, where not 0 */
} driver;
static int gone; /* readings that are to find their zone gone */

int __real_agent_limit_write(struct agent_limit_zones *zones, size_t i, uint64_t uw);
int __wrap_agent_limit_write(struct agent_limit_zones *zones, size_t i, uint64_t uw);
int __wrap_agent_limit_write(struct agent_limit_zones *zones, size_t i, uint64_t uw)
{
    if (driver.package != (int64_t)i)
        return __real_agent_limit_write(zones, i, uw);
    if (driver.rc != 0 || driver.ignored)
        return driver.rc;
    return __real_agent_limit_write(zones, i, driver.instead_uw);
}

ssize_t __real_kw_file_pread(int fd, char *buffer, size_t size);
ssize_t __wrap_kw_file_pread(int fd, char *buffer, size_t size);
ssize_t __wrap_kw_file_pread(int fd, char *buffer, size_t size)
{
    return gone > 0 && gone-- > 0 ? -ENODEV : __real_kw_file_pread(fd, buffer, size);
}

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    (void)snprintf(record_path, sizeof(record_path), "%s/run/kwatt/limits", tree.root);
    driver.package = -1;
    driver.rc = 0;
    driver.ignored = false;
    driver.instead_uw = 0;
    gone = 0;
    err = (struct kw_err){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_enforcement_stop(&enforcement);
    kwt_tree_remove(&tree);
    return 0;
}

static void put(const char *zone, const char *file, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "class/powercap/%s/%s", zone, file);
    kwt_tree_write(&tree, path, text);
}

static void assert_file(const char *zone, const char *file, uint64_t value)
{
    char path[256];
    uint64_t found = 0;

    (void)snprintf(path, sizeof(path), "%s/class/powercap/%s/%s", tree.root, zone, file);
    assert_int_equal(kw_file_read_u64_at(AT_FDCWD, path, &found), 0);
    assert_int_equal(found, value);
}

/** A zone with constraint K as its long term, and the other one as its short term. */
static void make_zone(const char *dir, const char *name, unsigned k, const char *limit,
                      const char *max)
{
    char file[64];

    kwt_meter_zone(&tree, dir, name, "1000\n", "262143328850\n");
    put(dir, "enabled", "1\n");
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(file, sizeof(file), "constraint_%u_name", i);
        put(dir, file, i == k ? "long_term\n" : "short_term\n");
        (void)snprintf(file, sizeof(file), "constraint_%u_power_limit_uw", i);
        put(dir, file, i == k ? limit : "300000000\n");
        (void)snprintf(file, sizeof(file), "constraint_%u_max_power_uw", i);
        put(dir, file, i == k ? max : "0\n");
    }
}

/** Two packages of 100 and 200 W, whose directories mean nothing; all else is not to be touched. */
static void make_machine(void)
{
    make_zone("intel-rapl:a", "package-1\n", 0, "150000000\n", "100000000\n");
    make_zone("intel-rapl:0", "package-0\n", 1, "250000000\n", "200000000\n");
    make_zone("intel-rapl:a:0", "core\n", 0, "11000000\n", "12000000\n");
    make_zone("intel-rapl:a:f", "dram\n", 0, "13000000\n", "14000000\n");
    make_zone("intel-rapl:1", "psys\n", 0, "400000000\n", "500000000\n");
    make_zone("intel-rapl-mmio:0", "package-0\n", 0, "180000000\n", "200000000\n");
}

static void assert_limits(uint64_t package_0_uw, uint64_t package_1_uw)
{
    assert_file("intel-rapl:0", "constraint_1_power_limit_uw", package_0_uw);
    assert_file("intel-rapl:a", "constraint_0_power_limit_uw", package_1_uw);
    assert_file("intel-rapl:0", "constraint_0_power_limit_uw", 300 * W);
    assert_file("intel-rapl:a", "constraint_1_power_limit_uw", 300 * W);
    assert_file("intel-rapl:a:0", "constraint_0_power_limit_uw", 11 * W);
    assert_file("intel-rapl:a:f", "constraint_0_power_limit_uw", 13 * W);
    assert_file("intel-rapl:1", "constraint_0_power_limit_uw", 400 * W);
    assert_file("intel-rapl-mmio:0", "constraint_0_power_limit_uw", 180 * W);
}

static int start_at(double cap_w, const char *boot_id)
{
    const struct agent_enforcement_conf conf = {.sysfs_root = tree.root,
                                                .topology = &topology,
                                                .cap_w = cap_w,
                                                .record_path = record_path,
                                                .boot_id = boot_id};

    return agent_enforcement_start(&conf, &enforcement, &err);
}

static int start(double cap_w)
{
    return start_at(cap_w, "boot");
}

static void assert_refused(double cap_w, int rc, const char *why)
{
    assert_int_equal(start(cap_w), rc);
    assert_null(enforcement);
    if (strstr(err.text, why) == NULL)
        print_error("%s\n", err.text);
    assert_non_null(strstr(err.text, why));
}

/** An agent that is killed: what it holds is closed, and nothing else. */
static void start_and_be_killed(double cap_w)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(start(cap_w) == 0 ? 0 : 1);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_set_and_put_back(void **state)
{
    (void)state;
    make_machine();
    assert_int_equal(start(240), 0);
    assert_limits(160 * W, 80 * W);
    assert_int_equal(agent_enforcement_look(enforcement), 240 * W);
    agent_enforcement_stop(&enforcement);
    assert_null(enforcement);
    assert_limits(250 * W, 150 * W);
    /* nothing is left to put back */
    assert_int_equal(start(0), 0);
    assert_null(enforcement);
    assert_int_equal(agent_enforcement_look(enforcement), 0);
}

static void test_nothing_without_a_cap(void **state)
{
    (void)state;
    assert_int_equal(start(0), 0);
    assert_null(enforcement);
    assert_int_equal(access(record_path, F_OK), -1);
}

static void test_killed_and_started_again(void **state)
{
    (void)state;
    make_machine();
    start_and_be_killed(240);
    assert_limits(160 * W, 80 * W);
    start_and_be_killed(150);
    assert_limits(100 * W, 50 * W);
    assert_int_equal(start(270), 0); /* a higher cap than what was left behind */
    assert_limits(180 * W, 90 * W);
    agent_enforcement_stop(&enforcement);
    assert_limits(250 * W, 150 * W);
}

static void test_killed_and_started_without_a_cap(void **state)
{
    (void)state;
    make_machine();
    start_and_be_killed(240);
    assert_int_equal(start(0), 0);
    assert_null(enforcement);
    assert_limits(250 * W, 150 * W);
}

/** The successor's cap is nonsense: it ends, and leaves the machine as it was before both. */
static void test_killed_and_refused(void **state)
{
    (void)state;
    make_machine();
    start_and_be_killed(240);
    assert_refused(5000, -ERANGE,
                   "the power cap cannot be enforced: a cap of 5000.000 W is above "
                   "the 300.000 W that the 2 CPU packages may draw");
    assert_limits(250 * W, 150 * W);
}

static void test_record_of_another_boot(void **state)
{
    (void)state;
    make_machine();
    start_and_be_killed(240);
    assert_int_equal(start_at(150, "next boot"), 0);
    assert_limits(100 * W, 50 * W);
    agent_enforcement_stop(&enforcement);
    assert_limits(160 * W, 80 * W); /* what the firmware had set, then */
}

static void test_record_that_is_none(void **state)
{
    (void)state;
    make_machine();
    kwt_tree_write(&tree, "run/kwatt/limits", "something else\n");
    assert_refused(240, -EBADMSG, "is no whole record of power limits; remove it");
    assert_limits(250 * W, 150 * W);
}

static void test_one_agent_at_a_time(void **state)
{
    struct agent_enforcement *first = NULL;

    (void)state;
    make_machine();
    assert_int_equal(start(240), 0);
    first = KW_TAKE_PTR(enforcement);
    assert_refused(150, -EBUSY, "another agent limits this machine");
    assert_int_equal(start(0), 0); /* nor does one without a cap put anything back */
    assert_limits(160 * W, 80 * W);
    agent_enforcement_stop(&first);
}

static void test_what_a_driver_makes_of_it(void **state)
{
    (void)state;
    make_machine();
    /* all or none: package 0 is set before package 1 is refused */
    driver.package = 1;
    driver.rc = -EACCES;
    assert_refused(240, -EACCES, "the limit of package-1 is locked by the firmware");
    assert_limits(250 * W, 150 * W);
    driver.rc = -EIO;
    assert_refused(240, -EIO, "the limit of package-1 cannot be set to 80.000 W: Input/output");
    assert_limits(250 * W, 150 * W);
    driver.rc = 0;
    driver.ignored = true;
    assert_refused(240, -EPERM, "stays at 150.000 W when 80.000 W are set: locked");
    assert_limits(250 * W, 150 * W);
    driver.ignored = false;
    driver.instead_uw = 79875000; /* rounded to the unit of its register */
    assert_int_equal(start(240), 0);
    assert_int_equal(agent_enforcement_look(enforcement), 160 * W + 79875000);
    driver.package = -1;
    agent_enforcement_stop(&enforcement);
    assert_limits(250 * W, 150 * W);
    driver.package = 1;
    driver.instead_uw = 90 * W; /* clamped to what the firmware wants at least */
    assert_int_equal(start(240), 0);
    assert_int_equal(agent_enforcement_look(enforcement), 250 * W);
    driver.package = -1;
    agent_enforcement_stop(&enforcement);
    assert_limits(250 * W, 150 * W);
}

static void test_what_cannot_be_put_back_is_kept(void **state)
{
    (void)state;
    make_machine();
    assert_int_equal(start(240), 0);
    driver.package = 1;
    driver.rc = -ENODEV;
    agent_enforcement_stop(&enforcement);
    assert_limits(250 * W, 80 * W);
    driver.package = -1;
    assert_int_equal(start(0), 0);
    assert_limits(250 * W, 150 * W);
}

static void test_changed_by_somebody_else(void **state)
{
    (void)state;
    make_machine();
    assert_int_equal(start(240), 0);
    put("intel-rapl:a", "constraint_0_power_limit_uw", "60000000\n");
    assert_int_equal(agent_enforcement_look(enforcement), 220 * W);
    agent_enforcement_stop(&enforcement);
    assert_limits(250 * W, 60 * W);
    assert_int_equal(start(0), 0);
    assert_limits(250 * W, 60 * W);
}

static void test_zone_that_goes_and_comes_back(void **state)
{
    (void)state;
    make_machine();
    assert_int_equal(start(240), 0);
    gone = 1;
    assert_int_equal(agent_enforcement_look(enforcement), 0);
    assert_int_equal(agent_enforcement_look(enforcement), 240 * W);
    gone = 2;
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:a");
    assert_int_equal(agent_enforcement_look(enforcement), 0);
    assert_int_equal(agent_enforcement_look(enforcement), 0);
    make_zone("intel-rapl:a", "package-1\n", 0, "80000000\n", "100000000\n");
    assert_int_equal(agent_enforcement_look(enforcement), 240 * W);
    agent_enforcement_stop(&enforcement);
    assert_limits(250 * W, 150 * W);
}

/** A package is off when the successor starts and ends, and back for the one after. */
static void test_package_that_is_off_for_a_while(void **state)
{
    (void)state;
    make_machine();
    start_and_be_killed(240);
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:a");
    topology.n_packages = 1;
    assert_int_equal(start(120), 0);
    assert_file("intel-rapl:0", "constraint_1_power_limit_uw", 120 * W);
    agent_enforcement_stop(&enforcement);
    assert_file("intel-rapl:0", "constraint_1_power_limit_uw", 250 * W);
    topology.n_packages = 2;
    make_zone("intel-rapl:b", "package-1\n", 0, "80000000\n", "100000000\n");
    assert_int_equal(start(0), 0);
    assert_file("intel-rapl:b", "constraint_0_power_limit_uw", 150 * W);
}

/** Where one view of a package cannot be read, the other is taken, under a name of its own. */
static void test_other_view(void **state)
{
    (void)state;
    make_machine();
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:0/energy_uj");
    start_and_be_killed(240);
    assert_file("intel-rapl-mmio:0", "constraint_0_power_limit_uw", 160 * W);
    put("intel-rapl:0", "energy_uj", "1000\n");
    assert_int_equal(start(240), 0);
    assert_file("intel-rapl:0", "constraint_1_power_limit_uw", 160 * W);
    agent_enforcement_stop(&enforcement);
    assert_file("intel-rapl:0", "constraint_1_power_limit_uw", 250 * W);
    assert_file("intel-rapl-mmio:0", "constraint_0_power_limit_uw", 160 * W);
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:0/energy_uj");
    assert_int_equal(start(0), 0);
    assert_limits(250 * W, 150 * W);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused(240, -ENOENT, "no powercap in ");
    kwt_tree_mkdir(&tree, "class/powercap");
    assert_refused(240, -ENOENT, "no RAPL zones in ");
    make_machine();
    put("intel-rapl:a", "enabled", "0\n");
    assert_refused(240, -EOPNOTSUPP, "limits of package-1 are switched off");
    put("intel-rapl:a", "enabled", "1\n");
    put("intel-rapl:a", "constraint_0_name", "short_term\n"); /* as AMD, which has no limits */
    assert_refused(240, -EOPNOTSUPP, "package-1 takes no long-term limit through powercap");
    put("intel-rapl:a", "constraint_0_name", "long_term\n");
    put("intel-rapl:a", "constraint_0_power_limit_uw", ""); /* ENODATA */
    assert_refused(240, -ENODATA, "the limit of package-1 cannot be read");
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:a/constraint_0_power_limit_uw");
    assert_refused(240, -ENOENT, "package-1 cannot be limited: ");
    put("intel-rapl:a", "constraint_0_power_limit_uw", "150000000\n");
    put("intel-rapl:a", "constraint_0_min_power_uw", "81000000\n");
    assert_refused(240, -ERANGE, "leaves 80.000 W for package-1, below its minimum of 81.000 W");
    kwt_tree_delete(&tree, "class/powercap/intel-rapl:a");
    assert_refused(240, -ENOENT, "package 1 has no zone in powercap");
    kwt_meter_link(&tree, "class/powercap/intel-rapl:a", "../nowhere");
    assert_refused(240, -ENOENT, "zones are listed that cannot be read");
}

/** In a child without rights: the tree can be read and not written. */
static int open_without_rights(void)
{
    struct agent_limit_zones *zones = NULL;

    if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
        return 1;
    if (agent_limit_zones_open(tree.root, &topology, &zones, &err) != -EACCES)
        return 2;
    return strstr(err.text, "is not this user's to write; run as root") != NULL ? 0 : 3;
}

static void test_without_rights(void **state)
{
    char path[128];
    int status = 0;

    (void)state;
    make_machine();
    (void)snprintf(path, sizeof(path), "%s/class/powercap/intel-rapl:0/constraint_1_power_limit_uw",
                   tree.root);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(tree.root, 0755), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(open_without_rights());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_set_and_put_back),
        TEST(test_nothing_without_a_cap),
        TEST(test_killed_and_started_again),
        TEST(test_killed_and_started_without_a_cap),
        TEST(test_killed_and_refused),
        TEST(test_record_of_another_boot),
        TEST(test_record_that_is_none),
        TEST(test_one_agent_at_a_time),
        TEST(test_what_a_driver_makes_of_it),
        TEST(test_what_cannot_be_put_back_is_kept),
        TEST(test_changed_by_somebody_else),
        TEST(test_zone_that_goes_and_comes_back),
        TEST(test_package_that_is_off_for_a_while),
        TEST(test_other_view),
        TEST(test_refusals),
        TEST(test_without_rights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
