/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference reader of the scheduler's requests, and the readers of an extender's answers. Built as
 * a tree and for clarity: each rule of the contract is one function, so that the hot path's scanner
 * has something plain to be compared with. Kubernetes objects inside a request are someone else's
 * contract: a field of theirs that has an unexpected type is passed over, and only values that
 * kwatt itself interprets are counted as bad.
 */
#include "api/extender.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/kube_time.h"
#include "api/names.h"

/** A field, spelt in any case; the last of several. NULL: none. */
static const json_t *field_of(const json_t *object, const char *name)
{
    const json_t *found = NULL;
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)object, key, value) {
        if (strcasecmp(key, name) == 0)
            found = value;
    }
    return found;
}

/** `cpu` of a resource list. @return 0 where absent; bad values are counted. */
static uint64_t cpu_of(const json_t *list, uint32_t *bad)
{
    const json_t *cpu = json_object_get(list, "cpu");
    uint64_t mcpu = 0;

    if (cpu == NULL || json_is_null(cpu))
        return 0;
    if (json_is_string(cpu)) {
        if (kw_pod_parse_mcpu(json_string_value(cpu), json_string_length(cpu), &mcpu) == 0)
            return mcpu;
    } else if (json_is_integer(cpu)) {
        json_int_t cores = json_integer_value(cpu);
        if (cores >= 0 && (uint64_t)cores <= KW_POD_MCPU_MAX / 1000)
            return (uint64_t)cores * 1000;
    }
    (*bad)++;
    return 0;
}

static uint64_t request_of(const json_t *container, uint32_t *bad)
{
    return cpu_of(field_of(field_of(container, "resources"), "requests"), bad);
}

static bool is_restartable(const json_t *container)
{
    const json_t *policy = field_of(container, "restartPolicy");

    return json_is_string(policy) && strcmp(json_string_value(policy), "Always") == 0 &&
           json_string_length(policy) == strlen("Always");
}

/** As k8s.io/component-helpers/resource PodRequests computes it for one resource. */
static void read_request(const json_t *spec, struct kw_extender_pod *pod)
{
    uint64_t running = 0;
    uint64_t sidecars = 0;
    uint64_t peak = 0;
    size_t i;
    json_t *container;

    json_array_foreach (field_of(spec, "containers"), i, container) {
        if (json_is_object(container))
            running += request_of(container, &pod->bad_values);
    }
    json_array_foreach (field_of(spec, "initContainers"), i, container) {
        if (!json_is_object(container))
            continue;
        uint64_t own = request_of(container, &pod->bad_values);
        if (is_restartable(container)) {
            sidecars += own;
            own = 0;
        }
        if (sidecars + own > peak)
            peak = sidecars + own;
    }
    running += sidecars;
    if (peak > running)
        running = peak;
    uint64_t whole = request_of(spec, &pod->bad_values);
    if (whole > 0)
        running = whole;
    running += cpu_of(field_of(spec, "overhead"), &pod->bad_values);
    pod->request_mcpu = running < KW_POD_MCPU_MAX ? running : KW_POD_MCPU_MAX;
}

/** Reads an annotation that is a positive quantity. */
static void read_expected(const json_t *annotations, const char *key,
                          int (*parse)(const char *, size_t, uint64_t *), uint64_t *ret,
                          uint32_t *bad)
{
    const json_t *value = json_object_get(annotations, key);
    uint64_t parsed = 0;

    if (value == NULL || json_is_null(value))
        return;
    if (json_is_string(value) &&
        parse(json_string_value(value), json_string_length(value), &parsed) == 0 && parsed > 0)
        *ret = parsed;
    else
        (*bad)++;
}

static void read_critical(const json_t *annotations, struct kw_extender_pod *pod)
{
    const json_t *value = json_object_get(annotations, KW_ANNOTATION_CRITICAL);
    const char *text = json_string_value(value);

    if (value == NULL || json_is_null(value))
        return;
    if (text != NULL && strcmp(text, "true") == 0)
        pod->critical = true;
    else if (text == NULL || strcmp(text, "false") != 0)
        pod->bad_values++;
}

