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
#include "api/top_owner.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/owner.h"

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

static void set_kind(struct kw_top_owner *ret, const char *kind)
{
    (void)snprintf(ret->kind, sizeof(ret->kind), "%s", kind);
}

static void from_replica_set(const struct kw_made_by *made_by, struct kw_top_owner *ret)
{
    const char *deployment = made_by->pod_template_hash;
    const char *rollout = made_by->rollout_hash;

    if (deployment != NULL && cut(ret->name, deployment))
        set_kind(ret, kw_owner_kind_names[KW_OWNER_DEPLOYMENT]);
    else if (rollout != NULL && cut(ret->name, rollout))
        set_kind(ret, "Rollout");
}

/** The minute that a text is, in digits alone. @return -1 where it is none. */
static int64_t minute_of(const char *text)
{
    int64_t minute = 0;
    size_t len = strlen(text);

    /* thirteen digits are more than any clock shows */
    if (len == 0 || len > 13)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        minute = minute * 10 + (text[i] - '0');
    }
    return minute;
}

static void from_job(const struct kw_made_by *made_by, struct kw_top_owner *ret)
{
    const char *dash = strrchr(ret->name, '-');

    if (dash == NULL || dash == ret->name || made_by->created_unix_ms <= 0)
        return;
    int64_t made = made_by->created_unix_ms / MS_PER_MINUTE;
    int64_t minute = minute_of(dash + 1);
    if (minute < 0 || minute > made || minute < made - CRON_LATE_MINUTES)
        return;
    ret->name[dash - ret->name] = '\0';
    set_kind(ret, kw_owner_kind_names[KW_OWNER_CRON_JOB]);
}

bool kw_kind_ok(const char *kind)
{
    size_t n = strlen(kind);

    if (n == 0 || n >= KW_TOP_KIND_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = kind[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')))
            return false;
    }
    return true;
}

void kw_top_owner_find(const struct kw_made_by *made_by, struct kw_top_owner *ret)
{
    *ret = (struct kw_top_owner){.kind = ""};
    /* of a static pod's mirror the node is the owner, which says nothing */
    if (made_by->kind == NULL || made_by->name == NULL || !kw_kind_ok(made_by->kind) ||
        !kw_kube_name_ok(made_by->name) || strcmp(made_by->kind, "Node") == 0)
        return;
    set_kind(ret, made_by->kind);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", made_by->name);
    switch (kw_owner_kind_of(ret->kind)) {
    case KW_OWNER_REPLICA_SET: from_replica_set(made_by, ret); break;
    case KW_OWNER_JOB: from_job(made_by, ret); break;
    default: break;
    }
}

void kw_top_owner_of(const struct kw_pod *pod, struct kw_top_owner *ret)
{
    const struct kw_made_by made_by = {
        .kind = pod->has_owner ? pod->owner.kind : NULL,
        .name = pod->has_owner ? pod->owner.name : NULL,
        .pod_template_hash = kw_labels_get(&pod->labels, KW_LABEL_POD_TEMPLATE_HASH),
        .rollout_hash = kw_labels_get(&pod->labels, KW_LABEL_ROLLOUT_HASH),
        .created_unix_ms = pod->created_unix_ms,
    };

    kw_top_owner_find(&made_by, ret);
}
