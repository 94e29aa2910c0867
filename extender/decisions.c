/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of places, each with a flag that whoever writes or reads it holds. A writer takes the next
 * place and gives up where its flag is held, so that a request never waits for a page that is being
 * written; a reader copies a place and lets go. A lap of the ring later the same place comes again:
 * two writers in one place are kept apart by the flag, too.
 */
#include "extender/decisions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"

struct place {
    struct ext_decision decision; /**< t_unix_ms 0: none yet */
    _Atomic bool held;
};

struct ext_decisions {
    _Atomic uint64_t n; /**< that were begun */
    struct place places[EXT_DECISIONS];
};

int ext_decisions_new(struct ext_decisions **ret)
{
    struct ext_decisions *decisions =
        calloc(1, sizeof(*decisions)); /* takes memory as it is used */

    if (decisions == NULL)
        return -ENOMEM;
    *ret = decisions;
    return 0;
}

void ext_decisions_free(struct ext_decisions **decisions)
{
    free(*decisions);
    *decisions = NULL;
}

static bool hold(struct place *place)
{
    return !atomic_exchange_explicit(&place->held, true, memory_order_acquire);
}

struct ext_decision *ext_decisions_next(struct ext_decisions *decisions)
{
    struct place *place = &decisions->places[decisions->n++ % EXT_DECISIONS];

    if (!hold(place))
        return NULL;
    place->decision = (struct ext_decision){0};
    return &place->decision;
}

void ext_decisions_done(struct ext_decisions *decisions, struct ext_decision *decision)
{
    (void)decisions;
    /* the decision is the first member of its place */
    atomic_store_explicit(&((struct place *)decision)->held, false, memory_order_release);
}

bool ext_decisions_bound(struct ext_decisions *decisions, const char *uid, const char *node,
                         double mw, double *ret_saved_mw)
{
    uint64_t n = decisions->n;

    for (uint64_t i = 0; i < EXT_DECISIONS && i < n && uid[0] != '\0'; i++) {
        struct place *place = &decisions->places[(n - 1 - i) % EXT_DECISIONS];
        struct ext_decision *decision = &place->decision;
        if (!hold(place))
            continue; /* being written or read: one decision does not learn where its pod went */
        /* of one node that passed, no score is asked for */
        bool placed = !decision->filter || decision->capped[EXT_CAP_PASSES] > 0;
        bool found = placed && strcmp(decision->uid, uid) == 0;
        bool saved = found && decision->dry && decision->chosen[0] == '\0' && mw >= 0 &&
                     decision->n_best > 0;
        if (found) {
            (void)snprintf(decision->chosen, sizeof(decision->chosen), "%s", node);
            decision->priced = mw >= 0;
            decision->chosen_mw = mw >= 0 ? mw : 0;
        }
        if (saved)
            *ret_saved_mw = mw - decision->best[0].mw;
        ext_decisions_done(decisions, decision);
        if (found)
            return saved;
    }
    return false;
}

bool ext_decisions_follow(struct ext_decisions *decisions, uint64_t *seen, struct ext_decision *ret)
{
    uint64_t n = decisions->n;

    if (n - *seen > EXT_DECISIONS)
        *seen = n - EXT_DECISIONS;
    while (*seen < n) {
        struct place *place = &decisions->places[*seen % EXT_DECISIONS];
        if (!hold(place))
            return false; /* being written: the next time */
        *ret = place->decision;
        ext_decisions_done(decisions, &place->decision);
        ++*seen;
        if (ret->t_unix_ms != 0)
            return true;
    }
    return false;
}

static bool is_about(const struct ext_decision *decision, const char *pod)
{
    if (pod == NULL)
        return true;
    const char *slash = strchr(pod, '/');
    if (slash == NULL)
        return strcmp(decision->pod, pod) == 0;
    size_t len = (size_t)(slash - pod);
    return strlen(decision->ns) == len && memcmp(decision->ns, pod, len) == 0 &&
           strcmp(decision->pod, slash + 1) == 0;
}

/** Why a pod has no levels, or NULL. */
static const char *why_neutral(const struct ext_decision *decision)
{
    if (decision->filter)
        return NULL;
    if (decision->exempt)
        return "a pod of kwatt's own or of a node's own files: kwatt has no opinion";
    if (decision->placement == KW_PLACEMENT_OFF)
        return "kwatt.io/placement is off";
    return decision->known == 0 ? "nothing is known of any candidate" : NULL;
}

