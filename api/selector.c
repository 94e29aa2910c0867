/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors come in two spellings: an object with matchLabels and matchExpressions, and, from the
 * scale subresource of any custom kind, a text. Both become one list of requirements, so that
 * matching has one rule. The text is parsed in one pass by a cursor: blanks are allowed around
 * every word, a value may be empty
 * ("app="), and whatever is left over is an error; nothing is guessed.
 */
#include "api/selector.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/selector_json.h"

static int compare_pairs(const void *a, const void *b)
{
    return strcmp(((const struct kw_label_pair *)a)->key, ((const struct kw_label_pair *)b)->key);
}

const char *kw_labels_get(const struct kw_labels *labels, const char *key)
{
    size_t low = 0, high = labels->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(labels->items[middle].key, key);
        if (order == 0)
            return labels->items[middle].value;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

void kw_labels_clear(struct kw_labels *labels)
{
    for (size_t i = 0; i < labels->n; i++) {
        free(labels->items[i].key);
        free(labels->items[i].value);
    }
    free(labels->items);
    memset(labels, 0, sizeof(*labels));
}

void kw_selector_clear(struct kw_selector *selector)
{
    for (size_t i = 0; i < selector->n; i++) {
        struct kw_requirement *requirement = &selector->items[i];
        for (size_t j = 0; j < requirement->n_values; j++)
            free(requirement->values[j]);
        free(requirement->values);
        free(requirement->key);
    }
    free(selector->items);
    memset(selector, 0, sizeof(*selector));
}

static bool has_value(const struct kw_requirement *requirement, const char *value)
{
    for (size_t i = 0; i < requirement->n_values; i++) {
        if (strcmp(requirement->values[i], value) == 0)
            return true;
    }
    return false;
}

bool kw_selector_match(const struct kw_selector *selector, const struct kw_labels *labels)
{
    for (size_t i = 0; i < selector->n; i++) {
        const struct kw_requirement *requirement = &selector->items[i];
        const char *value = kw_labels_get(labels, requirement->key);
        bool holds = false;
        switch (requirement->op) {
        case KW_SELECTOR_IN: holds = value != NULL && has_value(requirement, value); break;
        case KW_SELECTOR_NOT_IN: holds = value == NULL || !has_value(requirement, value); break;
        case KW_SELECTOR_EXISTS: holds = value != NULL; break;
        case KW_SELECTOR_ABSENT: holds = value == NULL; break;
        case KW_SELECTOR__MAX: break;
        }
        if (!holds)
            return false;
    }
    return selector->n > 0;
}

/** Appends an empty requirement. @return NULL on ENOMEM or too many. */
static struct kw_requirement *add_requirement(struct kw_selector *selector, const char *key,
                                              size_t len, enum kw_selector_op op)
{
    if (selector->n >= KW_REQUIREMENTS_MAX)
        return NULL;
    struct kw_requirement *items =
        realloc(selector->items, (selector->n + 1) * sizeof(*selector->items));
    if (items == NULL)
        return NULL;
    selector->items = items;
    char *copy = strndup(key, len);
    if (copy == NULL)
        return NULL;
    items[selector->n] = (struct kw_requirement){.key = copy, .op = op};
    return &items[selector->n++];
}

static int add_value(struct kw_requirement *requirement, const char *value, size_t len)
{
    if (requirement->n_values >= KW_REQUIREMENTS_MAX)
        return -EBADMSG;
    char **values =
        realloc(requirement->values, (requirement->n_values + 1) * sizeof(*requirement->values));
    if (values == NULL)
        return -ENOMEM;
    requirement->values = values;
    values[requirement->n_values] = strndup(value, len);
    if (values[requirement->n_values] == NULL)
        return -ENOMEM;
    requirement->n_values++;
    return 0;
}

/* ---- text form ---- */

struct cursor {
    const char *at, *end;
};

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t'))
        cursor->at++;
}

static bool take(struct cursor *cursor, const char *token)
{
    size_t len = strlen(token);

    skip_blanks(cursor);
    if ((size_t)(cursor->end - cursor->at) < len || memcmp(cursor->at, token, len) != 0)
        return false;
    cursor->at += len;
    return true;
}

