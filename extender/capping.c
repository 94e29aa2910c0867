/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without the API server the nodes stay as they were told last: caps hold on, and that is said
 * once. The file of caps is looked at with each reading of Redis; a ConfigMap's volume changes by a
 * link that is set anew, which shows as another file.
 */
#include "extender/capping.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/backoff.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "extender/headroom.h"
#include "extender/hearing.h"
#include "extender/kube_writer.h"
#include "extender/sleepers.h"
#include "extender/tariff.h"

struct ext_capping {
    struct ext_capping_conf conf;
    struct kw_kube_watch *watch;
    struct ext_kube_writer *writer; /**< NULL: nothing is written */
    struct ext_tally tally;
    struct ext_waiters waiters;
    struct ext_tariff *tariff; /**< the reader's */
    struct stat seen;          /**< the file as it was read; the reader's */
    bool unreadable, unwatched_said;
    uint64_t told; /**< decisions that Events were made of; the reader's */
    pthread_mutex_t lock;
    /* under lock */
    struct ext_hearing hearing;
    struct ext_cap_tree *tree;
    struct ext_node_table *table;
    bool changed;
    bool reread; /**< the file was read by another policy */
};

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int read_file(struct ext_capping *capping, struct kw_err *err)
{
    kw_cleanup_free char *bytes = NULL;
    struct ext_cap_tree *tree = NULL;
    const char *file = capping->conf.file;

    (void)pthread_mutex_lock(&capping->lock);
    unsigned soft_permille = capping->conf.policy.soft_permille;
    capping->reread = false;
    (void)pthread_mutex_unlock(&capping->lock);
    size_t len = 0;
    int rc = stat(file, &capping->seen) < 0 ? -errno : 0;

    if (rc == 0)
        rc = kw_file_slurp(file, EXT_CAP_FILE_MAX, &bytes, &len);
    if (rc < 0)
        return kw_err_set(err, rc, "%s: %s", file, kw_errno_text(rc));
    rc = ext_cap_tree_parse(file, bytes, len, soft_permille, &tree, err);
    if (rc < 0)
        return rc;
    (void)pthread_mutex_lock(&capping->lock);
    struct ext_cap_tree *old = capping->tree;
    capping->tree = tree;
    capping->changed = true;
    (void)pthread_mutex_unlock(&capping->lock);
    ext_cap_tree_free(&old);
    kw_log_info(capping->conf.log, "read the caps", kw_str("file", file), kw_u64("caps", tree->n));
    return 0;
}

int ext_capping_new(const struct ext_capping_conf *conf, struct ext_capping **ret,
                    struct kw_err *err)
{
    struct ext_capping *capping = calloc(1, sizeof(*capping));
    uint64_t seed = 0;
    int rc = 0;

