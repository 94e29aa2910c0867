/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order of the stock recommender: estimate, floor, controlled resources, then minAllowed and
 * maxAllowed on target and bounds, but not on the uncapped target. What differs, and why:
 *  - Nothing seen means nothing said. The stock recommender publishes its floor, and its updater
 * then shrinks running pods to it.
 *  - The floor is divided by the containers that live and are not off, not by all whose state
 * lingers.
 *  - lower <= target <= upper holds after everything, since an updater takes the bounds as
 * triggers.
 *  - LowConfidence is set while less than a day was seen.
 *
 * Invariants: entries are sorted by container, conditions by type; a condition's time changes only
 * with its truth; texts do not change from loop to loop, since every difference is a write to the
 * API server.
 */
#include "vpa-recommender/recommend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vpa-recommender/estimator.h"

/** How long a strange entry is kept. Over an hour the daily rhythm is not seen, but boot load is
 * over. */
#define HOLD_MS INT64_C(3600000)

/** A day: then the first memory window is complete, and the stock upper bound is twice the P95. */
#define CONFIDENT_DAYS 1.0

enum low_confidence { CONFIDENCE_KEPT, CONFIDENCE_LOW, CONFIDENCE_FINE };

static const struct kw_vpa_container *present_entry(const struct kw_vpa *vpa, const char *name)
{
    for (size_t i = 0; i < vpa->status.n_containers; i++) {
        if (strcmp(vpa->status.containers[i].container, name) == 0)
            return &vpa->status.containers[i];
    }
    return NULL;
}

static bool is_off(const struct kw_vpa *vpa, const char *name)
{
    const struct kw_vpa_policy *policy = kw_vpa_policy_for(vpa, name);

    return policy != NULL && policy->off;
}

/** Puts an estimate of one resource in place of the entry's, unless the entry is to be held and is
 * not less. */
static void place(bool known, bool hold, uint64_t target, uint64_t lower, uint64_t upper,
                  bool *has[4], uint64_t *amounts[4])
{
    if (!known || (hold && *has[3] && *amounts[3] >= target))
        return;
    uint64_t values[4] = {target, lower, upper, target};
    for (size_t i = 0; i < 4; i++) {
        *has[i] = true;
        *amounts[i] = values[i];
    }
}

/** Fills an entry from what was seen, over what stood there. @return whether anything was seen. */
static bool estimate_entry(struct rec_container *container, size_t live, bool had_entry,
                           struct kw_vpa_container *entry)
{
    if (container == NULL)
        return false;
    const struct rec_usage *usage = &container->usage;
    bool cpu = !rec_histogram_empty(&usage->cpu), memory = !rec_histogram_empty(&usage->memory);
    /* memory is known from the first record on, CPU from the second: half an advice for a moment
     * would be odd. What dies of want of memory may never live to have a second one. */
    if (!cpu && !(memory && container->oom_killed))
        return false;
    if (!had_entry || usage->last_ms - usage->first_ms >= HOLD_MS)
        container->published = true;
    struct rec_estimate estimate = rec_estimate(usage, rec_floor(live));
    rec_estimate_publishable(&estimate);
    bool *has_mcpu[4] = {&entry->target.has_mcpu, &entry->lower.has_mcpu, &entry->upper.has_mcpu,
                         &entry->uncapped.has_mcpu};
    uint64_t *mcpu[4] = {&entry->target.mcpu, &entry->lower.mcpu, &entry->upper.mcpu,
                         &entry->uncapped.mcpu};
    bool *has_bytes[4] = {&entry->target.has_bytes, &entry->lower.has_bytes,
                          &entry->upper.has_bytes, &entry->uncapped.has_bytes};
    uint64_t *bytes[4] = {&entry->target.bytes, &entry->lower.bytes, &entry->upper.bytes,
                          &entry->uncapped.bytes};
    place(cpu, !container->published, estimate.target.mcpu, estimate.lower.mcpu,
          estimate.upper.mcpu, has_mcpu, mcpu);
    place(memory, !container->published, estimate.target.bytes, estimate.lower.bytes,
          estimate.upper.bytes, has_bytes, bytes);
    return true;
}

static void clamp(bool has, uint64_t *amount, bool has_min, uint64_t min, bool has_max,
                  uint64_t max)
{
    if (!has)
        return;
    if (has_min && min > 0 && *amount < min)
        *amount = min;
    if (has_max && max > 0 && *amount > max)
        *amount = max;
}

