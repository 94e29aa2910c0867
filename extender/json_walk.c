/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/json_walk.h"

#include <errno.h>

/** After an opening bracket was taken: passes over the rest of that container. */
static int drain(struct kw_json *json)
{
    struct kw_json_token token;
    unsigned open = 1;

    while (open > 0) {
        switch (kw_json_next(json, &token)) {
        case KW_JSON_ERROR:
        case KW_JSON_END: return -EBADMSG;
        case KW_JSON_OBJECT:
        case KW_JSON_ARRAY: open++; break;
        case KW_JSON_OBJECT_END:
        case KW_JSON_ARRAY_END: open--; break;
        default: break;
        }
    }
    return 0;
}

int ext_json_enter(struct kw_json *json, enum kw_json_type want)
{
    struct kw_json_token token;
    enum kw_json_type type = kw_json_next(json, &token);

    if (type == want)
        return EXT_JSON_OPEN;
    switch (type) {
    case KW_JSON_ERROR:
    case KW_JSON_END: return -EBADMSG;
    case KW_JSON_NULL: return EXT_JSON_NULL;
    case KW_JSON_ARRAY_END: return EXT_JSON_LAST;
    case KW_JSON_OBJECT:
    case KW_JSON_ARRAY: return drain(json) < 0 ? -EBADMSG : EXT_JSON_OTHER;
    default: return EXT_JSON_OTHER;
    }
}

int ext_json_key(struct kw_json *json, struct kw_json_token *ret_key)
{
    switch (kw_json_next(json, ret_key)) {
    case KW_JSON_KEY: return 1;
    case KW_JSON_OBJECT_END: return 0;
    default: return -EBADMSG;
    }
}

int ext_json_scalar(struct kw_json *json, struct kw_json_token *ret)
{
    enum kw_json_type type = kw_json_next(json, ret);

    if (type == KW_JSON_ERROR || type == KW_JSON_END)
        return -EBADMSG;
    if (type == KW_JSON_OBJECT || type == KW_JSON_ARRAY)
        return drain(json);
    return 0;
}

int ext_json_pass(struct kw_json *json)
{
    return kw_json_skip(json, NULL) == KW_JSON_ERROR ? -EBADMSG : 0;
}
