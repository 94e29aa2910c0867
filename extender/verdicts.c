/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of /filter where caps have a say. Apart from the one without, which is most answers
 * and copies its list whole.
 */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "extender/protocol.h"

/** Appends where room was reserved. */
static char *put(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

#define PUT_TEXT(at, text) put(at, text, sizeof(text) - 1)

static size_t room_of(const struct ext_args *args)
{
    size_t room = 256; /* the frame around the lists */
    size_t n = ext_args_count(args);

    for (size_t i = 0; args->has_nodes && i < args->n_items; i++)
        room += args->items[i].len + strlen(",");
    for (size_t i = 0; i < n; i++)
        room += ext_args_name(args, i)->len + strlen(ext_cap_texts[args->verdicts[i]]) +
                strlen("\"\":\"\",");
    return room;
}

static char *put_items(const struct ext_args *args, char *at)
{
    bool first = true;

    at = PUT_TEXT(at, "{\"metadata\":{},\"items\":[");
    for (size_t i = 0; i < args->n_items; i++) {
        /* where both lists are given, NodeNames is what verdicts are of */
        if (!args->has_names && args->verdicts[i] != EXT_CAP_PASSES)
            continue;
        if (!first)
            *at++ = ',';
        first = false;
        at = put(at, args->items[i].at, args->items[i].len);
    }
    return PUT_TEXT(at, "]}");
}

static char *put_names(const struct ext_args *args, char *at)
{
    bool first = true;

    *at++ = '[';
    for (size_t i = 0; i < args->n_names; i++) {
        if (args->verdicts[i] != EXT_CAP_PASSES)
            continue;
        if (!first)
            *at++ = ',';
        first = false;
        *at++ = '"';
        at = kw_bytes_put(at, args->names[i].at, args->names[i].len);
        *at++ = '"';
    }
    *at++ = ']';
    return at;
}

/** The candidates that did not pass, for which evicting may help or does not, with their reasons.
 */
static char *put_failed(const struct ext_args *args, bool resolvable, char *at)
{
    size_t n = ext_args_count(args);
    bool first = true;

    *at++ = '{';
    for (size_t i = 0; i < n; i++) {
        enum ext_cap_verdict verdict = (enum ext_cap_verdict)args->verdicts[i];
        if (verdict == EXT_CAP_PASSES || (verdict == EXT_CAP_NODE) != resolvable)
            continue;
        const struct kw_json_text *name = ext_args_name(args, i);
        if (!first)
            *at++ = ',';
        first = false;
        *at++ = '"';
        at = put(at, name->at, name->len);
        at = PUT_TEXT(at, "\":\"");
        at = put(at, ext_cap_texts[verdict], strlen(ext_cap_texts[verdict]));
        *at++ = '"';
    }
    *at++ = '}';
    return at;
}

int ext_answer_verdicts(const struct ext_args *args, struct kw_buf *out)
{
    if (kw_buf_reserve(out, room_of(args)) < 0)
        return -ENOMEM;
    char *at = PUT_TEXT(out->data + out->len, "{\"Nodes\":");
    at = args->has_nodes ? put_items(args, at) : PUT_TEXT(at, "null");
    at = PUT_TEXT(at, ",\"NodeNames\":");
    at = args->has_names ? put_names(args, at) : PUT_TEXT(at, "null");
    at = PUT_TEXT(at, ",\"FailedNodes\":");
    at = put_failed(args, true, at);
    at = PUT_TEXT(at, ",\"FailedAndUnresolvableNodes\":");
    at = put_failed(args, false, at);
    at = PUT_TEXT(at, ",\"Error\":\"\"}");
    out->len = (size_t)(at - out->data);
    *at = '\0';
    return 0;
}
