/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of questions goes to and fro between the sampling thread and the one that looks: whose
 * turn it is stands under the lock, and only its owner touches it. While a batch is away nothing
 * else is asked; workloads are asked about in turn, so that none waits for ever.
 *
 * The labels that a question refers to are counted by the sampling thread alone; the other only
 * reads their texts. An answer finds its workload by number: it may have left meanwhile.
 *
 * What a look finds replaces what the last one found. A look that finds nothing does not: a machine
 * that has just ended, or a file that is being replaced, is no reason to forget a name.
 */
#include "node-agent/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/worker.h"
#include "node-agent/engine_store.h"
#include "node-agent/kin.h"
#include "node-agent/occupant.h"
#include "node-agent/path_part.h"

/* Questions at a time. */
#define BATCH_MAX 512

#define ASK_LONGEST_NS (256 * KW_NS_PER_S)
#define ASKS_MAX       8 /* 2^8 s is the longest wait */

#define CONTAINER_ID_LEN 64

enum turn {
    TURN_SAMPLER, /* nothing is asked */
    TURN_THREAD,
    TURN_ANSWERED, /* the sampler's again */
};

struct question {
    uint64_t number; /* of the workload */
    struct agent_label *label;
    bool machine;
    struct agent_qemu qemu;
    bool container;
    struct agent_engine_container found;
};

struct agent_lookup {
    struct agent_cgroup_mounts mounts;
    const char *procfs_root, *host_root;
    bool blind;
    struct kw_worker worker;
    enum turn turn; /* under the worker's lock */
    size_t n;
    struct question *batch; /* BATCH_MAX; made when first needed */
    size_t cursor;          /* of the workloads */
    /* the thread's */
    struct agent_pids pids;
    struct agent_engine_query queries[BATCH_MAX];
};

/* ------------------------------------------------------------------ the thread */

static bool is_engine_container(const struct agent_label *label)
{
    return label->kind == KW_WORKLOAD_CONTAINER &&
           agent_part_is_hex((struct agent_part){label->id, strlen(label->id)}, CONTAINER_ID_LEN);
}

static void look_for_machines(struct agent_lookup *lookup)
{
    for (size_t i = 0; i < lookup->n && !lookup->blind; i++) {
        struct question *question = &lookup->batch[i];
        question->machine =
            agent_occupant_read(&lookup->mounts, lookup->procfs_root, question->label->cgroup,
                                &lookup->pids, &question->qemu) == 1;
    }
}

static void look_for_containers(struct agent_lookup *lookup)
{
    size_t n = 0;

    for (size_t i = 0; i < lookup->n; i++) {
        const struct agent_label *label = lookup->batch[i].label;
        if (is_engine_container(label))
            lookup->queries[n++] = (struct agent_engine_query){
                .id = label->id, .cgroup = label->cgroup, .runtime = label->runtime};
    }
    if (n == 0 || lookup->host_root[0] == '\0')
        return;
    agent_engine_find(lookup->host_root, lookup->queries, n);
    for (size_t i = 0, k = 0; i < lookup->n; i++) {
        struct question *question = &lookup->batch[i];
        if (!is_engine_container(question->label))
            continue;
        question->container = lookup->queries[k].found;
        question->found = lookup->queries[k++].container;
    }
}

static enum turn turn_of(struct agent_lookup *lookup)
{
    (void)pthread_mutex_lock(&lookup->worker.mutex);
    enum turn turn = lookup->turn;
    (void)pthread_mutex_unlock(&lookup->worker.mutex);
    return turn;
}

static void give_turn(struct agent_lookup *lookup, enum turn turn)
{
    (void)pthread_mutex_lock(&lookup->worker.mutex);
    lookup->turn = turn;
    (void)pthread_mutex_unlock(&lookup->worker.mutex);
    if (turn == TURN_THREAD) /* the sampler asks when it comes by, and waits for nobody */
        (void)pthread_cond_broadcast(&lookup->worker.wake);
}

/** Waits for a batch. @return false: the end. */
static bool wait_for_turn(struct agent_lookup *lookup)
{
    (void)pthread_mutex_lock(&lookup->worker.mutex);
    while (lookup->turn != TURN_THREAD && !kw_worker_stopped(&lookup->worker))
        (void)pthread_cond_wait(&lookup->worker.wake, &lookup->worker.mutex);
    (void)pthread_mutex_unlock(&lookup->worker.mutex);
    return !kw_worker_stopped(&lookup->worker);
}

static void *run(void *user)
{
    struct agent_lookup *lookup = user;

    while (wait_for_turn(lookup)) {
        look_for_machines(lookup);
        look_for_containers(lookup);
        give_turn(lookup, TURN_ANSWERED);
    }
    return NULL;
}

/* ------------------------------------------------------------------ the sampler */

static struct agent_workload *workload_of(struct agent_workload *const *workloads, size_t n,
                                          uint64_t number)
{
    for (size_t i = 0; i < n; i++) {
        if (workloads[i]->number == number)
            return workloads[i];
    }
    return NULL;
}