static void apply_policy(const struct kw_vpa_policy *policy, struct kw_vpa_container *entry)
{
    struct kw_resources *all[4] = {&entry->target, &entry->lower, &entry->upper, &entry->uncapped};

    /* the target starts from the uncapped one, which an entry written by somebody else may lack */
    if (entry->uncapped.has_mcpu)
        entry->target.mcpu = entry->uncapped.mcpu;
    if (entry->uncapped.has_bytes)
        entry->target.bytes = entry->uncapped.bytes;
    for (size_t i = 0; policy != NULL && i < 4; i++) {
        all[i]->has_mcpu = all[i]->has_mcpu && policy->controls_cpu;
        all[i]->has_bytes = all[i]->has_bytes && policy->controls_memory;
        if (all[i] == &entry->uncapped)
            continue;
        clamp(all[i]->has_mcpu, &all[i]->mcpu, policy->min.has_mcpu, policy->min.mcpu,
              policy->max.has_mcpu, policy->max.mcpu);
        clamp(all[i]->has_bytes, &all[i]->bytes, policy->min.has_bytes, policy->min.bytes,
              policy->max.has_bytes, policy->max.bytes);
    }
    if (entry->lower.mcpu > entry->target.mcpu)
        entry->lower.mcpu = entry->target.mcpu;
    if (entry->upper.mcpu < entry->target.mcpu)
        entry->upper.mcpu = entry->target.mcpu;
    if (entry->lower.bytes > entry->target.bytes)
        entry->lower.bytes = entry->target.bytes;
    if (entry->upper.bytes < entry->target.bytes)
        entry->upper.bytes = entry->target.bytes;
}

static bool has_entry(const struct kw_vpa_status *status, const char *name)
{
    for (size_t i = 0; i < status->n_containers; i++) {
        if (strcmp(status->containers[i].container, name) == 0)
            return true;
    }
    return false;
}

static int add_entry(const struct rec_recommend_input *input, const char *name, size_t live,
                     struct kw_vpa_status *status, enum low_confidence *confidence)
{
    const struct kw_vpa_container *present = present_entry(input->vpa, name);
    struct rec_container *container = rec_scope_find(input->scope, name);
    struct kw_vpa_container entry = {0};

    if (present != NULL)
        entry = *present;
    if (estimate_entry(container, live, present != NULL, &entry) && container->published) {
        bool low = rec_confidence_days(&container->usage) < CONFIDENT_DAYS;
        if (*confidence != CONFIDENCE_LOW)
            *confidence = low ? CONFIDENCE_LOW : CONFIDENCE_FINE;
    }
    apply_policy(kw_vpa_policy_for(input->vpa, name), &entry);
    if (!entry.target.has_mcpu && !entry.target.has_bytes)
        return 0;
    entry.container = strdup(name);
    if (entry.container == NULL)
        return -ENOMEM;
    status->containers[status->n_containers++] = entry;
    return 0;
}

static int compare_containers(const void *a, const void *b)
{
    return strcmp(((const struct kw_vpa_container *)a)->container,
                  ((const struct kw_vpa_container *)b)->container);
}

static int add_entries(const struct rec_recommend_input *input, struct kw_vpa_status *status,
                       size_t *ret_live, enum low_confidence *confidence)
{
    const struct kw_vpa_status *present = &input->vpa->status;
    size_t live = 0, room = input->n_pods > 0 ? input->n_names : present->n_containers;
    int rc = 0;

    for (size_t i = 0; i < input->n_names; i++)
        live += !is_off(input->vpa, input->names[i]);
    status->containers = calloc(room + 1, sizeof(*status->containers));
    if (status->containers == NULL)
        return -ENOMEM;
    for (size_t i = 0; rc == 0 && i < room; i++) {
        /* without pods: what stands there, and nobody can tell which containers there will be */
        const char *name = input->n_pods > 0 ? input->names[i] : present->containers[i].container;
        if (!is_off(input->vpa, name) && !has_entry(status, name))
            rc = add_entry(input, name, input->n_pods > 0 ? live : room, status, confidence);
    }
    if (status->n_containers > 1)
        qsort(status->containers, status->n_containers, sizeof(*status->containers),
              compare_containers);
    *ret_live = live;
    return rc;
}

/* ---- conditions ---- */

static int set_condition(const struct rec_recommend_input *input, struct kw_vpa_status *status,
                         const char *type, enum kw_vpa_truth truth, const char *reason,
                         const char *message)
{
    const struct kw_vpa_condition *present = kw_vpa_condition(&input->vpa->status, type);
    struct kw_vpa_condition *condition = &status->conditions[status->n_conditions++];
    time_t now = (time_t)(input->now_unix_ms / 1000);
    char since[32] = "";
    struct tm tm;

    if (present == NULL || present->truth != truth || *present->since == '\0') {
        if (gmtime_r(&now, &tm) != NULL)
            (void)strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    condition->truth = truth;
    condition->type = strdup(type);
    condition->since = strdup(*since != '\0' ? since : present != NULL ? present->since : "");
    condition->reason = strdup(reason);
    condition->message = strdup(message);
    return condition->type == NULL || condition->since == NULL || condition->reason == NULL ||
                   condition->message == NULL
               ? -ENOMEM
               : 0;
}

static bool ours(const char *type)
{
    static const char *const types[] = {REC_CONDITION_PROVIDED, REC_CONDITION_NO_PODS,
                                        REC_CONDITION_UNSUPPORTED, REC_CONDITION_DEPRECATED,
                                        REC_CONDITION_LOW_CONFIDENCE};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i], type) == 0)
            return true;
    }
    return false;
}

