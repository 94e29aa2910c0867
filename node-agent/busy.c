/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/busy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "node-agent/cgroup_stat.h"

/* 1024 CPUs with a line of 100 bytes, and the interrupt counts behind them. */
#define PROC_STAT_MAX (512u << 10)
/* USER_HZ of every architecture that runs Kubernetes; sysconf knows better. */
#define TICKS_PER_S   100

int agent_busy_open(struct agent_busy *busy, const char *procfs_root,
                    const struct agent_topology *topology)
{
    long ticks = sysconf(_SC_CLK_TCK);

    (void)memset(busy, 0, sizeof(*busy));
    busy->tick_ns = KW_NS_PER_S / (ticks > 0 ? (uint64_t)ticks : TICKS_PER_S);
    busy->n_packages = topology->n_packages > 0 ? topology->n_packages : 1;
    if (busy->n_packages > AGENT_PACKAGES_MAX)
        return -EINVAL;
    busy->n_cpus = topology->n_cpus < AGENT_CPUS_MAX ? topology->n_cpus : AGENT_CPUS_MAX;
    (void)memcpy(busy->cpu_package, topology->cpu_package, busy->n_cpus);
    int r = kw_path_join(busy->path, sizeof(busy->path), procfs_root, "stat");
    if (r < 0)
        return r;
    busy->text = malloc(PROC_STAT_MAX);
    if (busy->text == NULL)
        return -ENOMEM;
    agent_busy_read(busy);
    return 0;
}

void agent_busy_close(struct agent_busy *busy)
{
    free(busy->text);
    busy->text = NULL;
}

void agent_busy_read(struct agent_busy *busy)
{
    uint64_t now_ns[AGENT_PACKAGES_MAX];
    ssize_t n = kw_file_read_at(AT_FDCWD, busy->path, busy->text, PROC_STAT_MAX);

    (void)memset(busy->delta_ns, 0, sizeof(busy->delta_ns));
    busy->sum_ns = 0;
    if (n < 0 || agent_proc_stat_busy(busy->text, (size_t)n, busy->tick_ns, busy->cpu_package,
                                      busy->n_cpus, busy->n_packages, now_ns) < 0)
        return;
    for (unsigned p = 0; p < busy->n_packages; p++) {
        if (now_ns[p] > busy->at_ns[p]) { /* a CPU that goes offline takes its numbers along */
            busy->delta_ns[p] = now_ns[p] - busy->at_ns[p];
            busy->sum_ns += busy->delta_ns[p];
        }
        busy->at_ns[p] = now_ns[p];
    }
}

void agent_busy_split(const struct agent_busy *busy, uint64_t ns, uint64_t *cells)
{
    uint64_t left_ns = ns;
    unsigned busiest = 0;

    for (unsigned p = 0; busy->sum_ns > 0 && p < busy->n_packages; p++) {
        uint64_t part = (uint64_t)((unsigned __int128)ns * busy->delta_ns[p] / busy->sum_ns);
        cells[p] += part;
        left_ns -= part;
        if (busy->delta_ns[p] > busy->delta_ns[busiest])
            busiest = p;
    }
    cells[busiest] += left_ns;
}
