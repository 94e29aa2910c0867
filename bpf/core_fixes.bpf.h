/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#pragma once

/*
 * The kernel structures that the programs read, and where they differed between kernels. Only the
 * fields that are read are declared: the loader looks up their real places in the BTF of the
 * running kernel, so no vmlinux.h is needed. Fields are tested, never kernel versions.
 */

/* More than any kernel has; the loader refuses an index that the running kernel's array does not
 * hold, and the verifier never looks at the refused branches. */
#define KW_CGROUP_SUBSYS_MAX 16

struct kernfs_node {
    __u64 id;
} __attribute__((preserve_access_index));

struct cgroup {
    struct kernfs_node *kn;
} __attribute__((preserve_access_index));

struct cgroup_subsys_state {
    struct cgroup *cgroup;
} __attribute__((preserve_access_index));

struct css_set {
    struct cgroup_subsys_state *subsys[KW_CGROUP_SUBSYS_MAX];
    struct cgroup *dfl_cgrp;
} __attribute__((preserve_access_index));

struct rq {
    __u64 clock;      /* like CLOCK_MONOTONIC without its corrections, as of the last look at it */
    __u64 clock_task; /* less what a hypervisor took and, if the kernel is built so, interrupts */
} __attribute__((preserve_access_index));

/* The way from a task to the run queue of its CPU that takes no symbol's address: those of data are
 * unknown to kernels without CONFIG_KALLSYMS_ALL. With CONFIG_FAIR_GROUP_SCHED every task, of
 * whatever scheduling class, has it. */
struct cfs_rq {
    struct rq *rq;
} __attribute__((preserve_access_index));

struct sched_entity {
    struct cfs_rq *cfs_rq;
    __u64 exec_start; /* by rq.clock_task: until when its time has been booked */
    __u64 sum_exec_runtime, prev_sum_exec_runtime; /* booked so far, and when it was given its CPU;
                                                    * the second is the fair class's only */
} __attribute__((preserve_access_index));

struct sched_info {
    __u64 last_arrival; /* by rq.clock: when the task was given a CPU */
} __attribute__((preserve_access_index));

struct net;

struct nsproxy {
    struct net *net_ns;
} __attribute__((preserve_access_index));

#define PF_EXITING 0x00000004 /* in task_struct.flags, from the beginning of a task's end */
#define PF_KTHREAD 0x00200000 /* in task_struct.flags of kernel threads, idle tasks included */

struct task_struct {
    int pid;
    unsigned int flags;
    struct task_struct *real_parent;
    struct nsproxy *nsproxy;
    struct css_set *cgroups;
    struct sched_entity se;
    struct sched_info sched_info; /* with CONFIG_SCHED_INFO */
} __attribute__((preserve_access_index));

/* Where the kernel is built to take interrupts out of clock_task (CONFIG_IRQ_TIME_ACCOUNTING). */
struct rq___irq {
    __u64 prev_irq_time; /* what it has taken out so far */
} __attribute__((preserve_access_index));

/* The number differs with the kernel's configuration; the loader puts in that of the running one.
 */
enum cgroup_subsys_id {
    cpuacct_cgrp_id = 0x7fff,
};

/*
 * kernfs_node.id: a plain u64 since Linux 5.5 (67c0496e87d1, "kernfs: convert kernfs_node->id from
 * union kernfs_node_id to u64"); before, a union whose low half is the inode number and whose high
 * half is a generation that stat(2) does not show. Kernels with that union and BTF are in use (RHEL
 * 8). Asked of the field and not of the union's own name: a type that the kernel lacks makes libbpf
 * 1.1 look through the modules' BTF, which takes CAP_SYS_ADMIN, and the load fails without.
 */
union kernfs_node_id___o {
    __u64 id;
} __attribute__((preserve_access_index));

struct kernfs_node___o {
    union kernfs_node_id___o id;
} __attribute__((preserve_access_index));

/* `direct`: the pointers are trusted by the verifier (tp_btf) and are followed by plain loads,
 * which costs a quarter of four probe reads. A constant at each call. */
static __always_inline __u64 kernfs_id(struct kernfs_node *kn, const bool direct)
{
    struct kernfs_node___o *old = (void *)kn;

    if (bpf_core_field_exists(old->id)) {
        return (__u32)(direct ? old->id.id : BPF_CORE_READ(old, id.id));
    }
    return direct ? kn->id : BPF_CORE_READ(kn, id);
}

/* Of sockets, for the request counting. */
struct in6_addr {
    struct {
        __u32 u6_addr32[4];
    } in6_u;
} __attribute__((preserve_access_index));

struct sock_common {
    unsigned short skc_family;
    volatile unsigned char skc_state;
    struct {
        struct net *net;
    } skc_net;
    __u32 skc_daddr, skc_rcv_saddr;
    unsigned short skc_dport; /* in the order of the wire, as the addresses */
    unsigned short skc_num;
    struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr; /* with CONFIG_IPV6 */
} __attribute__((preserve_access_index));

struct sock {
    struct sock_common __sk_common;
    unsigned short sk_protocol;
    void *sk_bpf_storage;
} __attribute__((preserve_access_index));

struct socket {
    struct sock *sk;
} __attribute__((preserve_access_index));

struct file;

struct bpf_iter__task_file {
    struct task_struct *task;
    struct file *file;
} __attribute__((preserve_access_index));

/* What user space passes to system calls: not the kernel's to change. */
struct iovec {
    void *iov_base;
    __u64 iov_len;
};

struct user_msghdr {
    void *msg_name;
    int msg_namelen;
    struct iovec *msg_iov;
    __u64 msg_iovlen;
};

struct pt_regs {
#if defined(__TARGET_ARCH_arm64)
    __u64 regs[31];
    int syscallno;
#else
    unsigned long si, orig_ax;
#endif
} __attribute__((preserve_access_index));
