/* SPDX-License-Identifier: Apache-2.0 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf/sched.h"
#include "bpf/sched.skel.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/accounting.h"
#include "node-agent/bpf_why.h"
#include "node-agent/cgroup_mounts.h"

/*
 * The user side of bpf/sched.bpf.c: load, attach, read. The only file that knows libbpf.
 *
 * The two backends here differ in one program of the object. Which one the kernel takes is found
 * out by loading it, never from a version. `open` ends with a flush of every CPU: it proves that
 * the kernel can run a program on a given CPU (else the backend is refused), and it takes note of
 * tasks that have been running since before the program was attached.
 *
 * A reading flushes the CPUs that are not idle (an idle CPU has no open slice and is left asleep),
 * then reads the map in batches, each CPU's value going to that CPU's package. The reading is put
 * together beside the caller's and swapped in when it is complete. A CPU that went offline answers
 * the flush with ENXIO; it left in its idle task, so its slot is closed and its values stay in the
 * map.
 *
 * Memory: preallocated up to PREALLOC_BYTES_MAX. Where the machine needs more, entries are
 * allocated when they are used, if the kernel's allocator is safe inside the scheduler (it then has
 * a type bpf_mem_alloc), else the map is made smaller and the overflow key takes what does not fit.
 */

/* Entries of a machine with few cgroups: 4096 x 8 bytes x CPUs. */
#define ENTRIES_MIN        4096
/* Room for cgroups to come, and for those that ended and are not yet booked. */
#define ENTRIES_PER_CGROUP 4
/* 2^20 cgroups: no kernel runs that many, and it bounds what a caller can ask for. */
#define ENTRIES_MAX        (1u << 20)
/* 16 MiB hold 4096 cgroups on 512 CPUs; unswappable, so no more is taken unasked. */
#define PREALLOC_BYTES_MAX (16u << 20)
/* Entries a batch: few system calls, and on 512 CPUs still only 1 MiB of buffer. */
#define BATCH              256
/* The kernel's own ENOTSUPP, which libc does not name: what an old map says to a batch. */
#define KERNEL_ENOTSUPP    524
/* The verifier's last words; it is asked for them only after a refusal. */
#define LOG_BYTES          65536

struct bpf_acct {
    struct sched_bpf *skel;
    struct bpf_link *link;
    struct bpf_link *moved_link; /* NULL: the kernel has not that tracepoint */
    int usage_fd, slots_fd, flush_fd;
    unsigned n_cpus; /* possible CPUs: values of one entry */
    unsigned n_packages;
    uint16_t *cpu;                 /* n_cpus: place among the possible CPUs -> CPU number */
    uint8_t *package;              /* n_cpus: place -> dense package */
    struct kw_sched_slot *slots;   /* n_cpus */
    uint64_t *keys;                /* batch_cap */
    struct kw_sched_value *values; /* batch_cap x n_cpus */
    unsigned batch_cap;
    bool no_batch;            /* this kernel reads one by one */
    struct agent_usage stage; /* the reading that is being put together */
};

static void bpf_acct_close(void **self)
{
    struct bpf_acct *acct = *self;

    if (acct == NULL)
        return;
    bpf_link__destroy(acct->link);
    bpf_link__destroy(acct->moved_link);
    sched_bpf__destroy(acct->skel);
    agent_usage_free(&acct->stage);
    free(acct->cpu);
    free(acct->package);
    free(acct->slots);
    free(acct->keys);
    free(acct->values);
    free(acct);
    *self = NULL;
}

static int alloc_batch(struct bpf_acct *acct, unsigned cap)
{
    uint64_t *keys = reallocarray(acct->keys, cap, sizeof(*keys));

    if (keys == NULL)
        return -ENOMEM;
    acct->keys = keys;
    void *values = reallocarray(acct->values, cap, acct->n_cpus * sizeof(*acct->values));
    if (values == NULL)
        return -ENOMEM;
    acct->values = values;
    acct->batch_cap = cap;
    return 0;
}

