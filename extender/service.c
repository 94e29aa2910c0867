/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses: 200 for every request that was understood. What was not understood gets the `Error` of
 * the answer with status 200 where the answer has one (filter), because the scheduler reads no body
 * of another status; prioritize and preempt answers have no such field, so they get 400 and a text
 * for whoever looks at the wire. Prioritize without any list of nodes is an empty list: there is
 * nothing to score.
 */
#include "extender/service.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json_scan.h"
#include "extender/gate.h"
#include "extender/preempt.h"

/** First size of a workspace's arrays, as EXT_NODES_MAX bounds the last. */
#define CANDIDATES_MIN 1024

int ext_service_init(struct ext_service *service, unsigned threads, const struct ext_policy *policy)
{
    *service = (struct ext_service){0};
    service->workspaces = calloc(threads, sizeof(*service->workspaces));
    int rc = service->workspaces == NULL ? -ENOMEM : ext_stats_init(&service->stats);
    if (rc == 0)
        rc = kw_snapshot_new(threads, free, &service->policies);
    if (rc == 0)
        rc = ext_service_set_policy(service, policy);
    if (rc == 0)
        rc = ext_decisions_new(&service->decisions);
    if (rc < 0) {
        ext_service_clear(service);
        return rc;
    }
    service->n_workspaces = threads;
    for (unsigned i = 0; i < threads; i++)
        atomic_flag_clear(&service->workspaces[i].busy);
    return 0;
}

int ext_service_set_policy(struct ext_service *service, const struct ext_policy *policy)
{
    struct ext_policy *copy = malloc(sizeof(*copy));

    if (copy == NULL)
        return -ENOMEM;
    *copy = *policy;
    kw_snapshot_publish(service->policies, copy);
    return 0;
}

void ext_service_clear(struct ext_service *service)
{
    for (unsigned i = 0; service->workspaces != NULL && i < service->n_workspaces; i++) {
        struct ext_workspace *workspace = &service->workspaces[i];
        ext_finder_free(&workspace->finder);
        ext_args_free(&workspace->args);
        free(workspace->scratch);
        free(workspace->scores);
        ext_quotes_free(&workspace->quotes);
        ext_rendering_free(&workspace->rendering);
    }
    free(service->workspaces);
    kw_snapshot_free(&service->policies);
    ext_stats_clear(&service->stats);
    ext_decisions_free(&service->decisions);
    *service = (struct ext_service){0};
}

/** @return a workspace for this thread alone; NULL where more threads came than were announced. */
static struct ext_workspace *take_workspace(struct ext_service *service)
{
    for (unsigned i = 0; i < service->n_workspaces; i++) {
        if (!atomic_flag_test_and_set_explicit(&service->workspaces[i].busy, memory_order_acquire))
            return &service->workspaces[i];
    }
    return NULL;
}

static void give_workspace(struct ext_workspace *workspace)
{
    atomic_flag_clear_explicit(&workspace->busy, memory_order_release);
}

static int reserve_candidates(struct ext_workspace *workspace, size_t n)
{
    size_t cap = workspace->cap == 0 ? CANDIDATES_MIN : workspace->cap;

    if (n <= workspace->cap)
        return 0;
    while (cap < n)
        cap *= 2;
    free(workspace->scratch);
    free(workspace->scores);
    workspace->scratch = calloc(cap, sizeof(*workspace->scratch));
    workspace->scores = calloc(cap, sizeof(*workspace->scores));
    if (workspace->scratch == NULL || workspace->scores == NULL) {
        workspace->cap = 0;
        return -ENOMEM;
    }
    workspace->cap = cap;
    return 0;
}

/** A pod that kwatt has no opinion on, whatever its placement. */
static bool is_exempt(const struct ext_policy *policy, const struct kw_extender_pod *pod)
{
    return pod->mirror || (pod->ns[0] != '\0' && strcmp(pod->ns, policy->own_namespace) == 0);
}

/** What is expected of a pod. */
static void expect(const struct ext_service *service, const struct ext_policy *policy,
                   const struct kw_extender_pod *pod, struct ext_outlook *ret)
{
    size_t slot = 0;
    const struct ext_profiles *profiles =
        service->profiles == NULL ? NULL : kw_snapshot_acquire(service->profiles, &slot);

    ext_outlook_find(&policy->assumptions, profiles, pod, ret);
    if (service->profiles != NULL)
        kw_snapshot_release(service->profiles, slot);
}

/** The name of a candidate, decoded. */
static void copy_name(const struct kw_json_text *name, char out[KW_NODE_NAME_MAX + 1])
{
    const struct kw_json_token token = {
        .type = KW_JSON_STRING, .escaped = name->escaped, .at = name->at, .len = name->len};

    /* escapes only shorten a text */
    if (name->len <= KW_NODE_NAME_MAX)
        (void)kw_json_unescape(&token, out);
}

