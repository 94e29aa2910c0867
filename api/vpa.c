/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spec is the user's: what is malformed there is an error by name (the API server's schema lets
 * little of it through). The status is ours: whatever stands there from another version or another
 * recommender is taken as far as it can be read, since it will be replaced as a whole, and a status
 * that cannot be read must not stop the recommender from writing a good one.
 */
#include "api/vpa.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/kube_json.h"
#include "api/owner.h"

const char *const kw_vpa_mode_names[KW_VPA_MODE__MAX] = {
    [KW_VPA_MODE_OFF] = "Off",           [KW_VPA_MODE_INITIAL] = "Initial",
    [KW_VPA_MODE_RECREATE] = "Recreate", [KW_VPA_MODE_IN_PLACE_OR_RECREATE] = "InPlaceOrRecreate",
    [KW_VPA_MODE_IN_PLACE] = "InPlace",  [KW_VPA_MODE_AUTO] = "Auto",
    [KW_VPA_MODE_OTHER] = "Other",
};
_Static_assert(KW_VPA_MODE__MAX == 7, "a mode without a name");

static void clear_policy(struct kw_vpa_policy *policy)
{
    free(policy->container);
    memset(policy, 0, sizeof(*policy));
}

void kw_vpa_clear(struct kw_vpa *vpa)
{
    for (size_t i = 0; i < vpa->n_recommenders; i++)
        free(vpa->recommenders[i]);
    for (size_t i = 0; i < vpa->n_policies; i++)
        clear_policy(&vpa->policies[i]);
    free(vpa->recommenders);
    free(vpa->policies);
    free(vpa->name);
    free(vpa->namespace_);
    free(vpa->uid);
    free(vpa->version);
    free(vpa->target_api_version);
    free(vpa->target_kind);
    free(vpa->target_name);
    kw_vpa_status_clear(&vpa->status);
    memset(vpa, 0, sizeof(*vpa));
}

bool kw_vpa_names(const struct kw_vpa *vpa, const char *recommender)
{
    for (size_t i = 0; i < vpa->n_recommenders; i++) {
        if (strcmp(vpa->recommenders[i], recommender) == 0)
            return true;
    }
    return false;
}

const struct kw_vpa_policy *kw_vpa_policy_for(const struct kw_vpa *vpa, const char *container)
{
    const struct kw_vpa_policy *all = NULL;

    for (size_t i = 0; i < vpa->n_policies; i++) {
        if (strcmp(vpa->policies[i].container, container) == 0)
            return &vpa->policies[i];
        if (all == NULL && strcmp(vpa->policies[i].container, "*") == 0)
            all = &vpa->policies[i];
    }
    return all;
}

static struct kw_resources read_resources(const json_t *map)
{
    struct kw_resources resources = {0};

    resources.has_mcpu = kw_mcpu_from_json(json_object_get(map, "cpu"), &resources.mcpu);
    resources.has_bytes = kw_bytes_from_json(json_object_get(map, "memory"), &resources.bytes);
    return resources;
}

static void *new_array(struct kw_reader *reader, size_t n, size_t size)
{
    if (n > KW_VPA_ENTRIES_MAX) {
        kw_reader_fail(reader, -EBADMSG, "a list is too long");
        return NULL;
    }
    void *array = calloc(n > 0 ? n : 1, size);
    if (array == NULL)
        kw_reader_fail(reader, -ENOMEM, NULL);
    return array;
}