static void read_placement(const json_t *annotations, struct kw_extender_pod *pod)
{
    const json_t *value = json_object_get(annotations, KW_ANNOTATION_PLACEMENT);

    if (value == NULL || json_is_null(value))
        return;
    for (unsigned i = 0; i < KW_PLACEMENT__MAX && json_is_string(value); i++) {
        if (json_string_length(value) == strlen(kw_placement_names[i]) &&
            strcmp(json_string_value(value), kw_placement_names[i]) == 0) {
            pod->placement = (enum kw_placement)i;
            return;
        }
    }
    pod->bad_values++;
}

/** Copies a short text; "" where it is none, too long, or holds a NUL. */
static void read_text(const json_t *text, char *out, size_t size)
{
    if (json_is_string(text) && json_string_length(text) < size &&
        strlen(json_string_value(text)) == json_string_length(text))
        memcpy(out, json_string_value(text), json_string_length(text) + 1);
}

/** The controller among the owners; the first, if somebody wrote several. */
static const json_t *controller_of(const json_t *metadata)
{
    size_t i;
    json_t *reference;

    json_array_foreach (field_of(metadata, "ownerReferences"), i, reference) {
        if (json_is_true(field_of(reference, "controller")))
            return reference;
    }
    return NULL;
}

static void read_owner(const json_t *metadata, struct kw_top_owner *ret)
{
    const json_t *controller = controller_of(metadata);
    const json_t *labels = field_of(metadata, "labels");
    char kind[KW_TOP_KIND_MAX] = "";
    char name[KW_TOP_NAME_MAX] = "";
    char template_hash[KW_LABEL_VALUE_MAX] = "";
    char rollout_hash[KW_LABEL_VALUE_MAX] = "";
    char created[KW_POD_TIME_MAX] = "";
    struct kw_made_by made_by = {kind, name, template_hash, rollout_hash, 0};

    read_text(field_of(controller, "kind"), kind, sizeof(kind));
    read_text(field_of(controller, "name"), name, sizeof(name));
    read_text(json_object_get(labels, KW_LABEL_POD_TEMPLATE_HASH), template_hash,
              sizeof(template_hash));
    read_text(json_object_get(labels, KW_LABEL_ROLLOUT_HASH), rollout_hash, sizeof(rollout_hash));
    read_text(field_of(metadata, "creationTimestamp"), created, sizeof(created));
    made_by.created_unix_ms = kw_time_parse_ms(created);
    kw_top_owner_find(&made_by, ret);
}

static void read_pod(const json_t *object, struct kw_extender_pod *pod)
{
    const json_t *metadata = field_of(object, "metadata");
    const json_t *annotations = field_of(metadata, "annotations");
    const json_t *mirror = json_object_get(annotations, KW_ANNOTATION_MIRROR);

    *pod = (struct kw_extender_pod){0};
    read_text(field_of(metadata, "uid"), pod->uid, sizeof(pod->uid));
    read_text(field_of(metadata, "namespace"), pod->ns, sizeof(pod->ns));
    read_text(field_of(metadata, "name"), pod->name, sizeof(pod->name));
    read_owner(metadata, &pod->owner);
    pod->mirror = mirror != NULL && !json_is_null(mirror);
    read_placement(annotations, pod);
    read_critical(annotations, pod);
    read_expected(annotations, KW_ANNOTATION_EXPECTED_CPU, kw_pod_parse_mcpu, &pod->expected_mcpu,
                  &pod->bad_values);
    read_expected(annotations, KW_ANNOTATION_EXPECTED_WATTS, kw_pod_parse_mw, &pod->expected_mw,
                  &pod->bad_values);
    read_expected(annotations, KW_ANNOTATION_EXPECTED_LIFETIME, kw_pod_parse_life_ms,
                  &pod->expected_life_ms, &pod->bad_values);
    read_request(field_of(object, "spec"), pod);
}

