/* SPDX-License-Identifier: Apache-2.0 */
#include "api/owner.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/kube_json.h"
#include "api/selector_json.h"

const char *const kw_owner_kind_names[KW_OWNER__MAX] = {
    [KW_OWNER_DEPLOYMENT] = "Deployment",
    [KW_OWNER_REPLICA_SET] = "ReplicaSet",
    [KW_OWNER_STATEFUL_SET] = "StatefulSet",
    [KW_OWNER_DAEMON_SET] = "DaemonSet",
    [KW_OWNER_JOB] = "Job",
    [KW_OWNER_CRON_JOB] = "CronJob",
    [KW_OWNER_REPLICATION_CONTROLLER] = "ReplicationController",
    [KW_OWNER_OTHER] = "",
};
_Static_assert(KW_OWNER__MAX == 8, "a kind without a name");

/** Where the known kinds live. */
static const struct {
    const char *api_version;
    const char *plural;
} places[KW_OWNER_OTHER] = {
    [KW_OWNER_DEPLOYMENT] = {"apps/v1", "deployments"},
    [KW_OWNER_REPLICA_SET] = {"apps/v1", "replicasets"},
    [KW_OWNER_STATEFUL_SET] = {"apps/v1", "statefulsets"},
    [KW_OWNER_DAEMON_SET] = {"apps/v1", "daemonsets"},
    [KW_OWNER_JOB] = {"batch/v1", "jobs"},
    [KW_OWNER_CRON_JOB] = {"batch/v1", "cronjobs"},
    [KW_OWNER_REPLICATION_CONTROLLER] = {"v1", "replicationcontrollers"},
};

enum kw_owner_kind kw_owner_kind_of(const char *kind)
{
    enum kw_owner_kind i = 0;

    while (i < KW_OWNER_OTHER && strcmp(kw_owner_kind_names[i], kind) != 0)
        i++;
    return i;
}

bool kw_kube_name_ok(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len > 253 || name[0] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        /* ':' occurs in names of RBAC and of custom kinds */
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':'))
            return false;
    }
    return true;
}

/** "v1", "apps/v1", "example.com/v1alpha1". */
static bool api_version_ok(const char *api_version)
{
    const char *slash = strchr(api_version, '/');
    char group[254];

    if (slash == NULL)
        return kw_kube_name_ok(api_version);
    size_t len = (size_t)(slash - api_version);
    if (len >= sizeof(group))
        return false;
    memcpy(group, api_version, len);
    group[len] = '\0';
    return kw_kube_name_ok(group) && kw_kube_name_ok(slash + 1);
}

/** The core group is served elsewhere than all others. */
static const char *root_of(const char *api_version)
{
    return strchr(api_version, '/') == NULL ? "/api" : "/apis";
}

int kw_discovery_path(char out[KW_KUBE_PATH_MAX], const char *api_version)
{
    if (!api_version_ok(api_version))
        return -EINVAL;
    int n = snprintf(out, KW_KUBE_PATH_MAX, "%s/%s", root_of(api_version), api_version);
    return n < KW_KUBE_PATH_MAX ? 0 : -EINVAL;
}

int kw_resource_path(char out[KW_KUBE_PATH_MAX], const char *api_version, const char *namespace_,
                     const char *plural, const char *name, bool scale)
{
    if (!api_version_ok(api_version) || !kw_kube_name_ok(namespace_) || !kw_kube_name_ok(plural) ||
        !kw_kube_name_ok(name))
        return -EINVAL;
    int n = snprintf(out, KW_KUBE_PATH_MAX, "%s/%s/namespaces/%s/%s/%s%s", root_of(api_version),
                     api_version, namespace_, plural, name, scale ? "/scale" : "");
    return n < KW_KUBE_PATH_MAX ? 0 : -EINVAL;
}

int kw_owner_path(char out[KW_KUBE_PATH_MAX], enum kw_owner_kind kind, const char *namespace_,
                  const char *name)
{
    if (kind >= KW_OWNER_OTHER)
        return -EINVAL;
    return kw_resource_path(out, places[kind].api_version, namespace_, places[kind].plural, name,
                            false);
}

void kw_owner_clear(struct kw_owner *owner)
{
    free(owner->uid);
    kw_owner_ref_clear(&owner->owner);
    kw_selector_clear(&owner->selector);
    memset(owner, 0, sizeof(*owner));
}

