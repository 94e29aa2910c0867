/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch begins with a full list (SYNC_BEGIN, ADDED..., SYNC_END) and may do so again at any time.
 * What a list does not name is gone; until it has ended nothing is taken away, so that a broken
 * list loses nothing. Rounds do that: each list raises its collection's round, and what still
 * carries an older one at its end goes.
 *
 * A VPA keeps what was learnt about its containers as long as it is the same object (uid) with the
 * same target. One that stops naming this recommender is dropped without a word: its status belongs
 * to another one now.
 *
 * Pods live in a tree by uid, for events, and in a list per namespace, for matching.
 */
#include "vpa-recommender/cluster.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct rec_namespace {
    char *name;
    struct rec_pod *pods;
};

struct rec_cluster {
    const char *recommender;
    void *namespaces; /**< tree of struct rec_namespace by name */
    void *pods;       /**< tree of struct rec_pod by uid */
    size_t n_pods;
    struct rec_vpa *vpas;
    uint64_t rounds[REC_COLLECTION__MAX];
    bool listed[REC_COLLECTION__MAX];
    bool up[REC_COLLECTION__MAX];
    struct rec_pod *stale; /**< list of a sweep */
    struct rec_ends ends;
};

static int compare_namespaces(const void *a, const void *b)
{
    return strcmp(((const struct rec_namespace *)a)->name, ((const struct rec_namespace *)b)->name);
}

static int compare_pods(const void *a, const void *b)
{
    return strcmp(((const struct rec_pod *)a)->object.uid, ((const struct rec_pod *)b)->object.uid);
}

void rec_target_clear(struct rec_target *target)
{
    free(target->why);
    kw_selector_clear(&target->selector);
    memset(target, 0, sizeof(*target));
}

struct rec_cluster *rec_cluster_new(const char *recommender)
{
    struct rec_cluster *cluster = calloc(1, sizeof(*cluster));

    if (cluster != NULL)
        cluster->recommender = recommender;
    return cluster;
}

/* ---- pods ---- */

static void free_pod(void *node)
{
    struct rec_pod *pod = node;

    kw_pod_clear(&pod->object);
    free(pod);
}

static void free_namespace(void *node)
{
    struct rec_namespace *home = node;

    free(home->name);
    free(home);
}

static struct rec_namespace *find_namespace(const struct rec_cluster *cluster, const char *name)
{
    struct rec_namespace key = {.name = (char *)name};
    struct rec_namespace *const *found = tfind(&key, &cluster->namespaces, compare_namespaces);

    return found == NULL ? NULL : *found;
}

static struct rec_namespace *get_namespace(struct rec_cluster *cluster, const char *name)
{
    struct rec_namespace *home = find_namespace(cluster, name);

    if (home != NULL)
        return home;
    home = calloc(1, sizeof(*home));
    if (home == NULL)
        return NULL;
    home->name = strdup(name);
    if (home->name == NULL || tsearch(home, &cluster->namespaces, compare_namespaces) == NULL) {
        free_namespace(home);
        return NULL;
    }
    return home;
}

static struct rec_pod *find_pod(const struct rec_cluster *cluster, const char *uid)
{
    struct rec_pod key = {.object = {.uid = (char *)uid}};
    struct rec_pod *const *found = tfind(&key, &cluster->pods, compare_pods);

    return found == NULL ? NULL : *found;
}

static void unlink_pod(struct rec_pod *pod)
{
    if (pod->previous != NULL)
        pod->previous->next = pod->next;
    else
        pod->home->pods = pod->next;
    if (pod->next != NULL)
        pod->next->previous = pod->previous;
}

static void remove_pod(struct rec_cluster *cluster, struct rec_pod *pod)
{
    struct rec_namespace *home = pod->home;

    (void)tdelete(pod, &cluster->pods, compare_pods);
    unlink_pod(pod);
    free_pod(pod);
    cluster->n_pods--;
    if (home->pods == NULL) {
        (void)tdelete(home, &cluster->namespaces, compare_namespaces);
        free_namespace(home);
    }
}

/** Takes away a pod that is gone. */
static void end_pod(struct rec_cluster *cluster, struct rec_pod *pod, int64_t now_unix_ms)
{
    if (!rec_ends_is_over(&pod->object))
        rec_ends_note(&cluster->ends, &pod->object, now_unix_ms);
    remove_pod(cluster, pod);
}