/** Copies a string; another type (or NULL) gives the empty name. */
static int copy_name(const json_t *string, struct kw_extender_name *ret)
{
    size_t len = json_is_string(string) ? json_string_length(string) : 0;
    char *text = malloc(len + 1);

    if (text == NULL)
        return -ENOMEM;
    if (len > 0)
        memcpy(text, json_string_value(string), len);
    text[len] = '\0';
    *ret = (struct kw_extender_name){.text = text, .len = len};
    return 0;
}

static void free_names(struct kw_extender_name **names, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        free((*names)[i].text);
    free(*names);
    *names = NULL;
    *n = 0;
}

/** The name of an element of NodeNames or of Nodes.items; NULL: none. @return 0 or -EBADMSG. */
static int name_of(const json_t *element, bool is_node, const json_t **ret)
{
    *ret = NULL;
    if (json_is_null(element))
        return 0;
    if (is_node) {
        if (!json_is_object(element))
            return -EBADMSG;
        *ret = field_of(field_of(element, "metadata"), "name");
        return 0;
    }
    if (!json_is_string(element))
        return -EBADMSG;
    *ret = element;
    return 0;
}

static int read_names(const json_t *array, bool is_node, struct kw_extender_name **ret,
                      size_t *ret_n)
{
    size_t i;
    json_t *element;

    free_names(ret, ret_n);
    *ret = calloc(json_array_size(array) + 1, sizeof(**ret));
    if (*ret == NULL)
        return -ENOMEM;
    json_array_foreach (array, i, element) {
        const json_t *string;
        int rc = name_of(element, is_node, &string);
        if (rc == 0)
            rc = copy_name(string, &(*ret)[i]);
        if (rc < 0)
            return rc;
        (*ret_n)++;
    }
    return 0;
}

/** Reads `Nodes`: a NodeList or null. @return 0; -EBADMSG; -ENOMEM. */
static int read_nodes(const json_t *list, struct kw_extender_args *args)
{
    const json_t *items = field_of(list, "items");

    args->has_nodes = !json_is_null(list);
    if (!json_is_null(list) && !json_is_object(list))
        return -EBADMSG;
    if (items != NULL && !json_is_null(items) && !json_is_array(items))
        return -EBADMSG;
    return read_names(json_is_array(items) ? items : NULL, true, &args->nodes, &args->n_nodes);
}

static int read_field(const char *key, const json_t *value, struct kw_extender_args *args,
                      const char **why)
{
    if (strcasecmp(key, "Pod") == 0) {
        *why = "Pod is no object";
        if (!json_is_object(value) && !json_is_null(value))
            return -EBADMSG;
        read_pod(value, &args->pod);
    } else if (strcasecmp(key, "NodeNames") == 0) {
        *why = "NodeNames is no list of names";
        args->has_names = json_is_array(value);
        if (!json_is_array(value) && !json_is_null(value))
            return -EBADMSG;
        return read_names(json_is_array(value) ? value : NULL, false, &args->names, &args->n_names);
    } else if (strcasecmp(key, "Nodes") == 0) {
        *why = "Nodes is no list of nodes";
        return read_nodes(value, args);
    }
    return 0;
}

/** Parses `len` bytes into a value of one type. @return NULL with *rc set. */
static json_t *load(const char *json, size_t len, json_type type, int *rc, const char **why)
{
    json_error_t error;
    json_t *root = json_loadb(json, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);

    *rc = 0;
    if (root == NULL) {
        bool no_memory = json_error_code(&error) == json_error_out_of_memory;
        *rc = no_memory ? -ENOMEM : -EBADMSG;
        *why = "malformed JSON";
        return NULL;
    }
    if (json_typeof(root) != type) {
        json_decref(root);
        *rc = -EBADMSG;
        *why = type == JSON_ARRAY ? "no JSON array" : "no JSON object";
        return NULL;
    }
    return root;
}