/** What a joule costs where a candidate stands. */
static void note_zone(const struct ext_snapshot *snapshot, const struct ext_place *place,
                      const struct ext_decision *decision, struct ext_candidate *best)
{
    const struct ext_zone *zone = ext_snapshot_zone(snapshot, ext_place_node(place));

    best->zone_value = zone == NULL ? decision->zones.median : zone->value;
    if (zone != NULL)
        memcpy(best->zone, zone->name, sizeof(best->zone));
}

/** The first candidates of the highest score; found by memchr, since a request waits. */
static void note_best(const struct ext_workspace *workspace, const struct ext_snapshot *snapshot,
                      double mcpu, int64_t now_ns, struct ext_decision *decision)
{
    const struct ext_args *args = &workspace->args;
    size_t n = ext_args_count(args);
    const uint8_t *end = workspace->scores + n;
    const uint8_t *at = NULL;

    /* where candidates differ one has 10, where not 5, but for what ties take */
    for (int top = 10; at == NULL && top >= 0; top--) {
        at = memchr(workspace->scores, top, n);
        for (; at != NULL && decision->n_best < EXT_BEST;
             at = memchr(at + 1, top, (size_t)(end - at - 1))) {
            size_t i = (size_t)(at - workspace->scores);
            const struct ext_place *place = ext_found_place(snapshot, args->indices[i], now_ns);
            struct ext_candidate *best = &decision->best[decision->n_best];
            if (place == NULL)
                continue;
            copy_name(ext_args_name(args, i), best->node);
            best->mw = ext_place_marginal_mw(place, mcpu);
            best->fill = place->fill;
            best->used_mcpu = round((double)place->fill * (double)place->capacity_mcpu);
            best->score = workspace->scores[i];
            best->wake_uj = isfinite(place->wake_uj) ? fmax((double)place->wake_uj, 0) : 0;
            note_zone(snapshot, place, decision, best);
            decision->n_best++;
        }
        at = decision->n_best > 0 ? end : NULL;
    }
}

/** The place for a decision with what all have in common, or NULL where there is no room at once.
 */
static struct ext_decision *begin_note(struct ext_service *service,
                                       const struct ext_workspace *workspace,
                                       const struct ext_outlook *outlook, int64_t now_ns)
{
    const struct kw_extender_pod *pod = &workspace->args.pod;
    struct ext_decision *decision = ext_decisions_next(service->decisions);
    int64_t refreshed_ns = service->stats.refreshed_ns;

    if (decision == NULL)
        return NULL;
    decision->t_unix_ms = kw_now_unix_ms();
    memcpy(decision->ns, pod->ns, sizeof(decision->ns));
    memcpy(decision->pod, pod->name, sizeof(decision->pod));
    memcpy(decision->uid, pod->uid, sizeof(decision->uid));
    decision->placement = pod->placement;
    decision->exempt = is_exempt(workspace->policy, pod);
    decision->dry = workspace->policy->dry_run;
    decision->owner = pod->owner;
    decision->outlook = *outlook;
    decision->candidates = ext_args_count(&workspace->args);
    decision->unseen = service->stats.watch_lost;
    decision->data_age_ms =
        refreshed_ns == 0 ? -1 : (now_ns - refreshed_ns) / (int64_t)KW_NS_PER_MS;
    return decision;
}

/** Keeps what was decided. */
static void note(struct ext_service *service, const struct ext_workspace *workspace,
                 const struct ext_snapshot *snapshot, const struct ext_outlook *outlook,
                 const struct ext_score *score, size_t known, uint64_t penalised, int64_t now_ns)
{
    struct ext_decision *decision = begin_note(service, workspace, outlook, now_ns);

    if (decision == NULL)
        return;
    decision->known = known;
    decision->penalised = penalised;
    if (snapshot != NULL && snapshot->zones != NULL) {
        memcpy(decision->zones.unit, snapshot->zones->unit, sizeof(decision->zones.unit));
        memcpy(decision->zones.source, snapshot->zones->source, sizeof(decision->zones.source));
        decision->zones.median = snapshot->zones->median;
    }
    if (known > 0) {
        bool efficient = decision->placement == KW_PLACEMENT_EFFICIENT;
        decision->min_mw = efficient ? score->min : 0;
        decision->max_mw = efficient ? score->max : 0;
        note_best(workspace, snapshot, (double)outlook->mcpu, now_ns, decision);
    }
    ext_decisions_done(service->decisions, decision);
}