/* Places of the possible CPUs: the kernel hands out one value for each, in ascending order. */
static int map_cpus(struct bpf_acct *acct, const struct agent_accounting_conf *conf)
{
    int n = libbpf_num_possible_cpus();
    struct agent_cpu_set possible;

    if (n <= 0)
        return n < 0 ? n : -EINVAL;
    acct->n_cpus = (unsigned)n;
    acct->n_packages = conf->topology->n_packages > 0 ? conf->topology->n_packages : 1;
    acct->cpu = calloc(acct->n_cpus, sizeof(*acct->cpu));
    acct->package = calloc(acct->n_cpus, sizeof(*acct->package));
    acct->slots = calloc(acct->n_cpus, sizeof(*acct->slots));
    if (acct->cpu == NULL || acct->package == NULL || acct->slots == NULL)
        return -ENOMEM;
    bool listed = agent_cpu_set_read(conf->sysfs_root, "possible", &possible) == 0 &&
                  possible.n == acct->n_cpus;
    for (unsigned i = 0; i < acct->n_cpus; i++) {
        acct->cpu[i] = listed ? possible.cpus[i] : (uint16_t)i;
        if (acct->cpu[i] < AGENT_CPUS_MAX &&
            conf->topology->cpu_package[acct->cpu[i]] < acct->n_packages)
            acct->package[i] = conf->topology->cpu_package[acct->cpu[i]];
    }
    return alloc_batch(acct, BATCH);
}

static bool kernel_allocates_in_tracing(void)
{
    struct btf *btf = btf__load_vmlinux_btf();

    if (btf == NULL)
        return false;
    bool found = btf__find_by_name_kind(btf, "bpf_mem_alloc", BTF_KIND_STRUCT) > 0;
    btf__free(btf);
    return found;
}

static void size_map(struct bpf_acct *acct, const struct agent_accounting_conf *conf,
                     const struct agent_cgroup_mounts *mounts)
{
    uint64_t entries = conf->max_cgroups;
    uint64_t entry_bytes = (uint64_t)acct->n_cpus * sizeof(struct kw_sched_value);

    if (entries == 0) {
        entries = agent_cgroup_mounts_count(mounts->paths[AGENT_HIERARCHY_V2], ENTRIES_MAX) +
                  agent_cgroup_mounts_count(mounts->paths[AGENT_HIERARCHY_CPUACCT], ENTRIES_MAX);
        entries *= ENTRIES_PER_CGROUP;
        if (entries < ENTRIES_MIN)
            entries = ENTRIES_MIN;
    }
    if (entries > ENTRIES_MAX)
        entries = ENTRIES_MAX;
    entries += 2; /* the system and the overflow key, which are always there */
    if (entries * entry_bytes > PREALLOC_BYTES_MAX) {
        if (kernel_allocates_in_tracing())
            (void)bpf_map__set_map_flags(acct->skel->maps.usage, BPF_F_NO_PREALLOC);
        else if (conf->max_cgroups == 0 && entries > ENTRIES_MIN)
            entries = PREALLOC_BYTES_MAX / entry_bytes > ENTRIES_MIN
                          ? PREALLOC_BYTES_MAX / entry_bytes
                          : ENTRIES_MIN;
    }
    (void)bpf_map__set_max_entries(acct->skel->maps.usage, (uint32_t)entries);
}

static uint64_t root_id(const char *mount)
{
    struct stat st;

    return mount[0] != '\0' && stat(mount, &st) == 0 ? (uint64_t)st.st_ino : KW_SCHED_ROOT_ID;
}

static int insert_key(struct bpf_acct *acct, uint64_t key)
{
    (void)memset(acct->values, 0, acct->n_cpus * sizeof(*acct->values));
    return bpf_map_update_elem(acct->usage_fd, &key, acct->values, BPF_NOEXIST) < 0 ? -errno : 0;
}

/* Closes the running slice of one CPU. @return 0; -ENXIO offline; -errno. */
static int flush_cpu(const struct bpf_acct *acct, unsigned cpu)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu);
    int r = bpf_prog_test_run_opts(acct->flush_fd, &opts);

    return r < 0 ? r : 0;
}

/* @param all also the CPUs that are idle: at the start their slots say nothing yet. */
static int flush(struct bpf_acct *acct, bool all)
{
    uint32_t zero = 0;

    if (bpf_map_lookup_elem(acct->slots_fd, &zero, acct->slots) < 0)
        return -errno;
    for (unsigned i = 0; i < acct->n_cpus; i++) {
        if (!all && acct->slots[i].key == KW_SCHED_KEY_IDLE)
            continue;
        int r = flush_cpu(acct, acct->cpu[i]);
        if (r < 0 && r != -ENXIO)
            return r;
    }
    return 0;
}