/** The profile that the expected CPU rests on, or null. */
static void write_profile(const struct ext_decision *decision, struct kw_buf *out)
{
    const struct ext_outlook *outlook = &decision->outlook;
    const struct ext_profile *profile = &outlook->profile;

    (void)kw_buf_adds(out, ",\"profile\":");
    if (profile->pods_permille == 0) {
        (void)kw_buf_adds(out, "null");
        return;
    }
    (void)kw_buf_adds(out, "{\"kind\":");
    (void)kw_buf_add_json(out, decision->owner.kind, strlen(decision->owner.kind));
    (void)kw_buf_adds(out, ",\"name\":");
    (void)kw_buf_add_json(out, decision->owner.name, strlen(decision->owner.name));
    (void)kw_buf_addf(out,
                      ",\"pods_permille\":%u,\"used_mcpu\":%u,\"sigma_mcpu\":%u,\"core_mw\":%u,"
                      "\"estimated\":%s,\"t_unix_ms\":%lld,\"weight_permille\":%u,"
                      "\"assumed_mcpu\":%llu,\"assumed_from\":\"%s\"}",
                      profile->pods_permille, profile->used_mcpu, profile->sigma_mcpu,
                      profile->core_mw, profile->estimated ? "true" : "false",
                      (long long)profile->t_unix_ms, outlook->weight_permille,
                      (unsigned long long)outlook->assumed_mcpu,
                      ext_cpu_from_names[outlook->assumed_from]);
}

/** What the energy of waking a node for the pod is spread over, in milliseconds. */
static double wake_over_ms(const struct ext_outlook *outlook)
{
    return 1000 * ext_outlook_wake_s((double)outlook->life_ms / 1000, outlook->life_from);
}

static void write_life(const struct ext_outlook *outlook, struct kw_buf *out)
{
    (void)kw_buf_addf(out,
                      ",\"life_from\":\"%s\",\"lived_ms\":%llu,\"ended_permille\":%u,"
                      "\"wake_over_ms\":%.0f",
                      ext_life_from_names[outlook->life_from],
                      (unsigned long long)outlook->lived_ms, outlook->ended_permille,
                      wake_over_ms(outlook));
}

/** What a joule costs: the measure, or null. */
static void write_zones(const struct ext_decision *decision, struct kw_buf *out)
{
    (void)kw_buf_adds(out, ",\"zones\":");
    if (decision->zones.unit[0] == '\0') {
        (void)kw_buf_adds(out, "null");
        return;
    }
    (void)kw_buf_adds(out, "{\"unit\":");
    (void)kw_buf_add_json(out, decision->zones.unit, strlen(decision->zones.unit));
    (void)kw_buf_adds(out, ",\"source\":");
    (void)kw_buf_add_json(out, decision->zones.source, strlen(decision->zones.source));
    (void)kw_buf_addf(out, ",\"median\":%.9g}", decision->zones.median);
}

/** The zone of a candidate, where there are zones. */
static void write_zone(const struct ext_decision *decision, const struct ext_candidate *best,
                       struct kw_buf *out)
{
    if (decision->zones.unit[0] == '\0')
        return;
    (void)kw_buf_adds(out, ",\"zone\":");
    if (best->zone[0] == '\0')
        (void)kw_buf_adds(out, "null");
    else
        (void)kw_buf_add_json(out, best->zone, strlen(best->zone));
    (void)kw_buf_addf(out, ",\"zone_value\":%.9g", best->zone_value);
}

/** What caps had to say, and where the pod went. */
static void write_caps_json(const struct ext_decision *decision, struct kw_buf *out)
{
    (void)kw_buf_addf(out, ",\"soft_capped\":%llu,\"capped\":{",
                      (unsigned long long)decision->penalised);
    for (unsigned i = EXT_CAP_PASSES + 1; i < EXT_CAP__MAX; i++)
        (void)kw_buf_addf(out, "%s\"%s\":%llu", i > EXT_CAP_PASSES + 1 ? "," : "", ext_cap_names[i],
                          (unsigned long long)decision->capped[i]);
    (void)kw_buf_adds(out, "},\"chosen\":");
    if (decision->chosen[0] == '\0')
        (void)kw_buf_adds(out, "null");
    else
        (void)kw_buf_add_json(out, decision->chosen, strlen(decision->chosen));
    if (decision->priced)
        (void)kw_buf_addf(out, ",\"chosen_mw\":%.0f", decision->chosen_mw);
}

