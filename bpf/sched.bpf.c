/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CPU time per leaf cgroup and CPU.
 *
 * Problem: energy is shared out by who ran, so every on-CPU nanosecond must be counted, also those
 * of processes that live a millisecond, at a cost that nobody notices on a machine with 20 000
 * context switches a second and CPU.
 *
 * Approach: the scheduler's own switch event. Each CPU has a slot {key, since}; the switch computes
 * the key of the task that comes in, and only where it differs from the slot's is the slice closed:
 * one load of the clock, one hash look-up, one addition. Threads of one container that follow each
 * other cost four loads. Idle has a key of its own that is never in the map.
 *
 * Clock: the run queue's own (rq->clock_task), which the scheduler has just brought up to date when
 * it announces a switch, and by which it counts for cpu.stat and cpuacct. So the figures are the
 * kernel's own to the nanosecond: what a hypervisor stole is not in them, nor, on kernels that take
 * it out, time in interrupts; and it is a load where a clock would be a call. Between switches it
 * stands still, for up to a tick. A flush adds how long ago it was set, which follows from
 * CLOCK_MONOTONIC and the difference between the two, seen at the last switch; no more than
 * tail_ns_max, since where a CPU's ticks stay out for longer the hypervisor has had it, and that
 * time is nobody's. If it was too much all the same, the slice that follows begins where this one
 * was said to end: nothing counts twice. A move adds nothing, and ends the slice where the kernel's
 * books have got to (se.exec_start, which a waking kernel thread leaves behind the clock): a task
 * takes what has not been booked yet, up to a tick, along to its new cgroup there, and so it does
 * here. Without that clock (rq_clock off): bpf_ktime_get_ns.
 *
 * Invariants: at any moment on-CPU time since attach = map + open slices; `flush`, which user space
 * runs on each busy CPU before it reads, closes the open ones. A slot is touched only by its own
 * CPU with preemption off (sched_switch runs under the run queue lock, flush in an IPI or with
 * preemption off), so no atomics are needed. A cgroup for which the map has no room goes into a
 * second one, and where that is full, too, counts into a key that is there from the start: nothing
 * is lost. A CPU that goes offline leaves in its idle
 * task, so that its offline time is idle time.
 *
 * Trust: not every kernel announces every switch (some hide from tracing what their sandbox's own
 * processes do). So a slot also knows whose it is, and who leaves is compared with that: see
 * catch_up.
 *
 * SMT: each CPU publishes how long it has been busy, in one word that it writes when it goes idle
 * or ceases to be. A slice's shared time is by how much its sibling's word grew: no lock, no slice
 * of another CPU to close, one load of a line that the two share.
 *
 * Counters are read when a slice is closed; enabled and running times are counted beside them, per
 * cgroup, since a slice is far shorter than the turns of a multiplexed PMU.
 *
 * Key: see cgroup_key.bpf.h. Kernel threads are found in the root, where they have a key of their
 * own, unless somebody put them into a cgroup, as KVM does with its vhost workers: these belong to
 * the machine they work for. A task that moves itself to another cgroup (a shell that writes its
 * pid, a runtime's init) is charged there at once; one that is moved while it runs on another CPU,
 * since it came to that CPU.
 */
#include <linux/bpf.h>

#include "bpf/cgroup_key.bpf.h"
#include "bpf/task_time.bpf.h"

/* Set before load, constant after: the verifier removes the branches that are off. */
const volatile bool smt = false;
const volatile bool spills = false;   /* `spill` has room */
const volatile bool counting = false; /* `events` holds a group of counters for each CPU */
const volatile __s64 tail_ns_max = KW_SCHED_TICK_NS_MAX; /* KW_SCHED_TICKLESS_NS_MAX where CPUs may
                                                          * run without ticks */

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct kw_sched_slot);
} slots SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 4096); /* both set from the machine before load */
    __uint(key_size, sizeof(__u64));
    __uint(value_size, sizeof(struct kw_sched_value));
} usage SEC(".maps");

/* Takes the cgroups that come while `usage` is full. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u64));
    __uint(value_size, sizeof(struct kw_sched_value));
} spill SEC(".maps");

__u64 spilled = 0; /* entries that were ever made there */

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* CPU numbers, where smt is on */
    __type(key, __u32);
    __type(value, struct kw_sched_core);
} cores SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(max_entries, 1); /* KW_SCHED_COUNTERS a CPU number, where counting is on */
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
} events SEC(".maps");

/* What a program is run by. A constant where it is used. */
enum occasion { AT_SWITCH, AT_MOVE, AT_FLUSH };

/* @param task_ns for time on the CPU; core_ns the same on all CPUs, for comparing two of them. */
struct moment {
    __u64 task_ns, core_ns;
};

