/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Covers are made anew in each loop: pods come and go, selectors change, and a few string
 * comparisons per pod are nothing beside one request. They are sorted by node, since records are
 * asked for by node, and by uid, so that the two VPAs that cover one pod stand side by side.
 *
 * A record names containers by id. The pod's status says which name an id has; a record that knows
 * the name itself is believed only where the pod has such a container. Init containers are left
 * out, as in the stock recommender: they run before the pod serves.
 */
#include "vpa-recommender/matching.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void rec_covers_clear(struct rec_covers *covers)
{
    free(covers->items);
    memset(covers, 0, sizeof(*covers));
}

static int append(struct rec_covers *covers, struct rec_vpa *vpa, const struct kw_pod *pod)
{
    if (covers->n == covers->cap) {
        size_t cap = covers->cap > 0 ? covers->cap * 2 : 64;
        struct rec_cover *items = realloc(covers->items, cap * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        covers->items = items;
        covers->cap = cap;
    }
    covers->items[covers->n++] = (struct rec_cover){.vpa = vpa, .pod = pod};
    return 0;
}

static int enter_kills(struct rec_vpa *vpa, const struct kw_pod *pod, int64_t now_unix_ms)
{
    for (size_t i = 0; i < pod->n_containers; i++) {
        const struct kw_pod_container *container = &pod->containers[i];
        if (!container->oom_killed || container->init)
            continue;
        const char *id = *container->former_id != '\0' ? container->former_id : container->id;
        int rc = rec_scope_oom(vpa->scope, container->name, id, container->request_bytes,
                               container->oom_killed_unix_ms, now_unix_ms);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static bool holds(const struct rec_vpa *vpa, const char *name)
{
    for (size_t i = 0; i < vpa->n_names; i++) {
        if (strcmp(vpa->names[i], name) == 0)
            return true;
    }
    return false;
}

static int add_names(struct rec_vpa *vpa, const struct kw_pod *pod)
{
    for (size_t i = 0; i < pod->n_containers; i++) {
        if (pod->containers[i].init || holds(vpa, pod->containers[i].name))
            continue;
        const char **names = realloc(vpa->names, (vpa->n_names + 1) * sizeof(*names));
        if (names == NULL)
            return -ENOMEM;
        vpa->names = names;
        vpa->names[vpa->n_names++] = pod->containers[i].name;
    }
    return 0;
}

int rec_covers_add(struct rec_covers *covers, const struct rec_cluster *cluster,
                   struct rec_owners *owners, struct rec_api *api, struct rec_vpa *vpa,
                   int64_t now_unix_ms)
{
    const struct rec_pod *pod = rec_cluster_pods(cluster, vpa->object.namespace_);

    vpa->n_pods = 0;
    vpa->n_names = 0;
    if (vpa->target.state != REC_TARGET_FOUND)
        return 0;
    for (; pod != NULL; pod = pod->next) {
        const struct kw_pod *object = &pod->object;
        if (object->phase == KW_POD_PENDING ||
            !kw_selector_match(&vpa->target.selector, &object->labels))
            continue;
        enum rec_belonging belonging = rec_owners_belongs(
            owners, api, object, vpa->object.target_kind, vpa->object.target_name, now_unix_ms);
        if (belonging == REC_BELONGS_NOT)
            continue;
        /* one that is yet to be told counts, or its VPA would seem to have no pods; but nothing is
         * learnt from it: a later loop learns as much, as its counters are cumulative */
        if (belonging == REC_BELONGS &&
            (append(covers, vpa, object) < 0 || enter_kills(vpa, object, now_unix_ms) < 0))
            return -ENOMEM;
        if (add_names(vpa, object) < 0)
            return -ENOMEM;
        vpa->n_pods++;
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct rec_cover *x = a, *y = b;
    int order = strcmp(x->pod->node, y->pod->node);

    if (order == 0)
        order = strcmp(x->pod->uid, y->pod->uid);
    if (order == 0)
        order = strcmp(x->vpa->object.name, y->vpa->object.name);
    return order;
}

void rec_covers_sort(struct rec_covers *covers)
{
    if (covers->n > 1)
        qsort(covers->items, covers->n, sizeof(*covers->items), compare);
}

/** First cover of a pod on a node. @return covers->n where there is none. */
static size_t find(const struct rec_covers *covers, const char *node, const char *uid)
{
    size_t low = 0, high = covers->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(covers->items[middle].pod->node, node);
        if (order == 0)
            order = strcmp(covers->items[middle].pod->uid, uid);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < covers->n && strcmp(covers->items[low].pod->node, node) == 0 &&
        strcmp(covers->items[low].pod->uid, uid) == 0)
        return low;
    return covers->n;
}

/** The container of a pod that a record speaks of. @return NULL where it is none of its main
 * containers. */
static const struct kw_pod_container *known_as(const struct kw_pod *pod,
                                               const struct kw_container_record *container)
{
    for (size_t i = 0; i < pod->n_containers; i++) {
        const struct kw_pod_container *known = &pod->containers[i];
        if (*container->id != '\0' &&
            (strcmp(known->id, container->id) == 0 || strcmp(known->former_id, container->id) == 0))
            return known->init ? NULL : known;
    }
    for (size_t i = 0; i < pod->n_containers; i++) {
        const struct kw_pod_container *known = &pod->containers[i];
        if (!known->init && strcmp(known->name, container->name) == 0)
            return known;
    }
    return NULL;
}

static int feed_pod(const struct rec_cover *cover, const struct kw_pod_record *record,
                    uint64_t interval_ms, int64_t now_unix_ms, uint64_t tally[REC_FEED__MAX])
{
    for (size_t i = 0; i < record->n_containers; i++) {
        const struct kw_container_record *container = &record->containers[i];
        const struct kw_pod_container *known = known_as(cover->pod, container);
        struct rec_reading reading = {
            .epoch = record->epoch,
            .t_unix_ms = record->t_unix_ms,
            .cpu_ns = container->cpu_ns,
            .memory_bytes = container->memory_bytes,
        };
        if (known == NULL)
            continue;
        int rc = rec_scope_feed(cover->vpa->scope, known->name, container->id, &reading,
                                interval_ms, now_unix_ms);
        if (rc < 0)
            return rc;
        tally[rc]++;
    }
    return 0;
}

int rec_covers_feed(const struct rec_covers *covers, const char *node,
                    const struct kw_pod_record *record, uint64_t interval_ms, int64_t now_unix_ms,
                    uint64_t tally[REC_FEED__MAX])
{
    size_t at = find(covers, node, record->id);

    if (at == covers->n) /* not bound to a node, as far as the API server knows */
        at = find(covers, "", record->id);
    if (at == covers->n)
        return -ENOENT;
    const struct kw_pod *pod = covers->items[at].pod;
    for (; at < covers->n && strcmp(covers->items[at].pod->uid, pod->uid) == 0; at++) {
        int rc = feed_pod(&covers->items[at], record, interval_ms, now_unix_ms, tally);
        if (rc < 0)
            return rc;
    }
    return 0;
}
