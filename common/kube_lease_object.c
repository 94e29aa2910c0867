/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Lease as an object, and when it may be taken. Everything that is not ours (labels, owner
 * references, fields of later versions) goes back as it came: an update replaces the whole object.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/kube_lease_impl.h"

/* Durations and transitions are int32 in the API. */
#define MAX_INT32 INT32_MAX

struct kw_lease_object {
    json_t *json;
};

static int wrap(json_t *json, struct kw_lease_object **ret)
{
    struct kw_lease_object *object = json != NULL ? malloc(sizeof(*object)) : NULL;

    if (object == NULL) {
        json_decref(json);
        return -ENOMEM;
    }
    object->json = json;
    *ret = object;
    return 0;
}

int kw_lease_object_parse(const char *bytes, size_t len, struct kw_lease_object **ret,
                          struct kw_err *err)
{
    json_error_t why;
    json_t *json = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &why);
    const json_t *spec = json_object_get(json, "spec");

    if (json == NULL)
        return kw_err_set(err, -EPROTO, "lease: no JSON object: %s", why.text);
    if (!json_is_object(json) || !json_is_object(json_object_get(json, "metadata")) ||
        (spec != NULL && !json_is_object(spec))) {
        json_decref(json);
        return kw_err_set(err, -EPROTO, "lease: no object with metadata and spec");
    }
    return wrap(json, ret);
}

int kw_lease_object_make(const char *namespace_, const char *name, struct kw_lease_object **ret)
{
    return wrap(json_pack("{s:s, s:s, s:{s:s, s:s}}", "apiVersion", "coordination.k8s.io/v1",
                          "kind", "Lease", "metadata", "namespace", namespace_, "name", name),
                ret);
}

void kw_lease_object_free(struct kw_lease_object **object)
{
    if (*object == NULL)
        return;
    json_decref((*object)->json);
    free(*object);
    *object = NULL;
}

bool kw_lease_object_same(const struct kw_lease_object *a, const struct kw_lease_object *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    const json_t *x = json_object_get(a->json, "spec"), *y = json_object_get(b->json, "spec");
    return x == NULL || y == NULL ? x == y : json_equal(x, y) == 1;
}

static uint64_t count_of(const json_t *spec, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(spec, key));

    return value > 0 && value <= MAX_INT32 ? (uint64_t)value : 0;
}

void kw_lease_object_read(const struct kw_lease_object *object, struct kw_lease_record *ret)
{
    const json_t *spec = json_object_get(object->json, "spec");
    const char *holder = json_string_value(json_object_get(spec, "holderIdentity"));

    *ret = (struct kw_lease_record){
        .holder = holder != NULL ? holder : "",
        .duration_ns = count_of(spec, "leaseDurationSeconds") * KW_NS_PER_S,
        .transitions = count_of(spec, "leaseTransitions"),
    };
}

/* MicroTime of the API: "2006-01-02T15:04:05.000000Z" */
static void time_text(int64_t unix_us, char *out, size_t size)
{
    time_t seconds = (time_t)(unix_us / 1000000);
    struct tm tm;
    char date[32] = "1970-01-01T00:00:00";

    if (gmtime_r(&seconds, &tm) != NULL)
        (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out, size, "%s.%06dZ", date, (int)(unix_us % 1000000));
}

int kw_lease_object_claim(const struct kw_lease_object *object, enum kw_lease_claim claim,
                          const char *identity, uint64_t duration_ns, int64_t now_unix_us,
                          char **ret, size_t *ret_len)
{
    json_t *json = json_deep_copy(object->json);
    json_t *spec = json_object_get(json, "spec");
    struct kw_lease_record record;
    char now[64];
    int lost = 0;

    if (json == NULL)
        return -ENOMEM;
    if (spec == NULL) {
        spec = json_object();
        lost |= json_object_set_new(json, "spec", spec);
    }
    kw_lease_object_read(object, &record);
    time_text(now_unix_us, now, sizeof(now));
    /* client-go releases with a second, as the API wants more than none */
    json_int_t duration_s =
        claim == KW_LEASE_RELEASE ? 1 : (json_int_t)((duration_ns + KW_NS_PER_S - 1) / KW_NS_PER_S);
    if (claim == KW_LEASE_RELEASE)
        (void)json_object_del(spec, "holderIdentity");
    else
        lost |= json_object_set_new(spec, "holderIdentity", json_string(identity));
    lost |= json_object_set_new(spec, "leaseDurationSeconds", json_integer(duration_s));
    lost |= json_object_set_new(spec, "renewTime", json_string(now));
    if (claim != KW_LEASE_RENEW || json_object_get(spec, "acquireTime") == NULL)
        lost |= json_object_set_new(spec, "acquireTime", json_string(now));
    /* the first holder is no transition */
    bool changes = claim == KW_LEASE_TAKE && record.transitions < MAX_INT32 &&
                   json_object_get(json_object_get(object->json, "spec"), "renewTime") != NULL;
    lost |= json_object_set_new(spec, "leaseTransitions",
                                json_integer((json_int_t)record.transitions + (changes ? 1 : 0)));
    char *text = lost == 0 ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text == NULL)
        return -ENOMEM;
    *ret = text;
    *ret_len = strlen(text);
    return 0;
}

enum kw_lease_step kw_lease_decide(const struct kw_lease_record *record, const char *identity,
                                   uint64_t seen_ns, uint64_t now_ns, uint64_t own_ns,
                                   uint64_t *ret_wait_ns)
{
    uint64_t duration_ns = record->duration_ns > 0 ? record->duration_ns : own_ns;
    uint64_t age_ns = now_ns > seen_ns ? now_ns - seen_ns : 0;

    if (strcmp(record->holder, identity) == 0)
        return KW_LEASE_STEP_RENEW;
    if (record->holder[0] == '\0' || age_ns >= duration_ns)
        return KW_LEASE_STEP_TAKE;
    *ret_wait_ns = duration_ns - age_ns;
    return KW_LEASE_STEP_WAIT;
}