static void read_policy(struct kw_reader *reader, const json_t *entry, struct kw_vpa_policy *policy)
{
    const char *mode = json_string_value(json_object_get(entry, "mode"));
    const json_t *controlled = json_object_get(entry, "controlledResources");
    size_t i;
    json_t *resource;

    kw_get_copy(reader, entry, "containerName", KW_OPTIONAL, &policy->container);
    policy->off = mode != NULL && strcmp(mode, "Off") == 0;
    policy->controls_cpu = !json_is_array(controlled);
    policy->controls_memory = !json_is_array(controlled);
    json_array_foreach ((json_t *)controlled, i, resource) {
        const char *name = json_string_value(resource);
        if (name != NULL && strcmp(name, "cpu") == 0)
            policy->controls_cpu = true;
        if (name != NULL && strcmp(name, "memory") == 0)
            policy->controls_memory = true;
    }
    policy->min = read_resources(json_object_get(entry, "minAllowed"));
    policy->max = read_resources(json_object_get(entry, "maxAllowed"));
}

static void read_mode(const json_t *policy, struct kw_vpa *vpa)
{
    const char *mode = json_string_value(json_object_get(policy, "updateMode"));

    vpa->mode = mode == NULL || *mode == '\0' ? KW_VPA_MODE_RECREATE : KW_VPA_MODE_OTHER;
    for (enum kw_vpa_mode i = 0; mode != NULL && i < KW_VPA_MODE_OTHER; i++) {
        if (strcmp(kw_vpa_mode_names[i], mode) == 0)
            vpa->mode = i;
    }
}

static void read_lists(struct kw_reader *reader, const json_t *spec, struct kw_vpa *vpa)
{
    const json_t *recommenders = kw_get(reader, spec, "recommenders", JSON_ARRAY, KW_OPTIONAL);
    const json_t *policy = kw_get(reader, spec, "resourcePolicy", JSON_OBJECT, KW_OPTIONAL);
    size_t i;
    json_t *entry;

    vpa->recommenders =
        new_array(reader, json_array_size(recommenders), sizeof(*vpa->recommenders));
    json_array_foreach ((json_t *)recommenders, i, entry) {
        if (reader->rc < 0)
            return;
        kw_get_copy(reader, entry, "name", KW_REQUIRED, &vpa->recommenders[vpa->n_recommenders++]);
    }
    if (policy == NULL || reader->rc < 0)
        return;
    const json_t *policies = kw_get(reader, policy, "containerPolicies", JSON_ARRAY, KW_OPTIONAL);
    vpa->policies = new_array(reader, json_array_size(policies), sizeof(*vpa->policies));
    json_array_foreach ((json_t *)policies, i, entry) {
        if (reader->rc < 0)
            return;
        read_policy(reader, entry, &vpa->policies[vpa->n_policies++]);
    }
}

static void read_spec(struct kw_reader *reader, const json_t *root, struct kw_vpa *vpa)
{
    const json_t *metadata = kw_get(reader, root, "metadata", JSON_OBJECT, KW_REQUIRED);
    const json_t *spec = kw_get(reader, root, "spec", JSON_OBJECT, KW_REQUIRED);
    uint64_t generation = 0;

    if (reader->rc < 0)
        return;
    const json_t *target = kw_get(reader, spec, "targetRef", JSON_OBJECT, KW_REQUIRED);
    if (target == NULL)
        return;
    kw_get_copy(reader, metadata, "name", KW_REQUIRED, &vpa->name);
    kw_get_copy(reader, metadata, "namespace", KW_REQUIRED, &vpa->namespace_);
    kw_get_copy(reader, metadata, "uid", KW_OPTIONAL, &vpa->uid);
    kw_get_copy(reader, metadata, "resourceVersion", KW_OPTIONAL, &vpa->version);
    kw_get_u64(reader, metadata, "generation", KW_OPTIONAL, &generation);
    vpa->generation = (int64_t)generation; /* kw_get_u64: at most 2^63-1 */
    kw_get_copy(reader, target, "apiVersion", KW_OPTIONAL, &vpa->target_api_version);
    kw_get_copy(reader, target, "kind", KW_REQUIRED, &vpa->target_kind);
    kw_get_copy(reader, target, "name", KW_REQUIRED, &vpa->target_name);
    read_mode(kw_get(reader, spec, "updatePolicy", JSON_OBJECT, KW_OPTIONAL), vpa);
    read_lists(reader, spec, vpa);
}

