/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Requests served per cgroup, whatever the protocol: a turn is a server that has received and then
 * sends. With one request at a time on a connection (HTTP/1, Redis, most databases) a turn is a
 * request; where several are under way at once (pipelines, HTTP/2) it is a burst of them.
 *
 * A connection is a server's if it was accepted: it is marked when it is established, in storage
 * that goes with the socket. The tracepoints at the end of each send and receive do the counting,
 * in the task that serves, so its cgroup is at hand. Sockets without a mark cost one load. Where a
 * socket's state changes there is a tracepoint, too; sock_ops would tell the same, but may be
 * loaded with CAP_NET_ADMIN only, which nobody should give to what just counts.
 *
 * TLS: a handshake is several turns and no request, and tickets and the farewell (close_notify) are
 * more. Record headers are not encrypted: they are read from where the server received them to,
 * which the registers of its system call tell. A turn counts if application data came in that is
 * neither the client's end of the handshake nor an alert; both are known by their length. A stream
 * that cannot be followed (more records at once than are looked at, no buffer to be seen, as with
 * io_uring) counts all its turns from then on.
 *
 * Statuses, where they are on, are read in the same way from what the server sends first in a turn.
 * An interim one (100 Continue) is no answer: the turn goes on.
 *
 * Probes: see KW_REQUESTS_PROBE_TURNS. The client of such a connection is known by its own end,
 * which is established on the same kernel a moment before: its addresses wait in `node_clients`.
 */
#include "bpf/requests.h"

#include <bpf/bpf_endian.h>
#include <linux/bpf.h>

#include "bpf/cgroup_key.bpf.h"

const volatile bool statuses = false;

#define AF_INET 2

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC); /* few cgroups serve; allocated outside of interrupts */
    __uint(max_entries, 16384);           /* set by user space before load */
    __type(key, __u64);
    __type(value, struct kw_requests_value);
} requests SEC(".maps");

/* UNKNOWN: nothing came in yet. LOST: every turn counts, whatever is in it. */
enum protocol { UNKNOWN, PLAIN, TLS_HANDSHAKE, TLS, LOST };

/* One accepted connection. Its server may be several threads: none of this is worth a lock. */
struct connection {
    __u32 body;         /* TLS: bytes of the present record that are still to come */
    __u32 held_classes; /* status classes of `held`, a byte each */
    __u8 protocol;
    __u8 cipher;    /* TLS: the client changed to its cipher */
    __u8 receiving; /* a request has begun to come in */
    __u8 from_node; /* may be a probe */
    __u8 held;      /* turns of it that are not counted yet */
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct connection);
} connections SEC(".maps");

/* The ends of a connection as its server sees them; IPv4 in its mapped form. */
struct ends {
    __u32 client_ip[4], server_ip[4];
    __u32 client_port, server_port;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096); /* that are being established at the same moment */
    __type(key, struct ends);
    __type(value, __u8);
} node_clients SEC(".maps");

/* The node's own network: where the first of all processes is. Only compared; 0: not known. */
__u64 node_network = 0;

#define PARENTS_MAX 256 /* of a process, for a shell in a shell in a container */

/* Looks for it among the ancestors of the process that asks. */
SEC("raw_tp")
int find_node_network(void *ctx __attribute__((unused)))
{
    struct task_struct *task = (void *)bpf_get_current_task();

    for (int i = 0; i < PARENTS_MAX && BPF_CORE_READ(task, pid) != 0; i++)
        task = BPF_CORE_READ(task, real_parent);
    if (BPF_CORE_READ(task, pid) == 0)
        node_network = (__u64)BPF_CORE_READ(task, nsproxy, net_ns);
    return 0;
}