static __always_inline void now(struct kw_sched_slot *slot, const struct view *view,
                                const enum occasion occasion, struct moment *ret)
{
    struct task_struct *task = view->task;
    struct rq *rq;
    __u64 clock_ns;
    __s64 lag_ns, tail_ns;

    if (!has_clock()) {
        ret->task_ns = ret->core_ns = bpf_ktime_get_ns();
        return;
    }
    rq = run_queue(view);
    if (occasion == AT_MOVE && knows_booked())
        ret->task_ns = READ(view, task, se.exec_start);
    else
        ret->task_ns = READ(view, rq, clock_task);
    ret->core_ns = 0;
    if (irq_kept()) {
        struct rq___irq *with_irq = (void *)rq;
        slot->irq_ns = READ(view, with_irq, prev_irq_time);
    }
    if (!smt && occasion != AT_FLUSH && !slot->recalibrate)
        return;
    clock_ns = READ(view, rq, clock);
    ret->core_ns = clock_ns;
    if (occasion == AT_SWITCH && slot->recalibrate) {
        slot->ahead_ns = bpf_ktime_get_ns() - clock_ns;
        slot->recalibrate = 0;
    }
    if (occasion != AT_FLUSH)
        return;
    lag_ns = (__s64)(bpf_ktime_get_ns() - clock_ns);
    tail_ns = slot->ahead_ns == 0 ? 0 : lag_ns - (__s64)slot->ahead_ns;
    if (tail_ns < 0)
        tail_ns = 0;
    if (tail_ns > tail_ns_max)
        tail_ns = tail_ns_max;
    slot->ahead_ns = (__u64)(lag_ns - tail_ns);
    slot->recalibrate = 1;
    ret->task_ns += (__u64)tail_ns;
    ret->core_ns += (__u64)tail_ns;
}

static __always_inline __u64 busy_ns(__u64 word, __u64 core_ns)
{
    return word & KW_SCHED_BUSY ? core_ns - (word & ~KW_SCHED_BUSY) : word;
}

/* How much the sibling was busy since the slot's slice began; begins the next one. */
static __always_inline __u64 shared_ns(struct kw_sched_slot *slot, __u64 core_ns)
{
    __u32 cpu = slot->sibling;
    struct kw_sched_core *core = bpf_map_lookup_elem(&cores, &cpu);
    __u64 sibling_ns, before_ns = slot->sibling_ns;

    if (core == NULL)
        return 0; /* KW_SCHED_NO_CPU */
    sibling_ns = busy_ns(*(volatile __u64 *)&core->busy, core_ns);
    slot->sibling_ns = sibling_ns;
    /* the other CPU's clock may be a moment ahead */
    return (__s64)(sibling_ns - before_ns) > 0 ? sibling_ns - before_ns : 0;
}

/* This CPU goes idle or ceases to be. */
static __always_inline void publish(const struct kw_sched_slot *slot, bool busy, __u64 core_ns)
{
    __u32 cpu = slot->cpu;
    struct kw_sched_core *core = bpf_map_lookup_elem(&cores, &cpu);
    __u64 word;

    if (core == NULL)
        return;
    word = busy_ns(core->busy, core_ns);
    *(volatile __u64 *)&core->busy =
        busy ? KW_SCHED_BUSY | ((core_ns - word) & ~KW_SCHED_BUSY) : word;
}

/* Reads this CPU's counters. Where they cannot be read, says so in the slot, for user space. */
static __always_inline void count(struct kw_sched_slot *slot, struct kw_sched_value *add)
{
    struct bpf_perf_event_value value = {};
    __u64 first = (__u64)slot->cpu * KW_SCHED_COUNTERS;
    bool valid = slot->counted;

    add->enabled_ns = add->running_ns = 0;
    __builtin_memset(add->counters, 0, sizeof(add->counters));
    slot->counted = 1;
#pragma unroll
    for (int i = 0; i < KW_SCHED_COUNTERS; i++) {
        if (bpf_perf_event_read_value(&events, (first + i) & BPF_F_INDEX_MASK, &value,
                                      sizeof(value)) < 0) {
            if (i == 0) {
                slot->counted = 0;
                slot->counting_failed++;
                return;
            }
            continue; /* this CPU has only the ones before */
        }
        if (i == 0) {
            /* events that were opened anew begin at 0 */
            valid = valid && value.enabled >= slot->enabled_ns;
            if (valid) {
                add->enabled_ns = value.enabled - slot->enabled_ns;
                add->running_ns = value.running - slot->running_ns;
            }
            slot->enabled_ns = value.enabled;
            slot->running_ns = value.running;
        }
        if (valid && value.counter > slot->counters[i])
            add->counters[i] = value.counter - slot->counters[i];
        slot->counters[i] = value.counter;
    }
}