static void write_json(const struct ext_decision *decision, struct kw_buf *out)
{
    const char *neutral = why_neutral(decision);

    (void)kw_buf_addf(out, "{\"t_unix_ms\":%lld,\"verb\":\"%s\",\"namespace\":",
                      (long long)decision->t_unix_ms, decision->filter ? "filter" : "prioritize");
    (void)kw_buf_add_json(out, decision->ns, strlen(decision->ns));
    (void)kw_buf_adds(out, ",\"pod\":");
    (void)kw_buf_add_json(out, decision->pod, strlen(decision->pod));
    (void)kw_buf_addf(
        out,
        ",\"placement\":\"%s\",\"dry_run\":%s,\"mcpu\":%llu,\"mcpu_from\":\"%s\","
        "\"candidates\":%llu,\"known\":%llu,\"min_mw\":%.0f,\"max_mw\":%.0f,"
        "\"life_ms\":%llu,\"data_age_ms\":%lld,\"starting_pods_unseen\":%s,\"neutral\":",
        kw_placement_names[decision->placement], decision->dry ? "true" : "false",
        (unsigned long long)decision->outlook.mcpu, ext_cpu_from_names[decision->outlook.from],
        (unsigned long long)decision->candidates, (unsigned long long)decision->known,
        decision->min_mw, decision->max_mw, (unsigned long long)decision->outlook.life_ms,
        (long long)decision->data_age_ms, decision->unseen ? "true" : "false");
    if (neutral == NULL)
        (void)kw_buf_adds(out, "null");
    else
        (void)kw_buf_add_json(out, neutral, strlen(neutral));
    write_profile(decision, out);
    write_life(&decision->outlook, out);
    write_zones(decision, out);
    (void)kw_buf_adds(out, ",\"best\":[");
    for (size_t i = 0; i < decision->n_best; i++) {
        const struct ext_candidate *best = &decision->best[i];
        (void)kw_buf_adds(out, i > 0 ? ",{\"node\":" : "{\"node\":");
        (void)kw_buf_add_json(out, best->node, strlen(best->node));
        (void)kw_buf_addf(out,
                          ",\"mw\":%.0f,\"used_mcpu\":%.0f,\"fill_permille\":%.0f,"
                          "\"score\":%u,\"wake_j\":",
                          best->mw, best->used_mcpu, best->fill * 1000, best->score);
        if (best->wake_uj > 0)
            (void)kw_buf_addf(out, "%.0f", best->wake_uj * 1e-6);
        else
            (void)kw_buf_adds(out, "null");
        write_zone(decision, best, out);
        (void)kw_buf_adds(out, "}");
    }
    (void)kw_buf_adds(out, "]");
    write_caps_json(decision, out);
    (void)kw_buf_adds(out, "}");
}

/** A name as a terminal may have it. */
static void add_name(struct kw_buf *out, const char *name)
{
    for (const char *p = name; *p != '\0'; p++) {
        char c = *p > ' ' && *p <= '~' ? *p : '?';
        (void)kw_buf_add(out, &c, 1);
    }
}

static void write_profile_text(const struct ext_decision *decision, struct kw_buf *out)
{
    const struct ext_outlook *outlook = &decision->outlook;
    const struct ext_profile *profile = &outlook->profile;

    if (profile->pods_permille == 0)
        return;
    (void)kw_buf_addf(out, "  %.6g pods of ", (double)profile->pods_permille / 1000);
    add_name(out, decision->owner.kind);
    (void)kw_buf_adds(out, " ");
    add_name(out, decision->owner.name);
    (void)kw_buf_addf(out,
                      " used %.3f cores each, +- %.3f from pod to pod; this weighs %u %%, "
                      "%.3f cores (%s) the rest\n",
                      (double)profile->used_mcpu / 1000, (double)profile->sigma_mcpu / 1000,
                      outlook->weight_permille / 10, (double)outlook->assumed_mcpu / 1000,
                      ext_cpu_from_names[outlook->assumed_from]);
}

