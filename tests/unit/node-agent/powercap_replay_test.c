/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The powercap meter on recorded machines (../shared/data/rapl-trees, not part of the repository):
 * each file is "path TAB value" a line, and is built up as a tree. Which zones must be read is
 * written down here; a recording that names none must leave the meter to the next one. The energy
 * of a zone that is named and has no value in the recording is made up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node-agent/meter.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

static char folder[3072];

struct expectation {
    const char *file;
    const char *vendor;
    const char *zones; /* in the order of the meter, "kind:package:directory"; "": none is usable */
};

static const struct expectation expectations[] = {
    {"client-procfs-fixture.txt", "GenuineIntel", "cpu:0:intel-rapl:0"},
    {"container-dangling-links.txt", "GenuineIntel", ""},
    {"core-ultra-7-265h.txt", "GenuineIntel", "cpu:0:intel-rapl:0 platform:0:intel-rapl:1"},
    {"four-socket.txt", "GenuineIntel",
     "cpu:0:intel-rapl:0 dram:0:intel-rapl:0:0 cpu:1:intel-rapl:1 dram:1:intel-rapl:1:0 "
     "cpu:2:intel-rapl:2 dram:2:intel-rapl:2:0 cpu:3:intel-rapl:3 dram:3:intel-rapl:3:0"},
    {"gaming-laptop-three-children.txt", "GenuineIntel", ""},
    {"i7-4770s.txt", "GenuineIntel", ""},
    {"i7-8550u.txt", "GenuineIntel",
     "cpu:0:intel-rapl:0 dram:0:intel-rapl:0:2 platform:0:intel-rapl:1"},
    {"kvm-host-and-guest.txt", "GenuineIntel", ""},
    {"laptop-mmio-same-counter.txt", "GenuineIntel",
     "cpu:0:intel-rapl:0 dram:0:intel-rapl-mmio:0:0"},
    {"laptop-psys-55w.txt", "GenuineIntel", "cpu:0:intel-rapl:0 platform:0:intel-rapl:1"},
    {"laptop-three-constraints.txt", "GenuineIntel", ""},
    {"no-powercap-kernel.txt", "GenuineIntel", ""},
    {"sapphire-rapids-1psys.txt", "GenuineIntel",
     "cpu:0:intel-rapl:0 dram:0:intel-rapl:0:0 platform:0:intel-rapl:1"},
    {"tablet-i5-1035g4.txt", "GenuineIntel", "cpu:0:intel-rapl:0"},
    {"threadripper-1950x-two-dies.txt", "AuthenticAMD", "cpu:0:intel-rapl:0"},
    {"two-socket-psys-between.txt", "GenuineIntel",
     "cpu:0:intel-rapl:0 cpu:1:intel-rapl:2 platform:0:intel-rapl:1"},
    {"two-socket-xeon-5118.txt", "GenuineIntel",
     "cpu:0:intel-rapl:0 dram:0:intel-rapl:0:0 cpu:1:intel-rapl:1 dram:1:intel-rapl:1:0"},
    {"ultrabook-mmio-twin.txt", "GenuineIntel", "cpu:0:intel-rapl:0"},
};

/** One line of a recording, as a file, link or folder of the tree; what gave an error on the
 * machine gives one here. */
static void build(const struct kwt_tree *tree, char *line)
{
    char path[512], *value = strchr(line, '\t');

    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '#' || value == NULL || line[0] == '.' || strncmp(line, "guest:", 6) == 0)
        return;
    *value++ = '\0';
    (void)snprintf(path, sizeof(path), "class/powercap/%s", line);
    if (strncmp(value, "->", 2) == 0) {
        kwt_meter_link(tree, path, value + 2);
    } else if (value[0] == '-' || (value[0] == '!' && strcmp(value, "!ENOENT") != 0)) {
        kwt_tree_mkdir(tree, path);
    } else if (value[0] != '!') {
        kwt_tree_write(tree, path, strcmp(value, "?") == 0 ? "1000000" : value);
        char *leaf = strstr(path, "/name");
        if (leaf == NULL || strcmp(value, "?") == 0)
            return;
        (void)snprintf(leaf, sizeof(path) - (size_t)(leaf - path), "/energy_uj");
        kwt_tree_write(tree, path, "1000000");
    }
}

/** What the meter reads, as an expectation is written. */
static void describe(const void *self, char *out, size_t size)
{
    static const char *const kinds[] = {"cpu", "dram", "platform"};
    const struct agent_domain *domains = NULL;
    size_t n = agent_meter_powercap.domains(self, &domains), used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const char *dir = strstr(domains[i].path, "/powercap/") + strlen("/powercap/");
        used += (size_t)snprintf(out + used, size - used, "%s%s:%u:%.*s", i > 0 ? " " : "",
                                 kinds[domains[i].kind], domains[i].package_id,
                                 (int)strcspn(dir, "/"), dir);
    }
}

static void replay(const struct expectation *expected)
{
    struct kwt_tree tree;
    struct agent_topology topology;
    struct agent_meter_conf conf = {.topology = &topology, .sysfs_root = tree.root};
    struct agent_reading readings[16];
    char path[4096], line[512], found[1024] = "";
    void *self = NULL;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, expected->file);
    kw_cleanup_file FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s is missing", path);
    kwt_tree_make(&tree);
    if (strcmp(expected->file, "no-powercap-kernel.txt") != 0)
        kwt_tree_mkdir(&tree, "class/powercap");
    while (fgets(line, sizeof(line), file) != NULL)
        build(&tree, line);
    kwt_meter_topology(&topology, 1, expected->vendor);
    struct kw_err err = {0};
    int rc = agent_meter_powercap.open(&conf, &self, &err);
    if (rc == 0) {
        describe(self, found, sizeof(found));
        assert_int_equal(agent_meter_powercap.read(self, NULL, readings), 0);
        agent_meter_powercap.close(&self);
    } else {
        assert_true(err.text[0] != '\0');
    }
    if (strcmp(found, expected->zones) != 0)
        fail_msg("%s: %s; %s", expected->file, found, err.text);
    kwt_tree_remove(&tree);
}

static void test_recorded_machines(void **state)
{
    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(expectations); i++)
        replay(&expectations[i]);
}

int main(void)
{
    const char *shared = getenv("KWATT_SHARED");
    const char *source = getenv("KWATT_SOURCE_DIR");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded_machines)};

    if (shared != NULL)
        (void)snprintf(folder, sizeof(folder), "%s/data/rapl-trees", shared);
    else
        (void)snprintf(folder, sizeof(folder), "%s/../shared/data/rapl-trees",
                       source != NULL ? source : ".");
    if (access(folder, R_OK) != 0) {
        printf("SKIP: no recordings in %s\n", folder);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
