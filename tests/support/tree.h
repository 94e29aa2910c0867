/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

/* A folder of a test's own that plays /sys and /proc. */

struct kwt_tree {
    char root[64];
};

void kwt_tree_make(struct kwt_tree *tree);

/** Writes a file, with its folders; an old one is replaced in place (same inode). */
void kwt_tree_write(const struct kwt_tree *tree, const char *path, const char *text);

void kwt_tree_mkdir(const struct kwt_tree *tree, const char *path);

/** Removes a file, or a folder with all that is in it. */
void kwt_tree_delete(const struct kwt_tree *tree, const char *path);

/** Removes everything. */
void kwt_tree_remove(struct kwt_tree *tree);