    if (capping == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    capping->conf = *conf;
    (void)pthread_mutex_init(&capping->lock, NULL);
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        rc = kw_err_set(err, -ENODATA, "the system gives no random numbers");
    capping->tree = ext_cap_tree_new();
    capping->table = ext_node_table_new(seed);
    if (rc == 0 && (capping->tree == NULL || capping->table == NULL))
        rc = kw_err_set(err, -ENOMEM, "out of memory");
    if (rc == 0 && ext_tariff_new(conf->zones, conf->stats, conf->log, &capping->tariff) < 0)
        rc = kw_err_set(err, -ENOMEM, "out of memory");
    if (rc == 0 && conf->file != NULL)
        rc = read_file(capping, err);
    if (rc < 0)
        ext_capping_free(&capping);
    else
        *ret = capping;
    return rc;
}

void ext_capping_free(struct ext_capping **capping)
{
    struct ext_capping *c = *capping;

    if (c == NULL)
        return;
    kw_kube_watch_free(&c->watch);
    ext_kube_writer_free(&c->writer);
    ext_tariff_free(&c->tariff);
    ext_node_table_free(&c->table);
    ext_cap_tree_free(&c->tree);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
    *capping = NULL;
}

struct ext_tally *ext_capping_tally(struct ext_capping *capping)
{
    return &capping->tally;
}

struct ext_waiters *ext_capping_waiters(struct ext_capping *capping)
{
    return &capping->waiters;
}

bool ext_capping_wanted(struct ext_capping *capping, double *ret_sigmas)
{
    (void)pthread_mutex_lock(&capping->lock);
    bool wanted = ext_caps_any(capping->tree, capping->table);
    *ret_sigmas = capping->conf.policy.sigmas;
    (void)pthread_mutex_unlock(&capping->lock);
    return wanted;
}

bool ext_capping_changed(struct ext_capping *capping)
{
    (void)pthread_mutex_lock(&capping->lock);
    bool changed = capping->changed || ext_caps_any(capping->tree, capping->table);
    (void)pthread_mutex_unlock(&capping->lock);
    return changed;
}

void ext_capping_set_policy(struct ext_capping *capping, const struct ext_cap_policy *policy)
{
    (void)pthread_mutex_lock(&capping->lock);
    capping->reread =
        capping->reread || policy->soft_permille != capping->conf.policy.soft_permille;
    capping->conf.policy = *policy;
    capping->changed = true;
    (void)pthread_mutex_unlock(&capping->lock);
}

static void reload_caps(struct ext_capping *capping)
{
    struct stat now;
    struct kw_err err = {0};

    if (capping->conf.file == NULL)
        return;
    bool readable = stat(capping->conf.file, &now) == 0;
    (void)pthread_mutex_lock(&capping->lock);
    bool reread = capping->reread;
    (void)pthread_mutex_unlock(&capping->lock);
    if (readable ? !reread && is_same_file(&now, &capping->seen) : capping->unreadable)
        return;
    int rc = read_file(capping, &err);
    capping->unreadable = !readable;
    capping->conf.stats->caps_file_bad = rc < 0;
    if (rc < 0)
        kw_log_warn(capping->conf.log, "the caps stay as they were", kw_str("error", err.text));
}

void ext_capping_reload(struct ext_capping *capping)
{
    reload_caps(capping);
    if (!ext_tariff_reload(capping->tariff))
        return;
    (void)pthread_mutex_lock(&capping->lock);
    capping->changed = true;
    (void)pthread_mutex_unlock(&capping->lock);
}

/** Both snapshots, while caps are built. */
struct two {
    const struct ext_snapshot *fresh, *before;
};

static size_t index_in(const struct ext_snapshot *snapshot, const char *name)
{
    const struct ext_node *node = ext_snapshot_find(snapshot, name, strlen(name));

    return node == NULL ? SIZE_MAX : (size_t)(node - snapshot->nodes);
}

static size_t index_of(const void *user, const char *name)
{
    const struct two *two = user;

    return index_in(two->fresh, name);
}

static size_t before_of(const void *user, size_t index)
{
    const struct two *two = user;
    const char *name = two->fresh->nodes[index].name;

    /* nodes keep their order */
    if (index < two->before->n && strcmp(two->before->nodes[index].name, name) == 0)
        return index;
    return index_in(two->before, name);
}

/** Caps hold, and nobody tells where pods go. */
static void say_unwatched(struct ext_capping *capping)
{
    if (!capping->conf.pods_are_watched && !capping->unwatched_said)
        kw_log_warn(capping->conf.log, "caps without --watch-pods: each pod that was let in counts "
                                       "on every node for a hundred seconds");
    capping->unwatched_said = true;
}

/** For /metrics. */
static void count(struct ext_capping *capping, const struct ext_caps *caps)
{
    struct ext_stats *stats = capping->conf.stats;
    uint64_t closed = 0;
    uint64_t stale = 0;
    uint64_t unknown = 0;

    for (size_t i = 0; caps != NULL && i < caps->n_nodes; i++)
        closed += caps->nodes[i].closed;
    for (size_t i = 0; caps != NULL && i < caps->tree->n; i++) {
        closed += caps->domains[i].own_closed;
        /* those of a domain are in what it lies in, too */
        stale += caps->tree->domains[i].parent == 0 ? caps->domains[i].n_stale : 0;
        unknown += caps->tree->domains[i].parent == 0 ? caps->domains[i].n_unknown : 0;
    }
    stats->caps_closed = closed;
    stats->caps_stale = stale;
    stats->caps_unknown = unknown;
    stats->caps_unseen = caps == NULL ? 0 : caps->n_unseen;
}

int ext_capping_settle(struct ext_capping *capping, struct ext_snapshot *fresh,
                       const struct ext_held *held, const struct ext_snapshot *before,
                       int64_t now_ns)
{
    const struct two two = {fresh, before};
    kw_cleanup_free struct ext_cap_input *inputs = calloc(fresh->n + 1, sizeof(*inputs));

    if (inputs == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < fresh->n; i++) {
        const struct ext_node *node = &fresh->nodes[i];
        inputs[i] = (struct ext_cap_input){
            .watts = &node->watts,
            .used_mcpu = node->used_mcpu,
            .held_mcpu = held[i].mcpu,
            .held_mw = held[i].mw,
            .alone_mcpu = held[i].alone_mcpu,
            .held_variance_mcpu2 = held[i].variance_mcpu2,
            .unseen = held[i].unseen,
            .stale = ext_is_stale(node->fresh_ns, node->interval_ns, now_ns, fresh->stale_after_ns),
        };
    }
    (void)pthread_mutex_lock(&capping->lock);
    int rc = ext_sleepers_set(fresh, capping->table, capping->changed);
    ext_tariff_settle(capping->tariff, capping->table, capping->changed, fresh);
    const struct ext_caps_sources sources = {
        .policy = &capping->conf.policy,
        .tree = capping->tree,
        .table = capping->table,
        .inputs = inputs,
        .n = fresh->n,
        .index_of = index_of,
        .before = before == NULL ? NULL : before->caps,
        .before_of = before_of,
        .user = &two,
    };
    if (ext_caps_any(capping->tree, capping->table)) {
        fresh->caps = ext_caps_build(&sources);
        rc = fresh->caps == NULL ? -ENOMEM : rc;
    }
    capping->changed = false;
    (void)pthread_mutex_unlock(&capping->lock);
    if (fresh->caps != NULL)
        say_unwatched(capping);
    count(capping, fresh->caps);
    ext_tally_sweep(&capping->tally,
                    now_ns - (capping->conf.stats->watch_lost ? EXT_TALLY_BLIND_NS : 0));
    return rc < 0 ? rc : 0;
}

/** Asks for an Event on each value that has turned bad. Under the lock. */
static void warn_of_bad(struct ext_capping *capping, const struct kw_node *node)
{
    struct ext_node_entry *entry = ext_node_table_find(capping->table, node->name);

    for (unsigned i = 0; entry != NULL && i < KW_NODE_KEY__MAX; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if ((entry->bad & ~entry->bad_said & bit) == 0)
            continue;
        entry->bad_said |= bit;
        capping->conf.stats->bad_node_values++;
        kw_log_warn(capping->conf.log, "a node's label or annotation is not as it should be",
                    kw_str("node", entry->name), kw_str("key", kw_node_key_names[i]),
                    kw_str("wanted", kw_node_key_wants[i]));
        if (capping->writer != NULL && capping->conf.write_events)
            ext_kube_writer_bad_value(capping->writer, entry->name, entry->uid,
                                      kw_node_key_names[i], kw_node_key_wants[i]);
    }
}

static void take_node(struct ext_capping *capping, bool gone, const char *json, size_t len,
                      int64_t now_ns)
{
    struct kw_node node;
    int rc = kw_node_decode(json, len, &node, NULL);

    (void)pthread_mutex_lock(&capping->lock);
    if (rc == 0 && gone)
        ext_node_table_drop(capping->table, node.name);
    else if (rc == 0)
        rc = ext_node_table_put(capping->table, &node, now_ns);
    if (rc == 0 && !gone)
        warn_of_bad(capping, &node);
    capping->changed = true;
    (void)pthread_mutex_unlock(&capping->lock);
    if (rc < 0)
        capping->conf.stats->nodes_bad++;
}

static void list_event(struct ext_capping *capping, bool begins)
{
    (void)pthread_mutex_lock(&capping->lock);
    if (begins)
        ext_node_table_list_begin(capping->table);
    else
        ext_node_table_list_end(capping->table);
    capping->changed = true;
    (void)pthread_mutex_unlock(&capping->lock);
}

static void say_watching(struct ext_capping *capping, bool up, int64_t now_ns)
{
    (void)pthread_mutex_lock(&capping->lock);
    bool say = ext_hearing_news(&capping->hearing, up, now_ns);
    uint64_t n = ext_node_table_count(capping->table);
    (void)pthread_mutex_unlock(&capping->lock);
    if (say)
        kw_log_info(capping->conf.log, "watching nodes", kw_u64("nodes", n));
    capping->conf.stats->watching_nodes |= up;
}

static void say_down(struct ext_capping *capping, const char *cause, size_t len)
{
    (void)pthread_mutex_lock(&capping->lock);
    bool say = ext_hearing_down(&capping->hearing);
    (void)pthread_mutex_unlock(&capping->lock);
    if (say)
        ext_hearing_say_lost(
            capping->conf.log,
            "nodes are not seen: their caps and domains stay as they were told last", cause, len);
    capping->conf.stats->watching_nodes = false;
}

void ext_capping_event(struct ext_capping *capping, enum kw_kube_event event, const char *json,
                       size_t len, int64_t now_ns)
{
    switch (event) {
    case KW_KUBE_SYNC_BEGIN: list_event(capping, true); break;
    case KW_KUBE_SYNC_END: list_event(capping, false); __attribute__((fallthrough));
    case KW_KUBE_UP: say_watching(capping, true, now_ns); break;
    case KW_KUBE_ADDED:
    case KW_KUBE_MODIFIED: take_node(capping, false, json, len, now_ns); break;
    case KW_KUBE_DELETED: take_node(capping, true, json, len, now_ns); break;
    case KW_KUBE_DOWN: say_down(capping, json, len); break;
    case KW_KUBE__MAX: break;
    }
}

static void on_event(void *user, enum kw_kube_event event, const char *json, size_t len)
{
    ext_capping_event(user, event, json, len, (int64_t)kw_now_ns());
}

int ext_capping_watch(struct ext_capping *capping, const struct kw_kube_conf *kube,
                      struct kw_err *err)
{
    int rc = 0;

