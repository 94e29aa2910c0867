/* SPDX-License-Identifier: Apache-2.0 */
/* The least that a program at sched_switch can cost: what hook_bench compares with. */

#define SEC(name) __attribute__((section(name), used))

SEC("tp_btf/sched_switch")
int empty_switch(void *ctx __attribute__((unused)))
{
    return 0;
}

char LICENSE[] SEC("license") = "Apache-2.0";
