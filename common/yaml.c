/* SPDX-License-Identifier: Apache-2.0 */
#include "common/yaml.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/cleanup.h"
#include "common/utf8.h"

/*
 * The tree is built from libyaml's events by recursive descent. Bounded are: bytes of the input,
 * depth (which bounds the recursion), and nodes. What makes YAML surprising is refused with a plain
 * text instead of being half supported: anchors and aliases (a few lines can expand to gigabytes),
 * tags, merge keys, keys that are no scalars, repeated keys, several documents, NUL bytes in text.
 *
 * Scalars stay text: what a number or a truth value is, the reader of a key decides. Only "nothing"
 * is told apart here, since only the parser knows whether it was quoted.
 *
 * Cost: linear in the input, but for the search of repeated keys, n log n for each map.
 */

#define MAX_BYTES (4U << 20) /* a kubeconfig with embedded certificates is some 10 kB a cluster */
#define MAX_DEPTH 32         /* our files need 4, a kubeconfig 5 */
#define MAX_NODES 65536      /* 100 bytes each: a few MB at worst */

struct builder {
    yaml_parser_t parser;
    yaml_event_t event; /* the present one; deleted by next_event() */
    const char *name;
    struct kw_err *err;
    const char *bytes;
    size_t len;
    size_t nodes;
};

static void free_node(struct kw_yaml *node)
{
    free((char *)node->text);
    for (size_t i = 0; i < node->n; i++) {
        if (node->keys != NULL)
            free((char *)node->keys[i]);
        free_node(&node->children[i]);
    }
    free(node->keys);
    free(node->key_lines);
    free(node->children);
    *node = (struct kw_yaml){0};
}

void kw_yaml_free(struct kw_yaml **doc)
{
    if (*doc == NULL)
        return;
    free_node(*doc);
    free(*doc);
    *doc = NULL;
}

static int out_of_memory(const struct builder *b)
{
    (void)kw_err_set(b->err, -ENOMEM, "%s: out of memory", b->name);
    return -ENOMEM;
}

static int refuse(const struct builder *b, unsigned line, const char *cause)
{
    (void)kw_err_set(b->err, -EINVAL, "%s:%u: %s", b->name, line, cause);
    return -EINVAL;
}

static int parser_error(const struct builder *b)
{
    const yaml_parser_t *p = &b->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return out_of_memory(b);
    const char *problem = p->problem != NULL ? p->problem : "not understood";
    unsigned line = (unsigned)p->problem_mark.line + 1;
    if (p->error == YAML_READER_ERROR) { /* knows an offset only */
        line = 1;
        for (size_t i = 0; i < p->problem_offset && i < b->len; i++)
            line += b->bytes[i] == '\n';
    }
    (void)kw_err_set(b->err, -EINVAL, "%s:%u: no valid YAML: %s%s%s", b->name, line, problem,
                     p->context != NULL ? " " : "", p->context != NULL ? p->context : "");
    return -EINVAL;
}

static int next_event(struct builder *b)
{
    yaml_event_delete(&b->event);
    if (!yaml_parser_parse(&b->parser, &b->event))
        return parser_error(b);
    return 0;
}

static unsigned event_line(const struct builder *b)
{
    return (unsigned)b->event.start_mark.line + 1;
}

/* What no node may carry. */
static int check_node(struct builder *b)
{
    const yaml_char_t *anchor = NULL;
    const yaml_char_t *tag = NULL;
    switch (b->event.type) {
    case YAML_SCALAR_EVENT:
        anchor = b->event.data.scalar.anchor;
        tag = b->event.data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = b->event.data.sequence_start.anchor;
        tag = b->event.data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = b->event.data.mapping_start.anchor;
        tag = b->event.data.mapping_start.tag;
        break;
    default: return refuse(b, event_line(b), "aliases (*name) are not supported; write it out");
    }
    if (anchor != NULL)
        return refuse(b, event_line(b), "anchors (&name) are not supported; write it out");
    if (tag != NULL)
        return refuse(b, event_line(b), "tags (!name) are not supported");
    if (++b->nodes > MAX_NODES)
        return refuse(b, event_line(b), "too many values (at most 65536)");
    return 0;
}

