/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod's containers stand in its spec, what became of them in its status, joined by name. A status
 * without a spec entry is passed over. An out-of-memory kill is seen in
 * `state` while the container lies dead and in `lastState` once it runs again; both tell the same
 * finishedAt, which makes the kill countable once however often the pod is sent.
 */
#include "api/pod.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/kube_json.h"
#include "api/selector_json.h"

/** A hash of 32 digits, or the uid that the manifest gives. */
#define STATIC_UID_MAX 253

const char *const kw_pod_phase_names[KW_POD__MAX] = {
    [KW_POD_PENDING] = "Pending", [KW_POD_RUNNING] = "Running", [KW_POD_SUCCEEDED] = "Succeeded",
    [KW_POD_FAILED] = "Failed",   [KW_POD_UNKNOWN] = "Unknown",
};
_Static_assert(KW_POD__MAX == 5, "a phase without a name");

void kw_pod_clear(struct kw_pod *pod)
{
    for (size_t i = 0; i < pod->n_containers + pod->n_ephemeral; i++) {
        free(pod->containers[i].name);
        free(pod->containers[i].id);
        free(pod->containers[i].former_id);
    }
    free(pod->containers);
    free(pod->name);
    free(pod->namespace_);
    free(pod->uid);
    free(pod->node);
    free(pod->static_uid);
    kw_owner_ref_clear(&pod->owner);
    kw_labels_clear(&pod->labels);
    memset(pod, 0, sizeof(*pod));
}

/** "containerd://ID" -> a copy of ID. */
static void read_id(struct kw_reader *reader, const json_t *object, char **ret)
{
    char *text = NULL;

    kw_get_copy(reader, object, "containerID", KW_OPTIONAL, &text);
    if (reader->rc < 0)
        return;
    char *scheme = strstr(text, "://");
    if (scheme != NULL)
        memmove(text, scheme + 3, strlen(scheme + 3) + 1);
    free(*ret);
    *ret = text;
}

static void read_requests(const json_t *resources, struct kw_pod_container *container)
{
    const json_t *requests = json_object_get(resources, "requests");
    const json_t *limits = json_object_get(resources, "limits");
    uint64_t value;

    if (kw_mcpu_from_json(json_object_get(requests, "cpu"), &value))
        container->request_mcpu = value;
    if (kw_bytes_from_json(json_object_get(requests, "memory"), &value))
        container->request_bytes = value;
    if (kw_mcpu_from_json(json_object_get(limits, "cpu"), &value))
        container->limit_mcpu = value;
    if (kw_bytes_from_json(json_object_get(limits, "memory"), &value))
        container->limit_bytes = value;
}

/** @param ret_n counts them. */
static void read_containers(struct kw_reader *reader, const json_t *list, bool init,
                            struct kw_pod *pod, size_t *ret_n)
{
    size_t i;
    json_t *entry;

    json_array_foreach ((json_t *)list, i, entry) {
        if (reader->rc < 0)
            return;
        struct kw_pod_container *container = &pod->containers[pod->n_containers + pod->n_ephemeral];
        ++*ret_n;
        const char *policy = json_string_value(json_object_get(entry, "restartPolicy"));
        kw_get_copy(reader, entry, "name", KW_REQUIRED, &container->name);
        container->init = init;
        container->sidecar = init && policy != NULL && strcmp(policy, "Always") == 0;
        container->id = strdup("");
        container->former_id = strdup("");
        if (container->id == NULL || container->former_id == NULL)
            kw_reader_fail(reader, -ENOMEM, NULL);
        read_requests(json_object_get(entry, "resources"), container);
    }
}

static void read_kill(const json_t *terminated, struct kw_pod_container *container)
{
    const char *reason = json_string_value(json_object_get(terminated, "reason"));

    if (reason == NULL || strcmp(reason, "OOMKilled") != 0)
        return;
    container->oom_killed = true;
    container->oom_killed_unix_ms = kw_time_from_json(json_object_get(terminated, "finishedAt"));
}

static void read_statuses(struct kw_reader *reader, const json_t *list, struct kw_pod *pod)
{
    size_t i;
    json_t *entry;

    json_array_foreach ((json_t *)list, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        struct kw_pod_container *container = NULL;
        size_t n = name != NULL ? pod->n_containers + pod->n_ephemeral : 0;
        for (size_t j = 0; j < n && container == NULL; j++) {
            if (pod->containers[j].name != NULL && strcmp(pod->containers[j].name, name) == 0)
                container = &pod->containers[j];
        }
        if (container == NULL)
            continue;
        const json_t *former = json_object_get(json_object_get(entry, "lastState"), "terminated");
        read_id(reader, entry, &container->id);
        if (former != NULL)
            read_id(reader, former, &container->former_id);
        kw_get_u64(reader, entry, "restartCount", KW_OPTIONAL, &container->restarts);
        read_requests(json_object_get(entry, "resources"), container);
        read_kill(former, container);
        read_kill(json_object_get(json_object_get(entry, "state"), "terminated"), container);
        if (reader->rc < 0)
            return;
    }
}

