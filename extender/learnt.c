/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: tens of thousands of workloads have profiles, a few of which change each second; a
 * request must find its own without waiting, and two replicas should know the same.
 *
 * Approach: the index is sorted by the time of writing. It is read from the newest on, page by
 * page, until what is older than the last pass; an entry with the time that is known already costs
 * its line of the index and nothing else. Clocks of writers differ, and entries vanish: so a pass
 * overlaps the last one by a minute, and every ten minutes one goes over the whole index, into a
 * table that begins empty. New entries come to the front and push others back while a pass goes on,
 * so that it may meet one twice, and misses only what the next pass begins with.
 *
 * A table is published whole, at the end of a pass. Bounded are the workloads, what one step reads,
 * and the size of a profile; what is left out is remembered, so that it is not read again before it
 * is written again.
 */
#include "extender/learnt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/names.h"
#include "common/clock.h"
#include "common/num.h"

/** Lines of the index in one command. */
#define PAGE 1024

/** Profiles of one pipeline: a hundred kilobytes of replies. */
#define BATCH 256

/** Pages of one step: the nodes are waiting. */
#define PAGES_PER_STEP 4

/** Unix milliseconds as a sorted set holds them: a double, exact up to 2^53. */
#define SCORE_MAX 9007199254740992.0

/** No profile has more than a kilobyte. */
#define VALUE_MAX_BYTES (16 * 1024)

/** Clocks of one cluster agree better than this. */
#define OVERLAP_MS    60000.0
#define AHEAD_MAX_MS  INT64_C(300000)
#define FULL_EVERY_NS (600 * (int64_t)KW_NS_PER_S)

const char *const ext_profile_skip_names[EXT_PROFILE_SKIP__MAX] = {
    [EXT_PROFILE_NAME] = "name",         [EXT_PROFILE_MISSING] = "missing",
    [EXT_PROFILE_DOCUMENT] = "document", [EXT_PROFILE_SCHEMA] = "schema",
    [EXT_PROFILE_STALE] = "stale",       [EXT_PROFILE_REPLY] = "reply",
    [EXT_PROFILE_LIMIT] = "limit",
};
_Static_assert(sizeof(ext_profile_skip_names) / sizeof(*ext_profile_skip_names) ==
                   EXT_PROFILE_SKIP__MAX,
               "every reason has a name");

/** An entry of the index that is to be read. */
struct wanted {
    char key[KW_KEY_MAX];
    double score;
};

struct ext_learnt {
    struct kw_redis *redis;
    struct kw_snapshot *out;
    uint64_t seed;
    const struct ext_profiles *last; /**< out's */
    struct ext_profiles *next;       /**< of the pass at hand; NULL: none is */
    bool full;                       /**< it goes over all of the index */
    bool changed;                    /**< its table differs from the last */
    size_t rank;                     /**< how far it has come */
    double until;                    /**< score where it ends */
    double newest, newest_seen;      /**< scores: of the last pass; of this one */
    bool any_full;                   /**< one has ended, at full_ns */
    int64_t full_ns;
    size_t n_wanted;
    struct wanted wanted[BATCH];
};

int ext_learnt_new(const struct kw_redis_conf *conf, struct kw_snapshot *out,
                   struct ext_learnt **ret, struct kw_err *err)
{
    struct ext_learnt *learnt = calloc(1, sizeof(*learnt));
    int rc = learnt == NULL ? -ENOMEM : kw_redis_new(conf, &learnt->redis, err);

    if (rc == 0 && getrandom(&learnt->seed, sizeof(learnt->seed), 0) != sizeof(learnt->seed))
        rc = kw_err_set(err, -ENODATA, "the system gives no random numbers");
    if (rc < 0) {
        ext_learnt_free(&learnt);
        return rc;
    }
    learnt->out = out;
    *ret = learnt;
    return 0;
}

void ext_learnt_free(struct ext_learnt **learnt)
{
    if (*learnt == NULL)
        return;
    kw_redis_free(&(*learnt)->redis);
    ext_profiles_free(&(*learnt)->next);
    free(*learnt);
    *learnt = NULL;
}

size_t ext_learnt_count(const struct ext_learnt *learnt)
{
    return ext_profiles_count(learnt->last);
}

static int begin(struct ext_learnt *learnt, int64_t now_ns)
{
    learnt->full = !learnt->any_full || now_ns - learnt->full_ns >= FULL_EVERY_NS;
    learnt->next = learnt->full || learnt->last == NULL ? ext_profiles_new(learnt->seed)
                                                        : ext_profiles_copy(learnt->last);
    learnt->changed = false;
    learnt->rank = 0;
    learnt->until = learnt->full ? -1 : learnt->newest - OVERLAP_MS;
    learnt->newest_seen = 0;
    return learnt->next == NULL ? -ENOMEM : 0;
}

