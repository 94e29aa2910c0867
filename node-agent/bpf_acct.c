/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user side of bpf/sched.bpf.c: load, attach, flush.
 *
 * The two backends here differ in one program of the object. Which one the kernel takes is found
 * out by loading it, never from a version. `open` ends with a flush of every CPU: it proves that
 * the kernel can run a program on a given CPU (else the backend is refused), and it takes note of
 * tasks that have been running since before the program was attached.
 *
 * A feature that was asked for and cannot be had is off, with the reason, and costs nothing: its
 * branches are not loaded and the map has no room for it.
 *
 * A reading flushes the CPUs that are not idle (an idle CPU has no open slice and is left asleep),
 * then reads the map. The reading is put together beside the caller's and swapped in when it is
 * complete. A CPU that went offline answers the flush with ENXIO; it left in its idle task, so its
 * slot is closed and its values stay in the map. Its counters are gone: when it is back, the BPF
 * side says that it cannot read them, and they are opened anew.
 *
 * Memory: see node-agent/bpf_room.h. What fits into neither map goes to the overflow key.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "bpf/sched.h"
#include "bpf/sched.skel.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/accounting.h"
#include "node-agent/bpf_counters.h"
#include "node-agent/bpf_room.h"
#include "node-agent/bpf_usage.h"
#include "node-agent/bpf_why.h"
#include "node-agent/cgroup_mounts.h"

#define CGROUPS_MAX (1u << 20) /* no kernel runs that many */
/* The verifier's last words; it is asked for them only after a refusal. */
#define LOG_BYTES   65536

struct bpf_acct {
    struct sched_bpf *skel;
    struct bpf_link *link;
    struct bpf_link *moved_link; /* NULL: the kernel has not that tracepoint */
    struct bpf_link *softirq_links[2];
    int slots_fd, flush_fd;
    unsigned n_cpus; /* possible CPUs: values of one entry */
    unsigned n_packages;
    unsigned n_cpu_numbers;      /* highest + 1 */
    uint16_t *cpu;               /* n_cpus: place among the possible CPUs -> CPU number */
    uint8_t *package;            /* n_cpus: place -> dense package */
    struct kw_sched_slot *slots; /* n_cpus, as of the last flush */
    uint32_t *counting_failed;   /* n_cpus: what was seen of the slots' */
    const struct agent_counter_event *events;
    struct agent_bpf_usage reader;
    unsigned features; /* AGENT_FEATURE_BIT of what is on */
    bool plain;        /* this kernel refused all that is not needed */
    struct agent_feature_state states[AGENT_FEATURE__MAX];
    uint64_t *irq_base_ns;    /* n_cpus: slots' irq_ns at the start */
    struct agent_usage stage; /* the reading that is being put together */
};

static void bpf_acct_close(void **self)
{
    struct bpf_acct *acct = *self;

    if (acct == NULL)
        return;
    bpf_link__destroy(acct->link);
    bpf_link__destroy(acct->moved_link);
    for (size_t i = 0; i < KW_ARRAY_SIZE(acct->softirq_links); i++)
        bpf_link__destroy(acct->softirq_links[i]);
    sched_bpf__destroy(acct->skel);
    agent_bpf_usage_free(&acct->reader);
    agent_usage_free(&acct->stage);
    free(acct->cpu);
    free(acct->package);
    free(acct->slots);
    free(acct->counting_failed);
    free(acct->irq_base_ns);
    free(acct);
    *self = NULL;
}

static bool is_on(const struct bpf_acct *acct, enum agent_feature feature)
{
    return (acct->features & AGENT_FEATURE_BIT(feature)) != 0;
}

