/* SPDX-License-Identifier: Apache-2.0 */
/* The least that a program can cost where one of ours is: what hook_bench compares with. */

#define SEC(name) __attribute__((section(name), used))

#define EMPTY(name, where)                      \
    SEC(where)                                  \
    int name(void *ctx __attribute__((unused))) \
    {                                           \
        return 0;                               \
    }

EMPTY(empty_switch, "tp_btf/sched_switch")
EMPTY(empty_irq_in, "raw_tp/softirq_entry")
EMPTY(empty_irq_out, "raw_tp/softirq_exit")
EMPTY(empty_received, "tp_btf/sock_recv_length")
EMPTY(empty_sent, "tp_btf/sock_send_length")
EMPTY(empty_state, "tp_btf/inet_sock_set_state")

char LICENSE[] SEC("license") = "Apache-2.0";
