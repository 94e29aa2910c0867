/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every machine of machines.txt: which domains are read, with which energy; what kwatt check says
 * of it; and, where the recordings of ../shared are at hand, that both say the same. A window is
 * 10 ms of what the machine drew, written into its counters at once: the ceiling on power allows
 * for as much.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/quality.h"
#include "cli/findings.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/check.h"
#include "node-agent/counter.h"
#include "node-agent/metering.h"
#include "node-agent/options.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/machine_rig.h"

static struct kwt_machines machines;

static const char *const kinds[] = {"cpu", "dram", "platform"};

/** Domains that were read, as `reads` lines: without power where nothing was to be compared. */
static void assert_reads(const struct kwt_machine *machine, const struct kwt_tree *tree,
                         const struct agent_meter_ops *ops, const struct agent_meter_conf *conf)
{
    const struct agent_domain *domains = NULL;
    struct agent_reading before[64], after[64];
    void *self = NULL;
    size_t k = 0;

    assert_int_equal(ops->open(conf, &self, NULL), 0);
    size_t n = ops->domains(self, &domains);
    assert_int_equal(ops->read(self, NULL, before), 0);
    kwt_machine_draw(machine, tree);
    assert_int_equal(ops->read(self, NULL, after), 0);
    for (size_t i = 0; i < machine->n; i++) {
        char expected[512], found[512];
        const char *rest = machine->lines[i], *below;
        if (strncmp(rest, "reads ", 6) != 0)
            continue;
        rest += 6;
        if (k == n)
            fail_msg("%s: not read: %s", machine->name, rest);
        (void)snprintf(expected, sizeof(expected), "%.*s", (int)(strrchr(rest, ' ') - rest), rest);
        below = strstr(domains[k].path, "/class/");
        (void)snprintf(found, sizeof(found), "%s %u %s", kinds[domains[k].kind],
                       domains[k].package_id, below != NULL ? below + 1 : domains[k].path);
        if (strcmp(expected, found) != 0)
            fail_msg("%s: read %s, not %s", machine->name, found, expected);
        uint64_t uw = kwt_machine_number(strrchr(rest, ' ') + 1, &rest);
        struct agent_counter counter = {0};
        struct agent_counter_limits limits = {domains[k].range_uj, domains[k].max_mw};
        struct agent_counter_step step;
        agent_counter_take(&counter, &limits, before[k].counter_uj, 1, 0, &step);
        agent_counter_take(&counter, &limits, after[k].counter_uj, 1 + 10 * KW_NS_PER_MS, 0, &step);
        /* a corrected unit is rounded down twice */
        if (step.delta_uj + 1 < uw / 100 || step.delta_uj > uw / 100 + 1)
            fail_msg("%s: %s: %llu uJ, not %llu", machine->name, found,
                     (unsigned long long)step.delta_uj, (unsigned long long)uw / 100);
        k++;
    }
    if (k != n)
        fail_msg("%s: %zu domains too many, %s first", machine->name, n - k, domains[k].path);
    ops->close(&self);
}

