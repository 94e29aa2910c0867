/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status as a value: copied, compared and written as a whole. Comparison is by amounts, not by
 * text ("1" and "1000m" are the same), and leaves out the times of conditions: otherwise every loop
 * would write every VPA. Writing is one `add` of /status, which replaces the member; there is no
 * resource version to race with, since a recommender is the only writer of a status.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/quantity.h"
#include "api/vpa.h"

static const char *const truth_names[KW_VPA_TRUTH__MAX] = {
    [KW_VPA_FALSE] = "False",
    [KW_VPA_TRUE] = "True",
    [KW_VPA_UNKNOWN] = "Unknown",
};
_Static_assert(KW_VPA_TRUTH__MAX == 3, "a truth without a name");

void kw_vpa_status_clear(struct kw_vpa_status *status)
{
    for (size_t i = 0; i < status->n_conditions; i++) {
        free(status->conditions[i].type);
        free(status->conditions[i].since);
        free(status->conditions[i].reason);
        free(status->conditions[i].message);
    }
    for (size_t i = 0; i < status->n_containers; i++)
        free(status->containers[i].container);
    free(status->conditions);
    free(status->containers);
    memset(status, 0, sizeof(*status));
}

const struct kw_vpa_condition *kw_vpa_condition(const struct kw_vpa_status *status,
                                                const char *type)
{
    for (size_t i = 0; i < status->n_conditions; i++) {
        if (strcmp(status->conditions[i].type, type) == 0)
            return &status->conditions[i];
    }
    return NULL;
}

static bool same_resources(const struct kw_resources *a, const struct kw_resources *b)
{
    return a->has_mcpu == b->has_mcpu && a->has_bytes == b->has_bytes &&
           (!a->has_mcpu || a->mcpu == b->mcpu) && (!a->has_bytes || a->bytes == b->bytes);
}

bool kw_vpa_status_equal(const struct kw_vpa_status *a, const struct kw_vpa_status *b)
{
    if (a->observed_generation != b->observed_generation || a->n_conditions != b->n_conditions ||
        a->n_containers != b->n_containers)
        return false;
    for (size_t i = 0; i < a->n_conditions; i++) {
        const struct kw_vpa_condition *x = &a->conditions[i], *y = &b->conditions[i];
        if (strcmp(x->type, y->type) != 0 || x->truth != y->truth ||
            strcmp(x->reason, y->reason) != 0 || strcmp(x->message, y->message) != 0)
            return false;
    }
    for (size_t i = 0; i < a->n_containers; i++) {
        const struct kw_vpa_container *x = &a->containers[i], *y = &b->containers[i];
        if (strcmp(x->container, y->container) != 0 || !same_resources(&x->target, &y->target) ||
            !same_resources(&x->lower, &y->lower) || !same_resources(&x->upper, &y->upper) ||
            !same_resources(&x->uncapped, &y->uncapped))
            return false;
    }
    return true;
}

static int copy_conditions(const struct kw_vpa_status *status, struct kw_vpa_status *copy)
{
    copy->conditions = calloc(status->n_conditions + 1, sizeof(*copy->conditions));
    if (copy->conditions == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < status->n_conditions; i++) {
        const struct kw_vpa_condition *from = &status->conditions[i];
        struct kw_vpa_condition *to = &copy->conditions[copy->n_conditions++];
        to->truth = from->truth;
        to->type = strdup(from->type);
        to->since = strdup(from->since);
        to->reason = strdup(from->reason);
        to->message = strdup(from->message);
        if (to->type == NULL || to->since == NULL || to->reason == NULL || to->message == NULL)
            return -ENOMEM;
    }
    return 0;
}

static int copy_containers(const struct kw_vpa_status *status, struct kw_vpa_status *copy)
{
    copy->containers = calloc(status->n_containers + 1, sizeof(*copy->containers));
    if (copy->containers == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < status->n_containers; i++) {
        struct kw_vpa_container *to = &copy->containers[copy->n_containers++];
        *to = status->containers[i];
        to->container = strdup(status->containers[i].container);
        if (to->container == NULL)
            return -ENOMEM;
    }
    return 0;
}

