/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extender's scanner against the tree reader of api/: both take or both refuse a body, and they
 * read the same pod and the same names. Left out of the comparison: a key given twice (in any
 * spelling), where a tree does not keep what the scanner saw and refused first; nesting and counts
 * beyond the scanner's bounds. What was taken is answered, and the answers are read back. Reading
 * it again with a finder gives the same names, and for each the node that looking it up by itself
 * gives, however often; reading it without its names gives the same answer of /filter. What was
 * read before, the same but for a byte, changes nothing.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/json_scan.h"
#include "extender/find.h"
#include "extender/protocol.h"

/** Nodes that are looked for. */
#define NODES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition)
{
    if (!condition)
        abort();
}

/** Whether some key stands twice in its object, in any spelling. */
static bool has_twins(json_t *value)
{
    bool twice = false;
    json_t *element;
    size_t i;

    json_array_foreach (value, i, element)
        twice |= has_twins(element);
    for (void *a = json_object_iter(value); a != NULL; a = json_object_iter_next(value, a)) {
        twice |= has_twins(json_object_iter_value(a));
        for (void *b = json_object_iter_next(value, a); b != NULL;
             b = json_object_iter_next(value, b))
            twice |= strcasecmp(json_object_iter_key(a), json_object_iter_key(b)) == 0;
    }
    return twice;
}

static bool has_double_key(const char *body, size_t len)
{
    json_t *strict =
        json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    bool twice = strict == NULL || has_twins(strict);

    json_decref(strict);
    return twice;
}

static bool is_nested_too_deep(const char *body, size_t len)
{
    size_t open = 0;

    for (size_t i = 0; i < len; i++)
        open += body[i] == '[' || body[i] == '{';
    return open >= KW_JSON_MAX_DEPTH;
}

static void compare_name(const struct kw_json_text *name, const struct kw_extender_name *reference)
{
    const struct kw_json_token token = {
        .type = KW_JSON_STRING, .escaped = name->escaped, .at = name->at, .len = name->len};
    kw_cleanup_free char *text = malloc(name->len + 1);

    need(text != NULL);
    size_t len = kw_json_unescape(&token, text);
    need(len == reference->len && memcmp(text, reference->text, len) == 0);
}

static void compare_pods(const struct kw_extender_pod *a, const struct kw_extender_pod *b)
{
    need(strcmp(a->uid, b->uid) == 0 && a->critical == b->critical);
    need(strcmp(a->ns, b->ns) == 0 && strcmp(a->name, b->name) == 0);
    need(strcmp(a->owner.kind, b->owner.kind) == 0 && strcmp(a->owner.name, b->owner.name) == 0);
    need(a->request_mcpu == b->request_mcpu);
    need(a->expected_mcpu == b->expected_mcpu && a->expected_mw == b->expected_mw);
    need(a->expected_life_ms == b->expected_life_ms);
    need(a->placement == b->placement && a->mirror == b->mirror);
    need(a->bad_values == b->bad_values);
}

static void compare(const struct ext_args *args, const struct kw_extender_args *reference)
{
    compare_pods(&args->pod, &reference->pod);
    need(args->has_names == reference->has_names && args->has_nodes == reference->has_nodes);
    need(args->n_names == reference->n_names && args->n_items == reference->n_nodes);
    for (size_t i = 0; i < args->n_names; i++)
        compare_name(&args->names[i], &reference->names[i]);
    for (size_t i = 0; i < args->n_items; i++)
        compare_name(&args->items[i].name, &reference->nodes[i]);
}

static void answer(const struct ext_args *args)
{
    size_t n = ext_args_count(args);
    uint8_t *scores = calloc(n + 1, 1);
    struct kw_buf out = {0};
    struct kw_filter_result result;
    struct kw_host_priority *list = NULL;
    size_t n_list = 0;

    need(scores != NULL && ext_answer_filter(args, &out) == 0);
    need(kw_filter_result_decode(out.data, out.len, &result, NULL) == 0);
    need(result.n_names == args->n_names && result.n_nodes == args->n_items);
    kw_filter_result_clear(&result);
    kw_buf_reset(&out);
    for (size_t i = 0; i < n; i++)
        scores[i] = (uint8_t)(i % 11);
    need(ext_answer_prioritize(args, scores, &out) == 0);
    need(kw_host_priorities_decode(out.data, out.len, &list, &n_list, NULL) == 0 && n_list == n);
    kw_host_priorities_free(&list, n_list);
    kw_buf_free(&out);
    free(scores);
}

/** Nodes by some names of the request. */
static struct ext_snapshot *some_nodes(const struct ext_args *args, char names[][256])
{
    static const struct kw_curve curve = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 20000, 0}, {1000, 60000, 0}}};
    struct ext_node nodes[NODES];
    size_t n = 0;

    for (size_t i = 0; i < ext_args_count(args) && n < NODES; i++) {
        const struct kw_json_text *name = ext_args_name(args, i);
        if (name->len == 0 || name->len > 255 || name->escaped || i % 3 == 2)
            continue;
        memcpy(names[n], name->at, name->len);
        nodes[n] = (struct ext_node){.name = names[n],
                                     .name_len = (uint16_t)name->len,
                                     .has_curve = true,
                                     .capacity_mcpu = (float)curve.capacity_mcpu};
        ext_hull_build(&curve, NULL, &nodes[n++].hull);
    }
    struct ext_snapshot *snapshot = ext_snapshot_new(nodes, n, 1, UINT64_C(30000000000));
    need(snapshot != NULL);
    return snapshot;
}

