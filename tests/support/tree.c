/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/support/cmocka.h"

void kwt_tree_make(struct kwt_tree *tree)
{
    (void)snprintf(tree->root, sizeof(tree->root), "/tmp/kwatt-tree-XXXXXX");
    assert_non_null(mkdtemp(tree->root));
}

void kwt_tree_mkdir(const struct kwt_tree *tree, const char *path)
{
    char full[PATH_MAX];

    assert_int_equal(kw_path_join(full, sizeof(full), tree->root, path), 0);
    assert_int_equal(kw_mkdir_p(full, 0755), 0);
}

void kwt_tree_write(const struct kwt_tree *tree, const char *path, const char *text)
{
    char full[PATH_MAX], folder[PATH_MAX];
    size_t len = strlen(text);

    assert_int_equal(kw_path_join(full, sizeof(full), tree->root, path), 0);
    (void)snprintf(folder, sizeof(folder), "%s", full);
    int r = kw_mkdir_p(dirname(folder), 0755);
    assert_true(r == 0 || r == -EEXIST);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    (void)close(fd);
}

static int delete_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

void kwt_tree_delete(const struct kwt_tree *tree, const char *path)
{
    char full[PATH_MAX];

    assert_int_equal(kw_path_join(full, sizeof(full), tree->root, path), 0);
    assert_int_equal(nftw(full, delete_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void kwt_tree_remove(struct kwt_tree *tree)
{
    assert_int_equal(nftw(tree->root, delete_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    tree->root[0] = '\0';
}