static int put_pod(struct rec_cluster *cluster, struct kw_pod *object, int64_t now_unix_ms)
{
    struct rec_pod *pod = find_pod(cluster, object->uid);

    if (pod != NULL && !rec_ends_is_over(&pod->object) && rec_ends_is_over(object))
        rec_ends_note(&cluster->ends, object, now_unix_ms);
    if (pod != NULL && strcmp(pod->object.namespace_, object->namespace_) != 0) {
        remove_pod(cluster, pod); /* no API server does this */
        pod = NULL;
    }
    if (pod == NULL) {
        struct rec_namespace *home = get_namespace(cluster, object->namespace_);
        pod = calloc(1, sizeof(*pod));
        if (pod == NULL || home == NULL) {
            free(pod);
            return -ENOMEM;
        }
        pod->home = home;
        pod->object = *object;
        if (tsearch(pod, &cluster->pods, compare_pods) == NULL) {
            free(pod);
            return -ENOMEM;
        }
        pod->next = home->pods;
        if (pod->next != NULL)
            pod->next->previous = pod;
        home->pods = pod;
        cluster->n_pods++;
    } else {
        /* the tree's key is inside the object: same text, so the tree stays in order */
        kw_pod_clear(&pod->object);
        pod->object = *object;
    }
    memset(object, 0, sizeof(*object));
    pod->round = cluster->rounds[REC_PODS];
    return 0;
}

static void visit_stale(const void *node, VISIT which, void *user)
{
    struct rec_pod *pod = *(struct rec_pod *const *)node;
    struct rec_cluster *cluster = user;

    if ((which != postorder && which != leaf) || pod->round == cluster->rounds[REC_PODS])
        return;
    pod->stale = cluster->stale;
    cluster->stale = pod;
}

static void sweep_pods(struct rec_cluster *cluster, int64_t now_unix_ms)
{
    /* a walk may not change the tree */
    twalk_r(cluster->pods, visit_stale, cluster);
    while (cluster->stale != NULL) {
        struct rec_pod *pod = cluster->stale;
        cluster->stale = pod->stale;
        end_pod(cluster, pod, now_unix_ms);
    }
}

/* ---- VPAs ---- */

static void free_vpa(struct rec_vpa *vpa)
{
    kw_vpa_clear(&vpa->object);
    rec_scope_free(&vpa->scope);
    rec_target_clear(&vpa->target);
    free(vpa->names);
    free(vpa);
}

static struct rec_vpa **find_vpa(struct rec_cluster *cluster, const struct kw_vpa *object)
{
    struct rec_vpa **link = &cluster->vpas;

    while (*link != NULL && (strcmp((*link)->object.name, object->name) != 0 ||
                             strcmp((*link)->object.namespace_, object->namespace_) != 0))
        link = &(*link)->next;
    return link;
}

static void remove_vpa(struct rec_vpa **link)
{
    struct rec_vpa *vpa = *link;

    *link = vpa->next;
    free_vpa(vpa);
}

static bool same_target(const struct kw_vpa *a, const struct kw_vpa *b)
{
    return strcmp(a->target_kind, b->target_kind) == 0 &&
           strcmp(a->target_name, b->target_name) == 0 &&
           strcmp(a->target_api_version, b->target_api_version) == 0;
}

static int put_vpa(struct rec_cluster *cluster, struct kw_vpa *object)
{
    struct rec_vpa **link = find_vpa(cluster, object);

    if (*link != NULL &&
        (!kw_vpa_names(object, cluster->recommender) ||
         strcmp((*link)->object.uid, object->uid) != 0 || !same_target(&(*link)->object, object)))
        remove_vpa(link);
    if (!kw_vpa_names(object, cluster->recommender))
        return 0;
    link = find_vpa(cluster, object);
    if (*link == NULL) {
        struct rec_vpa *vpa = calloc(1, sizeof(*vpa));
        if (vpa == NULL)
            return -ENOMEM;
        vpa->scope = rec_scope_new();
        if (vpa->scope == NULL) {
            free(vpa);
            return -ENOMEM;
        }
        *link = vpa;
    }
    bool changed = (*link)->object.name == NULL || (*link)->object.generation != object->generation;
    kw_vpa_clear(&(*link)->object);
    (*link)->object = *object;
    memset(object, 0, sizeof(*object));
    (*link)->round = cluster->rounds[REC_VPAS];
    return changed;
}

