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

bool agent_key_is_fixed(uint64_t key)
{
    return key == AGENT_KEY_SYSTEM || key == AGENT_KEY_KERNEL || key == AGENT_KEY_INTERRUPTS ||
           key == AGENT_KEY_OVERFLOW;
}

bool agent_accounting_counts(const struct agent_accounting_ops *ops, void *self,
                             enum agent_feature feature)
{
    return ops->features != NULL && ops->features(self)[feature].on;
}

const char *const agent_feature_names[] = {
    [AGENT_FEATURE_SMT] = "smt",
    [AGENT_FEATURE_COUNTERS] = "counters",
    [AGENT_FEATURE_SOFTIRQ] = "softirq",
};
_Static_assert(sizeof(agent_feature_names) / sizeof(agent_feature_names[0]) == AGENT_FEATURE__MAX,
               "a feature has no name");

void agent_usage_free(struct agent_usage *usage)
{
    if (usage == NULL)
        return;
    free(usage->keys);
    free(usage->cpu_ns);
    free(usage->more);
    (void)memset(usage, 0, sizeof(*usage));
}

static int grow_more(struct agent_usage *usage, size_t rows, unsigned n_packages)
{
    size_t wanted = rows * n_packages;

    if ((usage->features & AGENT_FEATURES_MORE) == 0 || wanted <= usage->cap_more)
        return 0;
    struct agent_more *more = reallocarray(usage->more, wanted, sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    usage->more = more;
    usage->cap_more = wanted;
    return 0;
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
    if (grow_more(usage, rows, n_packages) < 0)
        return -ENOMEM;
    usage->cap = rows;
    return 0;
}

int agent_usage_reset(struct agent_usage *usage, size_t n, unsigned n_packages, unsigned features)
{
    usage->features = features;
    if (n_packages == 0)
        n_packages = 1;
    if (usage->cap < n || usage->n_packages < n_packages || usage->cap == 0) {
        size_t rows = n > ROWS_MIN ? n : ROWS_MIN;
        int r = grow(usage, rows > usage->cap ? rows : usage->cap, n_packages);
        if (r < 0)
            return r;
    }
    if (grow_more(usage, usage->cap, n_packages) < 0)
        return -ENOMEM;
    usage->n = 0;
    usage->n_packages = n_packages;
    usage->overflowed = false;
    usage->crowded = false;
    usage->t_ns = 0;
    return 0;
}

uint64_t *agent_usage_add(struct agent_usage *usage, uint64_t key)
{
    if (usage->n == usage->cap && grow(usage, usage->cap * 2, usage->n_packages) < 0)
        return NULL;
    uint64_t *row = usage->cpu_ns + usage->n * usage->n_packages;
    (void)memset(row, 0, usage->n_packages * sizeof(*row));
    if ((usage->features & AGENT_FEATURES_MORE) != 0)
        (void)memset(usage->more + usage->n * usage->n_packages, 0,
                     usage->n_packages * sizeof(*usage->more));
    usage->keys[usage->n++] = key;
    return row;
}

void agent_usage_drop(struct agent_usage *usage, size_t row)
{
    size_t n = usage->n_packages, last = --usage->n;

    usage->keys[row] = usage->keys[last];
    (void)memmove(usage->cpu_ns + row * n, usage->cpu_ns + last * n, n * sizeof(*usage->cpu_ns));
    if ((usage->features & AGENT_FEATURES_MORE) != 0)
        (void)memmove(usage->more + row * n, usage->more + last * n, n * sizeof(*usage->more));
}