/* The value of a cgroup that is not in `usage`. A cgroup that once went into `spill` stays there.
 */
static __always_inline struct kw_sched_value *value_elsewhere(__u64 key)
{
    struct kw_sched_value fresh = {};
    __u64 overflow = KW_SCHED_KEY_OVERFLOW;
    struct kw_sched_value *value;

    if (spills && spilled > 0) {
        value = bpf_map_lookup_elem(&spill, &key);
        if (value != NULL)
            return value;
    }
    /* another CPU may have been first, or the map is full: the second look-up tells */
    (void)bpf_map_update_elem(&usage, &key, &fresh, BPF_NOEXIST);
    value = bpf_map_lookup_elem(&usage, &key);
    if (value == NULL && spills) {
        if (bpf_map_update_elem(&spill, &key, &fresh, BPF_NOEXIST) == 0)
            __sync_fetch_and_add(&spilled, 1);
        value = bpf_map_lookup_elem(&spill, &key);
    }
    return value != NULL ? value : bpf_map_lookup_elem(&usage, &overflow);
}

static __always_inline void charge(__u64 key, const struct kw_sched_value *add)
{
    struct kw_sched_value *value = bpf_map_lookup_elem(&usage, &key);

    if (value == NULL)
        value = value_elsewhere(key);
    if (value == NULL)
        return; /* not reached: user space puts the overflow key in before it attaches */
    value->on_cpu_ns += add->on_cpu_ns;
    if (smt)
        value->shared_ns += add->shared_ns;
    if (!counting)
        return;
#pragma unroll
    for (int i = 0; i < KW_SCHED_COUNTERS; i++)
        value->counters[i] += add->counters[i];
    value->enabled_ns += add->enabled_ns;
    value->running_ns += add->running_ns;
}

static __always_inline bool is_idle(const struct view *view)
{
    struct task_struct *task = view->task;

    return READ(view, task, pid) == 0;
}

/* What slot->set is while the task runs. */
static __always_inline __u64 set_of(const struct view *view)
{
    struct task_struct *task = view->task;

    return is_idle(view) ? 0 : (__u64)READ(view, task, cgroups);
}

/* The task that ran here is not the one that the slot knows of: it came in by a switch that was not
 * announced, or somebody moved it while it ran. It knows how long it has had the CPU, and what was
 * before goes to whom the slot names. Where it does not know, it had it all; an idle task, which
 * never knows, takes it all along, since time must not be invented.
 * @param shared_ns of all the time since the slot's slice began; on return of the task's own. */
static __always_inline void catch_up(struct kw_sched_slot *slot, const struct view *view,
                                     __u64 now_ns, __u64 *shared_ns)
{
    struct task_struct *task = view->task;
    __s64 open_ns = (__s64)(now_ns - slot->since_ns), ran_ns = open_ns;

    if (knows_arrival() && !is_idle(view)) {
        ran_ns = ran_since_arrival(view, now_ns);
        if (ran_ns > open_ns)
            ran_ns = open_ns;
        if (slot->key != KW_SCHED_KEY_IDLE && open_ns > ran_ns) {
            struct kw_sched_value before = {.on_cpu_ns = (__u64)(open_ns - ran_ns)};
            if (*shared_ns > (__u64)ran_ns)
                before.shared_ns = *shared_ns - (__u64)ran_ns;
            if (before.shared_ns > before.on_cpu_ns)
                before.shared_ns = before.on_cpu_ns;
            *shared_ns -= before.shared_ns;
            charge(slot->key, &before);
        }
    }
    slot->since_ns = slot->since_ns == 0 ? now_ns : now_ns - (__u64)ran_ns;
    slot->key = key_of(task, view->direct);
}

/* @param ran the task of this CPU; at a switch the one that leaves.
 * @param has the one that has the CPU from here on, and its key. */
