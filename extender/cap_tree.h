/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/*
 * The caps of the cluster and of its power domains, as an operator writes them down:
 *
 *   cluster: 40k
 *   domains:
 *     dc1/row2: 16000
 *     dc1/row2/rack7: {hard: 8000, soft: 7000}
 *
 * Watts are quantities. Without a soft threshold it is a part of the hard one.
 */

/** A domain with a cap. Rooms are not kept here: this is what was written. */
struct ext_cap_domain_conf {
    char *path; /**< "dc1/row2/rack7"; "": the cluster */
    double hard_mw, soft_mw;
    uint32_t parent; /**< the next domain with a cap that this one lies in, index plus 1; 0: none */
};

/** Domains stand behind those that they lie in. */
struct ext_cap_tree {
    _Atomic unsigned refs; /**< beside the first */
    size_t n;
    struct ext_cap_domain_conf *domains;
};

/** Largest file that is taken. */
#define EXT_CAP_FILE_MAX (4U << 20)

/**
 * @param name of the file, for messages. @param soft_permille soft threshold of a cap without one.
 * @param ret freed with ext_cap_tree_free. @return 0; -EINVAL with file, line, key and value;
 * -ENOMEM.
 */
int ext_cap_tree_parse(const char *name, const char *bytes, size_t len, unsigned soft_permille,
                       struct ext_cap_tree **ret, struct kw_err *err);

/** A tree without any cap. @return NULL on ENOMEM. */
struct ext_cap_tree *ext_cap_tree_new(void);
/** One more owner; each frees it. */
struct ext_cap_tree *ext_cap_tree_share(struct ext_cap_tree *tree);
void ext_cap_tree_free(struct ext_cap_tree **tree);

/** The innermost domain with a cap that a path lies in. @param path "": none of its own. @return
 * index plus 1; 0: no cap holds for it. */
uint32_t ext_cap_tree_find(const struct ext_cap_tree *tree, const char *path);
