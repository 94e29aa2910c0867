/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "common/json_scan.h"

/*
 * Steps over common/json_scan.h that readers of foreign objects need: go into a container if it is
 * one, and pass over whatever else stands there. All return -EBADMSG where the document is
 * malformed (json->error says how).
 */

/** What stood where a container was looked for. */
enum ext_json_found {
    EXT_JSON_OTHER, /**< another type, passed over */
    EXT_JSON_NULL,
    EXT_JSON_OPEN, /**< the container; its content comes next */
    EXT_JSON_LAST, /**< the end of the array around it */
};

/** Goes into the next value if it is a `want` (KW_JSON_OBJECT or KW_JSON_ARRAY). @return enum
 * ext_json_found or -EBADMSG. */
int ext_json_enter(struct kw_json *json, enum kw_json_type want);

/** Next member of an object. @return 1 with its key; 0 at the object's end; -EBADMSG. */
int ext_json_key(struct kw_json *json, struct kw_json_token *ret_key);

/** Takes the next value as a scalar; a container is passed over and its type returned. @return 0 or
 * -EBADMSG. */
int ext_json_scalar(struct kw_json *json, struct kw_json_token *ret);

/** Passes over the next value. @return 0 or -EBADMSG. */
int ext_json_pass(struct kw_json *json);

/**
 * Whether a key names this field. Go's decoder, which the scheduler's other extenders read with,
 * takes fields in any case and at any depth, so we do; the keys of maps (annotations, labels, lists
 * of resources) are text and not fields.
 */
static inline bool ext_json_field(const struct kw_json_token *key, const char *name)
{
    const size_t len = strlen(name);

    /* nearly always it is another field, or spelt as Kubernetes does */
    if (!key->escaped && key->len != len)
        return false;
    return (!key->escaped && memcmp(key->at, name, len) == 0) || kw_json_equals(key, name, true);
}

/** Whether a key or string is exactly `text`. */
static inline bool ext_json_is(const struct kw_json_token *token, const char *text)
{
    return kw_json_equals(token, text, false);
}
