/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler with nodeCacheCapable sends NodeNameToMetaVictims, which is the answer's form: it
 * goes back byte for byte, once it is sure that Go reads it as what it is. Without, it sends
 * NodeNameToVictims with whole pods, of which the answer keeps the UIDs; that answer is written
 * while the request is read. Node names keep their bytes in both cases.
 */
#include "extender/preempt.h"

#include <errno.h>
#include <stdbool.h>

#include "extender/json_walk.h"
#include "extender/pod.h"

static const char head[] = "{\"NodeNameToMetaVictims\":";
static const char meta_why[] = "NodeNameToMetaVictims is no map of victims";

/** A request under way. */
struct work {
    struct kw_buf *out;
    const struct ext_preempt_gate *gate; /**< NULL: every node is kept */
    struct kw_extender_pod pod;          /**< read where there is a gate */
};

/** metadata.uid of the Pod whose bracket was just opened, appended as a MetaPod. */
static int copy_pod(struct kw_json *json, struct kw_buf *out)
{
    struct kw_json_token key;
    struct kw_json_token uid = {.type = KW_JSON_NULL};
    int rc;

    while ((rc = ext_json_key(json, &key)) > 0) {
        if (!ext_json_field(&key, "metadata")) {
            if (ext_json_pass(json) < 0)
                return -EBADMSG;
            continue;
        }
        rc = ext_json_enter(json, KW_JSON_OBJECT);
        if (rc < 0)
            return rc;
        if (rc != EXT_JSON_OPEN)
            continue;
        while ((rc = ext_json_key(json, &key)) > 0) {
            rc = ext_json_field(&key, "uid") ? ext_json_scalar(json, &uid) : ext_json_pass(json);
            if (rc < 0)
                return rc;
        }
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    (void)kw_buf_adds(out, "{\"UID\":\"");
    if (uid.type == KW_JSON_STRING)
        (void)kw_buf_add(out, uid.at, uid.len);
    (void)kw_buf_adds(out, "\"}");
    return 0;
}

static int copy_pods(struct kw_json *json, struct kw_buf *out)
{
    int rc = ext_json_enter(json, KW_JSON_ARRAY);
    bool first = true;

    if (rc != EXT_JSON_OPEN)
        return rc == EXT_JSON_NULL ? 0 : -EBADMSG;
    for (;;) {
        rc = ext_json_enter(json, KW_JSON_OBJECT);
        if (rc == EXT_JSON_LAST)
            return 0;
        if (rc == EXT_JSON_NULL)
            continue;
        if (rc != EXT_JSON_OPEN)
            return -EBADMSG;
        if (!first)
            (void)kw_buf_adds(out, ",");
        first = false;
        rc = copy_pod(json, out);
        if (rc < 0)
            return rc;
    }
}

/** A count, as Go reads it into an int64; the scanner has seen to its range. null is none. */
static bool is_count(const struct kw_json_token *token)
{
    if (token->type != KW_JSON_NUMBER)
        return token->type == KW_JSON_NULL;
    for (size_t i = 0; i < token->len; i++) {
        if (token->at[i] != '-' && (token->at[i] < '0' || token->at[i] > '9'))
            return false;
    }
    return true;
}

static int take_count(struct kw_json *json, struct kw_json_token *ret)
{
    int rc = ext_json_scalar(json, ret);

    return rc < 0 || is_count(ret) ? rc : -EBADMSG;
}

/** The inside of one Victims object: its pods appended, its count of violations kept as it is
 * written. */
static int copy_victim_members(struct kw_json *json, struct kw_buf *out,
                               struct kw_json_token *ret_violations)
{
    size_t pods_from = out->len;
    struct kw_json_token key;
    int rc;

    while ((rc = ext_json_key(json, &key)) > 0) {
        if (ext_json_field(&key, "Pods")) {
            out->len = pods_from; /* of a key given twice the last counts */
            rc = copy_pods(json, out);
        } else if (ext_json_field(&key, "NumPDBViolations")) {
            rc = take_count(json, ret_violations);
        } else {
            rc = ext_json_pass(json);
        }
        if (rc < 0)
            return rc;
    }
    return rc;
}

/** One Victims value, or null, as MetaVictims. */
static int copy_victims(struct kw_json *json, struct kw_buf *out)
{
    struct kw_json_token violations = {.type = KW_JSON_NULL};
    int rc = ext_json_enter(json, KW_JSON_OBJECT);

    if (rc != EXT_JSON_OPEN && rc != EXT_JSON_NULL)
        return -EBADMSG;
    (void)kw_buf_adds(out, "{\"Pods\":[");
    if (rc == EXT_JSON_OPEN)
        rc = copy_victim_members(json, out, &violations);
    if (rc < 0)
        return rc;
    (void)kw_buf_adds(out, "],\"NumPDBViolations\":");
    if (violations.type == KW_JSON_NUMBER)
        (void)kw_buf_add(out, violations.at, violations.len);
    else
        (void)kw_buf_adds(out, "0");
    (void)kw_buf_adds(out, "}");
    return 0;
}

/** Whether a Victims or MetaVictims that was read names any pod. */
static bool any_pods(const char *bytes, size_t len)
{
    struct kw_json json;
    struct kw_json_token token;
    bool any = false;

    kw_json_begin(&json, bytes, len);
    if (ext_json_enter(&json, KW_JSON_OBJECT) != EXT_JSON_OPEN)
        return false;
    while (ext_json_key(&json, &token) > 0) {
        bool pods = ext_json_field(&token, "Pods");
        if (pods && ext_json_enter(&json, KW_JSON_ARRAY) == EXT_JSON_OPEN) {
            any = false;
            while (kw_json_skip(&json, &token) != KW_JSON_ARRAY_END && json.error == NULL)
                any = any || token.type == KW_JSON_OBJECT;
        } else if (!pods && ext_json_pass(&json) < 0) {
            return any;
        }
    }
    return any;
}

static bool keeps(struct work *work, const struct kw_json_token *node, const char *victims,
                  size_t len)
{
    return work->gate == NULL ||
           work->gate->keeps(work->gate->user, &work->pod, node, any_pods(victims, len));
}

/** Passes over a list of MetaPods, or null. */
static int check_meta_pods(struct kw_json *json)
{
    struct kw_json_token key;
    int rc = ext_json_enter(json, KW_JSON_ARRAY);

    if (rc != EXT_JSON_OPEN)
        return rc == EXT_JSON_NULL ? 0 : -EBADMSG;
    while ((rc = ext_json_enter(json, KW_JSON_OBJECT)) != EXT_JSON_LAST) {
        if (rc == EXT_JSON_NULL)
            continue;
        if (rc != EXT_JSON_OPEN)
            return -EBADMSG;
        while ((rc = ext_json_key(json, &key)) > 0) {
            struct kw_json_token uid = {.type = KW_JSON_NULL};
            bool is_uid = ext_json_field(&key, "UID");
            rc = is_uid ? ext_json_scalar(json, &uid) : ext_json_pass(json);
            if (rc < 0 || (uid.type != KW_JSON_STRING && uid.type != KW_JSON_NULL))
                return -EBADMSG;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

/** Passes over one MetaVictims, or null. */
static int check_meta_victims(struct kw_json *json)
{
    struct kw_json_token key;
    int rc = ext_json_enter(json, KW_JSON_OBJECT);

    if (rc != EXT_JSON_OPEN)
        return rc == EXT_JSON_NULL ? 0 : -EBADMSG;
    while ((rc = ext_json_key(json, &key)) > 0) {
        struct kw_json_token count;
        if (ext_json_field(&key, "Pods"))
            rc = check_meta_pods(json);
        else if (ext_json_field(&key, "NumPDBViolations"))
            rc = take_count(json, &count);
        else
            rc = ext_json_pass(json);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/** Whether a map is one of MetaVictims through and through. @return 0 or -EBADMSG. */
static int check_meta_map(const struct kw_json_token *map)
{
    struct kw_json json;
    struct kw_json_token key;
    int rc;

    kw_json_begin(&json, map->at, map->len);
    if (ext_json_enter(&json, KW_JSON_OBJECT) != EXT_JSON_OPEN)
        return -EBADMSG;
    while ((rc = ext_json_key(&json, &key)) > 0) {
        rc = check_meta_victims(&json);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/** The members of a map of MetaVictims that are kept, verbatim. */
static int copy_meta_map(struct work *work, const struct kw_json_token *map)
{
    struct kw_buf *out = work->out;
    struct kw_json json;
    struct kw_json_token key;
    struct kw_json_token value;
    bool first = true;
    int rc;

    kw_json_begin(&json, map->at, map->len);
    if (ext_json_enter(&json, KW_JSON_OBJECT) != EXT_JSON_OPEN)
        return -EBADMSG;
    (void)kw_buf_adds(out, "{");
    while ((rc = ext_json_key(&json, &key)) > 0) {
        if (kw_json_skip(&json, &value) == KW_JSON_ERROR)
            return -EBADMSG;
        if (!keeps(work, &key, value.at, value.len))
            continue;
        (void)kw_buf_adds(out, first ? "\"" : ",\"");
        (void)kw_buf_add(out, key.at, key.len);
        (void)kw_buf_adds(out, "\":");
        (void)kw_buf_add(out, value.at, value.len);
        first = false;
    }
    (void)kw_buf_adds(out, "}");
    return rc;
}

static int copy_victim_map(struct kw_json *json, struct work *work, bool *ret_given)
{
    struct kw_buf *out = work->out;
    struct kw_json_token key;
    bool first = true;
    int rc = ext_json_enter(json, KW_JSON_OBJECT);

    *ret_given = rc == EXT_JSON_OPEN;
    if (rc != EXT_JSON_OPEN)
        return rc == EXT_JSON_NULL ? 0 : -EBADMSG;
    (void)kw_buf_adds(out, "{");
    while ((rc = ext_json_key(json, &key)) > 0) {
        size_t from = out->len;
        (void)kw_buf_adds(out, first ? "\"" : ",\"");
        (void)kw_buf_add(out, key.at, key.len);
        (void)kw_buf_adds(out, "\":");
        size_t victims = out->len;
        rc = copy_victims(json, out);
        if (rc < 0)
            return rc;
        if (out->failed || keeps(work, &key, out->data + victims, out->len - victims))
            first = false;
        else
            out->len = from;
    }
    (void)kw_buf_adds(out, "}");
    return rc;
}

/** Reads the Pod before all else, wherever it stands. What is malformed is found later, too. */
static int find_pod(const char *body, size_t len, struct kw_extender_pod *ret, const char **why)
{
    struct kw_json json;
    struct kw_json_token key;
    int rc;

    kw_json_begin(&json, body, len);
    if (ext_json_enter(&json, KW_JSON_OBJECT) != EXT_JSON_OPEN)
        return -EBADMSG;
    while ((rc = ext_json_key(&json, &key)) > 0) {
        bool pod = ext_json_field(&key, "Pod");
        rc = pod ? ext_pod_scan(&json, ret) : ext_json_pass(&json);
        if (pod && rc == -EINVAL)
            *why = "Pod is no object";
        if (json.error != NULL)
            *why = "the body is malformed JSON";
        if (rc < 0)
            return -EBADMSG;
    }
    if (json.error != NULL)
        *why = "the body is malformed JSON";
    return rc;
}

static int scan_body(struct kw_json *json, struct work *work, const char **why)
{
    struct kw_buf *out = work->out;
    struct kw_json_token key;
    struct kw_json_token meta = {.type = KW_JSON_NULL};
    bool converted = false;
    int rc = ext_json_enter(json, KW_JSON_OBJECT);

    if (rc != EXT_JSON_OPEN)
        return -EBADMSG;
    while ((rc = ext_json_key(json, &key)) > 0) {
        if (ext_json_field(&key, "NodeNameToMetaVictims")) {
            *why = meta_why;
            enum kw_json_type type = kw_json_skip(json, &meta);
            if (type != KW_JSON_OBJECT && type != KW_JSON_NULL)
                return -EBADMSG;
        } else if (ext_json_field(&key, "NodeNameToVictims")) {
            *why = "NodeNameToVictims is no map of victims";
            out->len = sizeof(head) - 1; /* of a key given twice the last counts */
            rc = copy_victim_map(json, work, &converted);
        } else {
            rc = ext_json_pass(json);
        }
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && kw_json_next(json, &key) != KW_JSON_END)
        return -EBADMSG;
    if (rc == 0 && meta.type == KW_JSON_OBJECT) {
        *why = meta_why;
        rc = check_meta_map(&meta);
        if (rc < 0)
            return rc;
        out->len = sizeof(head) - 1;
        if (work->gate != NULL)
            return copy_meta_map(work, &meta);
        (void)kw_buf_add(out, meta.at, meta.len);
    } else if (rc == 0 && !converted) {
        (void)kw_buf_adds(out, "{}");
    }
    return rc;
}

int ext_preempt_answer(const char *body, size_t len, const struct ext_preempt_gate *gate,
                       struct kw_buf *out, const char **ret_why)
{
    struct work work = {.out = out, .gate = gate};
    struct kw_json json;

    kw_json_begin(&json, body, len);
    *ret_why = "the body is no JSON object";
    kw_buf_reset(out);
    (void)kw_buf_adds(out, head);
    int rc = gate == NULL ? 0 : find_pod(body, len, &work.pod, ret_why);
    if (rc == 0)
        rc = scan_body(&json, &work, ret_why);
    (void)kw_buf_adds(out, "}");
    if (rc < 0) {
        if (json.error != NULL)
            *ret_why = "the body is malformed JSON";
        return rc;
    }
    if (out->failed) {
        *ret_why = "out of memory";
        return -ENOMEM;
    }
    return 0;
}
