/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of two Deployments may overlap; who made a pod does not. From a pod the chain of
 * controllers is climbed until the target shows up. Pods name their controller themselves; the ones
 * above are asked for once and remembered by uid, since an object never changes its controller
 * while pods of it live (but for adoption, which an hour's forgetting covers).
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "vpa-recommender/targets.h"

/** Pod -> Job -> CronJob is the longest chain of known kinds; operators add some. */
#define CHAIN_MAX 8

#define FORGET_MS INT64_C(3600000)

/** One controller, and who controls it. */
struct link {
    char *uid;
    bool has_owner;
    struct kw_owner_ref owner;
    int64_t used_unix_ms;
    struct link *next;
};

struct rec_owners {
    void *tree; /**< struct link by uid */
    struct link *list;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct link *)a)->uid, ((const struct link *)b)->uid);
}

static void free_link(struct link *link)
{
    kw_owner_ref_clear(&link->owner);
    free(link->uid);
    free(link);
}

struct rec_owners *rec_owners_new(void)
{
    return calloc(1, sizeof(struct rec_owners));
}

void rec_owners_free(struct rec_owners **owners)
{
    struct rec_owners *old = *owners;

    *owners = NULL;
    if (old == NULL)
        return;
    rec_owners_sweep(old, INT64_MAX);
    free(old);
}

void rec_owners_sweep(struct rec_owners *owners, int64_t now_unix_ms)
{
    struct link **at = &owners->list;

    while (*at != NULL) {
        struct link *link = *at;
        if (now_unix_ms - link->used_unix_ms <= FORGET_MS) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        (void)tdelete(link, &owners->tree, compare);
        free_link(link);
    }
}

/** Asks for a controller and remembers the answer. @param ret NULL where it can never be told.
 * @return 0; as rec_api_get where it was no answer. */
static int ask(struct rec_owners *owners, struct rec_api *api, const char *namespace_,
               const struct kw_owner_ref *ref, struct link **ret)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    kw_cleanup(kw_owner_clear) struct kw_owner owner = {0};
    enum kw_owner_kind kind = kw_owner_kind_of(ref->kind);
    char path[KW_KUBE_PATH_MAX];

    *ret = NULL;
    if (kw_owner_path(path, kind, namespace_, ref->name) < 0)
        return 0;
    int rc = rec_api_get(api, path, &body, NULL);
    if (rec_api_unanswered(rc))
        return rc;
    if (rc < 0 || kw_owner_decode(kind, body.data, body.len, &owner, NULL) < 0 ||
        strcmp(owner.uid, ref->uid) != 0)
        return 0;
    struct link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return -ENOMEM;
    link->uid = strdup(ref->uid);
    if (link->uid == NULL || tsearch(link, &owners->tree, compare) == NULL) {
        free_link(link);
        return -ENOMEM;
    }
    link->has_owner = owner.has_owner;
    link->owner = owner.owner;
    owner.owner = (struct kw_owner_ref){0};
    link->next = owners->list;
    owners->list = link;
    *ret = link;
    return 0;
}

static int find(struct rec_owners *owners, struct rec_api *api, const char *namespace_,
                const struct kw_owner_ref *ref, struct link **ret)
{
    struct link key = {.uid = ref->uid};
    struct link *const *found = tfind(&key, &owners->tree, compare);

    if (found == NULL)
        return ask(owners, api, namespace_, ref, ret);
    *ret = *found;
    return 0;
}

enum rec_belonging rec_owners_belongs(struct rec_owners *owners, struct rec_api *api,
                                      const struct kw_pod *pod, const char *kind, const char *name,
                                      int64_t now_unix_ms)
{
    const struct kw_owner_ref *ref = pod->has_owner ? &pod->owner : NULL;

    if (ref == NULL) /* an orphan whose labels match is about to be adopted */
        return REC_BELONGS;
    for (unsigned i = 0; i < CHAIN_MAX; i++) {
        struct link *link;
        if (strcmp(ref->kind, kind) == 0 && strcmp(ref->name, name) == 0)
            return REC_BELONGS;
        if (find(owners, api, pod->namespace_, ref, &link) < 0)
            return REC_BELONGS_LATER;
        if (link == NULL)
            return REC_BELONGS;
        link->used_unix_ms = now_unix_ms;
        if (!link->has_owner)
            return REC_BELONGS_NOT;
        ref = &link->owner;
    }
    return REC_BELONGS_NOT;
}
