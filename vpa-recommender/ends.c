/* SPDX-License-Identifier: Apache-2.0 */
#include "vpa-recommender/ends.h"

#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/top_owner.h"

#define CAP_MIN 64

struct rec_end {
    char *key;
    struct rec_life life;
};

void rec_ends_clear(struct rec_ends *ends)
{
    for (size_t i = 0; i < ends->cap; i++)
        free(ends->ring[i].key);
    free(ends->ring);
    *ends = (struct rec_ends){0};
}

bool rec_ends_is_over(const struct kw_pod *pod)
{
    return pod->phase == KW_POD_SUCCEEDED || pod->phase == KW_POD_FAILED;
}

/** The key of a pod's workload. @return false: it never started, or is of none. */
static bool find_key(const struct kw_pod *pod, char key[KW_KEY_MAX])
{
    struct kw_top_owner owner;

    if (pod->started_unix_ms <= 0)
        return false;
    kw_top_owner_of(pod, &owner);
    return owner.kind[0] != '\0' &&
           kw_key_profile(key, pod->namespace_, owner.kind, owner.name) >= 0;
}

/** The place of the next end. @return NULL on ENOMEM. */
static struct rec_end *next_place(struct rec_ends *ends)
{
    if (ends->n == ends->cap && ends->cap < REC_ENDS_MAX) {
        size_t cap = ends->cap == 0 ? CAP_MIN : ends->cap * 2;
        struct rec_end *grown = reallocarray(ends->ring, cap, sizeof(*grown));
        if (grown == NULL)
            return NULL;
        memset(grown + ends->cap, 0, (cap - ends->cap) * sizeof(*grown));
        ends->ring = grown;
        ends->cap = cap;
    }
    return &ends->ring[ends->n % ends->cap];
}

void rec_ends_note(struct rec_ends *ends, const struct kw_pod *pod, int64_t now_unix_ms)
{
    char key[KW_KEY_MAX];

    if (!find_key(pod, key))
        return;
    struct rec_end *end = next_place(ends);
    char *copy = end == NULL ? NULL : strdup(key);
    if (copy == NULL) {
        ends->since_unix_ms = now_unix_ms;
        return;
    }
    if (end->key != NULL) {
        ends->since_unix_ms = end->life.ended_unix_ms;
        free(end->key);
    }
    *end = (struct rec_end){copy, {pod->started_unix_ms, now_unix_ms}};
    ends->n++;
}

void rec_ends_each(const struct rec_ends *ends, rec_life_fn fn, void *user)
{
    for (size_t i = 0; i < ends->cap && i < ends->n; i++)
        fn(user, ends->ring[i].key, &ends->ring[i].life);
}

void rec_ends_running(const struct kw_pod *pod, rec_life_fn fn, void *user)
{
    char key[KW_KEY_MAX];
    const struct rec_life life = {pod->started_unix_ms, 0};

    if (!rec_ends_is_over(pod) && find_key(pod, key))
        fn(user, key, &life);
}
