/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each collection begins with nothing. A pod that runs is in each of them, with what it used since
 * it began: it must not count again and again. So what was known before is first freed of the pods
 * that are in the collection and were there when it was written (they began before that), as far as
 * their number goes; the rest is of pods that are gone. That makes the same collection twice give
 * the same profile, and no state is kept but the profile itself, so that another replica can go on
 * from it.
 *
 * Lives need no such care: each moment of each pod, and each end, lies in one stretch of time
 * between two writings, and counts in that one. What happened while nobody watched counts in none,
 * neither the time of those that live on nor the end of the others, which would mislead alone.
 *
 * The mean is over pods, each counting once however long it ran: it stands for the next pod. Power
 * of a core and energy of a request are ratios of sums, where a pod counts by what it did.
 */
#include "vpa-recommender/profiles.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"

/** A pod that runs says little before it has started up. */
#define LIVED_MIN_MS INT64_C(60000)

/** One that has ended has said all; below some seconds, agents' ticks rule. */
#define ENDED_MIN_MS INT64_C(5000)

/** As for the histograms (vpa-recommender/feed.c). */
#define AHEAD_MAX_MS  INT64_C(300000)
#define BEHIND_MAX_MS KW_PROFILE_AGE_MAX_MS

/** What was learnt of pods that are gone counts half after this long: a day's rhythm. */
#define HALF_LIFE_MS (24 * 3600 * 1000.0)

/** CPU time below which watts per core are noise. */
#define CPU_MIN_NS 1e9

/** Requests below which joules per request are noise. */
#define REQUESTS_MIN 100.0

/** Differences that are written down. */
#define DIFFERS_USE    0.02
#define DIFFERS_RATIO  0.05
#define DIFFERS_PODS   0.1
#define DIFFERS_LIFE   0.1
#define WRITE_AGAIN_MS INT64_C(43200000)

struct one_pod {
    int64_t started_unix_ms;
    double mcpu;
};

struct rec_profile_pods {
    char *key;
    char ns[KW_NAMESPACE_MAX];
    struct kw_top_owner owner;
    size_t n, cap;
    struct one_pod *items;
    double cpu_ns, active_uj;
    double requests, requests_uj;
    char request_unit[KW_PROFILE_UNIT_MAX]; /**< of the first pod that counts any */
    bool estimated;
    size_t n_lives, cap_lives;
    struct rec_life *lives;
    struct rec_profile_pods *next;
};

struct rec_profiles {
    void *tree; /**< struct rec_profile_pods by key */
    struct rec_profile_pods *list;
    size_t n;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct rec_profile_pods *)a)->key,
                  ((const struct rec_profile_pods *)b)->key);
}

struct rec_profiles *rec_profiles_new(void)
{
    return calloc(1, sizeof(struct rec_profiles));
}

static void free_pods(struct rec_profile_pods *pods)
{
    free(pods->key);
    free(pods->items);
    free(pods->lives);
    free(pods);
}

void rec_profiles_free(struct rec_profiles **profiles)
{
    struct rec_profiles *old = *profiles;

    *profiles = NULL;
    if (old == NULL)
        return;
    while (old->list != NULL) {
        struct rec_profile_pods *next = old->list->next;
        (void)tdelete(old->list, &old->tree, compare);
        free_pods(old->list);
        old->list = next;
    }
    free(old);
}

size_t rec_profiles_count(const struct rec_profiles *profiles)
{
    return profiles->n;
}

const struct rec_profile_pods *rec_profiles_first(const struct rec_profiles *profiles)
{
    return profiles->list;
}

const struct rec_profile_pods *rec_profiles_next(const struct rec_profile_pods *pods)
{
    return pods->next;
}

const char *rec_profile_key(const struct rec_profile_pods *pods)
{
    return pods->key;
}