/** The same through the whole of metering: nothing twice, nothing lost. */
static void assert_sums(const struct kwt_machine *machine, const struct kwt_tree *tree,
                        const struct agent_meter_conf *conf)
{
    struct agent_metering *metering = NULL;
    struct agent_metering_window window;
    uint64_t expected[2] = {0}, found[2] = {0};
    const char *platform = kwt_machine_get(machine, "platform"), *flags;

    assert_int_equal(agent_metering_new(NULL, conf, &metering, NULL), 0);
    assert_int_equal(agent_metering_read(metering, NULL, KW_NS_PER_S, 0, &window), 0);
    kwt_machine_draw(machine, tree);
    uint64_t busy_ns[AGENT_PACKAGES_MAX] = {0};
    struct agent_meter_load load = {.interval_ns = KW_NS_PER_S, .busy_ns = busy_ns};
    assert_int_equal(agent_metering_read(metering, &load, 2 * KW_NS_PER_S, 0, &window), 0);
    for (size_t i = 0; i < machine->n; i++) {
        const char *rest = machine->lines[i];
        if (strncmp(rest, "reads ", 6) != 0)
            continue;
        uint64_t uw = kwt_machine_number(strrchr(rest, ' ') + 1, &flags);
        if (rest[6] != 'p')
            expected[rest[6] == 'd'] += uw / 100;
    }
    for (unsigned slot = 0; slot < 2 * window.n_packages; slot++)
        found[slot % 2] += window.slots[slot].delta_uj;
    bool metered = !agent_metering_ops(metering)->estimated;
    assert_int_equal(metered, kwt_machine_get(machine, "reads") != NULL);
    for (unsigned i = 0; i < 2 && metered; i++) {
        if (found[i] + 1 < expected[i] || found[i] > expected[i] + 1)
            fail_msg("%s: %s: %llu uJ, not %llu", machine->name, kinds[i],
                     (unsigned long long)found[i], (unsigned long long)expected[i]);
    }
    if (platform != NULL && strncmp(platform, "psys ", 5) == 0) {
        assert_true(window.has_platform);
        assert_string_equal(window.platform_source, "psys");
    }
    flags = kwt_machine_get(machine, "flags");
    uint32_t wrapped = KW_QUALITY_BIT(KW_QUALITY_WRAPPED);
    if (metered && flags == NULL)
        assert_int_equal(window.quality, 0);
    else if (metered)
        assert_int_equal(window.quality & wrapped, strcmp(flags, "wrapped") == 0 ? wrapped : 0);
    agent_metering_free(&metering);
}

/** What the ACPI meter shows, where the machine has one. */
static void assert_acpi(const struct kwt_machine *machine, const struct agent_meter_conf *conf)
{
    const char *platform = kwt_machine_get(machine, "platform"), *rest;
    struct agent_reading before, after;
    void *self = NULL;

    if (platform == NULL || strncmp(platform, "acpi ", 5) != 0)
        return;
    uint64_t uw = kwt_machine_number(platform + 5, &rest);
    assert_int_equal(agent_platform_acpi.open(conf, &self, NULL), 0);
    assert_int_equal(agent_platform_acpi.read(self, NULL, &before), 0);
    (void)usleep(5000);
    assert_int_equal(agent_platform_acpi.read(self, NULL, &after), 0);
    uint64_t found_uj = after.counter_uj - before.counter_uj;
    uint64_t expected_uj =
        (uint64_t)((unsigned __int128)uw * (after.t_ns - before.t_ns) / KW_NS_PER_S);
    assert_in_range(found_uj, expected_uj - 1, expected_uj + 1);
    agent_platform_acpi.close(&self);
}

static void with_machines(void (*fn)(const struct kwt_machine *, const struct kwt_tree *,
                                     const struct agent_meter_conf *))
{
    for (size_t i = 0; i < machines.n; i++) {
        struct kwt_tree tree;
        struct agent_topology topology;
        struct agent_meter_conf conf = {.topology = &topology, .sysfs_root = tree.root};
        kwt_tree_make(&tree);
        kwt_machine_build(&machines.items[i], &tree);
        assert_int_equal(agent_topology_read(tree.root, tree.root, &topology), 0);
        fn(&machines.items[i], &tree, &conf);
        kwt_tree_remove(&tree);
    }
}

static void read_machine(const struct kwt_machine *machine, const struct kwt_tree *tree,
                         const struct agent_meter_conf *conf)
{
    const char *first = kwt_machine_get(machine, "reads");

    assert_sums(machine, tree, conf);
    if (first != NULL)
        assert_reads(machine, tree,
                     strstr(first, "/hwmon/") != NULL ? &agent_meter_hwmon : &agent_meter_powercap,
                     conf);
    assert_acpi(machine, conf);
}