/** A run of the characters that keys and values are made of. @return its length, maybe 0. */
static size_t word(struct cursor *cursor, const char **ret)
{
    skip_blanks(cursor);
    *ret = cursor->at;
    while (cursor->at < cursor->end &&
           (*cursor->at == '-' || *cursor->at == '_' || *cursor->at == '.' || *cursor->at == '/' ||
            (*cursor->at >= '0' && *cursor->at <= '9') ||
            (*cursor->at >= 'a' && *cursor->at <= 'z') ||
            (*cursor->at >= 'A' && *cursor->at <= 'Z')))
        cursor->at++;
    return (size_t)(cursor->at - *ret);
}

static int parse_set(struct cursor *cursor, struct kw_requirement *requirement, const char **why)
{
    if (!take(cursor, "(")) {
        *why = "a set of values must stand in parentheses";
        return -EBADMSG;
    }
    do {
        const char *value;
        size_t len = word(cursor, &value);
        int rc = add_value(requirement, value, len);
        if (rc < 0) {
            *why = "too many values";
            return rc;
        }
    } while (take(cursor, ","));
    if (take(cursor, ")"))
        return 0;
    *why = "a set of values is not closed";
    return -EBADMSG;
}

static int parse_requirement(struct cursor *cursor, struct kw_selector *selector, const char **why)
{
    bool absent = take(cursor, "!");
    const char *key;
    size_t len = word(cursor, &key);
    enum kw_selector_op op = KW_SELECTOR_EXISTS;
    bool set = false;

    *why = "a requirement without a key";
    if (len == 0)
        return -EBADMSG;
    if (absent) {
        op = KW_SELECTOR_ABSENT;
    } else if (take(cursor, "!=")) {
        op = KW_SELECTOR_NOT_IN;
    } else if (take(cursor, "==") || take(cursor, "=")) {
        op = KW_SELECTOR_IN;
    } else if (take(cursor, "notin")) {
        op = KW_SELECTOR_NOT_IN;
        set = true;
    } else if (take(cursor, "in")) {
        op = KW_SELECTOR_IN;
        set = true;
    }
    *why = "too many requirements";
    struct kw_requirement *requirement = add_requirement(selector, key, len, op);
    if (requirement == NULL)
        return selector->n >= KW_REQUIREMENTS_MAX ? -EBADMSG : -ENOMEM;
    if (set)
        return parse_set(cursor, requirement, why);
    if (op == KW_SELECTOR_EXISTS || op == KW_SELECTOR_ABSENT)
        return 0;
    const char *value;
    len = word(cursor, &value);
    return add_value(requirement, value, len);
}

int kw_selector_parse(const char *text, size_t len, struct kw_selector *ret, const char **ret_why)
{
    struct cursor cursor = {.at = text, .end = text + len};
    struct kw_selector selector = {0};
    const char *why = NULL;
    int rc = 0;

    skip_blanks(&cursor);
    while (rc == 0 && cursor.at < cursor.end) {
        rc = parse_requirement(&cursor, &selector, &why);
        skip_blanks(&cursor);
        if (rc < 0 || cursor.at == cursor.end)
            break;
        if (!take(&cursor, ",")) {
            why = "requirements are separated by commas";
            rc = -EBADMSG;
            break;
        }
        skip_blanks(&cursor);
        if (cursor.at == cursor.end) {
            why = "a comma at the end";
            rc = -EBADMSG;
        }
    }
    if (rc < 0) {
        kw_selector_clear(&selector);
        if (rc == -EBADMSG && ret_why != NULL)
            *ret_why = why;
        return rc;
    }
    *ret = selector;
    return 0;
}

/* ---- JSON forms ---- */