static int add(struct rec_profiles *profiles, const char *key, struct rec_profile_pods **ret)
{
    if (profiles->n == REC_PROFILES_MAX)
        return -ENOSPC;
    struct rec_profile_pods *pods = calloc(1, sizeof(*pods));
    if (pods == NULL)
        return -ENOMEM;
    pods->key = strdup(key);
    if (pods->key == NULL || tsearch(pods, &profiles->tree, compare) == NULL) {
        free_pods(pods);
        return -ENOMEM;
    }
    pods->next = profiles->list;
    profiles->list = pods;
    profiles->n++;
    *ret = pods;
    return 0;
}

/** The workload of that name, a new one where there is none. @return 0; -EINVAL; -ENOSPC; -ENOMEM.
 */
static int find(struct rec_profiles *profiles, const char *ns, const struct kw_top_owner *owner,
                struct rec_profile_pods **ret)
{
    char key[KW_KEY_MAX];

    if (kw_key_profile(key, ns, owner->kind, owner->name) < 0)
        return -EINVAL;
    const struct rec_profile_pods wanted = {.key = key};
    struct rec_profile_pods *const *found = tfind(&wanted, &profiles->tree, compare);
    if (found != NULL) {
        *ret = *found;
        return 0;
    }
    int rc = add(profiles, key, ret);
    if (rc == 0) {
        /* kw_key_profile has measured it */
        memcpy((*ret)->ns, ns, strlen(ns) + 1);
        (*ret)->owner = *owner;
    }
    return rc;
}

/** How long the record's counters ran. @return 0 where it is not to be used. */
static int64_t lived_ms(const struct kw_pod_record *record, int64_t now_unix_ms)
{
    bool ended = record->ended_unix_ms > 0;
    int64_t end = ended && record->ended_unix_ms < record->t_unix_ms ? record->ended_unix_ms
                                                                     : record->t_unix_ms;

    if (record->started_unix_ms <= 0 || end > now_unix_ms + AHEAD_MAX_MS ||
        end < now_unix_ms - BEHIND_MAX_MS)
        return 0;
    int64_t lived = end - record->started_unix_ms;
    return lived >= (ended ? ENDED_MIN_MS : LIVED_MIN_MS) ? lived : 0;
}

/** @return a list of `n` with room for one more; NULL: out of memory, and the list is as it was. */
static void *with_room(void *list, size_t n, size_t *cap, size_t size)
{
    size_t wanted = *cap == 0 ? 4 : *cap * 2;

    if (n < *cap)
        return list;
    void *grown = reallocarray(list, wanted, size);
    if (grown != NULL)
        *cap = wanted;
    return grown;
}

static int add_pod(struct rec_profile_pods *pods, const struct one_pod *pod)
{
    struct one_pod *items = with_room(pods->items, pods->n, &pods->cap, sizeof(*items));

    if (items == NULL)
        return -ENOMEM;
    pods->items = items;
    pods->items[pods->n++] = *pod;
    return 0;
}

static void add_energy(struct rec_profile_pods *pods, const struct kw_pod_record *record)
{
    pods->cpu_ns += (double)record->cpu_ns;
    pods->active_uj += (double)record->active_uj;
    pods->estimated = pods->estimated || record->estimated;
    if (record->requests_total == 0 || record->requests_unit[0] == '\0' ||
        strlen(record->requests_unit) >= sizeof(pods->request_unit))
        return;
    if (pods->request_unit[0] == '\0')
        memcpy(pods->request_unit, record->requests_unit, strlen(record->requests_unit) + 1);
    if (strcmp(pods->request_unit, record->requests_unit) != 0)
        return; /* counts of two units are not comparable */
    pods->requests += (double)record->requests_total;
    pods->requests_uj += (double)record->active_uj;
}

