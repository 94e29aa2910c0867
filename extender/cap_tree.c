/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths are sorted as bytes, so that each stands behind those that are its beginning, and is found
 * by cutting off components until one is there: no tree needs to be built, and only domains with a
 * cap are kept, however many there are.
 */
#include "extender/cap_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/node.h"
#include "api/quantity.h"
#include "common/cleanup.h"
#include "common/yaml.h"

struct ext_cap_tree *ext_cap_tree_new(void)
{
    return calloc(1, sizeof(struct ext_cap_tree));
}

struct ext_cap_tree *ext_cap_tree_share(struct ext_cap_tree *tree)
{
    tree->refs++;
    return tree;
}

void ext_cap_tree_free(struct ext_cap_tree **tree)
{
    if (*tree != NULL && (*tree)->refs-- > 0)
        *tree = NULL;
    if (*tree == NULL)
        return;
    for (size_t i = 0; i < (*tree)->n; i++)
        free((*tree)->domains[i].path);
    free((*tree)->domains);
    free(*tree);
    *tree = NULL;
}

/** A gigawatt: no cluster draws more. */
#define MW_MAX UINT64_C(1000000000000)

/** Where a value stands, for messages. */
struct spot {
    const char *file;
    const char *key;
    unsigned line;
};

static int watts_of(const struct spot *spot, const struct kw_yaml *value, double *ret_mw,
                    struct kw_err *err)
{
    uint64_t mw = 0;

    if (value->type != KW_YAML_SCALAR)
        return kw_err_set(err, -EINVAL, "%s:%u: %.200s: not a number of watts", spot->file,
                          value->line, spot->key);
    if (kw_quantity_milli(value->text, strlen(value->text), &mw) < 0 || mw == 0 || mw > MW_MAX)
        return kw_err_set(err, -EINVAL,
                          "%s:%u: %.200s: \"%.60s\" is no number of watts (40000, 40k) above 0 "
                          "and up to a gigawatt",
                          spot->file, value->line, spot->key, value->text);
    *ret_mw = (double)mw;
    return 0;
}

/** {hard: W, soft: W} */
static int pair_of(const struct spot *spot, const struct kw_yaml *value,
                   struct ext_cap_domain_conf *domain, struct kw_err *err)
{
    int rc = 0;

    for (size_t i = 0; i < value->n && rc == 0; i++) {
        if (strcmp(value->keys[i], "hard") == 0)
            rc = watts_of(spot, &value->children[i], &domain->hard_mw, err);
        else if (strcmp(value->keys[i], "soft") == 0)
            rc = watts_of(spot, &value->children[i], &domain->soft_mw, err);
        else
            rc = kw_err_set(err, -EINVAL, "%s:%u: %.200s: unknown key \"%.60s\" (hard, soft)",
                            spot->file, value->key_lines[i], spot->key, value->keys[i]);
    }
    if (rc == 0 && domain->hard_mw <= 0)
        rc = kw_err_set(err, -EINVAL, "%s:%u: %.200s: \"hard\" is missing", spot->file, value->line,
                        spot->key);
    if (rc == 0 && domain->soft_mw > domain->hard_mw)
        rc = kw_err_set(err, -EINVAL, "%s:%u: %.200s: soft (%.0f W) is above hard (%.0f W)",
                        spot->file, value->line, spot->key, domain->soft_mw / 1000,
                        domain->hard_mw / 1000);
    return rc;
}