static void read_phase(const json_t *status, struct kw_pod *pod)
{
    const char *phase = json_string_value(json_object_get(status, "phase"));

    for (enum kw_pod_phase i = 0; phase != NULL && i < KW_POD__MAX; i++) {
        if (strcmp(kw_pod_phase_names[i], phase) == 0)
            pod->phase = i;
    }
}

/** Anything but a short text there is as good as none: a pod is not refused for an annotation. */
static void read_static_uid(struct kw_reader *reader, const json_t *metadata, struct kw_pod *pod)
{
    const json_t *annotations = json_object_get(metadata, "annotations");
    const char *hash = json_string_value(json_object_get(annotations, "kubernetes.io/config.hash"));

    pod->static_uid = strdup(hash != NULL && strlen(hash) <= STATIC_UID_MAX ? hash : "");
    if (pod->static_uid == NULL)
        kw_reader_fail(reader, -ENOMEM, NULL);
}

static void read_pod(struct kw_reader *reader, const json_t *root, struct kw_pod *pod)
{
    const json_t *metadata = kw_get(reader, root, "metadata", JSON_OBJECT, KW_REQUIRED);
    const json_t *spec = kw_get(reader, root, "spec", JSON_OBJECT, KW_REQUIRED);
    const json_t *status = kw_get(reader, root, "status", JSON_OBJECT, KW_OPTIONAL);

    if (reader->rc < 0)
        return;
    kw_get_copy(reader, metadata, "name", KW_REQUIRED, &pod->name);
    kw_get_copy(reader, metadata, "namespace", KW_REQUIRED, &pod->namespace_);
    kw_get_copy(reader, metadata, "uid", KW_REQUIRED, &pod->uid);
    kw_get_copy(reader, spec, "nodeName", KW_OPTIONAL, &pod->node);
    pod->created_unix_ms = kw_time_from_json(json_object_get(metadata, "creationTimestamp"));
    read_static_uid(reader, metadata, pod);
    kw_labels_from_json(reader, kw_get(reader, metadata, "labels", JSON_OBJECT, KW_OPTIONAL),
                        &pod->labels);
    pod->has_owner = kw_owner_ref_from_json(reader, metadata, &pod->owner);

    const json_t *init = kw_get(reader, spec, "initContainers", JSON_ARRAY, KW_OPTIONAL);
    const json_t *main = kw_get(reader, spec, "containers", JSON_ARRAY, KW_REQUIRED);
    const json_t *debug = kw_get(reader, spec, "ephemeralContainers", JSON_ARRAY, KW_OPTIONAL);
    size_t n = json_array_size(init) + json_array_size(main) + json_array_size(debug);
    if (n > KW_CONTAINERS_MAX)
        kw_reader_fail(reader, -EBADMSG, "containers: too many");
    if (reader->rc < 0)
        return;
    pod->containers = calloc(n > 0 ? n : 1, sizeof(*pod->containers));
    if (pod->containers == NULL) {
        kw_reader_fail(reader, -ENOMEM, NULL);
        return;
    }
    read_containers(reader, init, true, pod, &pod->n_containers);
    read_containers(reader, main, false, pod, &pod->n_containers);
    read_containers(reader, debug, false, pod, &pod->n_ephemeral);
    if (status == NULL || reader->rc < 0)
        return;
    read_phase(status, pod);
    pod->started_unix_ms = kw_time_from_json(json_object_get(status, "startTime"));
    read_statuses(reader, kw_get(reader, status, "initContainerStatuses", JSON_ARRAY, KW_OPTIONAL),
                  pod);
    read_statuses(reader, kw_get(reader, status, "containerStatuses", JSON_ARRAY, KW_OPTIONAL),
                  pod);
    read_statuses(
        reader, kw_get(reader, status, "ephemeralContainerStatuses", JSON_ARRAY, KW_OPTIONAL), pod);
}

int kw_pod_decode(const char *json, size_t len, struct kw_pod *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_pod pod = {0};
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        read_pod(&reader, root, &pod);
    json_decref(root);
    if (reader.rc < 0)
        kw_pod_clear(&pod);
    else
        *ret = pod;
    return kw_reader_end(&reader, ret_why);
}
