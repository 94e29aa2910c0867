/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user side of bpf/requests.bpf.c. The programs hang on links of this process, so that nothing
 * of them outlives it. Connections that were open before are found by an iterator over all open
 * files, read twice: once for the ports at which somebody listens, once for what is connected to
 * them. It needs no privilege that loading did not. The kernel shows it the processes of the
 * agent's own PID name space: in a container without the host's, connections that are older than
 * the agent are not counted.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf/requests.h"
#include "bpf/requests.skel.h"
#include "bpf/sched.h"
#include "common/cleanup.h"
#include "node-agent/accounting.h"
#include "node-agent/bpf_why.h"
#include "node-agent/cgroup_mounts.h"
#include "node-agent/requests.h"

_Static_assert(KW_REQUESTS_CLASSES == AGENT_REQUESTS_CLASSES, "both sides count the same");

#define LOG_BYTES 65536
#define BATCH     128
#define ROWS_MIN  64
/* Cgroups that serve: more than a node has pods; entries are allocated when they are used. With the
 * overflow key 4096: of one more the kernel would make twice the buckets, and looks into each of
 * them whenever the map is read. */
#define CGROUPS   4095

struct agent_requests {
    struct requests_bpf *skel;
    struct bpf_link *links[3];
    int map_fd;
    unsigned n_cpus;
    uint64_t keys[BATCH];
    struct kw_requests_value *values; /* BATCH x n_cpus */
};

void agent_requests_close(struct agent_requests **requests)
{
    struct agent_requests *owned = KW_TAKE_PTR(*requests);

    if (owned == NULL)
        return;
    for (size_t i = 0; i < KW_ARRAY_SIZE(owned->links); i++)
        bpf_link__destroy(owned->links[i]);
    requests_bpf__destroy(owned->skel);
    free(owned->values);
    free(owned);
}

void agent_served_list_free(struct agent_served_list *list)
{
    free(list->rows);
    *list = (struct agent_served_list){0};
}

static uint64_t root_id(const char *mount)
{
    struct stat st;

    return mount[0] != '\0' && stat(mount, &st) == 0 ? (uint64_t)st.st_ino : KW_SCHED_ROOT_ID;
}

static bool has_tracepoints(void)
{
    struct btf *btf = btf__load_vmlinux_btf();

    if (btf == NULL)
        return true; /* then that is the cause, and is said */
    bool found = btf__find_by_name_kind(btf, "btf_trace_sock_recv_length", BTF_KIND_TYPEDEF) > 0;
    btf__free(btf);
    return found;
}

static int load(struct agent_requests *requests, const struct agent_requests_conf *conf,
                const struct agent_cgroup_mounts *mounts, struct kw_err *err)
{
    kw_cleanup_free char *log = calloc(1, LOG_BYTES);
    LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = log, .kernel_log_size = LOG_BYTES,
                .kernel_log_level = 0);

    if (log == NULL)
        return kw_err_set(err, -ENOMEM, "no memory");
    requests->skel = requests_bpf__open_opts(&opts);
    if (requests->skel == NULL)
        return agent_bpf_why(err, errno > 0 ? -errno : -EINVAL, "opening the BPF object",
                             conf->procfs_root, NULL);
    requests->skel->rodata->v1_enabled = mounts->paths[AGENT_HIERARCHY_CPUACCT][0] != '\0';
    requests->skel->rodata->v2_root_id = root_id(mounts->paths[AGENT_HIERARCHY_V2]);
    requests->skel->rodata->v1_root_id = root_id(mounts->paths[AGENT_HIERARCHY_CPUACCT]);
    requests->skel->rodata->statuses = conf->statuses;
    /* and the overflow key */
    (void)bpf_map__set_max_entries(requests->skel->maps.requests,
                                   (conf->max_cgroups != 0 ? conf->max_cgroups : CGROUPS) + 1);
    int r = requests_bpf__load(requests->skel);
    if (r < 0 && r != -EPERM && !has_tracepoints())
        return kw_err_set(err, r,
                          "eBPF: the kernel has no tracepoints at the end of a socket's send and "
                          "receive; Linux 6.3 or later has");
    if (r < 0)
        return agent_bpf_why(err, r, "loading the BPF programs", conf->procfs_root, log);
    requests->map_fd = bpf_map__fd(requests->skel->maps.requests);
    return 0;
}

/* Reads the iterator to its end: the program does its work meanwhile and writes nothing. */
static int run_iterator(const struct bpf_link *link)
{
    char nothing[64];
    kw_cleanup_close int fd = bpf_iter_create(bpf_link__fd(link));
    ssize_t n = 0;

    if (fd < 0)
        return -errno;
    do
        n = read(fd, nothing, sizeof(nothing));
    while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
    return n < 0 ? -errno : 0;
}

