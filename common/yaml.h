/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

/*
 * YAML documents (configuration, kubeconfig) as a small read-only tree that remembers lines, over
 * libyaml. One document; anchors are resolved by refusing them (billion laughs); depth, node count
 * and size are bounded.
 */

enum kw_yaml_type { KW_YAML_SCALAR, KW_YAML_MAP, KW_YAML_LIST };

struct kw_yaml {
    enum kw_yaml_type type;
    unsigned line;            /**< 1-based */
    const char *text;         /**< scalar: its text (UTF-8, NUL-terminated) */
    bool null;                /**< scalar: nothing, ~ or null, without quotes; text is "" then */
    size_t n;                 /**< map, list: number of children */
    const char **keys;        /**< map: key texts, in order of the file; unique */
    unsigned *key_lines;      /**< map: line of each key */
    struct kw_yaml *children; /**< map, list */
};

/** Parses `len` bytes. @param name file name for messages. @param ret free with kw_yaml_free; an
 * empty document is a map of 0. @return 0; -EINVAL with "name:line: cause"; -ENOMEM. */
int kw_yaml_parse(const char *name, const char *bytes, size_t len, struct kw_yaml **ret,
                  struct kw_err *err);
void kw_yaml_free(struct kw_yaml **doc);

/** Child of a map by key; NULL where absent or `node` is NULL or no map. */
const struct kw_yaml *kw_yaml_get(const struct kw_yaml *node, const char *key);

/** Text of a scalar child; NULL where absent or no scalar. */
const char *kw_yaml_text(const struct kw_yaml *node, const char *key);