static void test_domains_and_energies(void **state)
{
    (void)state;
    with_machines(read_machine);
}

/** What kwatt-node-agent --check says of the meters below a root; the root is called /sys. */
static char *check_text(const char *root)
{
    struct agent_options options = {.sysfs_root = (char *)root, .procfs_root = (char *)root};
    kw_cleanup_free char *text = NULL;
    size_t len = 0;
    struct kw_buf out = {0};
    FILE *file = open_memstream(&text, &len);

    assert_non_null(file);
    assert_int_equal(agent_check_meters(&options, file), 0);
    (void)fclose(file);
    for (const char *at = text; *at != '\0';) {
        bool here = strncmp(at, root, strlen(root)) == 0;
        assert_int_equal(kw_buf_add(&out, here ? "/sys" : at, here ? 4 : 1), 0);
        at += here ? strlen(root) : 1;
    }
    return out.data;
}

static void check_machine(const struct kwt_machine *machine, const struct kwt_tree *tree,
                          const struct agent_meter_conf *conf)
{
    kw_cleanup_free char *text = check_text(tree->root);
    char *at = text;
    bool print = getenv("KWATT_PRINT_CHECKS") != NULL;

    (void)conf;
    if (print)
        printf("machine %s\n", machine->name);
    for (size_t i = 0; i < machine->n || *at != '\0'; i++) {
        char found[1024];
        if (i < machine->n && strncmp(machine->lines[i], "check ", 6) != 0)
            continue;
        size_t len = strcspn(at, "\n");
        (void)snprintf(found, sizeof(found), "check %.*s", (int)len, at);
        /* state, item, detail; the remedy is the source's own text, and the same for all */
        size_t tabs = 0;
        for (char *c = found; *c != '\0'; c++) {
            if (*c == '\t' && ++tabs == 3)
                *c = '\0';
            if (*c == '\t')
                *c = ' ';
            if (*c == '\0')
                break;
        }
        if (print)
            printf("%s\n", found);
        else if (i >= machine->n || strcmp(machine->lines[i], found) != 0)
            fail_msg("%s: kwatt check says: %s", machine->name, found);
        at += len + (at[len] == '\n');
    }
}

static void test_check(void **state)
{
    (void)state;
    with_machines(check_machine);
}

/** kwatt check of one machine, as the two forms of the command print it. */
static void test_check_forms(void **state)
{
    struct kwt_tree tree;
    struct cli_findings findings = {0};
    struct kw_buf table = {0}, json = {0};
    size_t n = 0;

    (void)state;
    kwt_tree_make(&tree);
    for (size_t i = 0; i < machines.n; i++) {
        if (strcmp(machines.items[i].name, "two-epyc-7301") == 0)
            kwt_machine_build(&machines.items[i], &tree);
    }
    kw_cleanup_free char *text = check_text(tree.root);
    assert_int_equal(cli_findings_parse(&findings, text, strlen(text), &n), 0);
    assert_int_equal(n, 7);
    cli_findings_table(&findings, false, &table);
    cli_findings_json(&findings, &json);
    assert_non_null(strstr(table.data, "ok        meter-powercap    2 domains: package-0/0 "
                                       "package-1/1, in use\n"));
    assert_non_null(strstr(table.data, "missing   meter-perf        perf: no power PMU"));
    assert_non_null(strstr(json.data,
                           "{\"state\": \"ok\", \"item\": \"meter-powercap\", \"detail\": "
                           "\"2 domains: package-0/0 package-1/1, in use\""));
    assert_non_null(strstr(json.data, "\"item\": \"platform-acpi\", \"detail\": \"1 domains: "
                                      "machine/0, published beside the packages\""));
    cli_findings_clear(&findings);
    kw_buf_free(&table);
    kw_buf_free(&json);
    kwt_tree_remove(&tree);
}