static void end(struct ext_learnt *learnt, int64_t now_ns)
{
    bool fewer = ext_profiles_count(learnt->next) != ext_profiles_count(learnt->last);

    learnt->newest = learnt->newest_seen;
    if (learnt->full) {
        learnt->full_ns = now_ns;
        learnt->any_full = true;
    }
    if (!learnt->changed && !fewer && learnt->last != NULL) {
        ext_profiles_free(&learnt->next);
        return;
    }
    learnt->last = learnt->next;
    kw_snapshot_publish(learnt->out, learnt->next);
    learnt->next = NULL;
}

/** Runs what is queued. @return 0 with replies to free; as ext_learnt_step. */
static int run(struct ext_learnt *learnt, int queued, size_t n, struct kw_redis_replies *ret,
               struct kw_err *err)
{
    if (queued < 0) {
        kw_redis_discard(learnt->redis);
        return kw_err_set(err, queued, "out of memory");
    }
    int rc = kw_redis_exec(learnt->redis, ret, err);
    if (rc < 0)
        return rc;
    const char *text = ret->n == n ? NULL : "an unexpected reply";
    for (size_t i = 0; i < ret->n && text == NULL; i++)
        text = ret->items[i].type == KW_REDIS_ERROR ? ret->items[i].str : NULL;
    if (text == NULL)
        return 0;
    rc = kw_err_set(err, -EREMOTEIO, "reading profiles: %.200s", text);
    kw_redis_replies_free(ret);
    return rc;
}

static bool is_stale(const struct ext_profile *profile, const struct ext_instant *now)
{
    return profile->pods_permille > 0 &&
           (profile->t_unix_ms > now->unix_ms + AHEAD_MAX_MS ||
            profile->t_unix_ms < now->unix_ms - KW_PROFILE_AGE_MAX_MS);
}

/** What is kept of a reply. @return pods 0 where it is of no use, and why is counted. */
static struct ext_profile take(const struct wanted *wanted, const struct kw_redis_reply *reply,
                               const struct ext_instant *now,
                               uint64_t skipped[EXT_PROFILE_SKIP__MAX])
{
    const struct ext_profile none = {.score = wanted->score};
    struct kw_profile profile;
    char key[KW_KEY_MAX];
    int rc = -EBADMSG;

    if (reply->type != KW_REDIS_ARRAY || reply->n_elements != 1 ||
        (reply->elements[0].type != KW_REDIS_STRING && reply->elements[0].type != KW_REDIS_NIL)) {
        skipped[EXT_PROFILE_REPLY]++;
        return none;
    }
    const struct kw_redis_reply *text = &reply->elements[0];
    if (text->type == KW_REDIS_NIL) {
        skipped[EXT_PROFILE_MISSING]++;
        return none;
    }
    if (text->len <= VALUE_MAX_BYTES)
        rc = kw_profile_decode(text->str, text->len, &profile, NULL);
    if (rc == 0 && (kw_key_profile(key, profile.ns, profile.owner.kind, profile.owner.name) < 0 ||
                    strcmp(key, wanted->key) != 0))
        rc = -EBADMSG;
    if (rc < 0) {
        skipped[rc == -EPROTONOSUPPORT ? EXT_PROFILE_SCHEMA : EXT_PROFILE_DOCUMENT]++;
        return none;
    }
    /* kw_profile_check bounds each below 2^32 */
    const struct ext_profile taken = {
        .score = wanted->score,
        .t_unix_ms = profile.t_unix_ms,
        .pods_permille = (uint32_t)profile.pods_permille,
        .used_mcpu = (uint32_t)profile.used_mcpu,
        .sigma_mcpu = (uint32_t)profile.sigma_mcpu,
        .core_mw = (uint32_t)profile.core_mw,
        .estimated = profile.estimated,
        .ended_permille = (uint32_t)profile.ended_permille,
        .lived_ms = profile.lived_ms,
    };
    if (!is_stale(&taken, now))
        return taken;
    skipped[EXT_PROFILE_STALE]++;
    return none;
}

static int put(struct ext_learnt *learnt, const char *member, const struct ext_profile *profile,
               uint64_t skipped[EXT_PROFILE_SKIP__MAX])
{
    int rc = ext_profiles_put(learnt->next, member, strlen(member), profile);

    if (rc == -ENOSPC)
        skipped[EXT_PROFILE_LIMIT]++;
    return rc == -ENOSPC ? 0 : rc;
}