static void switch_off(struct bpf_acct *acct, enum agent_feature feature, const char *why)
{
    acct->features &= ~AGENT_FEATURE_BIT(feature);
    acct->states[feature].on = false;
    (void)snprintf(acct->states[feature].why_not, sizeof(acct->states[feature].why_not), "%.*s",
                   (int)sizeof(acct->states[feature].why_not) - 1, why);
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
    acct->counting_failed = calloc(acct->n_cpus, sizeof(*acct->counting_failed));
    acct->irq_base_ns = calloc(acct->n_cpus, sizeof(*acct->irq_base_ns));
    if (acct->cpu == NULL || acct->package == NULL || acct->slots == NULL ||
        acct->counting_failed == NULL || acct->irq_base_ns == NULL)
        return -ENOMEM;
    bool listed = agent_cpu_set_read(conf->sysfs_root, "possible", &possible) == 0 &&
                  possible.n == acct->n_cpus;
    for (unsigned i = 0; i < acct->n_cpus; i++) {
        acct->cpu[i] = listed ? possible.cpus[i] : (uint16_t)i;
        if (acct->cpu[i] >= acct->n_cpu_numbers)
            acct->n_cpu_numbers = acct->cpu[i] + 1u;
        if (acct->cpu[i] < AGENT_CPUS_MAX &&
            conf->topology->cpu_package[acct->cpu[i]] < acct->n_packages)
            acct->package[i] = conf->topology->cpu_package[acct->cpu[i]];
    }
    return 0;
}

/* The siblings as the slots have them. @return whether any CPU has one. */
static bool fill_slots(struct bpf_acct *acct, const struct agent_topology *topology)
{
    bool any = false;

    for (unsigned i = 0; i < acct->n_cpus; i++) {
        uint16_t cpu = acct->cpu[i];
        uint16_t sibling = cpu < AGENT_CPUS_MAX ? topology->cpu_sibling[cpu] : 0;
        bool known = sibling > 0 && sibling <= acct->n_cpu_numbers;
        acct->slots[i] = (struct kw_sched_slot){
            .cpu = cpu, .sibling = known ? (uint32_t)sibling - 1 : KW_SCHED_NO_CPU};
        any = any || known;
    }
    return any;
}

/* What of the wish this machine has. */
static void choose_features(struct bpf_acct *acct, const struct agent_accounting_conf *conf)
{
    bool siblings = fill_slots(acct, conf->topology);

    acct->features = conf->features;
    for (unsigned i = 0; i < AGENT_FEATURE__MAX; i++)
        acct->states[i].on = is_on(acct, (enum agent_feature)i);
    if (is_on(acct, AGENT_FEATURE_SMT) && !siblings)
        switch_off(acct, AGENT_FEATURE_SMT,
                   conf->topology->threads_per_core > 2
                       ? "cores have more than two threads: who shares with whom is not told apart"
                       : "no core has two threads");
}

static void size_maps(struct bpf_acct *acct, const struct agent_accounting_conf *conf,
                      const struct agent_cgroup_mounts *mounts)
{
    struct sched_bpf *skel = acct->skel;
    struct sysinfo machine = {0};

    (void)sysinfo(&machine);
    struct agent_bpf_room_ask ask = {
        .n_cgroups = agent_cgroup_mounts_count(mounts->paths[AGENT_HIERARCHY_V2], CGROUPS_MAX) +
                     agent_cgroup_mounts_count(mounts->paths[AGENT_HIERARCHY_CPUACCT], CGROUPS_MAX),
        .n_cpus = acct->n_cpus,
        .value_bytes = acct->reader.value_bytes,
        .memory_bytes = (uint64_t)machine.totalram * machine.mem_unit,
        .allocates = agent_bpf_allocates_in_tracing(),
        .first_cgroups = conf->first_cgroups,
        .max_cgroups = conf->max_cgroups,
    };
    struct agent_bpf_room room = agent_bpf_room_for(&ask);
    struct bpf_map *both[] = {skel->maps.usage, skel->maps.spill};
    for (size_t i = 0; i < KW_ARRAY_SIZE(both); i++) {
        (void)bpf_map__set_value_size(both[i], (uint32_t)acct->reader.value_bytes);
        if (ask.allocates && (i > 0 || room.first_grows))
            (void)bpf_map__set_map_flags(both[i], BPF_F_NO_PREALLOC);
    }
    (void)bpf_map__set_max_entries(skel->maps.usage, room.first);
    (void)bpf_map__set_max_entries(skel->maps.spill, room.second > 0 ? room.second : 1);
    skel->rodata->spills = room.second > 0;
}

static uint64_t root_id(const char *mount)
{
    struct stat st;

    return mount[0] != '\0' && stat(mount, &st) == 0 ? (uint64_t)st.st_ino : KW_SCHED_ROOT_ID;
}