/** What the expected life rests on, where it was learnt. */
static void write_life_text(const struct ext_decision *decision, struct kw_buf *out)
{
    const struct ext_outlook *outlook = &decision->outlook;

    if (outlook->life_from != EXT_LIFE_PROFILE)
        return;
    (void)kw_buf_adds(out, "  pods of ");
    add_name(out, decision->owner.kind);
    (void)kw_buf_adds(out, " ");
    add_name(out, decision->owner.name);
    (void)kw_buf_addf(out,
                      " were there for %.1f h, all together, and %.6g of them ended; waking a node "
                      "counts over %.0f s\n",
                      (double)outlook->lived_ms / 3.6e6, (double)outlook->ended_permille / 1000,
                      wake_over_ms(outlook) / 1000);
}

/** Of /filter: whom caps left out, and why. */
static void write_filter_text(const struct ext_decision *decision, struct kw_buf *out)
{
    (void)kw_buf_addf(out, "  caps let %llu of %llu candidates pass; the others:\n",
                      (unsigned long long)decision->capped[EXT_CAP_PASSES],
                      (unsigned long long)decision->candidates);
    for (unsigned i = EXT_CAP_PASSES + 1; i < EXT_CAP__MAX; i++) {
        if (decision->capped[i] > 0)
            (void)kw_buf_addf(out, "  %6llu  %s\n", (unsigned long long)decision->capped[i],
                              ext_cap_texts[i]);
    }
}

static void write_chosen_text(const struct ext_decision *decision, struct kw_buf *out)
{
    if (decision->penalised > 0)
        (void)kw_buf_addf(out, "  %llu candidates are near a cap and were made less attractive\n",
                          (unsigned long long)decision->penalised);
    if (decision->chosen[0] == '\0')
        return;
    (void)kw_buf_adds(out, "  bound to ");
    add_name(out, decision->chosen);
    if (decision->priced)
        (void)kw_buf_addf(out, ", where it adds %.1f W", decision->chosen_mw / 1000);
    if (decision->priced && decision->dry && decision->n_best > 0)
        (void)kw_buf_addf(out, "; the best node would have saved %.1f W",
                          (decision->chosen_mw - decision->best[0].mw) / 1000);
    (void)kw_buf_adds(out, "\n");
}

/** How much the pod would add, and what of: watts, or watts by the price of a joule. */
static void write_range_text(const struct ext_decision *decision, struct kw_buf *out)
{
    double min = decision->min_mw / 1000;
    double max = decision->max_mw / 1000;

    if (decision->zones.unit[0] == '\0') {
        (void)kw_buf_addf(
            out, "  it would add %.1f W where that is cheapest, %.1f W where dearest\n", min, max);
        return;
    }
    (void)kw_buf_addf(out,
                      "  a joule costs what its zone says, in %s; source: %s; median: %.6g\n"
                      "  it would cost as much as %.1f W at the median where that is cheapest, "
                      "%.1f W where dearest\n",
                      decision->zones.unit, decision->zones.source, decision->zones.median, min,
                      max);
}

static void write_best_text(const struct ext_decision *decision, const struct ext_candidate *best,
                            struct kw_buf *out)
{
    (void)kw_buf_addf(out, "  %2u  +%.1f W  %3.0f %% full  ", best->score, best->mw / 1000,
                      best->fill * 100);
    add_name(out, best->node);
    if (best->wake_uj > 0)
        (void)kw_buf_addf(out, "  asleep, %.0f J to wake it", best->wake_uj * 1e-6);
    if (decision->zones.unit[0] != '\0') {
        (void)kw_buf_adds(out, "  ");
        add_name(out, best->zone[0] != '\0' ? best->zone : "unknown-zone");
        (void)kw_buf_addf(out, ": %.6g %s", best->zone_value, decision->zones.unit);
    }
    (void)kw_buf_adds(out, "\n");
}

