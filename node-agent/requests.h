/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/*
 * Requests that each cgroup's servers answered, counted as turns of TCP connections (eBPF): a
 * server that receives and then sends. One turn is one request where a connection has one at a
 * time: HTTP/1, Redis without pipelines, most databases, each with or without TLS. Of a pipeline or
 * HTTP/2 it is a burst. Probes of the kubelet do not count: a connection that a process of the
 * node's own network opens into a pod's counts from its fourth turn on, then with all its turns.
 */

/** The unit of the counts, for readers: "turn". */
#define AGENT_REQUESTS_UNIT "turn"

/** HTTP status classes: [0] is 1xx, which is never an answer, [4] is 5xx. */
#define AGENT_REQUESTS_CLASSES 5

/** Cumulative, of one cgroup. */
struct agent_served {
    uint64_t key; /**< as in node-agent/accounting.h; AGENT_KEY_OVERFLOW: of those that did not
                     fit */
    uint64_t turns;
    uint64_t
        classes[AGENT_REQUESTS_CLASSES]; /**< where statuses are read, and of HTTP/1 in clear */
};

/** A reading; memory is kept between readings. */
struct agent_served_list {
    size_t n, cap;
    struct agent_served *rows; /**< keys are unique */
};

struct agent_requests_conf {
    const char *sysfs_root; /**< where fs/cgroup is looked for */
    const char *procfs_root;
    bool statuses;        /**< read the HTTP/1 status of each answer */
    unsigned max_cgroups; /**< that serve and are kept apart; 0: 16384 */
};

struct agent_requests;

/** Attaches to the sockets' tracepoints and takes over connections that are open. Detached by the
 * kernel when the process ends, however it does. Needs CAP_BPF and CAP_PERFMON. @return 0; -errno
 * with the cause in `err`. */
int agent_requests_open(const struct agent_requests_conf *conf, struct agent_requests **ret,
                        struct kw_err *err);

/** Reads all counts. Allocates only to grow. @return 0 or -errno; ret is then of no use. */
int agent_requests_read(struct agent_requests *requests, struct agent_served_list *ret);

/** Drops the counts of cgroups that are gone. NULL-safe. */
void agent_requests_forget(struct agent_requests *requests, const uint64_t *keys, size_t n);

/** NULL-safe, nulls. */
void agent_requests_close(struct agent_requests **requests);

/** Frees the rows, not the struct. */
void agent_served_list_free(struct agent_served_list *list);
