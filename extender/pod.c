/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Pod of a request, read in one pass. It is a few kilobytes of which about ten values matter,
 * so all other values are skipped at the scanner's full speed. The rules are those of
 * api/extender.h: a field of a Kubernetes object with an unexpected type is passed over; a value
 * that kwatt interprets and that is bad is counted. Of a key given twice the last counts, so each
 * reader starts by forgetting what an earlier one found.
 */
#include "extender/pod.h"

#include <errno.h>
#include <string.h>

#include "api/kube_time.h"
#include "api/names.h"
#include "common/num.h"
#include "extender/json_walk.h"

/** Bytes for a text of KW_POD_TEXT_MAX with every character escaped (\\uXXXX); a longer one is a
 * bad value. */
#define VALUE_MAX (KW_POD_TEXT_MAX * 6 + 1)

/** CPU of one list of resources, or a sum of them. */
struct amount {
    uint64_t mcpu;
    uint32_t bad;
};

/** spec, section by section. */
struct spec {
    struct amount containers;
    struct amount sidecars; /**< restartable init containers; their bad values too */
    uint64_t peak_mcpu;     /**< most that runs at once while init containers run */
    struct amount whole;    /**< request of the pod as a whole */
    struct amount overhead;
};

/** Runs `member` for each key of the object that comes next; anything else is passed over. */
static int each_member(struct kw_json *json,
                       int (*member)(struct kw_json *, const struct kw_json_token *key, void *user),
                       void *user)
{
    struct kw_json_token key;
    int rc = ext_json_enter(json, KW_JSON_OBJECT);

    if (rc != EXT_JSON_OPEN)
        return rc < 0 ? rc : 0;
    while ((rc = ext_json_key(json, &key)) > 0) {
        rc = member(json, &key, user);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/** Decodes a short string. @return its length, or -EINVAL where it is no string or too long. */
static int short_text(const struct kw_json_token *token, char out[VALUE_MAX])
{
    if (token->type != KW_JSON_STRING || token->len >= VALUE_MAX)
        return -EINVAL;
    return (int)kw_json_unescape(token, out);
}

static int cores_of_number(const struct kw_json_token *token, uint64_t *ret_mcpu)
{
    uint64_t cores = 0;
    bool minus_zero = token->len == 2 && memcmp(token->at, "-0", 2) == 0;

    if (!minus_zero &&
        kw_parse_u64_span(token->at, token->len, 0, KW_POD_MCPU_MAX / 1000, &cores) < 0)
        return -EINVAL;
    *ret_mcpu = cores * 1000;
    return 0;
}

static int resource_member(struct kw_json *json, const struct kw_json_token *key, void *user)
{
    struct amount *amount = user;
    struct kw_json_token value;
    char text[VALUE_MAX];

    if (!ext_json_is(key, "cpu"))
        return ext_json_pass(json);
    *amount = (struct amount){0};
    if (ext_json_scalar(json, &value) < 0)
        return -EBADMSG;
    if (value.type == KW_JSON_NULL)
        return 0;
    int rc = value.type == KW_JSON_NUMBER ? cores_of_number(&value, &amount->mcpu)
                                          : short_text(&value, text);
    if (rc >= 0 && value.type == KW_JSON_STRING)
        rc = kw_pod_parse_mcpu(text, (size_t)rc, &amount->mcpu);
    if (rc < 0)
        *amount = (struct amount){.bad = 1};
    return 0;
}

static int scan_list(struct kw_json *json, struct amount *ret)
{
    *ret = (struct amount){0};
    return each_member(json, resource_member, ret);
}

static int resources_member(struct kw_json *json, const struct kw_json_token *key, void *user)
{
    return ext_json_field(key, "requests") ? scan_list(json, user) : ext_json_pass(json);
}

static int scan_resources(struct kw_json *json, struct amount *ret)
{
    *ret = (struct amount){0};
    return each_member(json, resources_member, ret);
}

struct container {
    struct amount request;
    bool restartable;
};

static int container_member(struct kw_json *json, const struct kw_json_token *key, void *user)
{
    struct container *container = user;
    struct kw_json_token value;

    if (ext_json_field(key, "resources"))
        return scan_resources(json, &container->request);
    if (!ext_json_field(key, "restartPolicy"))
        return ext_json_pass(json);
    if (ext_json_scalar(json, &value) < 0)
        return -EBADMSG;
    container->restartable = value.type == KW_JSON_STRING && ext_json_is(&value, "Always");
    return 0;
}

/** Runs `member` for each key of the next object of the array around it. @return 1; 0 at the
 * array's end; -EBADMSG. */
static int next_object(struct kw_json *json,
                       int (*member)(struct kw_json *, const struct kw_json_token *key, void *user),
                       void *user)
{
    struct kw_json_token key;

    for (;;) {
        int rc = ext_json_enter(json, KW_JSON_OBJECT);
        if (rc < 0)
            return rc;
        if (rc == EXT_JSON_LAST)
            return 0;
        if (rc != EXT_JSON_OPEN)
            continue;
        while ((rc = ext_json_key(json, &key)) > 0) {
            rc = member(json, &key, user);
            if (rc < 0)
                return rc;
        }
        return rc < 0 ? rc : 1;
    }
}

static int next_container(struct kw_json *json, struct container *ret)
{
    *ret = (struct container){0};
    return next_object(json, container_member, ret);
}

static int scan_containers(struct kw_json *json, struct spec *spec)
{
    struct container container;
    int rc = ext_json_enter(json, KW_JSON_ARRAY);

    spec->containers = (struct amount){0};
    if (rc != EXT_JSON_OPEN)
        return rc < 0 ? rc : 0;
    while ((rc = next_container(json, &container)) > 0) {
        spec->containers.mcpu += container.request.mcpu;
        spec->containers.bad += container.request.bad;
    }
    return rc;
}

static int scan_init_containers(struct kw_json *json, struct spec *spec)
{
    struct container container;
    int rc = ext_json_enter(json, KW_JSON_ARRAY);

    spec->sidecars = (struct amount){0};
    spec->peak_mcpu = 0;
    if (rc != EXT_JSON_OPEN)
        return rc < 0 ? rc : 0;
    while ((rc = next_container(json, &container)) > 0) {
        uint64_t own = container.request.mcpu;
        spec->sidecars.bad += container.request.bad;
        if (container.restartable) {
            spec->sidecars.mcpu += own;
            own = 0;
        }
        if (spec->sidecars.mcpu + own > spec->peak_mcpu)
            spec->peak_mcpu = spec->sidecars.mcpu + own;
    }
    return rc;
}

static int spec_member(struct kw_json *json, const struct kw_json_token *key, void *user)
{
    struct spec *spec = user;

    if (ext_json_field(key, "containers"))
        return scan_containers(json, spec);
    if (ext_json_field(key, "initContainers"))
        return scan_init_containers(json, spec);
    if (ext_json_field(key, "resources"))
        return scan_resources(json, &spec->whole);
    if (ext_json_field(key, "overhead"))
        return scan_list(json, &spec->overhead);
    return ext_json_pass(json);
}

/** An owner of the pod. */
struct reference {
    struct kw_json_token kind, name;
    bool controller;
};

/** Labels that tell a Deployment by its ReplicaSet. */
struct labels {
    struct kw_json_token template_hash, rollout_hash;
};

/** What metadata held; spans into the body. */
struct metadata {
    struct kw_json_token uid, ns, name, created;
    struct reference controller; /**< the first of them */
    struct labels labels;
    struct annotations {
        struct kw_json_token placement, expected_cpu, expected_watts, expected_life, mirror,
            critical;
    } annotations;
};

/* a token of type KW_JSON_NULL stands for an absent one */
#define ABSENT         ((struct kw_json_token){.type = KW_JSON_NULL})
#define NO_ANNOTATIONS ((struct annotations){ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT})
#define NO_REFERENCE   ((struct reference){ABSENT, ABSENT, false})
#define NO_LABELS      ((struct labels){ABSENT, ABSENT})
#define NO_METADATA \
    ((struct metadata){ABSENT, ABSENT, ABSENT, ABSENT, NO_REFERENCE, NO_LABELS, NO_ANNOTATIONS})

static int annotation_member(struct kw_json *json, const struct kw_json_token *key, void *user)
{
    struct annotations *annotations = user;

    if (ext_json_is(key, KW_ANNOTATION_PLACEMENT))
        return ext_json_scalar(json, &annotations->placement);
    if (ext_json_is(key, KW_ANNOTATION_EXPECTED_CPU))
        return ext_json_scalar(json, &annotations->expected_cpu);
    if (ext_json_is(key, KW_ANNOTATION_EXPECTED_WATTS))
        return ext_json_scalar(json, &annotations->expected_watts);
    if (ext_json_is(key, KW_ANNOTATION_EXPECTED_LIFETIME))
        return ext_json_scalar(json, &annotations->expected_life);
    if (ext_json_is(key, KW_ANNOTATION_MIRROR))
        return ext_json_scalar(json, &annotations->mirror);
    if (ext_json_is(key, KW_ANNOTATION_CRITICAL))
        return ext_json_scalar(json, &annotations->critical);
    return ext_json_pass(json);
}

static int reference_member(struct kw_json *json, const struct kw_json_token *key, void *user)
{
    struct reference *reference = user;
    struct kw_json_token value;

    if (ext_json_field(key, "kind"))
        return ext_json_scalar(json, &reference->kind);
    if (ext_json_field(key, "name"))
        return ext_json_scalar(json, &reference->name);
    if (!ext_json_field(key, "controller"))
        return ext_json_pass(json);
    if (ext_json_scalar(json, &value) < 0)
        return -EBADMSG;
    reference->controller = value.type == KW_JSON_TRUE;
    return 0;
}

static int scan_owners(struct kw_json *json, struct metadata *metadata)
{
    struct reference reference = NO_REFERENCE;
    int rc = ext_json_enter(json, KW_JSON_ARRAY);

    metadata->controller = NO_REFERENCE;
    if (rc != EXT_JSON_OPEN)
        return rc < 0 ? rc : 0;
    while ((rc = next_object(json, reference_member, &reference)) > 0) {
        if (reference.controller && !metadata->controller.controller)
            metadata->controller = reference;
        reference = NO_REFERENCE;
    }
    return rc;
}

static int label_member(struct kw_json *json, const struct kw_json_token *key, void *user)
{
    struct labels *labels = user;

    if (ext_json_is(key, KW_LABEL_POD_TEMPLATE_HASH))
        return ext_json_scalar(json, &labels->template_hash);
    if (ext_json_is(key, KW_LABEL_ROLLOUT_HASH))
        return ext_json_scalar(json, &labels->rollout_hash);
    return ext_json_pass(json);
}

static int metadata_member(struct kw_json *json, const struct kw_json_token *key, void *user)
{
    struct metadata *metadata = user;

    if (ext_json_field(key, "uid"))
        return ext_json_scalar(json, &metadata->uid);
    if (ext_json_field(key, "namespace"))
        return ext_json_scalar(json, &metadata->ns);
    if (ext_json_field(key, "name"))
        return ext_json_scalar(json, &metadata->name);
    if (ext_json_field(key, "creationTimestamp"))
        return ext_json_scalar(json, &metadata->created);
    if (ext_json_field(key, "ownerReferences"))
        return scan_owners(json, metadata);
    if (ext_json_field(key, "labels")) {
        metadata->labels = NO_LABELS;
        return each_member(json, label_member, &metadata->labels);
    }
    if (ext_json_field(key, "annotations")) {
        metadata->annotations = NO_ANNOTATIONS;
        return each_member(json, annotation_member, &metadata->annotations);
    }
    return ext_json_pass(json);
}

struct pod {
    struct metadata metadata;
    struct spec spec;
};

static int pod_member(struct kw_json *json, const struct kw_json_token *key, struct pod *pod)
{
    if (ext_json_field(key, "metadata")) {
        pod->metadata = NO_METADATA;
        return each_member(json, metadata_member, &pod->metadata);
    }
    if (ext_json_field(key, "spec")) {
        pod->spec = (struct spec){0};
        return each_member(json, spec_member, &pod->spec);
    }
    return ext_json_pass(json);
}

static uint64_t expected(const struct kw_json_token *token,
                         int (*parse)(const char *, size_t, uint64_t *), uint32_t *bad)
{
    char text[VALUE_MAX];
    uint64_t value = 0;

    if (token->type == KW_JSON_NULL)
        return 0;
    int len = short_text(token, text);
    if (len < 0 || parse(text, (size_t)len, &value) < 0 || value == 0) {
        (*bad)++;
        return 0;
    }
    return value;
}

static enum kw_placement placement(const struct kw_json_token *token, uint32_t *bad)
{
    if (token->type == KW_JSON_NULL)
        return KW_PLACEMENT_EFFICIENT;
    for (unsigned i = 0; i < KW_PLACEMENT__MAX && token->type == KW_JSON_STRING; i++) {
        if (ext_json_is(token, kw_placement_names[i]))
            return (enum kw_placement)i;
    }
    (*bad)++;
    return KW_PLACEMENT_EFFICIENT;
}

static bool critical(const struct kw_json_token *token, uint32_t *bad)
{
    bool text = token->type == KW_JSON_STRING;
    bool yes = text && ext_json_is(token, "true");

    if (token->type != KW_JSON_NULL && !yes && !(text && ext_json_is(token, "false")))
        (*bad)++;
    return yes;
}

/** Copies a name; "" where it is none. @param size at most KW_POD_NAME_MAX. */
static void take_text(const struct kw_json_token *token, char *out, size_t size)
{
    /* escapes only shorten a text, and no name needs any */
    char text[KW_POD_NAME_MAX * 6 + 1];

    if (token->type != KW_JSON_STRING || token->len > size * 6)
        return;
    size_t len = kw_json_unescape(token, text);
    if (len < size && strlen(text) == len)
        memcpy(out, text, len + 1);
}

static void find_owner(const struct metadata *metadata, struct kw_top_owner *ret)
{
    char kind[KW_TOP_KIND_MAX] = "";
    char name[KW_TOP_NAME_MAX] = "";
    char template_hash[KW_LABEL_VALUE_MAX] = "";
    char rollout_hash[KW_LABEL_VALUE_MAX] = "";
    char created[KW_POD_TIME_MAX] = "";
    struct kw_made_by made_by = {kind, name, template_hash, rollout_hash, 0};

    take_text(&metadata->controller.kind, kind, sizeof(kind));
    take_text(&metadata->controller.name, name, sizeof(name));
    take_text(&metadata->labels.template_hash, template_hash, sizeof(template_hash));
    take_text(&metadata->labels.rollout_hash, rollout_hash, sizeof(rollout_hash));
    take_text(&metadata->created, created, sizeof(created));
    made_by.created_unix_ms = kw_time_parse_ms(created);
    kw_top_owner_find(&made_by, ret);
}

static uint64_t effective_request(const struct spec *spec)
{
    uint64_t mcpu = spec->containers.mcpu + spec->sidecars.mcpu;

    if (spec->peak_mcpu > mcpu)
        mcpu = spec->peak_mcpu;
    if (spec->whole.mcpu > 0)
        mcpu = spec->whole.mcpu;
    mcpu += spec->overhead.mcpu;
    return mcpu < KW_POD_MCPU_MAX ? mcpu : KW_POD_MCPU_MAX;
}

int ext_pod_scan(struct kw_json *json, struct kw_extender_pod *ret)
{
    struct pod pod = {.metadata = NO_METADATA};
    const struct annotations *annotations = &pod.metadata.annotations;
    struct kw_json_token key;
    int rc = ext_json_enter(json, KW_JSON_OBJECT);

    *ret = (struct kw_extender_pod){0};
    if (rc != EXT_JSON_OPEN)
        return rc < 0 ? rc : rc == EXT_JSON_NULL ? 0 : -EINVAL;
    while ((rc = ext_json_key(json, &key)) > 0) {
        rc = pod_member(json, &key, &pod);
        if (rc < 0)
            break;
    }
    if (rc < 0)
        return rc;
    take_text(&pod.metadata.uid, ret->uid, sizeof(ret->uid));
    take_text(&pod.metadata.ns, ret->ns, sizeof(ret->ns));
    take_text(&pod.metadata.name, ret->name, sizeof(ret->name));
    find_owner(&pod.metadata, &ret->owner);
    ret->mirror = annotations->mirror.type != KW_JSON_NULL;
    ret->placement = placement(&annotations->placement, &ret->bad_values);
    ret->critical = critical(&annotations->critical, &ret->bad_values);
    ret->expected_mcpu = expected(&annotations->expected_cpu, kw_pod_parse_mcpu, &ret->bad_values);
    ret->expected_life_ms =
        expected(&annotations->expected_life, kw_pod_parse_life_ms, &ret->bad_values);
    ret->expected_mw = expected(&annotations->expected_watts, kw_pod_parse_mw, &ret->bad_values);
    ret->bad_values += pod.spec.containers.bad + pod.spec.sidecars.bad + pod.spec.whole.bad +
                       pod.spec.overhead.bad;
    ret->request_mcpu = effective_request(&pod.spec);
    return 0;
}
