/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: a pod's cgroup is there before its name is (a kubelet shows a container's id up to ten
 * seconds after its start), and some cgroups below a pod never get one: its sandbox is a container
 * that no list names. Asking again at every sample for what will never be known is what other
 * agents do, and costs more than all the rest of the work.
 *
 * Approach: a pod that lacks a name asks, and asks again after 1, 2, 4, ... s; a new cgroup starts
 * that anew. One of which all containers that the spec has are running and named lacks only its
 * sandbox, and does not ask. A pod without containers' names stops after ASKS_MAX; one without any
 * goes on every ASK_LONGEST_NS.
 */
#include "node-agent/naming.h"

#include <string.h>

#include "common/clock.h"
#include "node-agent/kin.h"

/* 1 + 2 + ... + 64 s: as long as a kubelet may take to report a status, and some. */
#define ASKS_MAX       7
#define ASK_LONGEST_NS (256 * KW_NS_PER_S)

static const struct kw_pod_container *container_of(const struct kw_pod *pod, const char *id)
{
    for (size_t i = 0; i < pod->n_containers + pod->n_ephemeral; i++) {
        const struct kw_pod_container *container = &pod->containers[i];
        if (strcmp(container->id, id) == 0 || strcmp(container->former_id, id) == 0)
            return container;
    }
    return NULL;
}

static void replace(struct agent_names **names, const struct agent_names *texts, bool *failed)
{
    struct agent_names *fresh = NULL;

    if (agent_names_new(texts, &fresh) < 0) {
        *failed = true;
        return;
    }
    agent_names_unref(names);
    *names = fresh;
}

/** @return false: no memory, to be tried again. */
static bool take_names(struct agent_workload *workload, const struct agent_pod_entry *entry)
{
    const struct kw_pod *pod = &entry->pod;
    bool failed = false;

    replace(&workload->names,
            &(struct agent_names){.name = pod->name,
                                  .namespace_ = pod->namespace_,
                                  .owner_kind = pod->owner.kind,
                                  .owner_name = pod->owner.name,
                                  .labels = pod->labels},
            &failed);
    workload->kin = agent_kin_of(workload->label, workload->names);
    for (size_t i = 0; i < workload->n_containers; i++) {
        struct agent_container *container = &workload->containers[i];
        const struct kw_pod_container *known = container_of(pod, container->label->id);
        if (known == NULL)
            continue;
        replace(&container->names,
                &(struct agent_names){.name = known->name,
                                      .request_mcpu = known->request_mcpu,
                                      .request_bytes = known->request_bytes,
                                      .limit_mcpu = known->limit_mcpu,
                                      .limit_bytes = known->limit_bytes},
                &failed);
    }
    return !failed;
}

static bool runs(const struct agent_workload *workload, const char *id)
{
    for (size_t i = 0; i < workload->n_containers; i++) {
        if (workload->containers[i].cgroups > 0 &&
            strcmp(workload->containers[i].label->id, id) == 0)
            return true;
    }
    return false;
}

/** Whether a newer list could name more of the pod. */
static bool lacks(const struct agent_workload *workload, const struct agent_pod_entry *entry)
{
    bool unnamed = false;

    if (entry == NULL)
        return true;
    for (size_t i = 0; i < workload->n_containers; i++)
        unnamed = unnamed ||
                  (workload->containers[i].cgroups > 0 && workload->containers[i].names == NULL);
    for (size_t i = 0; unnamed && i < entry->pod.n_containers; i++) {
        const struct kw_pod_container *container = &entry->pod.containers[i];
        if (!container->init && !runs(workload, container->id))
            return true;
    }
    return false;
}

static uint64_t wait_ns(unsigned asks)
{
    uint64_t wait = asks < 32 ? KW_NS_PER_S << asks : ASK_LONGEST_NS;

    return wait < ASK_LONGEST_NS ? wait : ASK_LONGEST_NS;
}

/** @return whether the pod asks for a list. */
static bool ask(struct agent_workload *workload, bool known, uint64_t rounds, uint64_t now_ns)
{
    struct agent_naming_state *naming = &workload->naming;

    if (naming->asked && rounds != naming->rounds) {
        naming->asked = false; /* a list came, and it lacked the same */
        naming->asks++;
        naming->next_ns = now_ns + wait_ns(naming->asks);
    }
    if (known && naming->asks >= ASKS_MAX)
        return false;
    if (now_ns < naming->next_ns)
        return false;
    if (!naming->asked)
        naming->rounds = rounds;
    naming->asked = true;
    return true;
}

static bool name_pod(struct agent_pod_directory *directory, struct agent_workload *workload,
                     uint64_t now_ns)
{
    struct agent_naming_state *naming = &workload->naming;
    uint64_t version = agent_pod_directory_version(directory);
    bool grown = naming->attached != workload->attached;
    bool shrunk = naming->detached != workload->detached;

    if (grown) {
        naming->attached = workload->attached;
        naming->asks = 0;
        naming->asked = false;
        naming->next_ns = now_ns;
    }
    naming->detached = workload->detached;
    if (grown || shrunk || naming->version != version) {
        const struct agent_pod_entry *entry =
            agent_pod_directory_find(directory, workload->label->id);
        bool news = entry != NULL && (grown || entry->version > naming->version);
        if (!news || take_names(workload, entry))
            naming->version = version;
        naming->lacks = lacks(workload, entry);
    }
    if (!naming->lacks || workload->cgroups == 0)
        return false;
    return ask(workload, workload->names != NULL, agent_pod_directory_rounds(directory), now_ns);
}

bool agent_naming_pods(struct agent_pod_directory *directory,
                       struct agent_workload *const *workloads, size_t n, uint64_t now_ns)
{
    bool wanted = false;

    for (size_t i = 0; i < n; i++) {
        if (workloads[i]->label->kind == KW_WORKLOAD_POD)
            wanted = name_pod(directory, workloads[i], now_ns) || wanted;
    }
    return wanted;
}