static void sweep_vpas(struct rec_cluster *cluster)
{
    struct rec_vpa **link = &cluster->vpas;

    while (*link != NULL) {
        if ((*link)->round != cluster->rounds[REC_VPAS])
            remove_vpa(link);
        else
            link = &(*link)->next;
    }
}

/* ---- events ---- */

static void remove_object(struct rec_cluster *cluster, const struct rec_event *event,
                          int64_t now_unix_ms)
{
    if (event->collection == REC_VPAS) {
        struct rec_vpa **link = find_vpa(cluster, event->vpa);
        if (*link != NULL)
            remove_vpa(link);
    } else {
        struct rec_pod *pod = find_pod(cluster, event->pod->uid);
        if (pod != NULL)
            end_pod(cluster, pod, now_unix_ms);
    }
}

int rec_cluster_apply(struct rec_cluster *cluster, struct rec_event *event, int64_t now_unix_ms)
{
    int rc = 0;

    switch (event->type) {
    case KW_KUBE_SYNC_BEGIN: cluster->rounds[event->collection]++; break;
    case KW_KUBE_SYNC_END:
        if (event->collection == REC_VPAS)
            sweep_vpas(cluster);
        else
            sweep_pods(cluster, now_unix_ms);
        if (event->collection == REC_PODS && !cluster->listed[REC_PODS])
            cluster->ends.since_unix_ms = now_unix_ms;
        cluster->listed[event->collection] = true;
        cluster->up[event->collection] = true;
        break;
    case KW_KUBE_ADDED:
    case KW_KUBE_MODIFIED:
        rc = event->collection == REC_VPAS ? put_vpa(cluster, event->vpa)
                                           : put_pod(cluster, event->pod, now_unix_ms);
        break;
    case KW_KUBE_DELETED: remove_object(cluster, event, now_unix_ms); break;
    /* not by the begin of a list: each try of a collection that is not there begins one */
    case KW_KUBE_DOWN: cluster->up[event->collection] = false; break;
    case KW_KUBE_UP: cluster->up[event->collection] = true; break;
    case KW_KUBE__MAX: break;
    }
    rec_event_clear(event);
    return rc;
}

bool rec_cluster_synced(const struct rec_cluster *cluster)
{
    return cluster->listed[REC_VPAS] && cluster->listed[REC_PODS];
}

bool rec_cluster_listed(const struct rec_cluster *cluster, enum rec_collection collection)
{
    return cluster->listed[collection];
}

bool rec_cluster_up(const struct rec_cluster *cluster, enum rec_collection collection)
{
    return cluster->up[collection];
}

struct rec_vpa *rec_cluster_vpas(const struct rec_cluster *cluster)
{
    return cluster->vpas;
}

const struct rec_pod *rec_cluster_pods(const struct rec_cluster *cluster, const char *namespace_)
{
    const struct rec_namespace *home = find_namespace(cluster, namespace_);

    return home == NULL ? NULL : home->pods;
}

const struct kw_pod *rec_cluster_pod(const struct rec_cluster *cluster, const char *uid)
{
    const struct rec_pod *pod = find_pod(cluster, uid);

    return pod == NULL ? NULL : &pod->object;
}

/** What a walk over the pods that run is for. */
struct visitor {
    rec_life_fn fn;
    void *user;
};

static void visit_running(const void *node, VISIT which, void *user)
{
    const struct visitor *visitor = user;

    if (which == postorder || which == leaf)
        rec_ends_running(&(*(struct rec_pod *const *)node)->object, visitor->fn, visitor->user);
}

int64_t rec_cluster_lives(const struct rec_cluster *cluster, rec_life_fn fn, void *user)
{
    struct visitor visitor = {fn, user};

    twalk_r(cluster->pods, visit_running, &visitor);
    rec_ends_each(&cluster->ends, fn, user);
    return cluster->ends.since_unix_ms;
}

size_t rec_cluster_pod_count(const struct rec_cluster *cluster)
{
    return cluster->n_pods;
}

void rec_cluster_free(struct rec_cluster **cluster)
{
    struct rec_cluster *old = *cluster;

    *cluster = NULL;
    if (old == NULL)
        return;
    while (old->vpas != NULL)
        remove_vpa(&old->vpas);
    rec_ends_clear(&old->ends);
    tdestroy(old->pods, free_pod);
    tdestroy(old->namespaces, free_namespace);
    free(old);
}
