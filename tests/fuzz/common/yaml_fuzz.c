/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a tree within its bounds, or an error with a line. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/utf8.h"
#include "common/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t width = kw_utf8_next(text + i, len - i, NULL);
        if (width == 0)
            abort();
        i += width;
    }
}

static void check_node(const struct kw_yaml *node, unsigned depth)
{
    if (depth > 32 || node->line == 0)
        abort();
    if (node->type == KW_YAML_SCALAR) {
        check_text(node->text);
        return;
    }
    for (size_t i = 0; i < node->n; i++) {
        if (node->type == KW_YAML_MAP) {
            check_text(node->keys[i]);
            /* unique keys: looking one up finds this very child */
            if (kw_yaml_get(node, node->keys[i]) != &node->children[i])
                abort();
        }
        check_node(&node->children[i], depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_err err = {0};
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc = NULL;
    int rc = kw_yaml_parse("f", (const char *)data, size, &doc, &err);
    if (rc == 0)
        check_node(doc, 1);
    else if (rc != -EINVAL || doc != NULL || strncmp(err.text, "f:", 2) != 0)
        abort();
    return 0;
}
