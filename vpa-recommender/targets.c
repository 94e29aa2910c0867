/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targetRef is a text that a user wrote: kind and name are checked before they enter a path. A
 * target that is controlled by something that could itself be a target (a ReplicaSet of a
 * Deployment) is refused, as the stock components do, since the resizing would be undone by its
 * controller; a controller that nobody could name (an operator's object without a scale
 * subresource) does not count.
 *
 * Errors are of two kinds. An answer (not found, forbidden, no selector) is the user's to mend and
 * becomes ConfigUnsupported. No answer (connection, time-out, 5xx) changes nothing: advice and
 * history stay.
 */
#include "vpa-recommender/targets.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"

static void free_selector(struct kw_selector *selector)
{
    kw_selector_clear(selector);
}

bool rec_api_unanswered(int rc)
{
    return rc < 0 && rc != -ENOENT && rc != -EACCES && rc != -EREMOTEIO && rc != -EEXIST;
}

int rec_api_get(struct rec_api *api, const char *path, struct kw_buf *ret_body, struct kw_err *err)
{
    if (api->calls_left == 0)
        return kw_err_set(err, -EAGAIN, "enough calls to the API server for this loop");
    api->calls_left--;
    api->calls++;
    int rc = kw_kube_get(api->kube, path, ret_body, err);
    api->errors += rc < 0 && rc != -ENOENT;
    if (rec_api_unanswered(rc))
        api->calls_left = 0;
    return rc;
}