static void read_selector(struct kw_reader *reader, enum kw_owner_kind kind, const json_t *spec,
                          struct kw_selector *ret)
{
    if (kind == KW_OWNER_REPLICATION_CONTROLLER) {
        kw_selector_from_map(reader, kw_get(reader, spec, "selector", JSON_OBJECT, KW_OPTIONAL),
                             ret);
    } else if (kind == KW_OWNER_CRON_JOB) {
        const json_t *labels = json_object_get(spec, "jobTemplate");
        labels = json_object_get(json_object_get(labels, "spec"), "template");
        labels = json_object_get(json_object_get(labels, "metadata"), "labels");
        kw_selector_from_map(reader, json_is_object(labels) ? labels : NULL, ret);
    } else {
        kw_selector_from_json(reader, kw_get(reader, spec, "selector", JSON_OBJECT, KW_OPTIONAL),
                              ret);
    }
}

int kw_owner_decode(enum kw_owner_kind kind, const char *json, size_t len, struct kw_owner *ret,
                    const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_owner owner = {0};
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL) {
        const json_t *metadata = kw_get(&reader, root, "metadata", JSON_OBJECT, KW_REQUIRED);
        if (metadata != NULL)
            kw_get_copy(&reader, metadata, "uid", KW_OPTIONAL, &owner.uid);
        owner.has_owner = kw_owner_ref_from_json(&reader, metadata, &owner.owner);
        if (kind != KW_OWNER_OTHER) {
            const json_t *spec = kw_get(&reader, root, "spec", JSON_OBJECT, KW_REQUIRED);
            if (spec != NULL)
                read_selector(&reader, kind, spec, &owner.selector);
        }
    }
    json_decref(root);
    if (reader.rc < 0)
        kw_owner_clear(&owner);
    else
        *ret = owner;
    return kw_reader_end(&reader, ret_why);
}

int kw_scale_decode(const char *json, size_t len, struct kw_selector *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL) {
        const json_t *status = kw_get(&reader, root, "status", JSON_OBJECT, KW_REQUIRED);
        const json_t *text = NULL;
        const char *why = "selector";
        if (status != NULL)
            text = kw_get(&reader, status, "selector", JSON_STRING, KW_REQUIRED);
        if (text != NULL && json_string_length(text) == 0)
            kw_reader_fail(&reader, -EBADMSG, "status.selector is empty");
        if (text != NULL && reader.rc == 0) {
            int rc =
                kw_selector_parse(json_string_value(text), json_string_length(text), ret, &why);
            if (rc < 0)
                kw_reader_fail(&reader, rc, why);
        }
    }
    json_decref(root);
    return kw_reader_end(&reader, ret_why);
}

int kw_discovery_find(const char *json, size_t len, const char *kind, char **ret_plural,
                      bool *ret_scale, const char **ret_why)
{
    struct kw_reader reader = {0};
    json_t *root = kw_reader_parse(&reader, json, len);
    char *plural = NULL;
    bool scale = false;
    size_t i;
    json_t *entry;

    const json_t *resources =
        root == NULL ? NULL : kw_get(&reader, root, "resources", JSON_ARRAY, KW_REQUIRED);
    json_array_foreach ((json_t *)resources, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *its_kind = json_string_value(json_object_get(entry, "kind"));
        if (plural == NULL && name != NULL && its_kind != NULL && strchr(name, '/') == NULL &&
            strcmp(its_kind, kind) == 0 && json_is_true(json_object_get(entry, "namespaced"))) {
            plural = strdup(name);
            if (plural == NULL)
                kw_reader_fail(&reader, -ENOMEM, NULL);
        }
    }
    json_array_foreach ((json_t *)resources, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        size_t n = plural == NULL ? 0 : strlen(plural);
        if (n > 0 && name != NULL && strncmp(name, plural, n) == 0 &&
            strcmp(name + n, "/scale") == 0)
            scale = true;
    }
    json_decref(root);
    int rc = kw_reader_end(&reader, ret_why);
    if (rc == 0 && plural == NULL)
        rc = -ENOENT;
    if (rc < 0) {
        free(plural);
        return rc;
    }
    *ret_plural = plural;
    *ret_scale = scale;
    return 0;
}
