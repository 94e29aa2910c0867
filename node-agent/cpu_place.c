/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/cpu_place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file.h"
#include "node-agent/powercap_zones.h"

/** A number of a CPU's topology folder. @return it; `fallback` where sysfs does not say. */
static int64_t read_topology(const char *sysfs_root, unsigned cpu, const char *name,
                             int64_t fallback)
{
    char path[4096];
    uint64_t value = 0;

    if (snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/topology/%s", sysfs_root, cpu,
                 name) >= (int)sizeof(path) ||
        kw_file_read_u64_at(AT_FDCWD, path, &value) < 0 || value > INT32_MAX)
        return fallback;
    return (int64_t)value;
}

static int compare_places(const void *a, const void *b)
{
    const struct agent_cpu_place *x = a, *y = b;

    if (x->package_id != y->package_id)
        return x->package_id < y->package_id ? -1 : 1;
    return x->die < y->die ? -1 : x->die > y->die;
}

void agent_cpu_places_find(const char *sysfs_root, const struct agent_topology *topology,
                           const struct agent_cpu_set *cpus, struct agent_cpu_places *ret)
{
    bool mirror = agent_dies_mirror(topology);

    ret->n = ret->left_out = 0;
    for (unsigned i = 0; i < cpus->n; i++) {
        unsigned cpu = cpus->cpus[i], k = 0;
        uint32_t known = topology->package_ids[topology->cpu_package[cpu]];
        struct agent_cpu_place place = {
            .cpu = cpu,
            .package_id =
                (uint32_t)read_topology(sysfs_root, cpu, "physical_package_id", (int64_t)known),
            .die = mirror ? -1 : (int)read_topology(sysfs_root, cpu, "die_id", -1),
        };
        while (k < ret->n && compare_places(&ret->items[k], &place) != 0)
            k++;
        if (k < ret->n)
            continue;
        if (ret->n < AGENT_PLACES_MAX)
            ret->items[ret->n++] = place;
        else
            ret->left_out++;
    }
    qsort(ret->items, ret->n, sizeof(ret->items[0]), compare_places);
}