/** Keeps whom caps have left out. */
static void note_caps(struct ext_service *service, const struct ext_workspace *workspace,
                      const struct ext_outlook *outlook, const struct ext_gate *gate,
                      int64_t now_ns)
{
    struct ext_decision *decision = begin_note(service, workspace, outlook, now_ns);

    if (decision == NULL)
        return;
    decision->filter = true;
    memcpy(decision->capped, gate->counts, sizeof(decision->capped));
    ext_decisions_done(service->decisions, decision);
}

/** Caps that hold for a pod, or NULL. */
static const struct ext_caps *caps_for(const struct ext_service *service,
                                       const struct ext_policy *policy,
                                       const struct ext_snapshot *snapshot,
                                       const struct kw_extender_pod *pod)
{
    if (snapshot == NULL || service->tally == NULL || policy->dry_run || is_exempt(policy, pod))
        return NULL;
    return snapshot->caps;
}

/** Scores the candidates into workspace->scores. */
static int score_candidates(struct ext_service *service, struct ext_workspace *workspace,
                            const struct ext_snapshot *snapshot, int64_t now_ns)
{
    const struct ext_args *args = &workspace->args;
    const struct ext_policy *policy = workspace->policy;
    size_t n = ext_args_count(args);
    struct ext_outlook outlook;
    struct ext_score score;

    expect(service, policy, &args->pod, &outlook);
    const struct ext_score_pod wanted = {
        .mcpu = (double)outlook.mcpu,
        .expected_mw = (double)args->pod.expected_mw,
        .life_s = ext_outlook_wake_s((double)outlook.life_ms / 1000, outlook.life_from),
        .placement = is_exempt(policy, &args->pod) ? KW_PLACEMENT_OFF : args->pod.placement,
    };
    if (reserve_candidates(workspace, n) < 0 ||
        ext_quotes_reserve(&workspace->quotes, snapshot) < 0)
        return -ENOMEM;
    ext_score_begin(&score, &wanted, workspace->scratch);
    ext_quotes_take(&workspace->quotes, &score, snapshot, args->indices, n, now_ns);
    size_t known = ext_score_end(&score, workspace->scores);
    const struct ext_caps *caps = caps_for(service, policy, snapshot, &args->pod);
    uint64_t penalised = 0;
    if (caps != NULL && args->want == EXT_ARGS_VERDICTS && n > 0) {
        const struct ext_cap_need need =
            ext_gate_need(caps, &args->pod, &outlook, policy->cap_sigmas);
        penalised = ext_gate_penalise(caps, args, &need, workspace->scores);
    }
    note(service, workspace, snapshot, &outlook, &score, known, penalised, now_ns);
    if (policy->dry_run && n > 0)
        memset(workspace->scores, EXT_SCORE_NEUTRAL, n);
    service->stats.outlooks[outlook.from]++;
    service->stats.scored += known;
    service->stats.neutral += n - known;
    return 0;
}

/** Where an answer goes, as in ext_service_lend. */
struct reply {
    struct kw_buf *out;
    struct ext_lent *lent;
};

static int answer_prioritize(struct ext_service *service, struct ext_workspace *workspace,
                             const struct ext_snapshot *snapshot, int64_t now_ns,
                             const struct reply *reply, const char **why)
{
    int rc = score_candidates(service, workspace, snapshot, now_ns);

    if (rc == 0)
        rc = ext_rendering_answer(&workspace->rendering, &workspace->args, workspace->scores,
                                  reply->out, reply->lent);
    if (rc < 0)
        *why = "out of memory";
    return rc;
}

static int answer_filter(struct ext_service *service, const struct ext_workspace *workspace,
                         const struct ext_snapshot *snapshot, int64_t now_ns,
                         const struct reply *reply, const char **why)
{
    const struct ext_args *args = &workspace->args;
    struct ext_outlook outlook;
    struct ext_gate gate = {0};

    if (!args->has_names && !args->has_nodes) {
        *why = "neither Nodes nor NodeNames is given";
        return -EBADMSG;
    }
    expect(service, workspace->policy, &args->pod, &outlook);
    const struct ext_caps *caps = caps_for(service, workspace->policy, snapshot, &args->pod);
    bool gated = caps != NULL && args->want == EXT_ARGS_VERDICTS && ext_args_count(args) > 0;
    if (gated)
        ext_gate_filter(service, snapshot, args, &outlook, workspace->policy->cap_sigmas, now_ns,
                        &gate);
    if (gated && gate.counts[EXT_CAP_PASSES] < ext_args_count(args))
        note_caps(service, workspace, &outlook, &gate, now_ns);
    if (!gated && reply->lent != NULL && ext_lend_filter(args, reply->lent))
        return 0;
    int rc = gated ? ext_answer_verdicts(args, reply->out) : ext_answer_filter(args, reply->out);
    if (rc < 0)
        *why = "out of memory";
    return rc;
}

/** What a preemption request is looked at with. */
struct preemption {
    struct ext_service *service;
    const struct ext_policy *policy;
    const struct ext_snapshot *snapshot;
};