    if (capping->conf.write_headroom || capping->conf.write_events)
        rc = ext_kube_writer_new(kube, capping->conf.stats, capping->conf.log, &capping->writer,
                                 err);
    return rc < 0 ? rc
                  : kw_kube_watch_start(kube, "/api/v1/nodes", NULL, on_event, capping,
                                        &capping->watch, err);
}

/** What an Event says of a decision: the same text for the same cause, so that equal ones count. */
static void describe(const struct ext_decision *decision, char *out, size_t size)
{
    const struct ext_candidate *best = &decision->best[0];
    size_t len = 0;

    if (!decision->filter && decision->zones.unit[0] != '\0') {
        (void)snprintf(out, size, "%s would cost least: %.1f W where a joule costs %.4g %s%s",
                       best->node, best->mw / 1000, best->zone_value, decision->zones.unit,
                       decision->dry ? " (dry run: the scheduler was not told)" : "");
        return;
    }
    if (!decision->filter) {
        (void)snprintf(out, size, "%s would add the fewest watts: %.1f W of at most %.1f W%s",
                       best->node, best->mw / 1000, decision->max_mw / 1000,
                       decision->dry ? " (dry run: the scheduler was not told)" : "");
        return;
    }
    for (unsigned i = EXT_CAP_PASSES + 1; i < EXT_CAP__MAX && len < size; i++) {
        if (decision->capped[i] > 0)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? "; " : "",
                                    ext_cap_texts[i] + strlen("kwatt: "));
    }
}