int rec_profiles_add(struct rec_profiles *profiles, const char *ns,
                     const struct kw_top_owner *owner, const struct kw_pod_record *record,
                     int64_t now_unix_ms)
{
    struct rec_profile_pods *pods;
    int64_t lived = lived_ms(record, now_unix_ms);
    /* ns per ms / 1000 = milli-cores */
    double mcpu = lived == 0 ? 0 : (double)record->cpu_ns / (double)lived / 1000;

    if (lived == 0 || mcpu > (double)KW_PROFILE_MCPU_MAX)
        return 0;
    int rc = find(profiles, ns, owner, &pods);
    if (rc < 0)
        return rc == -EINVAL ? 0 : rc;
    if (pods->n == REC_PROFILE_PODS)
        return 0;
    rc = add_pod(pods, &(struct one_pod){record->started_unix_ms, mcpu});
    if (rc < 0)
        return rc;
    add_energy(pods, record);
    return 1;
}

void rec_profiles_forget_lives(struct rec_profiles *profiles)
{
    for (struct rec_profile_pods *pods = profiles->list; pods != NULL; pods = pods->next)
        pods->n_lives = 0;
}

int rec_profiles_add_life(struct rec_profiles *profiles, const char *key,
                          const struct rec_life *life)
{
    const struct rec_profile_pods wanted = {.key = (char *)key};
    struct rec_profile_pods *const *found = tfind(&wanted, &profiles->tree, compare);

    if (found == NULL)
        return 0;
    struct rec_profile_pods *pods = *found;
    struct rec_life *lives =
        with_room(pods->lives, pods->n_lives, &pods->cap_lives, sizeof(*lives));
    if (lives == NULL)
        return -ENOMEM;
    pods->lives = lives;
    pods->lives[pods->n_lives++] = *life;
    return 0;
}

/** What is left of what was known after a time. */
static double faded(int64_t age_ms)
{
    return age_ms > KW_PROFILE_AGE_MAX_MS ? 0
           : age_ms <= 0                  ? 1
                                          : exp2(-(double)age_ms / HALF_LIFE_MS);
}

/** Weight, in pods, of what was known of pods that are gone. */
static double weight_of(const struct rec_profile_pods *pods, const struct kw_profile *before,
                        int64_t now_unix_ms)
{
    double weight = (double)before->pods_permille / 1000;

    for (size_t i = 0; i < pods->n; i++)
        weight -= pods->items[i].started_unix_ms <= before->t_unix_ms ? 1 : 0;
    return weight <= 0 ? 0 : weight * faded(now_unix_ms - before->t_unix_ms);
}

/** A ratio by what is new and what was known; 0: unknown. */
static uint64_t blend(double fresh, double pods, uint64_t known, double weight, uint64_t max)
{
    double value = fresh <= 0   ? (double)known
                   : known == 0 ? fresh
                                : (fresh * pods + (double)known * weight) / (pods + weight);

    return value < (double)max ? (uint64_t)(value + 0.5) : max;
}

static void learn_energy(const struct rec_profile_pods *pods, const struct kw_profile *before,
                         double weight, struct kw_profile *ret)
{
    double n = (double)pods->n;
    /* uJ per ns is a kilowatt: of one core in mW */
    double core_mw = pods->cpu_ns >= CPU_MIN_NS ? pods->active_uj / pods->cpu_ns * 1e6 : 0;
    bool counts = pods->requests >= REQUESTS_MIN;
    double request_uj = counts ? pods->requests_uj / pods->requests : 0;
    bool same_unit = !counts || strcmp(before->request_unit, pods->request_unit) == 0;
    const char *unit = counts ? pods->request_unit : before->request_unit;

    ret->core_mw = blend(core_mw, n, before->core_mw, weight, KW_PROFILE_MW_MAX);
    ret->request_uj =
        blend(request_uj, n, same_unit ? before->request_uj : 0, weight, INT64_MAX / 2);
    if (ret->request_uj > 0)
        memcpy(ret->request_unit, unit, sizeof(ret->request_unit));
    ret->estimated = pods->estimated || (weight > 0 && before->estimated);
}

