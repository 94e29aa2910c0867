/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/accounting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Smallest allocation, in rows: a machine without containers has some fifty cgroups. */
#define ROWS_MIN 64

const struct agent_accounting_ops *const agent_accounting_backends[] = {
    &agent_accounting_ebpf,
    &agent_accounting_ebpf_raw,
    &agent_accounting_cgroup_files,
    NULL,
};

void agent_usage_free(struct agent_usage *usage)
{
    if (usage == NULL)
        return;
    free(usage->keys);
    free(usage->cpu_ns);
    (void)memset(usage, 0, sizeof(*usage));
}

static int grow(struct agent_usage *usage, size_t rows, unsigned n_packages)
{
    uint64_t *keys = reallocarray(usage->keys, rows, sizeof(*keys));

    if (keys == NULL)
        return -ENOMEM;
    usage->keys = keys;
    uint64_t *cells = reallocarray(usage->cpu_ns, rows, n_packages * sizeof(*cells));
    if (cells == NULL)
        return -ENOMEM;
    usage->cpu_ns = cells;
    usage->cap = rows;
    return 0;
}

int agent_usage_reset(struct agent_usage *usage, size_t n, unsigned n_packages)
{
    if (n_packages == 0)
        n_packages = 1;
    if (usage->cap < n || usage->n_packages < n_packages || usage->cap == 0) {
        size_t rows = n > ROWS_MIN ? n : ROWS_MIN;
        int r = grow(usage, rows > usage->cap ? rows : usage->cap, n_packages);
        if (r < 0)
            return r;
    }
    usage->n = 0;
    usage->n_packages = n_packages;
    usage->overflowed = false;
    usage->t_ns = 0;
    return 0;
}

uint64_t *agent_usage_add(struct agent_usage *usage, uint64_t key)
{
    if (usage->n == usage->cap && grow(usage, usage->cap * 2, usage->n_packages) < 0)
        return NULL;
    uint64_t *row = usage->cpu_ns + usage->n * usage->n_packages;
    (void)memset(row, 0, usage->n_packages * sizeof(*row));
    usage->keys[usage->n++] = key;
    return row;
}