/* What the programs need to find before they run. */
static int prepare(struct agent_requests *requests)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts);
    uint64_t overflow = KW_SCHED_KEY_OVERFLOW;

    memset(requests->values, 0, requests->n_cpus * sizeof(*requests->values));
    if (bpf_map_update_elem(requests->map_fd, &overflow, requests->values, BPF_ANY) < 0)
        return -errno;
    int r = bpf_prog_test_run_opts(bpf_program__fd(requests->skel->progs.find_node_network), &opts);
    return r < 0 ? r : 0;
}

static int attach(struct agent_requests *requests, const struct agent_requests_conf *conf,
                  struct kw_err *err)
{
    const struct bpf_program *programs[] = {requests->skel->progs.established,
                                            requests->skel->progs.received,
                                            requests->skel->progs.sent};
    int r = prepare(requests);

    if (r < 0)
        return agent_bpf_why(err, r, "preparing the BPF programs", conf->procfs_root, NULL);
    for (size_t i = 0; i < KW_ARRAY_SIZE(programs); i++) {
        requests->links[i] = bpf_program__attach(programs[i]);
        if (requests->links[i] == NULL)
            return agent_bpf_why(err, errno > 0 ? -errno : -EINVAL, "attaching to sockets",
                                 conf->procfs_root, NULL);
    }
    struct bpf_link *iterator = bpf_program__attach_iter(requests->skel->progs.adopt, NULL);
    r = iterator == NULL ? -errno : run_iterator(iterator);
    if (r == 0)
        r = run_iterator(iterator);
    bpf_link__destroy(iterator);
    return r == 0 ? 0
                  : agent_bpf_why(err, r, "looking for open connections", conf->procfs_root, NULL);
}

int agent_requests_open(const struct agent_requests_conf *conf, struct agent_requests **ret,
                        struct kw_err *err)
{
    kw_cleanup(agent_requests_close) struct agent_requests *requests = calloc(1, sizeof(*requests));
    kw_cleanup_free struct agent_cgroup_mounts *mounts = calloc(1, sizeof(*mounts));
    int n = libbpf_num_possible_cpus();

    if (requests == NULL || mounts == NULL)
        return kw_err_set(err, -ENOMEM, "no memory");
    if (n <= 0)
        return kw_err_set(err, n < 0 ? n : -EINVAL, "eBPF: the list of CPUs cannot be read");
    (void)libbpf_set_print(NULL);
    requests->n_cpus = (unsigned)n;
    requests->values = calloc((size_t)BATCH * requests->n_cpus, sizeof(*requests->values));
    if (requests->values == NULL)
        return kw_err_set(err, -ENOMEM, "no memory");
    (void)agent_cgroup_mounts_read(conf->sysfs_root, conf->procfs_root, mounts);
    int r = load(requests, conf, mounts, err);
    if (r == 0 && requests->skel != NULL) /* there after a load; clang-tidy cannot see it */
        r = attach(requests, conf, err);
    if (r < 0)
        return r;
    *ret = KW_TAKE_PTR(requests);
    return 0;
}

static int add_row(const struct agent_requests *requests, uint64_t key,
                   const struct kw_requests_value *values, struct agent_served_list *list)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? ROWS_MIN : 2 * list->cap;
        struct agent_served *rows = reallocarray(list->rows, cap, sizeof(*rows));
        if (rows == NULL)
            return -ENOMEM;
        list->rows = rows;
        list->cap = cap;
    }
    struct agent_served *row = &list->rows[list->n++];
    *row = (struct agent_served){.key = key == KW_SCHED_KEY_SYSTEM ? AGENT_KEY_SYSTEM : key};
    for (unsigned i = 0; i < requests->n_cpus; i++) {
        row->turns += values[i].turns;
        for (unsigned k = 0; k < AGENT_REQUESTS_CLASSES; k++)
            row->classes[k] += values[i].classes[k];
    }
    return 0;
}

int agent_requests_read(struct agent_requests *requests, struct agent_served_list *ret)
{
    uint64_t position = 0;
    bool first = true;

    ret->n = 0;
    for (;;) {
        uint32_t count = BATCH;
        int r = bpf_map_lookup_batch(requests->map_fd, first ? NULL : &position, &position,
                                     requests->keys, requests->values, &count, NULL);
        if (r < 0 && r != -ENOENT)
            return r;
        for (uint32_t i = 0; i < count; i++) {
            int added = add_row(requests, requests->keys[i],
                                requests->values + (size_t)i * requests->n_cpus, ret);
            if (added < 0)
                return added;
        }
        if (r == -ENOENT)
            return 0;
        first = false;
    }
}

void agent_requests_forget(struct agent_requests *requests, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; requests != NULL && i < n; i++) {
        if (!agent_key_is_fixed(keys[i]))
            (void)bpf_map_delete_elem(requests->map_fd, &keys[i]);
    }
}