int kw_vpa_status_copy(const struct kw_vpa_status *status, struct kw_vpa_status *ret)
{
    struct kw_vpa_status copy = {.observed_generation = status->observed_generation};

    if (copy_conditions(status, &copy) < 0 || copy_containers(status, &copy) < 0) {
        kw_vpa_status_clear(&copy);
        *ret = copy;
        return -ENOMEM;
    }
    *ret = copy;
    return 0;
}

static json_t *resources_to_json(const struct kw_resources *resources, int *rc)
{
    json_t *map = json_object();
    char text[KW_QUANTITY_MAX];

    if (resources->has_mcpu) {
        kw_quantity_format_mcpu(text, resources->mcpu);
        kw_put_text(rc, map, "cpu", text, sizeof(text));
    }
    if (resources->has_bytes) {
        kw_quantity_format_bytes(text, resources->bytes);
        kw_put_text(rc, map, "memory", text, sizeof(text));
    }
    return map;
}

static json_t *condition_to_json(const struct kw_vpa_condition *condition, int *rc)
{
    json_t *object = json_object();

    if (*condition->since != '\0')
        kw_put_text(rc, object, "lastTransitionTime", condition->since, KW_TEXT_MAX);
    if (*condition->message != '\0')
        kw_put_text(rc, object, "message", condition->message, KW_TEXT_MAX);
    if (*condition->reason != '\0')
        kw_put_text(rc, object, "reason", condition->reason, KW_TEXT_MAX);
    kw_put_text(rc, object, "status", truth_names[condition->truth], KW_TEXT_MAX);
    kw_put_text(rc, object, "type", condition->type, KW_TEXT_MAX);
    return object;
}

static json_t *container_to_json(const struct kw_vpa_container *container, int *rc)
{
    json_t *object = json_object();

    kw_put_text(rc, object, "containerName", container->container, KW_TEXT_MAX);
    kw_put(rc, object, "lowerBound", resources_to_json(&container->lower, rc));
    kw_put(rc, object, "target", resources_to_json(&container->target, rc));
    kw_put(rc, object, "uncappedTarget", resources_to_json(&container->uncapped, rc));
    kw_put(rc, object, "upperBound", resources_to_json(&container->upper, rc));
    return object;
}

/** An operation `add`, which also replaces. Takes `value`. */
static void add_operation(int *rc, json_t *patch, const char *path, json_t *value)
{
    json_t *operation = json_object();

    kw_put_text(rc, operation, "op", "add", KW_TEXT_MAX);
    kw_put_text(rc, operation, "path", path, KW_TEXT_MAX);
    kw_put(rc, operation, "value", value);
    kw_put_element(rc, patch, operation);
}

int kw_vpa_status_patch(const struct kw_vpa_status *status, const char *version, char **ret,
                        size_t *ret_len)
{
    int rc = 0;
    json_t *patch = json_array(), *value = json_object();
    json_t *conditions = json_array();

    for (size_t i = 0; i < status->n_conditions; i++)
        kw_put_element(&rc, conditions, condition_to_json(&status->conditions[i], &rc));
    kw_put(&rc, value, "conditions", conditions);
    if (status->observed_generation > 0)
        kw_put_u64(&rc, value, "observedGeneration", (uint64_t)status->observed_generation);
    if (status->n_containers > 0) {
        json_t *recommendation = json_object(), *list = json_array();
        for (size_t i = 0; i < status->n_containers; i++)
            kw_put_element(&rc, list, container_to_json(&status->containers[i], &rc));
        kw_put(&rc, recommendation, "containerRecommendations", list);
        kw_put(&rc, value, "recommendation", recommendation);
    }
    if (version != NULL && version[0] != '\0')
        add_operation(&rc, patch, "/metadata/resourceVersion", json_string(version));
    add_operation(&rc, patch, "/status", value);
    return kw_put_end(rc, patch, JSON_COMPACT, ret, ret_len);
}
