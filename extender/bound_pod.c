/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two passes over a few kilobytes, once for each pod that starts: what placement reads of a pod
 * (extender/pod.h), and who and where it is.
 */
#include "extender/bound_pod.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "extender/json_walk.h"
#include "extender/pod.h"

/** What the second pass looks for. */
struct found {
    struct ext_bound_pod *pod;
    bool deleted; /**< being deleted */
    bool waits;   /**< status.phase Pending, or none yet */
};

/** Reads a text that has no need of escapes; "" where it is none. */
static int take_text(struct kw_json *json, char *out, size_t size)
{
    struct kw_json_token token;

    out[0] = '\0';
    if (ext_json_scalar(json, &token) < 0)
        return -EBADMSG;
    if (token.type != KW_JSON_STRING || token.escaped || token.len >= size)
        return 0;
    memcpy(out, token.at, token.len);
    out[token.len] = '\0';
    return 0;
}

static int take_metadata(struct kw_json *json, struct found *found)
{
    struct kw_json_token key;
    struct kw_json_token value;
    int rc;

    found->deleted = false;
    found->pod->uid[0] = '\0';
    while ((rc = ext_json_key(json, &key)) > 0) {
        if (ext_json_is(&key, "uid")) {
            rc = take_text(json, found->pod->uid, sizeof(found->pod->uid));
        } else if (ext_json_is(&key, "deletionTimestamp")) {
            rc = ext_json_scalar(json, &value);
            found->deleted = rc == 0 && value.type != KW_JSON_NULL;
        } else {
            rc = ext_json_pass(json);
        }
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int take_spec(struct kw_json *json, struct found *found)
{
    struct kw_json_token key;
    int rc;

    found->pod->node[0] = '\0';
    while ((rc = ext_json_key(json, &key)) > 0) {
        rc = ext_json_is(&key, "nodeName")
                 ? take_text(json, found->pod->node, sizeof(found->pod->node))
                 : ext_json_pass(json);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int take_status(struct kw_json *json, struct found *found)
{
    struct kw_json_token key;
    int rc;

    found->waits = true;
    while ((rc = ext_json_key(json, &key)) > 0) {
        char phase[16] = "";
        bool is_phase = ext_json_is(&key, "phase");
        rc = is_phase ? take_text(json, phase, sizeof(phase)) : ext_json_pass(json);
        if (rc < 0)
            return rc;
        if (is_phase)
            found->waits = phase[0] == '\0' || strcmp(phase, "Pending") == 0;
    }
    return rc;
}

static int take_member(struct kw_json *json, const struct kw_json_token *key, struct found *found)
{
    int (*take)(struct kw_json *, struct found *) = ext_json_is(key, "metadata") ? take_metadata
                                                    : ext_json_is(key, "spec")   ? take_spec
                                                    : ext_json_is(key, "status") ? take_status
                                                                                 : NULL;

    if (take == NULL)
        return ext_json_pass(json);
    int rc = ext_json_enter(json, KW_JSON_OBJECT);
    return rc == EXT_JSON_OPEN ? take(json, found) : rc < 0 ? rc : 0;
}

int ext_bound_pod_scan(const char *json, size_t len, const struct ext_assumptions *assumptions,
                       const struct ext_profiles *profiles, struct ext_bound_pod *ret)
{
    struct found found = {.pod = ret, .waits = true};
    struct kw_extender_pod pod;
    struct ext_outlook outlook;
    struct kw_json reader;
    struct kw_json_token key;

    *ret = (struct ext_bound_pod){0};
    kw_json_begin(&reader, json, len);
    if (ext_pod_scan(&reader, &pod) < 0 || kw_json_next(&reader, &key) != KW_JSON_END)
        return -EBADMSG;
    kw_json_begin(&reader, json, len);
    int rc = ext_json_enter(&reader, KW_JSON_OBJECT);
    if (rc != EXT_JSON_OPEN)
        return -EBADMSG;
    while ((rc = ext_json_key(&reader, &key)) > 0) {
        rc = take_member(&reader, &key, &found);
        if (rc < 0)
            return rc;
    }
    if (rc < 0 || ret->uid[0] == '\0')
        return -EBADMSG;
    ext_outlook_find(assumptions, profiles, &pod, &outlook);
    ret->mcpu = outlook.mcpu;
    ret->mw = pod.expected_mw;
    ret->variance_mcpu2 = ext_outlook_variance_mcpu2(&outlook);
    return found.waits && !found.deleted && ret->node[0] != '\0' ? 1 : 0;
}