static __always_inline void enter(const struct view *ran, const struct view *has, __u64 key,
                                  const enum occasion occasion)
{
    __u32 zero = 0;
    struct kw_sched_slot *slot = bpf_map_lookup_elem(&slots, &zero);
    struct kw_sched_value add; /* of what is counted */
    struct moment moment;
    __u64 last, since;

    if (slot == NULL)
        return;
    bool known = occasion == AT_MOVE ||
                 (slot->set == set_of(ran) && slot->kernel == is_kernel(ran->task, ran->direct));
    slot->set = set_of(has);
    slot->kernel = is_kernel(has->task, has->direct);
    if (known && occasion != AT_FLUSH && slot->key == key)
        return;
    now(slot, ran, occasion, &moment);
    /* an earlier slice was said to end later than it did: go on from there */
    if (slot->since_ns - moment.task_ns < KW_SCHED_TICKLESS_NS_MAX)
        moment.task_ns = slot->since_ns;
    bool was_idle = slot->key == KW_SCHED_KEY_IDLE; /* as the sibling sees it */
    add.shared_ns = smt ? shared_ns(slot, moment.core_ns) : 0;
    if (!known)
        catch_up(slot, ran, moment.task_ns, &add.shared_ns);
    last = slot->key;
    since = slot->since_ns;
    /* first the new slice, then the old one's time: `moved` may run with interrupts on, and a flush
     * that comes in between must not find the old slice open and charge it again */
    slot->key = key;
    slot->since_ns = moment.task_ns;
    if (smt && was_idle != (key == KW_SCHED_KEY_IDLE))
        publish(slot, key != KW_SCHED_KEY_IDLE, moment.core_ns);
    if (counting)
        count(slot, &add);
    if (last == KW_SCHED_KEY_IDLE)
        return;
    /* by this clock a slice may have no time, which interrupts had, but what was counted in it is
     * read and would be lost */
    add.on_cpu_ns = moment.task_ns > since ? moment.task_ns - since : 0;
    if (!counting && add.on_cpu_ns == 0)
        return;
    if (add.shared_ns > add.on_cpu_ns)
        add.shared_ns = add.on_cpu_ns;
    charge(last, &add);
}

/* The task itself stays: `moved`, `flush`. */
static __always_inline void stay(const enum occasion occasion)
{
    struct view view = {.task = (void *)bpf_get_current_task()};

    enter(&view, &view, key_of(view.task, false), occasion);
}

/* Arguments of sched_switch: preempt, prev, next; later kernels append to them. */
#define PREV_TASK 1
#define NEXT_TASK 2

/* Apart from switch_btf, so that a switch which changes nothing saves no register. */
static __noinline int switched(struct task_struct *prev, struct task_struct *next)
{
    struct view leaves = {.task = prev, .direct = true}, comes = {.task = next, .direct = true};

    enter(&leaves, &comes, key_of(next, true), AT_SWITCH);
    return 0;
}

SEC("tp_btf/sched_switch")
int switch_btf(__u64 *ctx)
{
    struct task_struct *prev = (void *)ctx[PREV_TASK];
    struct task_struct *next = (void *)ctx[NEXT_TASK];

    /* Threads of one container that follow each other: nothing to do, and nothing else to look at.
     * Idle tasks and kernel threads share the set of the root's processes, but not their key. */
    if (prev->cgroups == next->cgroups && ((prev->flags | next->flags) & PF_KTHREAD) == 0)
        return 0;
    return switched(prev, next);
}

/* For kernels that have BTF but no trusted pointers at tracepoints. */
SEC("raw_tp/sched_switch")
int switch_raw(__u64 *ctx)
{
    struct view leaves = {.task = (void *)ctx[PREV_TASK]}, comes = {.task = (void *)ctx[NEXT_TASK]};

    enter(&leaves, &comes, key_of(comes.task, false), AT_SWITCH);
    return 0;
}

/* A task that joins a cgroup and goes on running may not be switched for seconds. Runs after the
 * move, in the task that asked for it; attached where the kernel has the tracepoint. */
SEC("raw_tp/cgroup_attach_task")
int moved(void *ctx __attribute__((unused)))
{
    stay(AT_MOVE);
    return 0;
}

/* Closes the slice that runs on this CPU; also takes note of a task that was there before we were.
 */
SEC("raw_tp")
int flush(void *ctx __attribute__((unused)))
{
    struct kw_sched_slot *slot;
    __u32 zero = 0;

    stay(AT_FLUSH);
    slot = bpf_map_lookup_elem(&slots, &zero);
    if (slot != NULL)
        slot->irq_kept = irq_kept();
    return 0;
}

/* Time in soft interrupts is nobody's slice: the open one begins so much later. */
SEC("raw_tp/softirq_entry")
int softirq_in(void *ctx __attribute__((unused)))
{
    __u32 zero = 0;
    struct kw_sched_slot *slot = bpf_map_lookup_elem(&slots, &zero);

    if (slot != NULL)
        slot->irq_entry_ns = bpf_ktime_get_ns();
    return 0;
}

SEC("raw_tp/softirq_exit")
int softirq_out(void *ctx __attribute__((unused)))
{
    __u32 zero = 0;
    struct kw_sched_slot *slot = bpf_map_lookup_elem(&slots, &zero);
    __u64 ns;

    if (irq_kept() || slot == NULL || slot->irq_entry_ns == 0)
        return 0; /* was in one when the programs were attached */
    ns = bpf_ktime_get_ns() - slot->irq_entry_ns;
    slot->irq_entry_ns = 0;
    slot->irq_ns += ns;
    slot->since_ns += ns;
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