static bool keeps(void *user, const struct kw_extender_pod *pod, const struct kw_json_token *node,
                  bool any_victims)
{
    const struct preemption *preemption = user;
    const struct ext_snapshot *snapshot = preemption->snapshot;
    struct ext_outlook outlook;
    char name[KW_NODE_NAME_MAX + 1] = "";
    const struct kw_json_text text = {node->at, (uint32_t)node->len, node->escaped};

    expect(preemption->service, preemption->policy, pod, &outlook);
    const struct ext_caps *caps = caps_for(preemption->service, preemption->policy, snapshot, pod);
    if (caps == NULL || node->len > KW_NODE_NAME_MAX)
        return true;
    copy_name(&text, name);
    const struct ext_node *found = ext_snapshot_find(snapshot, name, strlen(name));
    const struct ext_cap_need need =
        ext_gate_need(caps, pod, &outlook, preemption->policy->cap_sigmas);
    return ext_gate_may_evict(caps, found == NULL ? 0 : (uint32_t)(found - snapshot->nodes) + 1,
                              &need, any_victims);
}

static int answer_preempt(struct ext_service *service, const struct ext_policy *policy,
                          const struct ext_snapshot *snapshot, const char *body, size_t len,
                          struct kw_buf *out, const char **why)
{
    struct preemption preemption = {service, policy, snapshot};
    const struct ext_preempt_gate gate = {keeps, &preemption};
    bool capped = snapshot != NULL && snapshot->caps != NULL;

    return ext_preempt_answer(body, len, capped ? &gate : NULL, out, why);
}

/** @return 0, or -errno with *why for the caller. */
static int answer(struct ext_service *service, enum ext_verb verb, struct ext_workspace *workspace,
                  const struct ext_snapshot *snapshot, int64_t now_ns, const char *body, size_t len,
                  const struct reply *reply, const char **why)
{
    if (verb == EXT_VERB_PREEMPT)
        return answer_preempt(service, workspace->policy, snapshot, body, len, reply->out, why);
    /* without caps, a filter looks for no node */
    bool capped = snapshot != NULL && snapshot->caps != NULL;
    enum ext_args_want want = capped                        ? EXT_ARGS_VERDICTS
                              : verb == EXT_VERB_PRIORITIZE ? EXT_ARGS_INDICES
                                                            : EXT_ARGS_LIST;
    struct ext_finder *finder = want >= EXT_ARGS_INDICES ? &workspace->finder : NULL;
    int rc = finder == NULL ? 0 : ext_finder_begin(finder, snapshot);
    if (rc < 0) {
        *why = "out of memory";
        return rc;
    }
    rc = ext_args_scan(body, len, finder, want, &workspace->args, why);
    if (rc < 0)
        return rc;
    service->stats.bad_pod_values += workspace->args.pod.bad_values;
    if (verb == EXT_VERB_FILTER)
        return answer_filter(service, workspace, snapshot, now_ns, reply, why);
    return answer_prioritize(service, workspace, snapshot, now_ns, reply, why);
}

/** Turns a refusal into what its verb can say. @return the status. */
static unsigned refuse(enum ext_verb verb, int rc, const char *why, struct kw_buf *out)
{
    kw_buf_reset(out);
    if (verb == EXT_VERB_FILTER && ext_answer_filter_error(why, out) == 0)
        return 200;
    kw_buf_reset(out);
    (void)kw_buf_adds(out, why);
    (void)kw_buf_adds(out, "\n");
    return rc == -ENOMEM ? 503 : rc == -E2BIG ? 413 : 400;
}

unsigned ext_service_lend(struct ext_service *service, enum ext_verb verb,
                          const struct ext_snapshot *snapshot, int64_t now_ns, const char *body,
                          size_t len, struct kw_buf *out, struct ext_lent *lent)
{
    struct ext_workspace *workspace = take_workspace(service);
    const struct reply reply = {out, lent};
    const char *why = "busy";
    unsigned status = 200;
    size_t slot = 0;
    if (workspace != NULL)
        workspace->policy = kw_snapshot_acquire(service->policies, &slot);
    int rc = workspace == NULL || workspace->policy == NULL
                 ? -ENOMEM
                 : answer(service, verb, workspace, snapshot, now_ns, body, len, &reply, &why);

    if (workspace != NULL) {
        kw_snapshot_release(service->policies, slot);
        give_workspace(workspace);
    }
    if (rc < 0)
        status = refuse(verb, rc, why, out);
    service->stats.requests[verb][rc == 0         ? EXT_OUTCOME_OK
                                  : rc == -ENOMEM ? EXT_OUTCOME_FAILED
                                                  : EXT_OUTCOME_REFUSED]++;
    return status;
}