/** Reads the profiles that are wanted. */
static int read_wanted(struct ext_learnt *learnt, const struct ext_instant *now,
                       uint64_t skipped[EXT_PROFILE_SKIP__MAX], struct kw_err *err)
{
    struct kw_redis_replies replies = {0};
    size_t n = learnt->n_wanted;
    int rc = 0;

    learnt->n_wanted = 0;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = kw_redis_queue_texts(learnt->redis, "HMGET", learnt->wanted[i].key, KW_FIELD_PROFILE,
                                  (const char *)NULL);
    if (rc == 0)
        rc = kw_redis_exec(learnt->redis, &replies, err);
    else
        kw_redis_discard(learnt->redis);
    for (size_t i = 0; rc == 0 && i < n && i < replies.n; i++) {
        const struct ext_profile profile =
            take(&learnt->wanted[i], &replies.items[i], now, skipped);
        rc = put(learnt, KW_KEY_PROFILE_MEMBER(learnt->wanted[i].key), &profile, skipped);
        learnt->changed = true;
    }
    kw_redis_replies_free(&replies);
    return rc;
}

/** Whether a member is "NS/KIND/NAME". @param key set then. */
static bool parse_member(const struct kw_redis_reply *member, char key[KW_KEY_MAX])
{
    char text[KW_KEY_MAX];

    if (member->type != KW_REDIS_STRING || member->len >= sizeof(text) ||
        strlen(member->str) != member->len)
        return false;
    memcpy(text, member->str, member->len + 1);
    char *kind = strchr(text, '/');
    char *name = kind == NULL ? NULL : strchr(kind + 1, '/');
    if (name == NULL)
        return false;
    *kind++ = '\0';
    *name++ = '\0';
    return kw_key_profile(key, text, kind, name) >= 0;
}

/** Takes one line of the index. @return 1: the pass ends here; 0; as ext_learnt_step. */
static int take_line(struct ext_learnt *learnt, const struct kw_redis_reply *member,
                     const struct kw_redis_reply *score, const struct ext_instant *now,
                     uint64_t skipped[EXT_PROFILE_SKIP__MAX], struct kw_err *err)
{
    struct wanted *wanted = &learnt->wanted[learnt->n_wanted];
    double value;

    if (score->type != KW_REDIS_STRING || kw_parse_double(score->str, 0, SCORE_MAX, &value) < 0 ||
        !parse_member(member, wanted->key)) {
        skipped[EXT_PROFILE_NAME] += learnt->full;
        return 0;
    }
    if (value > learnt->newest_seen && value <= (double)(now->unix_ms + AHEAD_MAX_MS))
        learnt->newest_seen = value; /* else one from the future would hide all others */
    if (value < learnt->until)
        return 1;
    const struct ext_profile *known = ext_profiles_at(learnt->last, member->str, member->len);
    if (known != NULL && known->score == value && !is_stale(known, now))
        return learnt->full ? put(learnt, member->str, known, skipped) : 0;
    wanted->score = value;
    return ++learnt->n_wanted < BATCH ? 0 : read_wanted(learnt, now, skipped, err);
}

/** Reads the next page of the index. @return as take_line. */
static int read_page(struct ext_learnt *learnt, const struct ext_instant *now,
                     uint64_t skipped[EXT_PROFILE_SKIP__MAX], struct kw_err *err)
{
    struct kw_redis_replies replies = {0};
    char from[24], to[24];

    (void)snprintf(from, sizeof(from), "%zu", learnt->rank);
    (void)snprintf(to, sizeof(to), "%zu", learnt->rank + PAGE - 1);
    int rc = kw_redis_queue_texts(learnt->redis, "ZREVRANGE", KW_KEY_PROFILES, from, to,
                                  "WITHSCORES", (const char *)NULL);
    rc = run(learnt, rc, 1, &replies, err);
    if (rc < 0)
        return rc;
    const struct kw_redis_reply *list = replies.items;
    size_t n = list == NULL ? 0 : list->n_elements / 2;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = take_line(learnt, &list->elements[2 * i], &list->elements[2 * i + 1], now, skipped,
                       err);
    if (rc >= 0) {
        int read = read_wanted(learnt, now, skipped, err);
        rc = read < 0 ? read : rc;
    }
    kw_redis_replies_free(&replies);
    learnt->rank += n;
    if (rc == 0 && learnt->rank >= EXT_PROFILES_MAX && n == PAGE)
        skipped[EXT_PROFILE_LIMIT] += learnt->full;
    return rc < 0 ? rc : rc > 0 || n < PAGE || learnt->rank >= EXT_PROFILES_MAX;
}

int ext_learnt_step(struct ext_learnt *learnt, const struct ext_instant *now,
                    uint64_t skipped[EXT_PROFILE_SKIP__MAX], struct kw_err *err)
{
    int rc = learnt->next == NULL ? begin(learnt, now->now_ns) : 0;

    for (unsigned i = 0; i < PAGES_PER_STEP && rc == 0; i++)
        rc = read_page(learnt, now, skipped, err);
    if (rc == -ENOMEM)
        (void)kw_err_set(err, rc, "out of memory");
    if (rc < 0) {
        ext_profiles_free(&learnt->next);
        learnt->n_wanted = 0;
        return rc;
    }
    if (rc > 0)
        end(learnt, now->now_ns);
    return learnt->next != NULL;
}