void kw_labels_from_json(struct kw_reader *reader, const json_t *map, struct kw_labels *ret)
{
    struct kw_labels labels = {0};
    size_t n = map == NULL ? 0 : json_object_size(map);
    const char *key;
    json_t *value;

    *ret = labels;
    if (reader->rc < 0 || n == 0)
        return;
    if (n > KW_LABELS_MAX) {
        kw_reader_fail(reader, -EBADMSG, "labels: too many");
        return;
    }
    labels.items = calloc(n, sizeof(*labels.items));
    if (labels.items == NULL) {
        kw_reader_fail(reader, -ENOMEM, NULL);
        return;
    }
    json_object_foreach ((json_t *)map, key, value) {
        if (!json_is_string(value) || kw_text_has_nul(value)) {
            kw_reader_fail(reader, -EBADMSG, "labels: a value is no text");
            break;
        }
        struct kw_label_pair *pair = &labels.items[labels.n++];
        pair->key = strdup(key);
        pair->value = strdup(json_string_value(value));
        if (pair->key == NULL || pair->value == NULL) {
            kw_reader_fail(reader, -ENOMEM, NULL);
            break;
        }
    }
    if (reader->rc < 0) {
        kw_labels_clear(&labels);
        return;
    }
    qsort(labels.items, labels.n, sizeof(*labels.items), compare_pairs);
    *ret = labels;
}

static void add_map(struct kw_reader *reader, const json_t *map, struct kw_selector *selector)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)map, key, value) {
        if (!json_is_string(value) || kw_text_has_nul(value)) {
            kw_reader_fail(reader, -EBADMSG, "selector: a value is no text");
            return;
        }
        struct kw_requirement *requirement =
            add_requirement(selector, key, strlen(key), KW_SELECTOR_IN);
        const char *text = json_string_value(value);
        if (requirement == NULL || add_value(requirement, text, strlen(text)) < 0) {
            kw_reader_fail(reader, selector->n >= KW_REQUIREMENTS_MAX ? -EBADMSG : -ENOMEM,
                           "selector: too many requirements");
            return;
        }
    }
}

static void add_expression(struct kw_reader *reader, const json_t *expression,
                           struct kw_selector *selector)
{
    static const char *const names[KW_SELECTOR__MAX] = {
        [KW_SELECTOR_IN] = "In",
        [KW_SELECTOR_NOT_IN] = "NotIn",
        [KW_SELECTOR_EXISTS] = "Exists",
        [KW_SELECTOR_ABSENT] = "DoesNotExist",
    };
    const char *key = json_string_value(json_object_get(expression, "key"));
    const char *operator= json_string_value(json_object_get(expression, "operator"));
    enum kw_selector_op op = 0;

    while (operator!= NULL && op<KW_SELECTOR__MAX && strcmp(names[op], operator) != 0)
        op++;
    if (key == NULL || operator== NULL || op == KW_SELECTOR__MAX) {
        kw_reader_fail(reader, -EBADMSG, "matchExpressions");
        return;
    }
    struct kw_requirement *requirement = add_requirement(selector, key, strlen(key), op);
    if (requirement == NULL) {
        kw_reader_fail(reader, selector->n >= KW_REQUIREMENTS_MAX ? -EBADMSG : -ENOMEM,
                       "selector: too many requirements");
        return;
    }
    size_t i;
    json_t *value;
    json_array_foreach (json_object_get(expression, "values"), i, value) {
        const char *text = json_string_value(value);
        int rc = text == NULL ? -EBADMSG : add_value(requirement, text, strlen(text));
        if (rc < 0) {
            kw_reader_fail(reader, rc, "matchExpressions: values");
            return;
        }
    }
}

void kw_selector_from_json(struct kw_reader *reader, const json_t *object, struct kw_selector *ret)
{
    struct kw_selector selector = {0};

    if (object != NULL) {
        const json_t *labels = kw_get(reader, object, "matchLabels", JSON_OBJECT, KW_OPTIONAL);
        const json_t *expressions =
            kw_get(reader, object, "matchExpressions", JSON_ARRAY, KW_OPTIONAL);
        size_t i;
        json_t *expression;
        if (labels != NULL)
            add_map(reader, labels, &selector);
        json_array_foreach ((json_t *)expressions, i, expression) {
            if (reader->rc == 0)
                add_expression(reader, expression, &selector);
        }
    }
    if (reader->rc < 0)
        kw_selector_clear(&selector);
    *ret = selector;
}

void kw_selector_from_map(struct kw_reader *reader, const json_t *map, struct kw_selector *ret)
{
    struct kw_selector selector = {0};

    if (map != NULL && reader->rc == 0)
        add_map(reader, map, &selector);
    if (reader->rc < 0)
        kw_selector_clear(&selector);
    *ret = selector;
}