/** Counters that only root may read, asked for by somebody else. */
static void test_check_without_root(void **state)
{
    static const char *const root_only[] = {"class/powercap/intel-rapl:0/energy_uj",
                                            "class/hwmon/hwmon0/energy129_input",
                                            "class/hwmon/hwmon0/energy130_input"};
    static const char *const built[] = {"client-95w", "two-epyc-amd-energy"};
    char path[256];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct kwt_tree tree;
        kwt_tree_make(&tree);
        for (size_t k = 0; k < machines.n; k++) {
            if (strcmp(machines.items[k].name, built[i]) == 0)
                kwt_machine_build(&machines.items[k], &tree);
        }
        assert_int_equal(chmod(tree.root, 0755), 0);
        for (size_t k = 0; k < 3; k++) {
            (void)snprintf(path, sizeof(path), "%s/%s", tree.root, root_only[k]);
            (void)chmod(path, 0);
        }
        bool root = geteuid() == 0;
        if (root)
            assert_int_equal(seteuid(65534), 0);
        kw_cleanup_free char *text = check_text(tree.root);
        if (root)
            assert_int_equal(seteuid(0), 0);
        assert_non_null(strstr(text, i == 0 ? "missing\tmeter-powercap\tpowercap: energy_uj may be "
                                              "read by root only\trun as root"
                                            : "missing\tmeter-hwmon\thwmon: "
                                              "/sys/class/hwmon/hwmon0/energy129_input may be read "
                                              "by root only\trun as root"));
        assert_non_null(strstr(text, "degraded\tmeter-model\t"));
        kwt_tree_remove(&tree);
    }
}

/** The recordings that the facts are of: each line of one is a line of the other. */
static void test_same_as_recordings(void **state)
{
    const char *shared = getenv("KWATT_SHARED"), *source = getenv("KWATT_SOURCE_DIR");
    char folder[3072], path[4096], line[512], expected[600];
    size_t compared = 0;

    (void)state;
    if (shared != NULL)
        (void)snprintf(folder, sizeof(folder), "%s/data/rapl-trees", shared);
    else
        (void)snprintf(folder, sizeof(folder), "%s/../shared/data/rapl-trees",
                       source != NULL ? source : ".");
    if (access(folder, R_OK) != 0) {
        printf("no recordings in %s: not compared\n", folder);
        return;
    }
    for (size_t i = 0; i < machines.n; i++) {
        const struct kwt_machine *machine = &machines.items[i];
        const char *tree = kwt_machine_get(machine, "tree");
        if (tree == NULL)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, tree);
        kw_cleanup_file FILE *file = fopen(path, "r");
        assert_non_null(file);
        compared++;
        while (fgets(line, sizeof(line), file) != NULL) {
            char *value = strchr(line, '\t');
            line[strcspn(line, "\r\n")] = '\0';
            if (line[0] == '#' || value == NULL || line[0] == '.' ||
                strncmp(line, "guest:", 6) == 0)
                continue;
            *value++ = '\0';
            (void)snprintf(expected, sizeof(expected), "at class/powercap/%s%s%s", line,
                           *value != '\0' ? " " : "", value);
            bool found = false;
            for (size_t k = 0; k < machine->n && !found; k++)
                found = strcmp(machine->lines[k], expected) == 0;
            if (!found)
                fail_msg("%s: %s does not say: %s", tree, machine->name, expected);
        }
    }
    /* each recording is some machine's */
    size_t recordings = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        recordings += strstr(entry->d_name, ".txt") != NULL;
    (void)closedir(dir);
    assert_int_equal(compared, recordings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domains_and_energies), cmocka_unit_test(test_check),
        cmocka_unit_test(test_check_forms),          cmocka_unit_test(test_check_without_root),
        cmocka_unit_test(test_same_as_recordings),
    };

    kwt_machines_read(&machines);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kwt_machines_free(&machines);
    return failed;
}
