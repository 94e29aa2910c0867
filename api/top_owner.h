/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/pod.h"

/*
 * The workload that a pod belongs to: who made it, at the top. The agent writes it into the pod's
 * record, the recommender keeps what it learns by it, and the extender finds that again for the
 * next pod: all three by this rule, so that they mean the same workload.
 */

/** Bytes for a kind, and for a name (a DNS subdomain), with their NULs. */
#define KW_TOP_KIND_MAX 64
#define KW_TOP_NAME_MAX 254

/** Who made a pod, at the top. Texts are "" where nobody did. */
struct kw_top_owner {
    char kind[KW_TOP_KIND_MAX];
    char name[KW_TOP_NAME_MAX];
};

/** What a pod says of who made it. Texts are borrowed. */
struct kw_made_by {
    const char *kind, *name;       /**< its controller (ownerReferences); NULL: none */
    const char *pod_template_hash; /**< label of that name; NULL: none */
    const char *rollout_hash;      /**< label rollouts-pod-template-hash; NULL: none */
    int64_t created_unix_ms;       /**< of the pod; 0: unknown */
};

/** Labels that the rule below reads. */
#define KW_LABEL_POD_TEMPLATE_HASH "pod-template-hash"
#define KW_LABEL_ROLLOUT_HASH      "rollouts-pod-template-hash"

/**
 * Top owner of a pod from what the pod itself says (pure): a ReplicaSet that a Deployment (or an
 * Argo Rollout) made is named after it and the pod's hash label, a Job that a CronJob made after it
 * and the minute it was due. Everything else is its own top. A name that no Kubernetes object can
 * have gives no owner; a pod that nobody made has none, since the next one has another name.
 */
void kw_top_owner_find(const struct kw_made_by *made_by, struct kw_top_owner *ret);

/** The same of a decoded pod. */
void kw_top_owner_of(const struct kw_pod *pod, struct kw_top_owner *ret);

/** Whether a text can be the kind of an object: letters and digits, shorter than KW_TOP_KIND_MAX.
 */
bool kw_kind_ok(const char *kind);