static int compare_conditions(const void *a, const void *b)
{
    return strcmp(((const struct kw_vpa_condition *)a)->type,
                  ((const struct kw_vpa_condition *)b)->type);
}

static int set_provided(const struct rec_recommend_input *input, struct kw_vpa_status *status,
                        size_t live)
{
    if (status->n_containers > 0)
        return set_condition(input, status, REC_CONDITION_PROVIDED, KW_VPA_TRUE, "", "");
    if (input->unsupported != NULL)
        return set_condition(input, status, REC_CONDITION_PROVIDED, KW_VPA_FALSE,
                             REC_CONDITION_UNSUPPORTED, input->unsupported);
    if (input->n_pods == 0)
        return set_condition(input, status, REC_CONDITION_PROVIDED, KW_VPA_FALSE,
                             REC_CONDITION_NO_PODS, "No pods match this VPA object");
    if (live == 0)
        return set_condition(input, status, REC_CONDITION_PROVIDED, KW_VPA_FALSE,
                             "AllContainersOff",
                             "Every container is switched off by resourcePolicy");
    return set_condition(input, status, REC_CONDITION_PROVIDED, KW_VPA_FALSE, "NoUsageSeen",
                         "No kwatt agent has reported any use of these containers yet");
}

static int set_low_confidence(const struct rec_recommend_input *input, struct kw_vpa_status *status,
                              enum low_confidence confidence)
{
    const struct kw_vpa_condition *present =
        kw_vpa_condition(&input->vpa->status, REC_CONDITION_LOW_CONFIDENCE);

    if (status->n_containers == 0 || confidence == CONFIDENCE_FINE)
        return 0;
    if (confidence == CONFIDENCE_LOW)
        return set_condition(input, status, REC_CONDITION_LOW_CONFIDENCE, KW_VPA_TRUE,
                             "ShortHistory", "Less than a day of use was seen; bounds are wide");
    if (present == NULL)
        return 0;
    return set_condition(input, status, REC_CONDITION_LOW_CONFIDENCE, present->truth,
                         present->reason, present->message);
}

static int add_conditions(const struct rec_recommend_input *input, struct kw_vpa_status *status,
                          size_t live, enum low_confidence confidence)
{
    const struct kw_vpa_status *present = &input->vpa->status;
    int rc = 0;

    /* all strange ones and each of ours once */
    status->conditions = calloc(present->n_conditions + 5, sizeof(*status->conditions));
    if (status->conditions == NULL)
        return -ENOMEM;
    for (size_t i = 0; rc == 0 && i < present->n_conditions; i++) {
        const struct kw_vpa_condition *strange = &present->conditions[i];
        if (!ours(strange->type))
            rc = set_condition(input, status, strange->type, strange->truth, strange->reason,
                               strange->message);
    }
    if (rc == 0)
        rc = set_provided(input, status, live);
    if (rc == 0 && input->n_pods == 0)
        rc = set_condition(input, status, REC_CONDITION_NO_PODS, KW_VPA_TRUE, REC_CONDITION_NO_PODS,
                           "No pods match this VPA object");
    if (rc == 0 && input->unsupported != NULL)
        rc = set_condition(input, status, REC_CONDITION_UNSUPPORTED, KW_VPA_TRUE, "",
                           input->unsupported);
    if (rc == 0)
        rc = set_low_confidence(input, status, confidence);
    if (status->n_conditions > 1)
        qsort(status->conditions, status->n_conditions, sizeof(*status->conditions),
              compare_conditions);
    return rc;
}

int rec_recommend(const struct rec_recommend_input *input, struct kw_vpa_status *ret)
{
    struct kw_vpa_status status = {.observed_generation = input->vpa->generation};
    enum low_confidence confidence = CONFIDENCE_KEPT;
    size_t live = 0;

    int rc = add_entries(input, &status, &live, &confidence);
    if (rc == 0)
        rc = add_conditions(input, &status, live, confidence);
    if (rc < 0) {
        kw_vpa_status_clear(&status);
        return rc;
    }
    *ret = status;
    return 0;
}