/** @return false: no memory. */
static bool take_answer(struct agent_workload *workload, const struct question *question)
{
    const struct agent_names *old = workload->names;
    kw_cleanup_free char *machine = NULL;
    struct agent_names texts = {.vm = question->machine || (old != NULL && old->vm)};
    struct agent_names *fresh = NULL;

    if (question->machine) {
        machine = agent_label_text(question->qemu.name);
        if (machine == NULL)
            return false;
        texts.uuid = (char *)question->qemu.uuid;
    } else if (old != NULL) {
        texts.uuid = old->uuid;
    }
    texts.image =
        question->container ? (char *)question->found.image : (old != NULL ? old->image : NULL);
    if (machine != NULL && machine[0] != '\0')
        texts.name = machine;
    else if (old != NULL && old->vm)
        texts.name = old->name;
    else if (question->container)
        texts.name = (char *)question->found.name;
    else
        texts.name = old != NULL ? old->name : workload->label->name;
    if (agent_names_new(&texts, &fresh) < 0)
        return false;
    if (agent_names_same(fresh, workload->names)) {
        agent_names_unref(&fresh);
        return true;
    }
    agent_names_unref(&workload->names);
    workload->names = fresh;
    workload->kin = agent_kin_of(workload->label, workload->names);
    return true;
}

static void take_answers(struct agent_lookup *lookup, struct agent_workload *const *workloads,
                         size_t n)
{
    for (size_t i = 0; i < lookup->n; i++) {
        struct question *question = &lookup->batch[i];
        struct agent_workload *workload = workload_of(workloads, n, question->number);
        if (workload != NULL && (question->machine || question->container) &&
            !take_answer(workload, question))
            workload->naming.next_ns = 0; /* to be asked again */
        agent_label_unref(&question->label);
    }
    lookup->n = 0;
}

/** Whether to look now, and if so when next. */
static bool is_due(struct agent_workload *workload, uint64_t now_ns)
{
    struct agent_naming_state *naming = &workload->naming;

    if (workload->label->kind == KW_WORKLOAD_POD || workload->cgroups == 0)
        return false;
    if (naming->attached != workload->attached) {
        naming->attached = workload->attached;
        naming->asks = 0;
        naming->next_ns = now_ns;
    }
    if (now_ns < naming->next_ns)
        return false;
    uint64_t wait_ns = naming->asks < ASKS_MAX ? KW_NS_PER_S << naming->asks : ASK_LONGEST_NS;
    naming->asks += naming->asks < ASKS_MAX;
    naming->next_ns = now_ns + wait_ns;
    return true;
}

static void ask(struct agent_lookup *lookup, struct agent_workload *const *workloads, size_t n,
                uint64_t now_ns)
{
    for (size_t i = 0; i < n && lookup->n < BATCH_MAX; i++) {
        lookup->cursor = (lookup->cursor + 1) % n;
        struct agent_workload *workload = workloads[lookup->cursor];
        if (lookup->batch == NULL)
            lookup->batch = calloc(BATCH_MAX, sizeof(*lookup->batch));
        if (lookup->batch == NULL)
            return;
        if (!is_due(workload, now_ns))
            continue;
        lookup->batch[lookup->n++] = (struct question){.number = workload->number,
                                                       .label = agent_label_ref(workload->label)};
    }
}

void agent_lookup_name(struct agent_lookup *lookup, struct agent_workload *const *workloads,
                       size_t n, uint64_t now_ns)
{
    enum turn turn = turn_of(lookup);

    if (turn == TURN_THREAD)
        return;
    take_answers(lookup, workloads, n);
    ask(lookup, workloads, n, now_ns);
    give_turn(lookup, lookup->n > 0 ? TURN_THREAD : TURN_SAMPLER);
}

int agent_lookup_start(const struct agent_lookup_conf *conf, struct agent_lookup **ret,
                       struct kw_err *err)
{
    struct agent_lookup *lookup = calloc(1, sizeof(*lookup));

    if (lookup == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    lookup->mounts = *conf->mounts;
    lookup->procfs_root = conf->procfs_root;
    lookup->host_root = conf->host_root;
    lookup->blind = agent_procfs_is_foreign(conf->procfs_root);
    kw_worker_init(&lookup->worker);
    int rc = kw_worker_start(&lookup->worker, "lookup", run, lookup);
    if (rc < 0) {
        kw_worker_destroy(&lookup->worker);
        free(lookup);
        return kw_err_set(err, rc, "no thread for names: %s", kw_errno_text(rc));
    }
    *ret = lookup;
    return 0;
}

void agent_lookup_stop(struct agent_lookup **lookup)
{
    struct agent_lookup *owned = KW_TAKE_PTR(*lookup);

    if (owned == NULL)
        return;
    kw_worker_stop(&owned->worker);
    kw_worker_join(&owned->worker);
    for (size_t i = 0; i < owned->n; i++)
        agent_label_unref(&owned->batch[i].label);
    kw_worker_destroy(&owned->worker);
    agent_pids_free(&owned->pids);
    free(owned->batch);
    free(owned);
}