/* Closes the running slice of one CPU. @return 0; -ENXIO offline; -errno. */
static int flush_cpu(const struct bpf_acct *acct, unsigned cpu)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu);
    int r = bpf_prog_test_run_opts(acct->flush_fd, &opts);

    return r < 0 ? r : 0;
}

static int read_slots(struct bpf_acct *acct)
{
    uint32_t zero = 0;

    return bpf_map_lookup_elem(acct->slots_fd, &zero, acct->slots) < 0 ? -errno : 0;
}

/* @param all also the CPUs that are idle: at the start their slots say nothing yet. */
static int flush(struct bpf_acct *acct, bool all)
{
    int r = read_slots(acct);

    for (unsigned i = 0; i < acct->n_cpus && r == 0; i++) {
        if (!all && acct->slots[i].key == KW_SCHED_KEY_IDLE)
            continue;
        r = flush_cpu(acct, acct->cpu[i]);
        if (r == -ENXIO)
            r = 0;
    }
    return r;
}

/* libbpf says why in errno; a refusal without a reason is still one. */
static int last_error(void)
{
    return errno > 0 ? -errno : -EINVAL;
}

static void set_up(struct bpf_acct *acct, const struct agent_accounting_conf *conf, bool raw,
                   const struct agent_cgroup_mounts *mounts)
{
    struct sched_bpf *skel = acct->skel;
    bool softirq = is_on(acct, AGENT_FEATURE_SOFTIRQ);
    struct agent_cpu_set tickless;

    skel->rodata->v1_enabled = mounts->paths[AGENT_HIERARCHY_CPUACCT][0] != '\0';
    skel->rodata->v2_root_id = root_id(mounts->paths[AGENT_HIERARCHY_V2]);
    skel->rodata->v1_root_id = root_id(mounts->paths[AGENT_HIERARCHY_CPUACCT]);
    skel->rodata->rq_clock = !acct->plain;
    if (agent_cpu_set_read(conf->sysfs_root, "nohz_full", &tickless) == 0 && tickless.n > 0)
        skel->rodata->tail_ns_max = KW_SCHED_TICKLESS_NS_MAX;
    skel->rodata->smt = is_on(acct, AGENT_FEATURE_SMT);
    skel->rodata->counting = is_on(acct, AGENT_FEATURE_COUNTERS);
    acct->reader.value_bytes = is_on(acct, AGENT_FEATURE_COUNTERS) ? KW_SCHED_VALUE_ALL
                               : is_on(acct, AGENT_FEATURE_SMT)    ? KW_SCHED_VALUE_SHARED
                                                                   : KW_SCHED_VALUE_TIME;
    size_maps(acct, conf, mounts);
    if (is_on(acct, AGENT_FEATURE_SMT))
        (void)bpf_map__set_max_entries(skel->maps.cores, acct->n_cpu_numbers);
    if (is_on(acct, AGENT_FEATURE_COUNTERS))
        (void)bpf_map__set_max_entries(skel->maps.events, KW_SCHED_COUNTERS * acct->n_cpu_numbers);
    (void)bpf_program__set_autoload(raw ? skel->progs.switch_btf : skel->progs.switch_raw, false);
    (void)bpf_program__set_autoload(skel->progs.softirq_in, softirq);
    (void)bpf_program__set_autoload(skel->progs.softirq_out, softirq);
}

static int load(struct bpf_acct *acct, const struct agent_accounting_conf *conf, bool raw,
                struct kw_err *err)
{
    kw_cleanup_free struct agent_cgroup_mounts *mounts = calloc(1, sizeof(*mounts));
    kw_cleanup_free char *log = calloc(1, LOG_BYTES);
    LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = log, .kernel_log_size = LOG_BYTES,
                .kernel_log_level = 0);

    if (mounts == NULL || log == NULL)
        return kw_err_set(err, -ENOMEM, "no memory");
    (void)agent_cgroup_mounts_read(conf->sysfs_root, conf->procfs_root, mounts);
    acct->skel = sched_bpf__open_opts(&opts);
    if (acct->skel == NULL)
        return agent_bpf_why(err, last_error(), "opening the BPF object", conf->procfs_root, NULL);
    set_up(acct, conf, raw, mounts);
    int r = sched_bpf__load(acct->skel);
    if (r < 0)
        return agent_bpf_why(err, r, "loading the BPF program", conf->procfs_root, log);
    acct->slots_fd = bpf_map__fd(acct->skel->maps.slots);
    acct->flush_fd = bpf_program__fd(acct->skel->progs.flush);
    acct->reader.map_fd = bpf_map__fd(acct->skel->maps.usage);
    acct->reader.spill_fd = bpf_map__fd(acct->skel->maps.spill);
    acct->reader.spilled = &acct->skel->bss->spilled;
    acct->reader.n_cpus = acct->n_cpus;
    acct->reader.package = acct->package;
    return agent_bpf_usage_init(&acct->reader);
}