/* ---- status ---- */

static void read_condition(struct kw_reader *reader, const json_t *entry,
                           struct kw_vpa_condition *condition)
{
    const char *truth = json_string_value(json_object_get(entry, "status"));

    kw_get_copy(reader, entry, "type", KW_REQUIRED, &condition->type);
    kw_get_copy(reader, entry, "lastTransitionTime", KW_OPTIONAL, &condition->since);
    kw_get_copy(reader, entry, "reason", KW_OPTIONAL, &condition->reason);
    kw_get_copy(reader, entry, "message", KW_OPTIONAL, &condition->message);
    condition->truth = KW_VPA_UNKNOWN;
    if (truth != NULL && strcmp(truth, "True") == 0)
        condition->truth = KW_VPA_TRUE;
    else if (truth != NULL && strcmp(truth, "False") == 0)
        condition->truth = KW_VPA_FALSE;
}

static void read_container(struct kw_reader *reader, const json_t *entry,
                           struct kw_vpa_container *container)
{
    kw_get_copy(reader, entry, "containerName", KW_OPTIONAL, &container->container);
    container->target = read_resources(json_object_get(entry, "target"));
    container->lower = read_resources(json_object_get(entry, "lowerBound"));
    container->upper = read_resources(json_object_get(entry, "upperBound"));
    container->uncapped = read_resources(json_object_get(entry, "uncappedTarget"));
}

static void read_status(struct kw_reader *reader, const json_t *object,
                        struct kw_vpa_status *status)
{
    const json_t *conditions = kw_get(reader, object, "conditions", JSON_ARRAY, KW_OPTIONAL);
    const json_t *recommendation = json_object_get(object, "recommendation");
    const json_t *containers = json_object_get(recommendation, "containerRecommendations");
    uint64_t generation = 0;
    size_t i;
    json_t *entry;

    kw_get_u64(reader, object, "observedGeneration", KW_OPTIONAL, &generation);
    status->observed_generation = (int64_t)generation;
    status->conditions =
        new_array(reader, json_array_size(conditions), sizeof(*status->conditions));
    if (reader->rc < 0)
        return;
    status->containers =
        new_array(reader, json_array_size(containers), sizeof(*status->containers));
    if (reader->rc < 0)
        return;
    json_array_foreach ((json_t *)conditions, i, entry)
        read_condition(reader, entry, &status->conditions[status->n_conditions++]);
    json_array_foreach ((json_t *)containers, i, entry)
        read_container(reader, entry, &status->containers[status->n_containers++]);
}

int kw_vpa_decode(const char *json, size_t len, struct kw_vpa *ret, const char **ret_why)
{
    struct kw_reader reader = {0}, of_status = {0};
    struct kw_vpa vpa = {0};
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        read_spec(&reader, root, &vpa);
    const json_t *status = json_object_get(root, "status");
    if (reader.rc == 0 && json_is_object(status))
        read_status(&of_status, status, &vpa.status);
    json_decref(root);
    if (of_status.rc == -ENOMEM)
        kw_reader_fail(&reader, -ENOMEM, NULL);
    else if (of_status.rc < 0)
        kw_vpa_status_clear(&vpa.status);
    if (reader.rc < 0)
        kw_vpa_clear(&vpa);
    else
        *ret = vpa;
    return kw_reader_end(&reader, ret_why);
}

int kw_vpa_status_path(char *out, size_t size, const char *namespace_, const char *name)
{
    if (!kw_kube_name_ok(namespace_) || !kw_kube_name_ok(name))
        return -EINVAL;
    int n = snprintf(out, size, KW_VPA_PATH "/namespaces/%s/verticalpodautoscalers/%s/status",
                     namespace_, name);
    return n > 0 && (size_t)n < size ? 0 : -EINVAL;
}
