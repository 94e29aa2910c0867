/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/node-agent/meter_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/support/cmocka.h"

void kwt_meter_link(const struct kwt_tree *tree, const char *path, const char *target)
{
    char full[4096];

    /* a file makes the folders, and gives way to the link */
    kwt_tree_write(tree, path, "");
    assert_int_equal(kw_path_join(full, sizeof(full), tree->root, path), 0);
    assert_int_equal(unlink(full), 0);
    assert_int_equal(symlink(target, full), 0);
}

void kwt_meter_zone(const struct kwt_tree *tree, const char *dir, const char *name,
                    const char *energy, const char *range)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "class/powercap/%s/name", dir);
    kwt_tree_write(tree, path, name);
    (void)snprintf(path, sizeof(path), "class/powercap/%s/energy_uj", dir);
    kwt_tree_write(tree, path, energy);
    (void)snprintf(path, sizeof(path), "class/powercap/%s/max_energy_range_uj", dir);
    if (range != NULL)
        kwt_tree_write(tree, path, range);
}

void kwt_meter_topology(struct agent_topology *topology, unsigned packages, const char *vendor)
{
    memset(topology, 0, sizeof(*topology));
    topology->n_cpus = topology->n_online = 2 * packages;
    topology->n_cores = packages;
    topology->n_packages = packages;
    for (unsigned p = 0; p < packages; p++) {
        topology->package_ids[p] = p;
        topology->cpu_package[2 * p] = topology->cpu_package[2 * p + 1] = (uint8_t)p;
    }
    (void)snprintf(topology->cpu_vendor, sizeof(topology->cpu_vendor), "%s", vendor);
}