static void write_text(const struct ext_decision *decision, struct kw_buf *out)
{
    char when[32] = "";
    time_t seconds = (time_t)(decision->t_unix_ms / 1000);
    struct tm utc;
    const char *neutral = why_neutral(decision);

    if (gmtime_r(&seconds, &utc) != NULL)
        (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    (void)kw_buf_addf(out, "%s  ", when);
    add_name(out, decision->ns);
    (void)kw_buf_adds(out, "/");
    add_name(out, decision->pod);
    (void)kw_buf_addf(out, "%s\n  %llu candidates",
                      decision->dry ? "  (dry run: the scheduler was told nothing)" : "",
                      (unsigned long long)decision->candidates);
    if (!decision->filter) /* caps go by what was last known, scores by what is known now */
        (void)kw_buf_addf(out, ", %llu known", (unsigned long long)decision->known);
    (void)kw_buf_addf(
        out, "; %.3f cores (%s), life %.0f s (%s), placement %s",
        (double)decision->outlook.mcpu / 1000, ext_cpu_from_names[decision->outlook.from],
        (double)decision->outlook.life_ms / 1000, ext_life_from_names[decision->outlook.life_from],
        kw_placement_names[decision->placement]);
    if (decision->data_age_ms >= 0)
        (void)kw_buf_addf(out, "; nodes read %.1f s before\n",
                          (double)decision->data_age_ms / 1000);
    else
        (void)kw_buf_adds(out, "; nodes never read\n");
    if (decision->unseen)
        (void)kw_buf_adds(out, "  the API server was away: pods that started were not seen, and "
                               "count by measurements alone\n");
    write_profile_text(decision, out);
    write_life_text(decision, out);
    if (decision->filter) {
        write_filter_text(decision, out);
        write_chosen_text(decision, out);
        return;
    }
    if (neutral != NULL) {
        (void)kw_buf_addf(out, "  neutral: %s\n", neutral);
        write_chosen_text(decision, out);
        return;
    }
    if (decision->placement == KW_PLACEMENT_EFFICIENT)
        write_range_text(decision, out);
    for (size_t i = 0; i < decision->n_best; i++)
        write_best_text(decision, &decision->best[i], out);
    write_chosen_text(decision, out);
}

static void write_dry_run_text(const struct ext_dry_run *dry_run, struct kw_buf *out)
{
    double saved_w = (double)dry_run->saved_mw / 1000;

    if (dry_run->pods == 0)
        (void)kw_buf_adds(out, "dry run: no pod was seen bound yet, which takes --watch-pods\n");
    else
        (void)kw_buf_addf(out,
                          "dry run: %llu %s seen bound since the start; on the nodes that "
                          "kwatt found best that would have added %.1f W %s, all together\n",
                          (unsigned long long)dry_run->pods,
                          dry_run->pods == 1 ? "pod was" : "pods were",
                          saved_w < 0 ? -saved_w : saved_w, saved_w < 0 ? "more" : "less");
}

int ext_decisions_page(struct ext_decisions *decisions, const char *pod, enum ext_form form,
                       const struct ext_dry_run *dry_run, struct kw_buf *out)
{
    kw_cleanup_free struct ext_decision *copy = malloc(sizeof(*copy));
    uint64_t n = decisions->n;
    int found = 0;

    if (copy == NULL)
        return -ENOMEM;
    if (form == EXT_FORM_JSON)
        (void)kw_buf_adds(out, "{\"decisions\":[");
    for (uint64_t i = 0; i < EXT_DECISIONS && i < n; i++) {
        struct place *place = &decisions->places[(n - 1 - i) % EXT_DECISIONS];
        if (!hold(place))
            continue; /* being written */
        *copy = place->decision;
        ext_decisions_done(decisions, &place->decision);
        if (copy->t_unix_ms == 0 || !is_about(copy, pod))
            continue;
        if (form == EXT_FORM_JSON && found > 0)
            (void)kw_buf_adds(out, ",");
        if (form == EXT_FORM_JSON)
            write_json(copy, out);
        else
            write_text(copy, out);
        found++;
    }
    if (form == EXT_FORM_JSON)
        (void)kw_buf_adds(out, "]");
    if (form == EXT_FORM_JSON && dry_run != NULL)
        (void)kw_buf_addf(out, ",\"dry_run\":{\"pods\":%llu,\"saved_mw\":%lld}",
                          (unsigned long long)dry_run->pods, (long long)dry_run->saved_mw);
    if (form == EXT_FORM_JSON)
        (void)kw_buf_adds(out, "}\n");
    else if (dry_run != NULL && pod == NULL && found > 0)
        write_dry_run_text(dry_run, out);
    return out->failed ? -ENOMEM : found;
}