static int fail(int rc, const char *why, const char **ret_why)
{
    if (rc == -EBADMSG && ret_why != NULL)
        *ret_why = why;
    return rc;
}

int kw_extender_args_decode(const char *json, size_t len, struct kw_extender_args *ret,
                            const char **ret_why)
{
    struct kw_extender_args args = {0};
    const char *why = NULL;
    int rc;
    json_t *root = load(json, len, JSON_OBJECT, &rc, &why);

    for (void *it = json_object_iter(root); it != NULL && rc == 0;
         it = json_object_iter_next(root, it))
        rc = read_field(json_object_iter_key(it), json_object_iter_value(it), &args, &why);
    json_decref(root);
    if (rc < 0) {
        kw_extender_args_clear(&args);
        return fail(rc, why, ret_why);
    }
    *ret = args;
    return 0;
}

void kw_extender_args_clear(struct kw_extender_args *args)
{
    free_names(&args->names, &args->n_names);
    free_names(&args->nodes, &args->n_nodes);
    *args = (struct kw_extender_args){0};
}

int kw_filter_result_decode(const char *json, size_t len, struct kw_filter_result *ret,
                            const char **ret_why)
{
    struct kw_filter_result result = {0};
    struct kw_extender_name error = {0};
    const char *why = NULL;
    int rc;
    json_t *root = load(json, len, JSON_OBJECT, &rc, &why);
    const json_t *names = json_object_get(root, "NodeNames");

    if (rc == 0) {
        why = "NodeNames is no list of names";
        result.has_names = json_is_array(names);
        result.n_nodes = json_array_size(json_object_get(json_object_get(root, "Nodes"), "items"));
        result.n_failed = json_object_size(json_object_get(root, "FailedNodes")) +
                          json_object_size(json_object_get(root, "FailedAndUnresolvableNodes"));
        rc = copy_name(json_object_get(root, "Error"), &error);
        result.error = error.text;
    }
    if (rc == 0)
        rc = read_names(names, false, &result.names, &result.n_names);
    json_decref(root);
    if (rc < 0) {
        kw_filter_result_clear(&result);
        return fail(rc, why, ret_why);
    }
    *ret = result;
    return 0;
}

void kw_filter_result_clear(struct kw_filter_result *result)
{
    free_names(&result->names, &result->n_names);
    free(result->error);
    *result = (struct kw_filter_result){0};
}

int kw_host_priorities_decode(const char *json, size_t len, struct kw_host_priority **ret,
                              size_t *ret_n, const char **ret_why)
{
    const char *why = NULL;
    int rc;
    json_t *root = load(json, len, JSON_ARRAY, &rc, &why);
    struct kw_host_priority *priorities =
        rc == 0 ? calloc(json_array_size(root) + 1, sizeof(*priorities)) : NULL;
    size_t n = 0;
    json_t *element;

    if (rc == 0 && priorities == NULL)
        rc = -ENOMEM;
    for (size_t i = 0; rc == 0 && i < json_array_size(root); i++) {
        element = json_array_get(root, i);
        const json_t *score = json_object_get(element, "Score");
        why = "an element is no {Host, Score}";
        if (!json_is_integer(score) || !json_is_string(json_object_get(element, "Host"))) {
            rc = -EBADMSG;
            break;
        }
        priorities[i].score = json_integer_value(score);
        rc = copy_name(json_object_get(element, "Host"), &priorities[i].host);
        if (rc == 0)
            n++;
    }
    json_decref(root);
    if (rc < 0) {
        kw_host_priorities_free(&priorities, n);
        return fail(rc, why, ret_why);
    }
    *ret = priorities;
    *ret_n = n;
    return 0;
}

void kw_host_priorities_free(struct kw_host_priority **priorities, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((*priorities)[i].host.text);
    free(*priorities);
    *priorities = NULL;
}