static void find(const char *body, size_t size, const struct ext_args *without)
{
    char names[NODES][256];
    struct ext_snapshot *snapshot = some_nodes(without, names);
    struct ext_finder finder = {0};
    struct ext_args args = {0};
    const char *why;

    for (unsigned round = 0; round < 3; round++) {
        need(ext_finder_begin(&finder, snapshot) == 0);
        need(ext_args_scan(body, size, &finder, EXT_ARGS_VERDICTS, &args, &why) == 0);
        need(ext_args_count(&args) == ext_args_count(without));
        for (size_t i = 0; i < ext_args_count(&args); i++) {
            const struct kw_json_text *name = ext_args_name(&args, i);
            const struct kw_json_text *same = ext_args_name(without, i);
            need(name->len == same->len && name->escaped == same->escaped);
            /* a list that was recalled lies elsewhere, with the same bytes */
            need(memcmp(name->at, same->at, name->len) == 0);
            const struct ext_node *node = ext_snapshot_find(snapshot, name->at, name->len);
            size_t index = node == NULL ? 0 : (size_t)(node - snapshot->nodes) + 1;
            need(name->escaped || args.indices[i] == index);
        }
    }
    ext_args_free(&args);
    ext_finder_free(&finder);
    ext_snapshot_free(&snapshot);
}

/** A filter that reads no names says the same as one that does. */
static void pass_by(const char *body, size_t size, const struct ext_args *with)
{
    struct ext_args args = {0};
    struct kw_buf out = {0}, other = {0};
    struct kw_filter_result a, b;
    const char *why;

    need(ext_args_scan(body, size, NULL, EXT_ARGS_LIST, &args, &why) == 0);
    need(ext_args_count(&args) == ext_args_count(with));
    need(ext_answer_filter(&args, &out) == 0 && ext_answer_filter(with, &other) == 0);
    need(kw_filter_result_decode(out.data, out.len, &a, NULL) == 0);
    need(kw_filter_result_decode(other.data, other.len, &b, NULL) == 0);
    need(a.n_names == b.n_names && a.n_nodes == b.n_nodes);
    for (size_t i = 0; i < a.n_names; i++)
        need(strcmp(a.names[i].text, b.names[i].text) == 0);
    kw_filter_result_clear(&a);
    kw_filter_result_clear(&b);
    kw_buf_free(&out);
    kw_buf_free(&other);
    ext_args_free(&args);
}

/** Reads one body after another, and the other by itself. */
static void read_after(const char *body, size_t size, struct ext_args *args)
{
    struct ext_args fresh = {0};
    const char *why, *fresh_why;
    int rc = ext_args_scan(body, size, NULL, EXT_ARGS_LIST, args, &why);

    need(ext_args_scan(body, size, NULL, EXT_ARGS_LIST, &fresh, &fresh_why) == rc);
    if (rc == 0) {
        compare_pods(&args->pod, &fresh.pod);
        need(args->n_names == fresh.n_names && args->n_items == fresh.n_items);
    } else {
        need(strcmp(why, fresh_why) == 0);
    }
    ext_args_free(&fresh);
}

/** Pods that differ by a byte, by turns. */
static void remember(const char *body, size_t size)
{
    static const char others[] = {'"', '\\', '}', ']', '7', ' '};
    kw_cleanup_free char *other = malloc(size + 1);
    struct ext_args args = {0};

    need(other != NULL);
    for (size_t i = 0; i < sizeof(others) && size > 0; i++) {
        memcpy(other, body, size);
        other[size * (2 * i + 1) / (2 * sizeof(others))] = others[i];
        read_after(body, size, &args);
        read_after(other, size, &args);
        read_after(other, size, &args);
    }
    ext_args_free(&args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *body = (const char *)data;
    struct ext_args args = {0};
    struct kw_extender_args reference = {0};
    const char *why = NULL;
    int rc = ext_args_scan(body, size, NULL, EXT_ARGS_NAMES, &args, &why);
    int reference_rc = kw_extender_args_decode(body, size, &reference, NULL);

    need(rc == 0 || why != NULL);
    if (rc == 0) {
        answer(&args);
        find(body, size, &args);
        pass_by(body, size, &args);
    }
    remember(body, size);
    /* jansson drops a NUL byte behind a literal; to the scanner, no document holds one */
    if (memchr(body, '\0', size) != NULL) {
        need(rc < 0);
    } else if (rc != -E2BIG && !is_nested_too_deep(body, size)) {
        bool doubled = has_double_key(body, size);
        if (rc != reference_rc)
            need(doubled && reference_rc == 0);
        else if (rc == 0 && !doubled)
            compare(&args, &reference);
    }
    kw_extender_args_clear(&reference);
    ext_args_free(&args);
    return 0;
}
