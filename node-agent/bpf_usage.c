/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/bpf_usage.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/sched.h"

/* Entries a batch: few system calls, and on 512 CPUs still only 1 MiB of buffer for time alone. */
#define BATCH           256
/* The kernel's own ENOTSUPP, which libc does not name: what an old map says to a batch. */
#define KERNEL_ENOTSUPP 524

static int alloc_batch(struct agent_bpf_usage *reader, unsigned cap)
{
    uint64_t *keys = reallocarray(reader->keys, cap, sizeof(*keys));

    if (keys == NULL)
        return -ENOMEM;
    reader->keys = keys;
    void *values = reallocarray(reader->values, cap, reader->n_cpus * reader->value_bytes);
    if (values == NULL)
        return -ENOMEM;
    reader->values = values;
    reader->batch_cap = cap;
    return 0;
}

int agent_bpf_usage_init(struct agent_bpf_usage *reader)
{
    return alloc_batch(reader, BATCH);
}

void agent_bpf_usage_free(struct agent_bpf_usage *reader)
{
    free(reader->keys);
    free(reader->values);
}

int agent_bpf_usage_insert(struct agent_bpf_usage *reader, uint64_t key)
{
    (void)memset(reader->values, 0, reader->n_cpus * reader->value_bytes);
    return bpf_map_update_elem(reader->map_fd, &key, reader->values, BPF_NOEXIST) < 0 ? -errno : 0;
}

static uint64_t time_of(const uint8_t *value)
{
    uint64_t ns;

    (void)memcpy(&ns, value, sizeof(ns));
    return ns;
}

static void add_more(struct agent_more *more, const uint8_t *value, size_t bytes)
{
    struct kw_sched_value all = {0};

    (void)memcpy(&all, value, bytes < sizeof(all) ? bytes : sizeof(all));
    more->shared_ns += all.shared_ns;
    for (unsigned i = 0; i < AGENT_COUNTER__MAX; i++)
        more->counters[i] += all.counters[i];
    more->enabled_ns += all.enabled_ns;
    more->running_ns += all.running_ns;
}

/* Puts one entry of the map into the reading. */
static int take_entry(const struct agent_bpf_usage *reader, uint64_t key, const uint8_t *values,
                      struct agent_usage *usage)
{
    size_t bytes = reader->value_bytes;

    if (key == KW_SCHED_KEY_OVERFLOW) {
        uint64_t total_ns = 0;
        for (unsigned i = 0; i < reader->n_cpus; i++)
            total_ns += time_of(values + i * bytes);
        if (total_ns == 0)
            return 0;
        usage->overflowed = true;
    }
    /* the kernel side's other key for the system exists because 0 is its idle */
    uint64_t *row = agent_usage_add(usage, key == KW_SCHED_KEY_SYSTEM ? AGENT_KEY_SYSTEM : key);
    if (row == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < reader->n_cpus; i++)
        row[reader->package[i]] += time_of(values + i * bytes);
    if (bytes == KW_SCHED_VALUE_TIME)
        return 0;
    struct agent_more *more = usage->more + (usage->n - 1) * usage->n_packages;
    for (unsigned i = 0; i < reader->n_cpus; i++)
        add_more(&more[reader->package[i]], values + i * bytes, bytes);
    return 0;
}

/* @return 0; -EOPNOTSUPP where this kernel has no batches for this map; -errno. */
static int read_batches(struct agent_bpf_usage *reader, int map_fd, struct agent_usage *usage)
{
    uint64_t position = 0; /* the kernel's own place mark, at least 4 bytes */
    bool first = true;

    for (;;) {
        uint32_t count = reader->batch_cap;
        int r = bpf_map_lookup_batch(map_fd, first ? NULL : &position, &position, reader->keys,
                                     reader->values, &count, NULL);
        if (r == -ENOSPC) { /* more entries in one bucket than the buffer takes */
            r = alloc_batch(reader, reader->batch_cap * 2);
            if (r < 0)
                return r;
            continue;
        }
        if (r < 0 && r != -ENOENT)
            return r == -EINVAL || r == -KERNEL_ENOTSUPP ? -EOPNOTSUPP : r;
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t *values =
                reader->values + (size_t)i * reader->n_cpus * reader->value_bytes;
            int added = take_entry(reader, reader->keys[i], values, usage);
            if (added < 0)
                return added;
        }
        if (r == -ENOENT)
            return 0; /* that was the last one */
        first = false;
    }
}

