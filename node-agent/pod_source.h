/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/log.h"
#include "node-agent/kubelet.h"
#include "node-agent/pod_directory.h"

/*
 * Keeps a directory of this node's pods, from the kubelet or from a watch of the API server that is
 * limited to this node, on threads of its own: a slow or absent Kubernetes never delays a sample,
 * and what it knows comes late at worst.
 */

/** Where pods' names come from. */
enum agent_pods {
    AGENT_PODS_AUTO, /**< the kubelet, and the API server where that refuses; nothing where there
                        is no Kubernetes */
    AGENT_PODS_KUBELET,
    AGENT_PODS_API,
    AGENT_PODS_OFF,
    AGENT_PODS__MAX
};

struct agent_pod_source;

/** Texts are borrowed for the life of the source. */
struct agent_pod_source_conf {
    enum agent_pods pods;
    struct agent_kubelet_conf kubelet; /**< its address may be NULL */
    const char *kubeconfig;            /**< NULL: the service account */
    const char *labels;                /**< as for agent_pod_directory_new */
    struct kw_log *log;
};

/**
 * Starts the threads; does not wait for an answer.
 * @param ret NULL where the configuration says that there is nothing to ask.
 * @return 0; -EINVAL and -errno with the cause in `err`.
 */
int agent_pod_source_start(const struct agent_pod_source_conf *conf, struct agent_pod_source **ret,
                           struct kw_err *err);

/** The directory, which does not change until it is released. */
struct agent_pod_directory *agent_pod_source_acquire(struct agent_pod_source *source);

/** @param wanted what is not in it is missed: look again soon. */
void agent_pod_source_release(struct agent_pod_source *source, bool wanted);

/** Ends the threads (within a second) and frees. NULL-safe; nulls. */
void agent_pod_source_stop(struct agent_pod_source **source);
