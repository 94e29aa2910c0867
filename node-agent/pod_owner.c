/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the API server for every ReplicaSet and Job would need more rights and more requests than
 * all the rest. The controllers' own naming says it as surely:
 *
 *   Deployment  names its ReplicaSets NAME-HASH and puts HASH on their pods as the label
 *               pod-template-hash (k8s.io/kubernetes pkg/controller/deployment, getNewReplicaSet);
 *               a ReplicaSet that somebody made by hand has no such label. Argo Rollouts do the
 *               same with a label of their own.
 *   CronJob     names its Jobs NAME-MINUTE, MINUTE being the scheduled unix time in minutes
 *               (pkg/controller/cronjob, getJobName). A Job made by hand may end in a number as
 *               well, but not in the minute at which its pod was made.
 */
#include "node-agent/pod_owner.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/owner.h"
#include "common/num.h"

#define MS_PER_MINUTE 60000

/* A CronJob's pod is made after its minute, late by at most a missed run that is caught up
 * (startingDeadlineSeconds has no bound; beyond a day the Job stays its own top). */
#define CRON_LATE_MINUTES (24 * 60)

/** Cuts "-SUFFIX" off a name. @return false and unchanged where it ends in something else. */
static bool cut(char *name, const char *suffix)
{
    size_t n = strlen(name), tail = strlen(suffix);

    if (tail == 0 || n < tail + 2 || name[n - tail - 1] != '-' ||
        strcmp(name + n - tail, suffix) != 0)
        return false;
    name[n - tail - 1] = '\0';
    return true;
}

static void set_kind(struct agent_pod_owner *ret, const char *kind)
{
    (void)snprintf(ret->kind, sizeof(ret->kind), "%s", kind);
}

static void from_replica_set(const struct kw_pod *pod, struct agent_pod_owner *ret)
{
    const char *deployment = kw_labels_get(&pod->labels, "pod-template-hash");
    const char *rollout = kw_labels_get(&pod->labels, "rollouts-pod-template-hash");

    if (deployment != NULL && cut(ret->name, deployment))
        set_kind(ret, kw_owner_kind_names[KW_OWNER_DEPLOYMENT]);
    else if (rollout != NULL && cut(ret->name, rollout))
        set_kind(ret, "Rollout");
}

static void from_job(const struct kw_pod *pod, struct agent_pod_owner *ret)
{
    const char *dash = strrchr(ret->name, '-');
    uint64_t minute = 0;

    if (dash == NULL || dash == ret->name || pod->created_unix_ms <= 0)
        return;
    uint64_t made = (uint64_t)(pod->created_unix_ms / MS_PER_MINUTE);
    uint64_t first = made > CRON_LATE_MINUTES ? made - CRON_LATE_MINUTES : 0;
    if (kw_parse_u64(dash + 1, first, made, &minute) < 0)
        return;
    ret->name[dash - ret->name] = '\0';
    set_kind(ret, kw_owner_kind_names[KW_OWNER_CRON_JOB]);
}

static bool kind_ok(const char *kind)
{
    size_t n = strlen(kind);

    if (n == 0 || n >= sizeof(((struct agent_pod_owner *)NULL)->kind))
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = kind[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')))
            return false;
    }
    return true;
}

void agent_pod_owner_find(const struct kw_pod *pod, struct agent_pod_owner *ret)
{
    *ret = (struct agent_pod_owner){.kind = ""};
    /* of a static pod's mirror the node is the owner, which says nothing */
    if (!pod->has_owner || !kind_ok(pod->owner.kind) || !kw_kube_name_ok(pod->owner.name) ||
        strcmp(pod->owner.kind, "Node") == 0)
        return;
    set_kind(ret, pod->owner.kind);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", pod->owner.name);
    switch (kw_owner_kind_of(ret->kind)) {
    case KW_OWNER_REPLICA_SET: from_replica_set(pod, ret); break;
    case KW_OWNER_JOB: from_job(pod, ret); break;
    default: break;
    }
}