static __always_inline void copy_ends(struct sock *sk, bool server, struct ends *ends)
{
    __u32 *here = server ? ends->server_ip : ends->client_ip;
    __u32 *there = server ? ends->client_ip : ends->server_ip;
    __u32 far_port = bpf_ntohs(sk->__sk_common.skc_dport);
    __u32 near_port = sk->__sk_common.skc_num;

    if (sk->__sk_common.skc_family == AF_INET) {
        here[0] = here[1] = there[0] = there[1] = 0;
        here[2] = there[2] = bpf_htonl(0xffff);
        here[3] = sk->__sk_common.skc_rcv_saddr;
        there[3] = sk->__sk_common.skc_daddr;
    } else if (bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
        (void)bpf_core_read(here, sizeof(ends->client_ip), &sk->__sk_common.skc_v6_rcv_saddr);
        (void)bpf_core_read(there, sizeof(ends->client_ip), &sk->__sk_common.skc_v6_daddr);
    }
    ends->client_port = server ? far_port : near_port;
    ends->server_port = server ? near_port : far_port;
}

#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT    2
#define TCP_SYN_RECV    3
#define TCP_LISTEN      10
#define PROTOCOL_TCP    6

/* Arguments of inet_sock_set_state: sk, state before, state now. */
SEC("tp_btf/inet_sock_set_state")
int established(__u64 *ctx)
{
    struct sock *sk = (void *)ctx[0];
    int before = (int)ctx[1];
    bool server = before == TCP_SYN_RECV;
    struct ends ends = {};
    struct connection *connection;
    bool on_node;
    __u8 yes = 1;

    if ((int)ctx[2] != TCP_ESTABLISHED || (!server && before != TCP_SYN_SENT))
        return 0;
    if (sk == NULL || sk->sk_protocol != PROTOCOL_TCP)
        return 0;
    on_node = (__u64)sk->__sk_common.skc_net.net == node_network;
    if (!server) {
        if (!on_node)
            return 0;
        copy_ends(sk, false, &ends);
        (void)bpf_map_update_elem(&node_clients, &ends, &yes, BPF_ANY);
        return 0;
    }
    connection = bpf_sk_storage_get(&connections, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
    if (connection == NULL)
        return 0;
    copy_ends(sk, true, &ends);
    if (bpf_map_delete_elem(&node_clients, &ends) == 0)
        connection->from_node = !on_node;
    return 0;
}

/* Where a system call's number and second argument stand, and the numbers of those that send and
 * receive. */
#if defined(__TARGET_ARCH_arm64)
#define CALL_NUMBER(regs) BPF_CORE_READ(regs, syscallno)
#define CALL_ARG2(regs)   BPF_CORE_READ(regs, regs[1])
enum {
    NR_READ = 63,
    NR_WRITE,
    NR_READV,
    NR_WRITEV,
    NR_SENDTO = 206,
    NR_RECVFROM,
    NR_SENDMSG = 211,
    NR_RECVMSG
};
#else
#define CALL_NUMBER(regs) BPF_CORE_READ(regs, orig_ax)
#define CALL_ARG2(regs)   BPF_CORE_READ(regs, si)
enum {
    NR_READ = 0,
    NR_WRITE = 1,
    NR_READV = 19,
    NR_WRITEV = 20,
    NR_SENDTO = 44,
    NR_RECVFROM = 45,
    NR_SENDMSG = 46,
    NR_RECVMSG = 47
};
#endif

/* The buffer of the system call that this task is in; NULL where it is none that is known. */
static __always_inline const void *user_buffer(bool sending)
{
    struct task_struct *current = bpf_get_current_task_btf();
    const struct pt_regs *regs = (void *)bpf_task_pt_regs(current);
    struct user_msghdr msg;
    struct iovec iov;
    const void *at = (const void *)CALL_ARG2(regs);

    switch (CALL_NUMBER(regs)) {
    case NR_READ:
    case NR_RECVFROM: return sending ? NULL : at;
    case NR_WRITE:
    case NR_SENDTO: return sending ? at : NULL;
    case NR_READV:
    case NR_WRITEV: break;
    case NR_RECVMSG:
    case NR_SENDMSG:
        if (bpf_probe_read_user(&msg, sizeof(msg), at) < 0)
            return NULL;
        at = msg.msg_iov;
        break;
    default: return NULL;
    }
    if (bpf_probe_read_user(&iov, sizeof(iov), at) < 0)
        return NULL;
    return iov.iov_base;
}

/* TLS record types, and lengths of records of known content: with TLS 1.3 a content of n bytes has
 * n + 1 + 16. */
#define TLS_CHANGE_CIPHER  0x14
#define TLS_HANDSHAKE_TYPE 0x16
#define TLS_DATA           0x17
#define TLS_HEADER_BYTES   5
#define TLS13_FINISHED_256 (4 + 32 + 17) /* with SHA-256 */
#define TLS13_FINISHED_384 (4 + 48 + 17)
#define TLS13_ALERT        (2 + 17)
#define TLS12_FINISHED_MAX 100 /* at most 96, and a second ClientHello has more */
#define RECORDS_MAX        8   /* in one receive; a record has up to 16 KiB */

/* A record of the client begins. @return whether it is (a part of) a request. */
static __always_inline bool is_request(struct connection *connection, __u8 type, __u32 bytes)
{
    bool handshake = connection->protocol == TLS_HANDSHAKE;

    if (type == TLS_DATA) {
        if (!handshake)
            return bytes != TLS13_ALERT;
        /* TLS 1.3: certificates, then the end of the handshake */
        if (bytes == TLS13_FINISHED_256 || bytes == TLS13_FINISHED_384)
            connection->protocol = TLS;
        return false;
    }
    if (type == TLS_CHANGE_CIPHER)
        connection->cipher = 1;
    else if (type == TLS_HANDSHAKE_TYPE && handshake && connection->cipher &&
             bytes < TLS12_FINISHED_MAX)
        connection->protocol = TLS; /* TLS 1.2 */
    return false;
}

/* Looks at `bytes` that were received. @return whether a request begins in them. */
static __always_inline bool follow(struct connection *connection, __u32 bytes)
{
    const void *buffer = user_buffer(false);
    bool request = false;

    if (buffer == NULL)
        goto lost;
    for (int i = 0; i < RECORDS_MAX; i++) {
        __u8 head[TLS_HEADER_BYTES];
        if (connection->body >= bytes) {
            connection->body -= bytes;
            return request;
        }
        buffer += connection->body;
        bytes -= connection->body;
        if (bytes < TLS_HEADER_BYTES || bpf_probe_read_user(head, sizeof(head), buffer) < 0)
            goto lost;
        connection->body = (__u32)head[3] << 8 | head[4];
        request |= is_request(connection, head[0], connection->body);
        buffer += sizeof(head);
        bytes -= sizeof(head);
        if (bytes == 0)
            return request;
    }
lost:
    connection->protocol = LOST;
    return true;
}

static __always_inline __u8 protocol_of(__u32 bytes)
{
    const void *buffer = bytes < TLS_HEADER_BYTES ? NULL : user_buffer(false);
    __u8 head[2];

    if (buffer == NULL || bpf_probe_read_user(head, sizeof(head), buffer) < 0)
        return PLAIN;
    return head[0] == TLS_HANDSHAKE_TYPE && head[1] == 3 ? TLS_HANDSHAKE : PLAIN;
}

#define MSG_PEEK 2

/* Arguments of sock_recv_length and sock_send_length: sk, bytes or error, flags. */
SEC("tp_btf/sock_recv_length")
int received(__u64 *ctx)
{
    struct sock *sk = (void *)ctx[0];
    int bytes = (int)ctx[1];
    struct connection *connection;

    if (bytes <= 0 || ctx[2] & MSG_PEEK || sk == NULL || sk->sk_bpf_storage == NULL)
        return 0;
    connection = bpf_sk_storage_get(&connections, sk, NULL, 0);
    if (connection == NULL)
        return 0;
    if (connection->protocol == UNKNOWN)
        connection->protocol = protocol_of((__u32)bytes);
    if (connection->protocol == TLS_HANDSHAKE || connection->protocol == TLS) {
        if (!follow(connection, (__u32)bytes))
            return 0;
    }
    connection->receiving = 1;
    return 0;
}

/* The class of the HTTP/1 status that is being sent: 1 to 5; 0: none is seen. */
static __always_inline __u8 status_class(void)
{
    const void *buffer = user_buffer(true);
    char head[10];

    if (buffer == NULL || bpf_probe_read_user(head, sizeof(head), buffer) < 0)
        return 0;
    if (head[0] != 'H' || head[1] != 'T' || head[2] != 'T' || head[3] != 'P' || head[4] != '/' ||
        head[5] != '1' || head[6] != '.' || head[8] != ' ' || head[9] < '1' || head[9] > '5')
        return 0;
    return (__u8)(head[9] - '0');
}

static __always_inline void add_class(struct kw_requests_value *value, __u8 class)
{
    /* compared, since the verifier loses the range of an index */
#pragma unroll
    for (__u8 i = 0; i < KW_REQUESTS_CLASSES; i++) {
        if (class == i + 1)
            value->classes[i]++;
    }
}

static __always_inline struct kw_requests_value *value_of(struct task_struct *task)
{
    __u64 key = key_of(task, true);
    __u64 overflow = KW_SCHED_KEY_OVERFLOW;
    struct kw_requests_value *value = bpf_map_lookup_elem(&requests, &key);
    struct kw_requests_value fresh = {};

    if (value != NULL)
        return value;
    (void)bpf_map_update_elem(&requests, &key, &fresh, BPF_NOEXIST);
    value = bpf_map_lookup_elem(&requests, &key);
    return value != NULL ? value : bpf_map_lookup_elem(&requests, &overflow);
}

SEC("tp_btf/sock_send_length")
int sent(__u64 *ctx)
{
    struct sock *sk = (void *)ctx[0];
    int bytes = (int)ctx[1];
    struct connection *connection;
    struct kw_requests_value *value;
    __u8 class = 0, held;

    if (bytes <= 0 || sk == NULL || sk->sk_bpf_storage == NULL)
        return 0;
    connection = bpf_sk_storage_get(&connections, sk, NULL, 0);
    if (connection == NULL || !connection->receiving)
        return 0;
    if (statuses) {
        class = status_class();
        if (class == 1)
            return 0; /* interim: the answer is still to come */
    }
    connection->receiving = 0;
    held = connection->held;
    if (connection->from_node && held < KW_REQUESTS_PROBE_TURNS) {
        connection->held_classes |= (__u32) class << (8 * held);
        connection->held = held + 1;
        return 0;
    }
    value = value_of(bpf_get_current_task_btf());
    if (value == NULL)
        return 0; /* not reached: user space puts the overflow key in before it attaches */
    value->turns += 1 + (__u64)connection->held;
    add_class(value, class);
    if (statuses && connection->held > 0) {
        for (int i = 0; i < KW_REQUESTS_PROBE_TURNS; i++)
            add_class(value, (__u8)(connection->held_classes >> (8 * i)));
    }
    connection->from_node = 0;
    connection->held = 0;
    return 0;
}

/*
 * Connections that were there before: user space reads this iterator twice. A socket that listens
 * is noted; one that is connected from a port at which somebody listens, in the same network, is a
 * server's.
 */
struct listener {
    __u64 network; /* its address: only compared */
    __u32 port, padding;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 65536);
    __type(key, struct listener);
    __type(value, __u8);
} listeners SEC(".maps");

SEC("iter/task_file")
int adopt(struct bpf_iter__task_file *ctx)
{
    struct file *file = ctx->file;
    struct listener listener = {};
    struct connection fresh = {.protocol = LOST};
    struct socket *socket;
    struct sock *sk;
    __u8 state, yes = 1;

    if (ctx->task == NULL || file == NULL)
        return 0;
    socket = bpf_sock_from_file(file);
    if (socket == NULL)
        return 0;
    sk = socket->sk;
    if (sk == NULL || (sk->__sk_common.skc_family != AF_INET && sk->__sk_common.skc_family != 10))
        return 0;
    state = sk->__sk_common.skc_state;
    listener.network = (__u64)sk->__sk_common.skc_net.net;
    listener.port = sk->__sk_common.skc_num;
    if (state == TCP_LISTEN)
        (void)bpf_map_update_elem(&listeners, &listener, &yes, BPF_ANY);
    else if (state == TCP_ESTABLISHED && bpf_map_lookup_elem(&listeners, &listener) != NULL)
        (void)bpf_sk_storage_get(&connections, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