/* libbpf says why in errno; a refusal without a reason is still one. */
static int last_error(void)
{
    return errno > 0 ? -errno : -EINVAL;
}

static int load(struct bpf_acct *acct, const struct agent_accounting_conf *conf, bool raw,
                char *log, struct kw_err *err)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = log, .kernel_log_size = LOG_BYTES,
                .kernel_log_level = 0);
    kw_cleanup_free struct agent_cgroup_mounts *mounts = calloc(1, sizeof(*mounts));

    if (mounts == NULL) {
        (void)kw_err_set(err, -ENOMEM, "no memory");
        return -ENOMEM;
    }
    acct->skel = sched_bpf__open_opts(&opts);
    if (acct->skel == NULL) {
        int refused = last_error();
        (void)agent_bpf_why(err, refused, "opening the BPF object", conf->procfs_root, NULL);
        return refused;
    }
    (void)agent_cgroup_mounts_read(conf->sysfs_root, conf->procfs_root, mounts);
    acct->skel->rodata->v1_enabled = mounts->paths[AGENT_HIERARCHY_CPUACCT][0] != '\0';
    acct->skel->rodata->v2_root_id = root_id(mounts->paths[AGENT_HIERARCHY_V2]);
    acct->skel->rodata->v1_root_id = root_id(mounts->paths[AGENT_HIERARCHY_CPUACCT]);
    size_map(acct, conf, mounts);
    struct bpf_program *unused = raw ? acct->skel->progs.switch_btf : acct->skel->progs.switch_raw;
    (void)bpf_program__set_autoload(unused, false);
    int r = sched_bpf__load(acct->skel);
    if (r < 0) {
        (void)agent_bpf_why(err, r, "loading the BPF program", conf->procfs_root, log);
        return r;
    }
    acct->usage_fd = bpf_map__fd(acct->skel->maps.usage);
    acct->slots_fd = bpf_map__fd(acct->skel->maps.slots);
    acct->flush_fd = bpf_program__fd(acct->skel->progs.flush);
    return 0;
}

static int attach(struct bpf_acct *acct, const struct agent_accounting_conf *conf, bool raw,
                  struct kw_err *err)
{
    int r = insert_key(acct, KW_SCHED_KEY_OVERFLOW);

    if (r == 0)
        r = insert_key(acct, KW_SCHED_KEY_SYSTEM);
    if (r < 0)
        return agent_bpf_why(err, r, "writing a BPF map", conf->procfs_root, NULL);
    acct->link =
        bpf_program__attach(raw ? acct->skel->progs.switch_raw : acct->skel->progs.switch_btf);
    if (acct->link == NULL)
        return agent_bpf_why(err, last_error(), "attaching to sched_switch", conf->procfs_root,
                             NULL);
    acct->moved_link = bpf_program__attach(acct->skel->progs.moved);
    r = flush(acct, true);
    if (r < 0)
        return kw_err_set(err, r,
                          "eBPF: the kernel cannot run a program on a given CPU (%s); Linux 5.10 "
                          "or later can",
                          kw_errno_text(r));
    return 0;
}

static int bpf_acct_open(const struct agent_accounting_conf *conf, bool raw, void **ret,
                         struct kw_err *err)
{
    kw_cleanup(bpf_acct_close) void *self = calloc(1, sizeof(struct bpf_acct));
    kw_cleanup_free char *log = calloc(1, LOG_BYTES);
    struct bpf_acct *acct = self;

    if (acct == NULL || log == NULL)
        return kw_err_set(err, -ENOMEM, "no memory");
    (void)libbpf_set_print(NULL); /* it would write to stderr; the cause goes into `err` */
    int r = map_cpus(acct, conf);
    if (r < 0)
        return kw_err_set(err, r, "eBPF: the list of CPUs cannot be read: %s", kw_errno_text(r));
    r = load(acct, conf, raw, log, err);
    if (r == 0)
        r = attach(acct, conf, raw, err);
    if (r < 0)
        return r;
    *ret = KW_TAKE_PTR(self);
    return 0;
}

static int open_btf(const struct agent_accounting_conf *conf, void **ret, struct kw_err *err)
{
    return bpf_acct_open(conf, false, ret, err);
}

static int open_raw(const struct agent_accounting_conf *conf, void **ret, struct kw_err *err)
{
    return bpf_acct_open(conf, true, ret, err);
}

