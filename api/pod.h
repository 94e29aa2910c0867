/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/selector.h"

/*
 * What kwatt needs of a Kubernetes Pod: who it is, who made it, and its containers.
 */

/** Controller of an object (the ownerReference with controller: true). */
struct kw_owner_ref {
    char *api_version; /**< "apps/v1" */
    char *kind;
    char *name;
    char *uid;
};

/** Frees the texts; leaves *ref zeroed. */
void kw_owner_ref_clear(struct kw_owner_ref *ref);

enum kw_pod_phase {
    KW_POD_PENDING, /**< also: no phase yet */
    KW_POD_RUNNING,
    KW_POD_SUCCEEDED,
    KW_POD_FAILED,
    KW_POD_UNKNOWN,
    KW_POD__MAX
};

/** "Pending", "Running", ... index is enum kw_pod_phase. */
extern const char *const kw_pod_phase_names[KW_POD__MAX];

struct kw_pod_container {
    char *name;
    char *id;               /**< full id without its "containerd://"; "" until it was created */
    char *former_id;        /**< id of the instance before the last restart; "" if none */
    bool init;              /**< an init container */
    bool sidecar;           /**< an init container that goes on running (restartPolicy Always) */
    uint64_t request_mcpu;  /**< 0: none */
    uint64_t request_bytes; /**< memory; 0: none */
    uint64_t limit_mcpu;    /**< 0: none */
    uint64_t limit_bytes;   /**< 0: none */
    uint64_t restarts;
    bool oom_killed;            /**< the last instance that ended was killed for want of memory */
    int64_t oom_killed_unix_ms; /**< when; 0: unknown */
};

struct kw_pod {
    char *name;
    char *namespace_;
    char *uid;
    char *node;              /**< spec.nodeName; "" until scheduled */
    char *static_uid;        /**< uid by which the kubelet itself knows a static pod (annotation
                                kubernetes.io/config.hash): its cgroup is named after that, and the API
                                server's mirror of it has another uid; "" for all others */
    int64_t created_unix_ms; /**< 0: unknown */
    int64_t started_unix_ms; /**< when its kubelet took it (status.startTime); 0: not yet, or
                                unknown */
    enum kw_pod_phase phase;
    bool has_owner;
    struct kw_owner_ref owner; /**< its controller */
    struct kw_labels labels;
    size_t n_containers;
    size_t n_ephemeral; /**< for debugging; they stand behind the n_containers others */
    struct kw_pod_container *containers; /**< init containers first, in the order of the spec */
};

/** Frees everything inside; leaves *pod zeroed. */
void kw_pod_clear(struct kw_pod *pod);

/**
 * Decodes a Pod as the API server or a kubelet sends it; unknown fields are passed over. A quantity
 * that cannot be read counts as none.
 * @param ret untouched on error; cleared by the caller.
 * @param ret_why static text naming the field, set on -EBADMSG; may be NULL.
 * @return 0; -EBADMSG; -ENOMEM.
 */
int kw_pod_decode(const char *json, size_t len, struct kw_pod *ret, const char **ret_why);