/** Adds a domain; there is room for it. */
static int add(const struct spot *spot, const char *path, const struct kw_yaml *value,
               unsigned soft_permille, struct ext_cap_tree *tree, struct kw_err *err)
{
    struct ext_cap_domain_conf domain = {0};
    int rc = value->type == KW_YAML_MAP ? pair_of(spot, value, &domain, err)
                                        : watts_of(spot, value, &domain.hard_mw, err);

    if (rc < 0)
        return rc;
    if (domain.soft_mw <= 0)
        domain.soft_mw = domain.hard_mw * soft_permille / 1000;
    domain.path = strdup(path);
    if (domain.path == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    tree->domains[tree->n++] = domain;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const struct ext_cap_domain_conf *left = a;
    const struct ext_cap_domain_conf *right = b;

    return strcmp(left->path, right->path);
}

/** The domain of exactly that path, or NULL. */
static const struct ext_cap_domain_conf *exact(const struct ext_cap_tree *tree, const char *path,
                                               size_t len)
{
    char text[KW_POWER_DOMAIN_MAX];
    struct ext_cap_domain_conf key = {.path = text};

    if (len >= sizeof(text) || tree->n == 0)
        return NULL;
    memcpy(text, path, len);
    text[len] = '\0';
    return bsearch(&key, tree->domains, tree->n, sizeof(key), by_path);
}

/** The innermost one whose path is `path` up to `len` or a beginning of that. */
static uint32_t find(const struct ext_cap_tree *tree, const char *path, size_t len)
{
    for (;;) {
        const struct ext_cap_domain_conf *found = exact(tree, path, len);
        if (found != NULL)
            return (uint32_t)(found - tree->domains) + 1;
        if (len == 0)
            return 0;
        do
            len--;
        while (len > 0 && path[len] != '/');
    }
}

uint32_t ext_cap_tree_find(const struct ext_cap_tree *tree, const char *path)
{
    return find(tree, path, strlen(path));
}

static void link_up(struct ext_cap_tree *tree)
{
    qsort(tree->domains, tree->n, sizeof(*tree->domains), by_path);
    for (size_t i = 0; i < tree->n; i++) {
        const char *path = tree->domains[i].path;
        size_t len = strlen(path);
        if (len == 0)
            continue;
        const char *slash = strrchr(path, '/');
        tree->domains[i].parent = find(tree, path, slash == NULL ? 0 : (size_t)(slash - path));
    }
}

static int add_domains(const char *name, const struct kw_yaml *map, unsigned soft_permille,
                       struct ext_cap_tree *tree, struct kw_err *err)
{
    int rc = 0;

    if (map->type == KW_YAML_SCALAR && map->null)
        return 0;
    if (map->type != KW_YAML_MAP)
        return kw_err_set(err, -EINVAL, "%s:%u: domains: not a map of paths to watts", name,
                          map->line);
    for (size_t i = 0; i < map->n && rc == 0; i++) {
        const struct spot spot = {name, map->keys[i], map->key_lines[i]};
        if (!kw_power_domain_ok(spot.key, strlen(spot.key)))
            rc = kw_err_set(err, -EINVAL, "%s:%u: domains: \"%.200s\" is not %s", name, spot.line,
                            spot.key, kw_node_key_wants[KW_NODE_POWER_DOMAIN]);
        else
            rc = add(&spot, spot.key, &map->children[i], soft_permille, tree, err);
    }
    return rc;
}

static int take_document(const char *name, const struct kw_yaml *doc, unsigned soft_permille,
                         struct ext_cap_tree *tree, struct kw_err *err)
{
    const struct kw_yaml *domains = kw_yaml_get(doc, "domains");
    const struct kw_yaml *cluster = kw_yaml_get(doc, "cluster");
    const struct spot spot = {name, "cluster", 0};

    if (doc->type != KW_YAML_MAP)
        return kw_err_set(err, -EINVAL, "%s:%u: not a map of \"cluster\" and \"domains\"", name,
                          doc->line);
    if (doc->n == 0) /* a file that is just being written must not lift all caps */
        return kw_err_set(err, -EINVAL, "%s: empty; without caps it says \"domains: {}\"", name);
    for (size_t i = 0; i < doc->n; i++) {
        if (strcmp(doc->keys[i], "cluster") != 0 && strcmp(doc->keys[i], "domains") != 0)
            return kw_err_set(err, -EINVAL, "%s:%u: unknown key \"%.60s\" (cluster, domains)", name,
                              doc->key_lines[i], doc->keys[i]);
    }
    tree->domains = calloc(1 + (domains == NULL ? 0 : domains->n), sizeof(*tree->domains));
    if (tree->domains == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    int rc = domains == NULL ? 0 : add_domains(name, domains, soft_permille, tree, err);
    if (rc == 0 && cluster != NULL && !(cluster->type == KW_YAML_SCALAR && cluster->null))
        rc = add(&spot, "", cluster, soft_permille, tree, err);
    if (rc == 0)
        link_up(tree);
    return rc;
}

int ext_cap_tree_parse(const char *name, const char *bytes, size_t len, unsigned soft_permille,
                       struct ext_cap_tree **ret, struct kw_err *err)
{
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc = NULL;
    kw_cleanup(ext_cap_tree_free) struct ext_cap_tree *tree = ext_cap_tree_new();

    if (tree == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    int rc = kw_yaml_parse(name, bytes, len, &doc, err);
    if (rc == 0)
        rc = take_document(name, doc, soft_permille, tree, err);
    if (rc == 0)
        *ret = KW_TAKE_PTR(tree);
    return rc;
}
