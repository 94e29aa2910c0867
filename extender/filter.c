/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of /filter where every candidate passes, which is most answers: the list as it was
 * received, with constant texts around it. Where there is room for these, they are written around
 * the list in the request's own buffer, and nothing is copied.
 */
#include <errno.h>
#include <string.h>

#include "extender/protocol.h"

#define TEXT_LEN(text) (sizeof(text) - 1)

#define NODES   "{\"Nodes\":"
#define NAMES   ",\"NodeNames\":"
#define NOTHING "null"
#define END     ",\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}"

/** Appends where room was reserved. */
static char *put(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

#define PUT_TEXT(at, text) put(at, text, TEXT_LEN(text))

static bool is_no_name(const struct kw_json_text *name)
{
    return name->at == ext_no_name.at;
}

/** Candidates from `from` on up to the next null. @return the one behind the last. */
static size_t run_end(const struct ext_args *args, size_t from)
{
    while (from < args->n_names && !is_no_name(&args->names[from]))
        from++;
    return from;
}

/**
 * The elements of NodeNames. What stands side by side in the body goes over as it is, commas
 * included: one copy for the whole list as a scheduler sends it.
 */
static char *put_names(char *at, const struct ext_args *args)
{
    if (args->list != NULL)
        return put(at, args->list, args->list_len);
    for (size_t i = 0; i < args->n_names;) {
        size_t end = run_end(args, i);
        if (i > 0)
            *at++ = ',';
        if (end == i) { /* null, which is the empty name */
            at = PUT_TEXT(at, "\"\"");
            i++;
            continue;
        }
        const char *first = args->names[i].at - 1; /* its quote */
        const struct kw_json_text *last = &args->names[end - 1];
        at = put(at, first, (size_t)(last->at + last->len + 1 - first));
        i = end;
    }
    return at;
}

static size_t filter_room(const struct ext_args *args)
{
    size_t room = 256; /* the frame around the two lists */

    if (args->has_names)
        room += args->body_len; /* nothing of the list becomes longer */
    for (size_t i = 0; args->has_nodes && i < args->n_items; i++)
        room += args->items[i].len + TEXT_LEN(",");
    return room;
}

/** Ends what a program appended at `end` of reserved room. */
static void close_buf(struct kw_buf *out, char *end)
{
    out->len = (size_t)(end - out->data);
    *end = '\0';
}

int ext_answer_filter(const struct ext_args *args, struct kw_buf *out)
{
    if (kw_buf_reserve(out, filter_room(args)) < 0)
        return -ENOMEM;
    char *at = PUT_TEXT(out->data + out->len, NODES);
    if (args->has_nodes) {
        at = PUT_TEXT(at, "{\"metadata\":{},\"items\":[");
        for (size_t i = 0; i < args->n_items; i++) {
            if (i > 0)
                *at++ = ',';
            at = put(at, args->items[i].at, args->items[i].len);
        }
        at = PUT_TEXT(at, "]}");
    } else {
        at = PUT_TEXT(at, NOTHING);
    }
    at = PUT_TEXT(at, NAMES);
    if (args->has_names) {
        *at++ = '[';
        at = put_names(at, args);
        *at++ = ']';
    } else {
        at = PUT_TEXT(at, NOTHING);
    }
    at = PUT_TEXT(at, END);
    close_buf(out, at);
    return 0;
}

int ext_lend_filter(const struct ext_args *args, struct ext_lent *lent)
{
    static const char before[] = NODES NOTHING NAMES "[";
    static const char behind[] = "]" END;
    const struct kw_buf *body = lent->body;

    if (args->list == NULL || args->has_nodes || body == NULL)
        return 0;
    size_t from = (size_t)(args->list - body->data);
    size_t end = from + args->list_len;
    if (from < TEXT_LEN(before) || body->cap - end < TEXT_LEN(behind))
        return 0;
    from -= TEXT_LEN(before);
    memcpy(body->data + from, before, TEXT_LEN(before));
    memcpy(body->data + end, behind, TEXT_LEN(behind));
    lent->bytes = body->data + from;
    lent->len = end - from + TEXT_LEN(behind);
    return 1;
}

int ext_answer_filter_error(const char *why, struct kw_buf *out)
{
    (void)kw_buf_adds(out, "{\"Nodes\":null,\"NodeNames\":null,\"FailedNodes\":{},"
                           "\"FailedAndUnresolvableNodes\":{},\"Error\":\"kwatt: ");
    (void)kw_buf_adds(out, why);
    (void)kw_buf_adds(out, "\"}");
    return out->failed ? -ENOMEM : 0;
}
