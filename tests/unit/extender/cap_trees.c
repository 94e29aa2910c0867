/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/extender/cap_trees.h"

#include <string.h>

#include "tests/support/cmocka.h"

struct ext_cap_tree *kwt_cap_tree(const char *text)
{
    struct ext_cap_tree *tree = NULL;
    struct kw_err err = {0};

    if (ext_cap_tree_parse("caps", text, strlen(text), 800, &tree, &err) < 0)
        fail_msg("%s", err.text);
    return tree;
}
