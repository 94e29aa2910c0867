/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"

#define AGENT_OWNER_MAX 254

/** Who made a pod, at the top. Texts are "" where nobody did. */
struct agent_pod_owner {
    char kind[64];
    char name[AGENT_OWNER_MAX];
};

/**
 * Top owner of a pod from what the pod itself says (pure): a ReplicaSet that a Deployment (or an
 * Argo Rollout) made is named after it and the pod's hash label, a Job that a CronJob made after it
 * and the minute it was due. Everything else is its own top. A name that no Kubernetes object can
 * have gives no owner.
 */
void agent_pod_owner_find(const struct kw_pod *pod, struct agent_pod_owner *ret);
