/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/selector.h"

/*
 * Record of one workload: a Kubernetes pod, or, on a machine without Kubernetes, a container, a
 * systemd unit, a virtual machine or a plain cgroup. Energies and CPU time are cumulative within
 * the agent's epoch (api/sample.h).
 */

enum kw_workload_kind {
    KW_WORKLOAD_POD,       /**< id: pod UID */
    KW_WORKLOAD_CONTAINER, /**< id: full container id; cgroup path of those that have a name only */
    KW_WORKLOAD_UNIT,      /**< id: cgroup path; name: "nginx.service" */
    KW_WORKLOAD_VM,        /**< id: as of what its cgroup is, mostly the path */
    KW_WORKLOAD_CGROUP,    /**< id: cgroup path */
    KW_WORKLOAD__MAX
};

/** "pod", "container", "unit", "vm", "cgroup". */
extern const char *const kw_workload_kind_names[KW_WORKLOAD__MAX];

/** Quality of service of a pod, as its cgroup's place says. */
enum kw_qos {
    KW_QOS_NONE, /**< no pod, or unknown */
    KW_QOS_GUARANTEED,
    KW_QOS_BURSTABLE,
    KW_QOS_BEST_EFFORT,
    KW_QOS__MAX
};

/** "", "Guaranteed", "Burstable", "BestEffort": as Kubernetes writes them. */
extern const char *const kw_qos_names[KW_QOS__MAX];

/** Share of one container in a pod's record (a stand-alone container has exactly one). */
struct kw_container_record {
    char *id;   /**< full container id */
    char *name; /**< as in the pod's spec; "" while unknown */
    uint64_t cpu_ns;
    uint64_t active_uj;
    uint64_t memory_bytes; /**< working set: usage without inactive file cache */
    uint64_t request_mcpu; /**< 0: none, or unknown; as the three below */
    uint64_t request_bytes;
    uint64_t limit_mcpu;
    uint64_t limit_bytes;
    uint64_t requests_total; /**< answered, in the record's requests_unit */
};

/** What a workload is believed to draw, of what its features let expect on this machine. */
struct kw_intensity {
    uint64_t permille;
    uint64_t sigma_permille; /**< standard deviation; 0: nothing is believed */
};

struct kw_pod_record {
    enum kw_workload_kind kind;
    char *id;
    char *
        name; /**< what a person would call it; the id's short form while nothing better is known */
    char *namespace_;        /**< "" outside Kubernetes or while unknown */
    char *owner_kind;        /**< "Deployment", ...: who made the pod, at the top; "": nobody, or
                                unknown */
    char *owner_name;        /**< "" with owner_kind */
    enum kw_qos qos;         /**< of a pod */
    struct kw_labels labels; /**< of the pod; those that the agent's operator asked for */
    char *image;             /**< of a container outside Kubernetes; "" unknown */
    char *uuid;              /**< of a virtual machine; "" unknown */
    char *runtime;           /**< "containerd", "cri-o", "docker", "podman", "buildkit", "lxc",
                                "libvirt-lxc", "systemd-nspawn"; "" unknown */
    char *cgroup;            /**< path of its topmost cgroup */
    uint64_t epoch;          /**< of the agent; 0 is no epoch */
    int64_t started_unix_ms; /**< when the agent first saw it */
    int64_t ended_unix_ms;   /**< 0: running */
    int64_t t_unix_ms;       /**< end of the window that the numbers include */
    uint64_t cpu_ns;
    uint64_t shared_ns; /**< the part of cpu_ns with the SMT sibling busy; 0, as the three below,
                           where it is not counted */
    uint64_t cycles, instructions, llc_misses;
    uint64_t active_uj; /**< all domains; above idle */
    uint64_t dram_uj;   /**< the part of active_uj that DRAM drew */
    uint64_t idle_uj;   /**< idle energy by the sample's idle_policy; not part of active_uj */
    uint64_t sigma_uj;  /**< standard deviation of active_uj; 0: not estimated */
    uint64_t watts_mw;  /**< EWMA of active power; 0 once ended */
    uint64_t dram_mw;   /**< the part of watts_mw that DRAM draws */
    uint64_t sigma_mw;  /**< standard deviation of watts_mw; 0: not estimated */
    struct kw_intensity cpu_intensity, dram_intensity;
    uint64_t idle_equal_mw, idle_requests_mw; /**< what it would get of the node's idle power by the
                                                 policies of these names, whichever is in use */
    uint64_t memory_bytes;
    uint64_t requests_total; /**< answered since the epoch began */
    char *requests_unit;     /**< "turn"; "": requests are not counted. Only counts of one unit are
                                comparable */
    bool estimated;
    size_t n_containers;
    struct kw_container_record *containers; /**< sorted by id */
};

/** Frees the texts and the containers, not the struct; leaves it zeroed. */
void kw_pod_record_clear(struct kw_pod_record *record);

/** Encode and decode as in api/sample.h; a decoded record is cleared by its caller. */
int kw_pod_record_encode(const struct kw_pod_record *record, char **ret, size_t *ret_len);
int kw_pod_record_decode(const char *json, size_t len, struct kw_pod_record *ret,
                         const char **ret_why);
