/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Labels and label selectors of Kubernetes (metav1.LabelSelector, and the text form of a Scale's
 * status.selector).
 */

/** Bounds that keep one object from costing much; the API server's own limits on size are near. */
#define KW_LABELS_MAX       1024
#define KW_REQUIREMENTS_MAX 256

struct kw_label_pair {
    char *key;
    char *value;
};

/** Zero-initialised is empty. Sorted by key. */
struct kw_labels {
    size_t n;
    struct kw_label_pair *items;
};

/** Value of a label, or NULL. */
const char *kw_labels_get(const struct kw_labels *labels, const char *key);

/** Frees; leaves *labels zeroed. */
void kw_labels_clear(struct kw_labels *labels);

enum kw_selector_op {
    KW_SELECTOR_IN,     /**< the label is there with one of the values */
    KW_SELECTOR_NOT_IN, /**< absent, or with another value */
    KW_SELECTOR_EXISTS,
    KW_SELECTOR_ABSENT, /**< DoesNotExist */
    KW_SELECTOR__MAX
};

struct kw_requirement {
    char *key;
    enum kw_selector_op op;
    size_t n_values;
    char **values;
};

/** All requirements must hold. Zero-initialised is empty. */
struct kw_selector {
    size_t n;
    struct kw_requirement *items;
};

/** Whether the labels satisfy the selector. One without requirements matches nothing: it would mean
 * every pod, and a controller always has some. */
bool kw_selector_match(const struct kw_selector *selector, const struct kw_labels *labels);

/**
 * Parses the text form: "app=web,tier in (a,b),!canary,env!=test,zone".
 * @param ret untouched on error; cleared by the caller.
 * @param ret_why static text, set on -EBADMSG; may be NULL.
 * @return 0; -EBADMSG; -ENOMEM.
 */
int kw_selector_parse(const char *text, size_t len, struct kw_selector *ret, const char **ret_why);

/** Frees; leaves *selector zeroed. */
void kw_selector_clear(struct kw_selector *selector);
