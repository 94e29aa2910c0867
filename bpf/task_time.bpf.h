/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#pragma once

/*
 * What a task and the run queue of its CPU know of time: the scheduler's clock, until when the
 * task's time has been booked, and since when it has had its CPU. A kernel may lack each of them.
 */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "bpf/core_fixes.bpf.h"

/* Set before load, constant after: the verifier removes the branches that are off. */
const volatile bool rq_clock = true; /* unless the kernel refuses that */

/* The task that a program looks at, on its CPU. `direct` as in key_of; a constant. */
struct view {
    struct task_struct *task;
    bool direct;
};

#define READ(view, pointer, field) \
    ((view)->direct ? (pointer)->field : BPF_CORE_READ(pointer, field))

static __always_inline struct rq *run_queue(const struct view *view)
{
    struct task_struct *task = view->task;

    return view->direct ? task->se.cfs_rq->rq : BPF_CORE_READ(task, se.cfs_rq, rq);
}

/* Whether a task leads to the clock: constants once the object is loaded. */
static __always_inline bool has_clock(void)
{
    struct task_struct *task = NULL;
    struct cfs_rq *cfs_rq = NULL;
    struct rq *rq = NULL;

    return rq_clock && bpf_core_field_exists(task->se.cfs_rq) &&
           bpf_core_field_exists(cfs_rq->rq) && bpf_core_field_exists(rq->clock_task);
}

/* Whether a task knows what of its time has been booked, and until when. */
static __always_inline bool knows_booked(void)
{
    struct task_struct *task = NULL;

    return bpf_core_field_exists(task->se.exec_start) &&
           bpf_core_field_exists(task->se.sum_exec_runtime) &&
           bpf_core_field_exists(task->se.prev_sum_exec_runtime);
}

/* Whether the scheduler itself keeps time in interrupts out of its clock. */
static __always_inline bool irq_kept(void)
{
    struct rq___irq *rq = NULL;

    return has_clock() && bpf_core_field_exists(rq->prev_irq_time);
}

/* Whether a task knows since when it has had its CPU: a constant once the object is loaded. */
static __always_inline bool knows_arrival(void)
{
    struct task_struct *task = NULL;

    return has_clock() && bpf_core_field_exists(task->sched_info.last_arrival);
}

/* How long the task has had its CPU. Of what was stolen since its arrival the clock that this was
 * stamped by knows nothing, the booked time does; it begins earlier, or never, for tasks that are
 * not of the fair class. Of a task that ends it does not tell: with CONFIG_SCHED_AUTOGROUP the end
 * takes the task off its queue and puts it back, whereupon booking begins again. */
static __always_inline __s64 ran_since_arrival(const struct view *view, __u64 now_ns)
{
    struct task_struct *task = view->task;
    struct rq *rq = run_queue(view);
    __s64 ran_ns = (__s64)(READ(view, rq, clock) - READ(view, task, sched_info.last_arrival) +
                           now_ns - READ(view, rq, clock_task));

    if (knows_booked() && (READ(view, task, flags) & PF_EXITING) == 0) {
        __s64 booked_ns = (__s64)(READ(view, task, se.sum_exec_runtime) -
                                  READ(view, task, se.prev_sum_exec_runtime) + now_ns -
                                  READ(view, task, se.exec_start));
        if (booked_ns < ran_ns)
            ran_ns = booked_ns;
    }
    return ran_ns > 0 ? ran_ns : 0;
}
