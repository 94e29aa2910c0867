/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a tree whose domains stand behind what they lie in and are found by their paths,
 * or a named error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "extender/cap_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ext_cap_tree *tree = NULL;
    struct kw_err err = {0};

    if (ext_cap_tree_parse("caps", (const char *)data, size, 900, &tree, &err) < 0) {
        need(err.text[0] != '\0');
        return 0;
    }
    for (size_t i = 0; i < tree->n; i++) {
        const struct ext_cap_domain_conf *domain = &tree->domains[i];
        need(domain->parent <= i && domain->soft_mw > 0 && domain->soft_mw <= domain->hard_mw);
        need(ext_cap_tree_find(tree, domain->path) == i + 1);
    }
    ext_cap_tree_free(&tree);
    return 0;
}