static int take_scalar(struct builder *b, char **ret)
{
    const char *value = (const char *)b->event.data.scalar.value;
    size_t len = b->event.data.scalar.length;
    if (memchr(value, '\0', len) != NULL)
        return refuse(b, event_line(b), "a NUL byte in a text");
    /* libyaml checks UTF-8 of the file, but an escape such as "\uD800" gets past it */
    for (size_t i = 0; i < len;) {
        size_t width = kw_utf8_next(value + i, len - i, NULL);
        if (width == 0)
            return refuse(b, event_line(b), "a text that is no UTF-8");
        i += width;
    }
    *ret = strndup(value, len);
    return *ret != NULL ? 0 : out_of_memory(b);
}

static bool is_null(const struct builder *b)
{
    if (b->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    const char *value = (const char *)b->event.data.scalar.value;
    return value[0] == '\0' || strcmp(value, "~") == 0 || strcmp(value, "null") == 0;
}

/* Room for one more of n. Capacity is the next power of two, so it needs no field. */
static void *grow(void *array, size_t n, size_t size)
{
    if (n != 0 && (n & (n - 1)) != 0)
        return array;
    return reallocarray(array, n == 0 ? 1 : 2 * n, size);
}

static int grow_children(struct builder *b, struct kw_yaml *node)
{
    struct kw_yaml *children = grow(node->children, node->n, sizeof(*children));
    if (children == NULL)
        return out_of_memory(b);
    node->children = children;
    return 0;
}

static int grow_keys(struct builder *b, struct kw_yaml *map)
{
    const char **keys = grow(map->keys, map->n, sizeof(*keys));
    if (keys == NULL)
        return out_of_memory(b);
    map->keys = keys;
    unsigned *lines = grow(map->key_lines, map->n, sizeof(*lines));
    if (lines == NULL)
        return out_of_memory(b);
    map->key_lines = lines;
    return 0;
}

static int by_key_then_place(const void *a, const void *b, void *keys_arg)
{
    const char *const *keys = keys_arg;
    size_t i = *(const size_t *)a;
    size_t k = *(const size_t *)b;
    int order = strcmp(keys[i], keys[k]);
    if (order != 0)
        return order;
    return i < k ? -1 : i > k;
}

static int check_repeated_keys(const struct builder *b, const struct kw_yaml *map)
{
    if (map->n < 2)
        return 0;
    kw_cleanup_free size_t *order = reallocarray(NULL, map->n, sizeof(*order));
    if (order == NULL)
        return out_of_memory(b);
    for (size_t i = 0; i < map->n; i++)
        order[i] = i;
    qsort_r(order, map->n, sizeof(*order), by_key_then_place, (void *)map->keys);
    for (size_t i = 1; i < map->n; i++) {
        if (strcmp(map->keys[order[i - 1]], map->keys[order[i]]) != 0)
            continue;
        (void)kw_err_set(b->err, -EINVAL, "%s:%u: key \"%.80s\" was already given in line %u",
                         b->name, map->key_lines[order[i]], map->keys[order[i]],
                         map->key_lines[order[i - 1]]);
        return -EINVAL;
    }
    return 0;
}

static int build_node(struct builder *b, struct kw_yaml *node, unsigned depth);

/* The key at hand and its value, as the last child of `map`. */
static int build_pair(struct builder *b, struct kw_yaml *map, unsigned depth)
{
    int rc = check_node(b);
    if (rc < 0)
        return rc;
    if (b->event.type != YAML_SCALAR_EVENT)
        return refuse(b, event_line(b), "a key must be a plain text");
    if (b->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        strcmp((const char *)b->event.data.scalar.value, "<<") == 0)
        return refuse(b, event_line(b), "merge keys (<<) are not supported; write it out");

    unsigned line = event_line(b);
    kw_cleanup_free char *key = NULL;
    rc = take_scalar(b, &key);
    if (rc == 0)
        rc = next_event(b);
    if (rc < 0)
        return rc;
    struct kw_yaml value = {0};
    rc = build_node(b, &value, depth + 1);
    if (rc == 0)
        rc = grow_children(b, map);
    if (rc == 0)
        rc = grow_keys(b, map);
    if (rc != 0) {
        free_node(&value);
        return rc;
    }
    map->keys[map->n] = KW_TAKE_PTR(key);
    map->key_lines[map->n] = line;
    map->children[map->n++] = value;
    return 0;
}

static int build_item(struct builder *b, struct kw_yaml *list, unsigned depth)
{
    struct kw_yaml value = {0};
    int rc = build_node(b, &value, depth + 1);
    if (rc == 0)
        rc = grow_children(b, list);
    if (rc != 0) {
        free_node(&value);
        return rc;
    }
    list->children[list->n++] = value;
    return 0;
}

/* Builds from the event at hand; leaves the node's last event at hand. On failure `node` may hold
 * parts. */
static int build_node(struct builder *b, struct kw_yaml *node, unsigned depth)
{
    node->line = event_line(b);
    if (depth > MAX_DEPTH)
        return refuse(b, node->line, "nested too deeply (at most 32 levels)");
    int rc = check_node(b);
    if (rc < 0)
        return rc;

    if (b->event.type == YAML_SCALAR_EVENT) {
        node->type = KW_YAML_SCALAR;
        node->null = is_null(b);
        char *text = node->null ? strdup("") : NULL;
        if (node->null && text == NULL)
            return out_of_memory(b);
        if (!node->null)
            rc = take_scalar(b, &text);
        node->text = text;
        return rc;
    }

    bool map = b->event.type == YAML_MAPPING_START_EVENT;
    node->type = map ? KW_YAML_MAP : KW_YAML_LIST;
    for (;;) {
        rc = next_event(b);
        if (rc < 0)
            return rc;
        if (b->event.type == (map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT))
            return map ? check_repeated_keys(b, node) : 0;
        rc = map ? build_pair(b, node, depth) : build_item(b, node, depth);
        if (rc < 0)
            return rc;
    }
}

static int build_document(struct builder *b, struct kw_yaml *root)
{
    /* stream start, then the document's start or the stream's end */
    int rc = next_event(b);
    if (rc == 0)
        rc = next_event(b);
    if (rc < 0)
        return rc;
    root->type = KW_YAML_MAP;
    root->line = 1;
    if (b->event.type == YAML_STREAM_END_EVENT)
        return 0;

    rc = next_event(b);
    if (rc == 0)
        rc = build_node(b, root, 1);
    if (rc == 0)
        rc = next_event(b); /* the document's end */
    if (rc == 0)
        rc = next_event(b);
    if (rc < 0)
        return rc;
    if (b->event.type != YAML_STREAM_END_EVENT)
        return refuse(b, event_line(b), "a second document; only one is expected");
    if (root->type == KW_YAML_SCALAR && root->null) { /* "---" and nothing else */
        free_node(root);
        root->type = KW_YAML_MAP;
        root->line = 1;
    }
    return 0;
}

int kw_yaml_parse(const char *name, const char *bytes, size_t len, struct kw_yaml **ret,
                  struct kw_err *err)
{
    if (len > MAX_BYTES)
        return kw_err_set(err, -EINVAL, "%s:1: larger than 4 MiB", name);
    struct builder b = {.name = name, .err = err, .bytes = bytes, .len = len};
    kw_cleanup(kw_yaml_free) struct kw_yaml *root = calloc(1, sizeof(*root));
    if (root == NULL || !yaml_parser_initialize(&b.parser))
        return out_of_memory(&b);
    /* not guessed: the offset of an error is counted in these bytes */
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    size_t mark = kw_utf8_mark(bytes, len); /* libyaml counts it as a column */
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)bytes + mark, len - mark);
    int rc = build_document(&b, root);
    yaml_event_delete(&b.event);
    yaml_parser_delete(&b.parser);
    if (rc < 0)
        return rc;
    *ret = KW_TAKE_PTR(root);
    return 0;
}

const struct kw_yaml *kw_yaml_get(const struct kw_yaml *node, const char *key)
{
    if (node == NULL || node->type != KW_YAML_MAP)
        return NULL;
    for (size_t i = 0; i < node->n; i++) {
        if (strcmp(node->keys[i], key) == 0)
            return &node->children[i];
    }
    return NULL;
}

const char *kw_yaml_text(const struct kw_yaml *node, const char *key)
{
    const struct kw_yaml *child = kw_yaml_get(node, key);
    return child != NULL && child->type == KW_YAML_SCALAR ? child->text : NULL;
}