/* Loads with all that the kernel seems to have; where it refuses that, without it. */
static int load_what_it_takes(struct bpf_acct *acct, const struct agent_accounting_conf *conf,
                              bool raw, struct kw_err *err)
{
    struct kw_err again = {0};
    int r = load(acct, conf, raw, err);

    if (r >= 0 || r == -EPERM || r == -ENOMEM)
        return r;
    acct->plain = true;
    for (unsigned i = 0; i < AGENT_FEATURE__MAX; i++) {
        if (is_on(acct, (enum agent_feature)i))
            switch_off(acct, (enum agent_feature)i, err->text);
    }
    sched_bpf__destroy(KW_TAKE_PTR(acct->skel));
    return load(acct, conf, raw, &again); /* what the first one said is the cause */
}

/* Tries the machine's counters, before the programs that would read them are loaded. */
static void try_counters(struct bpf_acct *acct, const struct agent_accounting_conf *conf)
{
    char why[128];

    acct->events = conf->events != NULL ? conf->events : agent_counter_events;
    if (is_on(acct, AGENT_FEATURE_COUNTERS) &&
        agent_bpf_counters_try(acct->cpu, acct->n_cpus, acct->events, why, sizeof(why)) < 0)
        switch_off(acct, AGENT_FEATURE_COUNTERS, why);
}

/* Opens the counters of CPUs that have none: all of them at the start, later those that are back.
 */
static void open_counters(struct bpf_acct *acct, bool all)
{
    if (!is_on(acct, AGENT_FEATURE_COUNTERS))
        return;
    for (unsigned i = 0; i < acct->n_cpus; i++) {
        uint32_t failed = acct->slots[i].counting_failed;
        if (!all && acct->counting_failed[i] == failed)
            continue;
        acct->counting_failed[i] = failed;
        /* one that is offline fails, and again when it is back: then it is tried again */
        (void)agent_bpf_counters_open(bpf_map__fd(acct->skel->maps.events), acct->cpu[i],
                                      acct->events);
    }
}

/* Time in interrupts as a row of its own. */
static int add_interrupts(struct bpf_acct *acct, struct agent_usage *usage)
{
    uint64_t *row = agent_usage_add(usage, AGENT_KEY_INTERRUPTS);
    int r = row == NULL ? -ENOMEM : read_slots(acct);

    for (unsigned i = 0; r == 0 && i < acct->n_cpus; i++)
        row[acct->package[i]] += acct->slots[i].irq_ns - acct->irq_base_ns[i];
    return r;
}

static void attach_softirq(struct bpf_acct *acct)
{
    struct bpf_program *programs[] = {acct->skel->progs.softirq_in, acct->skel->progs.softirq_out};

    for (size_t i = 0; is_on(acct, AGENT_FEATURE_SOFTIRQ) && i < KW_ARRAY_SIZE(programs); i++) {
        acct->softirq_links[i] = bpf_program__attach(programs[i]);
        if (acct->softirq_links[i] == NULL)
            switch_off(acct, AGENT_FEATURE_SOFTIRQ,
                       "the kernel has no tracepoints at soft interrupts");
    }
}

/* Where the scheduler itself keeps that time, it is counted, asked for or not: it is in nobody's.
 */