static int unsupported(struct rec_target *target, int64_t now_unix_ms, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int unsupported(struct rec_target *target, int64_t now_unix_ms, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char *why = strdup(text);
    if (why == NULL)
        return -ENOMEM;
    rec_target_clear(target);
    target->state = REC_TARGET_UNSUPPORTED;
    target->why = why;
    target->asked_unix_ms = now_unix_ms;
    return 0;
}

/** A kind as discovery describes it. */
struct discovered {
    char *plural; /**< NULL: there is no such kind */
    bool scale;
};

static int discover(struct rec_api *api, const char *api_version, const char *kind,
                    struct discovered *ret, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    char path[KW_KUBE_PATH_MAX];

    *ret = (struct discovered){0};
    if (kw_discovery_path(path, api_version) < 0)
        return 0;
    int rc = rec_api_get(api, path, &body, err);
    if (rc == -ENOENT)
        return 0;
    if (rc < 0)
        return rc;
    rc = kw_discovery_find(body.data, body.len, kind, &ret->plural, &ret->scale, NULL);
    return rc == -ENOENT || rc == -EBADMSG ? 0 : rc;
}

/** Whether an object of this kind could be the target of a VPA. @return 1, 0, or as rec_api_get. */
static int could_be_target(struct rec_api *api, const struct kw_owner_ref *ref, struct kw_err *err)
{
    struct discovered found;

    if (kw_owner_kind_of(ref->kind) != KW_OWNER_OTHER)
        return 1;
    int rc = discover(api, ref->api_version, ref->kind, &found, err);
    free(found.plural);
    return rc < 0 ? rc : found.scale;
}

/** The target could be read: takes its selector, unless something stands above it. */
static int accept(struct rec_api *api, const struct kw_vpa *vpa, const struct kw_owner *owner,
                  struct kw_selector *selector, int64_t now_unix_ms, struct rec_target *target,
                  struct kw_err *err)
{
    if (owner->has_owner) {
        int rc = could_be_target(api, &owner->owner, err);
        if (rc < 0)
            return rc;
        if (rc > 0)
            return unsupported(target, now_unix_ms,
                               "targetRef %s %s is controlled by %s %s: name that one instead",
                               vpa->target_kind, vpa->target_name, owner->owner.kind,
                               owner->owner.name);
    }
    if (selector->n == 0)
        return unsupported(target, now_unix_ms, "targetRef %s %s selects no pods", vpa->target_kind,
                           vpa->target_name);
    rec_target_clear(target);
    target->state = REC_TARGET_FOUND;
    target->selector = *selector;
    target->asked_unix_ms = now_unix_ms;
    memset(selector, 0, sizeof(*selector));
    return 0;
}

/** An answer that is the user's to mend. @return 0, or rc where it was no answer. */
static int refuse(const struct kw_vpa *vpa, int rc, int64_t now_unix_ms, struct rec_target *target)
{
    if (rc == -ENOENT)
        return unsupported(target, now_unix_ms, "targetRef %s %s does not exist in namespace %s",
                           vpa->target_kind, vpa->target_name, vpa->namespace_);
    if (rc == -EACCES && target->state != REC_TARGET_FOUND)
        return unsupported(target, now_unix_ms, "the recommender may not read targetRef %s %s",
                           vpa->target_kind, vpa->target_name);
    if (rc == -EBADMSG)
        return unsupported(target, now_unix_ms, "targetRef %s %s has no selector that can be read",
                           vpa->target_kind, vpa->target_name);
    return rc;
}

static int resolve_known(struct rec_api *api, const struct kw_vpa *vpa, enum kw_owner_kind kind,
                         int64_t now_unix_ms, struct rec_target *target, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    kw_cleanup(kw_owner_clear) struct kw_owner owner = {0};
    char path[KW_KUBE_PATH_MAX];

    if (kw_owner_path(path, kind, vpa->namespace_, vpa->target_name) < 0)
        return unsupported(target, now_unix_ms, "targetRef.name is no name of an object");
    int rc = rec_api_get(api, path, &body, err);
    if (rc == 0)
        rc = kw_owner_decode(kind, body.data, body.len, &owner, NULL);
    if (rc < 0)
        return refuse(vpa, rc, now_unix_ms, target);
    return accept(api, vpa, &owner, &owner.selector, now_unix_ms, target, err);
}

static int resolve_scale(struct rec_api *api, const struct kw_vpa *vpa, const char *plural,
                         int64_t now_unix_ms, struct rec_target *target, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0}, scale = {0};
    kw_cleanup(kw_owner_clear) struct kw_owner owner = {0};
    kw_cleanup(free_selector) struct kw_selector selector = {0};
    char path[KW_KUBE_PATH_MAX];

    if (kw_resource_path(path, vpa->target_api_version, vpa->namespace_, plural, vpa->target_name,
                         true) < 0)
        return unsupported(target, now_unix_ms, "targetRef.name is no name of an object");
    int rc = rec_api_get(api, path, &scale, err);
    if (rc == 0)
        rc = kw_scale_decode(scale.data, scale.len, &selector, NULL);
    if (rc < 0)
        return refuse(vpa, rc, now_unix_ms, target);
    /* the object itself says who controls it; the right to read its scale may be all there is */
    (void)kw_resource_path(path, vpa->target_api_version, vpa->namespace_, plural, vpa->target_name,
                           false);
    rc = rec_api_get(api, path, &body, err);
    if (rc == 0)
        rc = kw_owner_decode(KW_OWNER_OTHER, body.data, body.len, &owner, NULL);
    if (rc < 0 && rc != -EACCES && rc != -EBADMSG)
        return refuse(vpa, rc, now_unix_ms, target);
    return accept(api, vpa, &owner, &selector, now_unix_ms, target, err);
}

int rec_target_resolve(struct rec_api *api, const struct kw_vpa *vpa, int64_t now_unix_ms,
                       struct rec_target *target, struct kw_err *err)
{
    enum kw_owner_kind kind = kw_owner_kind_of(vpa->target_kind);
    struct discovered found;

    if (kind != KW_OWNER_OTHER)
        return resolve_known(api, vpa, kind, now_unix_ms, target, err);
    int rc = discover(api, vpa->target_api_version, vpa->target_kind, &found, err);
    kw_cleanup_free char *plural = found.plural;
    if (rc < 0)
        return refuse(vpa, rc, now_unix_ms, target);
    if (plural == NULL)
        return unsupported(target, now_unix_ms,
                           "targetRef: the API server has no kind %s in \"%s\"", vpa->target_kind,
                           vpa->target_api_version);
    if (!found.scale)
        return unsupported(target, now_unix_ms,
                           "targetRef: kind %s has no scale subresource to find its pods by",
                           vpa->target_kind);
    return resolve_scale(api, vpa, plural, now_unix_ms, target, err);
}
