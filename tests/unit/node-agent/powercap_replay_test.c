/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zones of recorded machines (../shared/data/rapl-trees, not part of the repository): each file
 * is "path TAB value" a line, and is built up as a tree. What must be chosen is written down here;
 * recordings without the zones' names are left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node-agent/powercap_zones.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

static char folder[3072];

struct expectation {
    const char *file;
    const char *vendor;
    unsigned cpu, dram, platform;
};

static const struct expectation expectations[] = {
    {"client-procfs-fixture.txt", "GenuineIntel", 1, 0, 0},
    {"container-dangling-links.txt", "GenuineIntel", 0, 0, 0},
    {"core-ultra-7-265h.txt", "GenuineIntel", 1, 0, 1},
    {"four-socket.txt", "GenuineIntel", 4, 4, 0},
    {"i7-8550u.txt", "GenuineIntel", 1, 1, 1},
    {"laptop-mmio-same-counter.txt", "GenuineIntel", 1, 1, 0},
    {"laptop-psys-55w.txt", "GenuineIntel", 1, 0, 1},
    {"sapphire-rapids-1psys.txt", "GenuineIntel", 1, 1, 1},
    {"threadripper-1950x-two-dies.txt", "AuthenticAMD", 1, 0, 0},
    {"two-socket-psys-between.txt", "GenuineIntel", 2, 0, 1},
    {"two-socket-xeon-5118.txt", "GenuineIntel", 2, 2, 0},
    {"ultrabook-mmio-twin.txt", "GenuineIntel", 1, 0, 0},
};

/** One line of a recording, as a file or link of the tree. */
static void build(const struct kwt_tree *tree, char *line)
{
    char path[512], *value = strchr(line, '\t');

    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '#' || value == NULL)
        return;
    *value++ = '\0';
    (void)snprintf(path, sizeof(path), "class/powercap/%s", line);
    if (strncmp(value, "->", 2) == 0)
        kwt_meter_link(tree, path, value + 2);
    else if (value[0] != '!' && value[0] != '-')
        kwt_tree_write(tree, path, strcmp(value, "?") == 0 ? "1000000" : value);
}

static void replay(const struct expectation *expected)
{
    struct kwt_tree tree;
    struct agent_topology topology;
    struct agent_zones zones = {0};
    unsigned found[AGENT_DOMAIN__MAX] = {0};
    char path[4096], line[512];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, expected->file);
    kw_cleanup_file FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s is missing", path);
    kwt_tree_make(&tree);
    kwt_tree_mkdir(&tree, "class/powercap");
    while (fgets(line, sizeof(line), file) != NULL)
        build(&tree, line);
    kwt_meter_topology(&topology, 1, expected->vendor);
    assert_int_equal(agent_zones_scan(tree.root, &topology, &zones), 0);
    for (size_t i = 0; i < zones.n; i++)
        found[zones.items[i].domain.kind]++;
    if (found[AGENT_DOMAIN_CPU] != expected->cpu || found[AGENT_DOMAIN_DRAM] != expected->dram ||
        found[AGENT_DOMAIN_PLATFORM] != expected->platform)
        fail_msg("%s: %u CPU, %u DRAM, %u platform", expected->file, found[AGENT_DOMAIN_CPU],
                 found[AGENT_DOMAIN_DRAM], found[AGENT_DOMAIN_PLATFORM]);
    agent_zones_free(&zones);
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