static void settle_softirq(struct bpf_acct *acct)
{
    for (unsigned i = 0; i < acct->n_cpus; i++) {
        acct->irq_base_ns[i] = acct->slots[i].irq_ns;
        if (!acct->slots[i].irq_kept)
            continue;
        acct->features |= AGENT_FEATURE_BIT(AGENT_FEATURE_SOFTIRQ);
        acct->states[AGENT_FEATURE_SOFTIRQ] = (struct agent_feature_state){.on = true};
        for (size_t k = 0; k < KW_ARRAY_SIZE(acct->softirq_links); k++) {
            bpf_link__destroy(acct->softirq_links[k]);
            acct->softirq_links[k] = NULL;
        }
    }
}

static int attach(struct bpf_acct *acct, const struct agent_accounting_conf *conf, bool raw,
                  struct kw_err *err)
{
    uint32_t zero = 0;
    int r = agent_bpf_usage_insert(&acct->reader, KW_SCHED_KEY_OVERFLOW);

    if (r == 0)
        r = agent_bpf_usage_insert(&acct->reader, KW_SCHED_KEY_SYSTEM);
    if (r == 0)
        r = agent_bpf_usage_insert(&acct->reader, KW_SCHED_KEY_KERNEL);
    if (r == 0 && bpf_map_update_elem(acct->slots_fd, &zero, acct->slots, BPF_ANY) < 0)
        r = -errno;
    if (r < 0)
        return agent_bpf_why(err, r, "writing a BPF map", conf->procfs_root, NULL);
    open_counters(acct, true);
    acct->link =
        bpf_program__attach(raw ? acct->skel->progs.switch_raw : acct->skel->progs.switch_btf);
    if (acct->link == NULL)
        return agent_bpf_why(err, last_error(), "attaching sched_switch", conf->procfs_root, NULL);
    acct->moved_link = bpf_program__attach(acct->skel->progs.moved);
    attach_softirq(acct);
    r = flush(acct, true);
    if (r == 0)
        r = read_slots(acct);
    settle_softirq(acct);
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
    struct bpf_acct *acct = self;

    if (acct == NULL)
        return kw_err_set(err, -ENOMEM, "no memory");
    (void)libbpf_set_print(NULL); /* it would write to stderr; the cause goes into `err` */
    int r = map_cpus(acct, conf);
    if (r < 0)
        return kw_err_set(err, r, "eBPF: the list of CPUs cannot be read: %s", kw_errno_text(r));
    choose_features(acct, conf);
    try_counters(acct, conf);
    r = load_what_it_takes(acct, conf, raw, err);
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

static int bpf_acct_read(void *self, struct agent_usage *ret)
{
    struct bpf_acct *acct = self;
    uint64_t before_ns = kw_now_ns();
    int r = flush(acct, false);

    if (r < 0)
        return r;
    uint64_t after_ns = kw_now_ns();
    open_counters(acct, false);
    r = agent_bpf_usage_read(&acct->reader, ret->n, acct->n_packages, acct->features, &acct->stage);
    if (r == 0 && is_on(acct, AGENT_FEATURE_SOFTIRQ))
        r = add_interrupts(acct, &acct->stage);
    if (r < 0)
        return r;
    acct->stage.crowded = acct->stage.n > bpf_map__max_entries(acct->skel->maps.usage) / 2;
    acct->stage.t_ns = before_ns + (after_ns - before_ns) / 2;
    struct agent_usage last = *ret;
    *ret = acct->stage;
    acct->stage = last;
    return 0;
}

static const struct agent_feature_state *bpf_acct_features(void *self)
{
    struct bpf_acct *acct = self;

    return acct->states;
}

static void bpf_acct_forget(void *self, const uint64_t *keys, size_t n)
{
    struct bpf_acct *acct = self;

    for (size_t i = 0; i < n; i++)
        agent_bpf_usage_delete(&acct->reader, keys[i]);
}

const struct agent_accounting_ops agent_accounting_ebpf = {
    .name = "ebpf",
    .open = open_btf,
    .read = bpf_acct_read,
    .features = bpf_acct_features,
    .forget = bpf_acct_forget,
    .close = bpf_acct_close,
};

const struct agent_accounting_ops agent_accounting_ebpf_raw = {
    .name = "ebpf-raw",
    .open = open_raw,
    .read = bpf_acct_read,
    .features = bpf_acct_features,
    .forget = bpf_acct_forget,
    .close = bpf_acct_close,
};