/** An Event for each decision since the last round: pods that caps leave without a node, and where
 * the others would add the fewest watts. */
static void send_events(struct ext_capping *capping)
{
    struct ext_decision decision;
    char message[512];
    const struct ext_event event = {.about_pod = true,
                                    .ns = decision.ns,
                                    .name = decision.pod,
                                    .uid = decision.uid,
                                    .message = message};

    while (ext_decisions_follow(capping->conf.decisions, &capping->told, &decision)) {
        struct ext_event told = event;
        told.warning = decision.filter;
        told.reason = decision.filter ? "KwattCapped" : "KwattPriced";
        if (decision.filter ? decision.capped[EXT_CAP_PASSES] > 0 : decision.n_best == 0)
            continue;
        describe(&decision, message, sizeof(message));
        ext_kube_writer_event(capping->writer, &told);
    }
}

void ext_capping_round(struct ext_capping *capping, const struct ext_snapshot *snapshot,
                       int64_t now_ns)
{
    struct ext_headroom_write writes[EXT_HEADROOM_WRITES];
    struct ext_tally_sum held;

    say_watching(capping, false, now_ns);
    if (capping->writer != NULL && capping->conf.write_events)
        send_events(capping);
    if (capping->writer == NULL || !capping->conf.write_headroom || snapshot == NULL)
        return;
    ext_tally_sum(&capping->tally, &held);
    (void)pthread_mutex_lock(&capping->lock);
    if (ext_kube_writer_failed_to_wake(capping->writer))
        capping->waiters.missed = true;
    size_t n = ext_headroom_plan(snapshot, capping->table, &capping->waiters, &held,
                                 kw_random_u32(), now_ns, writes);
    (void)pthread_mutex_unlock(&capping->lock);
    for (size_t i = 0; i < n; i++)
        ext_kube_writer_headroom(capping->writer, &writes[i]);
}

size_t ext_capping_plan_tiers(struct ext_capping *capping, const struct ext_snapshot *snapshot,
                              const int8_t *tiers, const struct ext_tier_policy *policy,
                              size_t room, int64_t now_ns, struct ext_tier_order *ret,
                              size_t *ret_due)
{
    struct ext_tier_plan plan = {.room = room};

    (void)pthread_mutex_lock(&capping->lock);
    ext_tiers_plan(&plan, capping->table, snapshot, tiers, policy, now_ns);
    for (size_t i = 0; i < plan.n; i++) {
        const struct ext_node_entry *entry =
            ext_node_table_at(capping->table, plan.writes[i].index);
        (void)snprintf(ret[i].node, sizeof(ret[i].node), "%s", entry->name);
        ret[i].tier = plan.writes[i].tier;
    }
    (void)pthread_mutex_unlock(&capping->lock);
    *ret_due = plan.due;
    return plan.n;
}