static void learn_lives(const struct rec_profile_pods *pods, const struct kw_profile *before,
                        int64_t ends_since_unix_ms, int64_t now_unix_ms, struct kw_profile *ret)
{
    double part = faded(now_unix_ms - before->t_unix_ms);
    double lived_ms = part * (double)before->lived_ms;
    double ended = part * (double)before->ended_permille;
    int64_t from = before->t_unix_ms > ends_since_unix_ms ? before->t_unix_ms : ends_since_unix_ms;

    for (size_t i = 0; i < pods->n_lives && ends_since_unix_ms > 0; i++) {
        const struct rec_life *life = &pods->lives[i];
        bool over = life->ended_unix_ms > 0 && life->ended_unix_ms <= now_unix_ms;
        int64_t begin = life->started_unix_ms > from ? life->started_unix_ms : from;
        int64_t end = over ? life->ended_unix_ms : now_unix_ms;
        lived_ms += end > begin ? (double)(end - begin) : 0;
        ended += over && end > from ? 1000 : 0;
    }
    /* both by the same factor, so that more pods than a profile can say tell the same */
    double fits = fmin(1, fmin((double)KW_PROFILE_LIVED_MAX_MS / fmax(lived_ms, 1),
                               (double)KW_PROFILE_PODS_MAX * 1000 / fmax(ended, 1)));
    ret->lived_ms = (uint64_t)(lived_ms * fits);
    ret->ended_permille = (uint64_t)(ended * fits);
}

void rec_profile_learn(const struct rec_profile_pods *pods, const struct kw_profile *known,
                       int64_t ends_since_unix_ms, int64_t now_unix_ms, struct kw_profile *ret)
{
    static const struct kw_profile nothing = {.pods_permille = 0};
    const struct kw_profile *before = known == NULL ? &nothing : known;
    double weight = weight_of(pods, before, now_unix_ms);
    double all = weight + (double)pods->n;
    double use = (double)before->used_mcpu;
    double sigma = (double)before->sigma_mcpu;
    double sum = weight * use;
    double squares = weight * (use * use + sigma * sigma);

    for (size_t i = 0; i < pods->n; i++) {
        sum += pods->items[i].mcpu;
        squares += pods->items[i].mcpu * pods->items[i].mcpu;
    }
    double mean = sum / all;
    double variance = squares / all - mean * mean;
    double permille = all * 1000 + 0.5;
    *ret = (struct kw_profile){
        .owner = pods->owner,
        .t_unix_ms = now_unix_ms,
        .pods_permille = permille < (double)KW_PROFILE_PODS_MAX * 1000 ? (uint64_t)permille
                                                                       : KW_PROFILE_PODS_MAX * 1000,
        .used_mcpu = (uint64_t)(mean + 0.5),
        .sigma_mcpu = variance > 0 ? (uint64_t)(sqrt(variance) + 0.5) : 0,
    };
    memcpy(ret->ns, pods->ns, sizeof(ret->ns));
    learn_energy(pods, before, weight, ret);
    learn_lives(pods, before, ends_since_unix_ms, now_unix_ms, ret);
}

static bool is_apart(uint64_t a, uint64_t b, double part)
{
    double gap = a > b ? (double)(a - b) : (double)(b - a);

    return gap > 1 && gap > (double)a * part;
}

static double life_of(const struct kw_profile *profile)
{
    return kw_profile_life_s(profile->lived_ms, profile->ended_permille);
}

bool rec_profile_differs(const struct kw_profile *before, const struct kw_profile *after)
{
    return before == NULL || after->t_unix_ms - before->t_unix_ms >= WRITE_AGAIN_MS ||
           after->t_unix_ms < before->t_unix_ms ||
           is_apart(before->used_mcpu, after->used_mcpu, DIFFERS_USE) ||
           is_apart(before->sigma_mcpu, after->sigma_mcpu, DIFFERS_PODS) ||
           is_apart(before->pods_permille, after->pods_permille, DIFFERS_PODS) ||
           is_apart(before->core_mw, after->core_mw, DIFFERS_RATIO) ||
           fabs(life_of(after) - life_of(before)) > DIFFERS_LIFE * life_of(before) ||
           is_apart(before->request_uj, after->request_uj, DIFFERS_RATIO) ||
           strcmp(before->request_unit, after->request_unit) != 0 ||
           before->estimated != after->estimated;
}