static int read_one_by_one(struct agent_bpf_usage *reader, int map_fd, struct agent_usage *usage)
{
    uint64_t key = 0, next = 0;
    bool first = true;

    /* only `forget` deletes, and not meanwhile: the walk sees each key once */
    while (bpf_map_get_next_key(map_fd, first ? NULL : &key, &next) == 0) {
        if (bpf_map_lookup_elem(map_fd, &next, reader->values) == 0) {
            int r = take_entry(reader, next, reader->values, usage);
            if (r < 0)
                return r;
        }
        key = next;
        first = false;
    }
    return errno == ENOENT ? 0 : -errno;
}

void agent_bpf_usage_delete(const struct agent_bpf_usage *reader, uint64_t key)
{
    if (agent_key_is_fixed(key))
        return;
    (void)bpf_map_delete_elem(reader->map_fd, &key);
    if (reader->n_spilled > 0)
        (void)bpf_map_delete_elem(reader->spill_fd, &key);
}

/* Appends the entries of a map. */
static int read_map(struct agent_bpf_usage *reader, int map_fd, struct agent_usage *usage)
{
    size_t before = usage->n;
    int r = reader->no_batch ? -EOPNOTSUPP : read_batches(reader, map_fd, usage);

    if (r != -EOPNOTSUPP)
        return r;
    reader->no_batch = true;
    usage->n = before;
    return read_one_by_one(reader, map_fd, usage);
}

static void add_row(struct agent_usage *usage, size_t to, size_t from)
{
    size_t n = usage->n_packages;

    for (size_t p = 0; p < n; p++) {
        usage->cpu_ns[to * n + p] += usage->cpu_ns[from * n + p];
        if ((usage->features & AGENT_FEATURES_MORE) == 0)
            continue;
        struct agent_more *more = &usage->more[to * n + p];
        const struct agent_more *other = &usage->more[from * n + p];
        more->shared_ns += other->shared_ns;
        for (unsigned i = 0; i < AGENT_COUNTER__MAX; i++)
            more->counters[i] += other->counters[i];
        more->enabled_ns += other->enabled_ns;
        more->running_ns += other->running_ns;
    }
}

/* Two CPUs that meet a cgroup at the same moment, just as room is made in the first map, may have
 * made an entry in one map each: the rows from `n` on whose key has one of the others, too, are
 * added to it. */
static void join_rows(const struct agent_bpf_usage *reader, struct agent_usage *usage, size_t n)
{
    for (size_t i = n; i < usage->n; i++) {
        size_t at = 0;
        if (bpf_map_lookup_elem(reader->map_fd, &usage->keys[i], reader->values) < 0)
            continue;
        while (at < n && usage->keys[at] != usage->keys[i])
            at++;
        if (at == n)
            continue; /* made since that map was read: the next reading finds both */
        add_row(usage, at, i);
        agent_usage_drop(usage, i--);
    }
}

/* What did not fit into the first map; looked at only while there is any. */
static int read_spill(struct agent_bpf_usage *reader, struct agent_usage *usage)
{
    uint64_t spilled = *reader->spilled;
    size_t n = usage->n;

    if (spilled == reader->spilled_seen && reader->n_spilled == 0)
        return 0;
    int r = read_map(reader, reader->spill_fd, usage);
    if (r < 0)
        return r;
    reader->spilled_seen = spilled;
    reader->n_spilled = usage->n - n;
    join_rows(reader, usage, n);
    return 0;
}

int agent_bpf_usage_read(struct agent_bpf_usage *reader, size_t rows, unsigned n_packages,
                         unsigned features, struct agent_usage *ret)
{
    int r = agent_usage_reset(ret, rows, n_packages, features);

    if (r == 0)
        r = read_map(reader, reader->map_fd, ret);
    return r < 0 ? r : read_spill(reader, ret);
}

bool agent_bpf_allocates_in_tracing(void)
{
    struct btf *btf = btf__load_vmlinux_btf();

    if (btf == NULL)
        return false;
    bool found = btf__find_by_name_kind(btf, "bpf_mem_alloc", BTF_KIND_STRUCT) > 0;
    btf__free(btf);
    return found;
}