/* Puts one entry of the map into the reading. */
static int take_entry(struct bpf_acct *acct, uint64_t key, const struct kw_sched_value *values)
{
    bool overflow = key == KW_SCHED_KEY_OVERFLOW;
    uint64_t total_ns = 0;

    if (overflow) {
        for (unsigned i = 0; i < acct->n_cpus; i++)
            total_ns += values[i].on_cpu_ns;
        if (total_ns == 0)
            return 0;
        acct->stage.overflowed = true;
    }
    /* the kernel side's other key for the system exists because 0 is its idle */
    uint64_t *row =
        agent_usage_add(&acct->stage, key == KW_SCHED_KEY_SYSTEM ? AGENT_KEY_SYSTEM : key);
    if (row == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < acct->n_cpus; i++)
        row[acct->package[i]] += values[i].on_cpu_ns;
    return 0;
}

/* @return 0; -EOPNOTSUPP where this kernel has no batches for this map; -errno. */
static int read_batches(struct bpf_acct *acct)
{
    uint64_t position = 0; /* the kernel's own place mark, at least 4 bytes */
    bool first = true;

    for (;;) {
        uint32_t count = acct->batch_cap;
        int r = bpf_map_lookup_batch(acct->usage_fd, first ? NULL : &position, &position,
                                     acct->keys, acct->values, &count, NULL);
        if (r == -ENOSPC) { /* more entries in one bucket than the buffer takes */
            r = alloc_batch(acct, acct->batch_cap * 2);
            if (r < 0)
                return r;
            continue;
        }
        if (r < 0 && r != -ENOENT)
            return r == -EINVAL || r == -KERNEL_ENOTSUPP ? -EOPNOTSUPP : r;
        for (uint32_t i = 0; i < count; i++) {
            int added = take_entry(acct, acct->keys[i], acct->values + (size_t)i * acct->n_cpus);
            if (added < 0)
                return added;
        }
        if (r == -ENOENT)
            return 0; /* that was the last one */
        first = false;
    }
}

static int read_one_by_one(struct bpf_acct *acct)
{
    uint64_t key = 0, next = 0;
    bool first = true;

    /* only `forget` deletes, and not meanwhile: the walk sees each key once */
    while (bpf_map_get_next_key(acct->usage_fd, first ? NULL : &key, &next) == 0) {
        if (bpf_map_lookup_elem(acct->usage_fd, &next, acct->values) == 0) {
            int r = take_entry(acct, next, acct->values);
            if (r < 0)
                return r;
        }
        key = next;
        first = false;
    }
    return errno == ENOENT ? 0 : -errno;
}

static int bpf_acct_read(void *self, struct agent_usage *ret)
{
    struct bpf_acct *acct = self;
    uint64_t before_ns = kw_now_ns();
    int r = flush(acct, false);

    if (r < 0)
        return r;
    uint64_t after_ns = kw_now_ns();
    r = agent_usage_reset(&acct->stage, ret->n, acct->n_packages);
    if (r == 0 && !acct->no_batch) {
        r = read_batches(acct);
        if (r == -EOPNOTSUPP) {
            acct->no_batch = true;
            r = agent_usage_reset(&acct->stage, ret->n, acct->n_packages);
        }
    }
    if (r == 0 && acct->no_batch)
        r = read_one_by_one(acct);
    if (r < 0)
        return r;
    acct->stage.t_ns = before_ns + (after_ns - before_ns) / 2;
    struct agent_usage last = *ret;
    *ret = acct->stage;
    acct->stage = last;
    return 0;
}

static void bpf_acct_forget(void *self, const uint64_t *keys, size_t n)
{
    struct bpf_acct *acct = self;

    for (size_t i = 0; i < n; i++) {
        if (keys[i] != AGENT_KEY_SYSTEM && keys[i] != AGENT_KEY_OVERFLOW)
            (void)bpf_map_delete_elem(acct->usage_fd, &keys[i]);
    }
}

const struct agent_accounting_ops agent_accounting_ebpf = {
    .name = "ebpf",
    .open = open_btf,
    .read = bpf_acct_read,
    .forget = bpf_acct_forget,
    .close = bpf_acct_close,
};

const struct agent_accounting_ops agent_accounting_ebpf_raw = {
    .name = "ebpf-raw",
    .open = open_raw,
    .read = bpf_acct_read,
    .forget = bpf_acct_forget,
    .close = bpf_acct_close,
};
