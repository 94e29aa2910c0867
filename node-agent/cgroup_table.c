/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/cgroup_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/*
 * Three chained hashes over the same nodes, made larger and smaller together so that a bucket holds
 * about one node. A node is in by_key from add to remove, in by_path and by_wd only while its
 * directory is there, and only then has it a parent: a parent cannot go before its children do.
 */

#define BUCKETS_MIN 256

static uint64_t mix(uint64_t x)
{
    /* the finalizer of MurmurHash3: inode numbers are consecutive, buckets must not be */
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    return x;
}

static uint64_t hash_path(enum agent_hierarchy hierarchy, const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (uint64_t)hierarchy; /* FNV-1a */

    for (; *path != '\0'; path++)
        hash = (hash ^ (uint8_t)*path) * UINT64_C(0x100000001b3);
    return mix(hash);
}

static size_t key_bucket(const struct agent_cgroup_table *table, uint64_t key)
{
    return (size_t)mix(key) & (table->n_buckets - 1);
}

static size_t path_bucket(const struct agent_cgroup_table *table, enum agent_hierarchy hierarchy,
                          const char *path)
{
    return (size_t)hash_path(hierarchy, path) & (table->n_buckets - 1);
}

static size_t wd_bucket(const struct agent_cgroup_table *table, int wd)
{
    return (size_t)mix((uint64_t)wd) & (table->n_buckets - 1);
}

static void link_key(struct agent_cgroup_table *table, struct agent_cgroup_node *node)
{
    struct agent_cgroup_node **head = &table->by_key[key_bucket(table, node->cgroup.key)];

    node->next_key = *head;
    *head = node;
}

static void link_path(struct agent_cgroup_table *table, struct agent_cgroup_node *node)
{
    struct agent_cgroup_node **head =
        &table->by_path[path_bucket(table, node->hierarchy, node->cgroup.path)];

    node->next_path = *head;
    *head = node;
}

static void link_wd(struct agent_cgroup_table *table, struct agent_cgroup_node *node)
{
    struct agent_cgroup_node **head = &table->by_wd[wd_bucket(table, node->wd)];

    node->next_wd = *head;
    *head = node;
}

void agent_cgroup_table_clear(struct agent_cgroup_table *table)
{
    for (size_t i = 0; i < table->n_buckets; i++) {
        while (table->by_key[i] != NULL) {
            struct agent_cgroup_node *node = table->by_key[i];
            table->by_key[i] = node->next_key;
            free((char *)node->cgroup.path);
            free(node);
        }
    }
    free(table->by_key);
    free(table->by_path);
    free(table->by_wd);
    (void)memset(table, 0, sizeof(*table));
}

static bool resize(struct agent_cgroup_table *table, size_t n_buckets)
{
    struct agent_cgroup_table other = {
        .n = table->n, .n_buckets = n_buckets, .changes = table->changes};

    other.by_key = calloc(other.n_buckets, sizeof(struct agent_cgroup_node *));
    other.by_path = calloc(other.n_buckets, sizeof(struct agent_cgroup_node *));
    other.by_wd = calloc(other.n_buckets, sizeof(struct agent_cgroup_node *));
    if (other.by_key == NULL || other.by_path == NULL || other.by_wd == NULL) {
        free(other.by_key);
        free(other.by_path);
        free(other.by_wd);
        return false;
    }
    for (size_t i = 0; i < table->n_buckets; i++) {
        while (table->by_key[i] != NULL) {
            struct agent_cgroup_node *node = table->by_key[i];
            table->by_key[i] = node->next_key;
            link_key(&other, node);
            if (node->cgroup.gone_ns == 0)
                link_path(&other, node);
            if (node->wd >= 0)
                link_wd(&other, node);
        }
    }
    free(table->by_key);
    free(table->by_path);
    free(table->by_wd);
    *table = other;
    return true;
}

static struct agent_cgroup_node *find_parent(const struct agent_cgroup_table *table,
                                             enum agent_hierarchy hierarchy, char *path)
{
    char *slash = strrchr(path, '/');

    if (path[1] == '\0' || slash == NULL)
        return NULL;
    if (slash == path)
        return agent_cgroup_table_find_path(table, hierarchy, "/");
    *slash = '\0';
    struct agent_cgroup_node *parent = agent_cgroup_table_find_path(table, hierarchy, path);
    *slash = '/';
    return parent;
}

struct agent_cgroup_node *agent_cgroup_table_add(struct agent_cgroup_table *table,
                                                 enum agent_hierarchy hierarchy, const char *path,
                                                 uint64_t key)
{
    kw_cleanup_free char *copy = strdup(path);

    if (copy == NULL || (table->n >= table->n_buckets &&
                         !resize(table, table->n_buckets > 0 ? 2 * table->n_buckets : BUCKETS_MIN)))
        return NULL;
    struct agent_cgroup_node *node = agent_cgroup_table_find(table, key);
    if (node != NULL) {
        free((char *)node->cgroup.path);
        node->cgroup.gone_ns = 0;
    } else {
        node = calloc(1, sizeof(*node));
        if (node == NULL)
            return NULL;
        node->cgroup.key = key;
        link_key(table, node);
        table->n++;
    }
    node->hierarchy = hierarchy;
    node->wd = -1;
    node->children = 0;
    node->parent = find_parent(table, hierarchy, copy);
    if (node->parent != NULL)
        node->parent->children++;
    node->cgroup.path = KW_TAKE_PTR(copy);
    link_path(table, node);
    table->changes++;
    return node;
}

static void unlink_path(struct agent_cgroup_table *table, struct agent_cgroup_node *node)
{
    struct agent_cgroup_node **at =
        &table->by_path[path_bucket(table, node->hierarchy, node->cgroup.path)];

    while (*at != node)
        at = &(*at)->next_path;
    *at = node->next_path;
    node->next_path = NULL;
}

static void unlink_wd(struct agent_cgroup_table *table, struct agent_cgroup_node *node)
{
    struct agent_cgroup_node **at = &table->by_wd[wd_bucket(table, node->wd)];

    while (*at != node)
        at = &(*at)->next_wd;
    *at = node->next_wd;
    node->next_wd = NULL;
    node->wd = -1;
}

void agent_cgroup_table_unlink(struct agent_cgroup_table *table, struct agent_cgroup_node *node,
                               uint64_t now_ns)
{
    unlink_path(table, node);
    if (node->wd >= 0)
        unlink_wd(table, node);
    if (node->parent != NULL)
        node->parent->children--;
    node->parent = NULL;
    node->cgroup.gone_ns = now_ns;
    table->changes++;
}

void agent_cgroup_table_remove(struct agent_cgroup_table *table, struct agent_cgroup_node *node)
{
    struct agent_cgroup_node **at = &table->by_key[key_bucket(table, node->cgroup.key)];

    while (*at != node)
        at = &(*at)->next_key;
    *at = node->next_key;
    table->n--;
    table->changes++;
    free((char *)node->cgroup.path);
    free(node);
    /* memory goes back after a storm; where there is none for a smaller table, this one stays */
    if (table->n_buckets > BUCKETS_MIN && 16 * table->n < table->n_buckets)
        (void)resize(table,
                     table->n_buckets / 4 > BUCKETS_MIN ? table->n_buckets / 4 : BUCKETS_MIN);
}

void agent_cgroup_table_set_wd(struct agent_cgroup_table *table, struct agent_cgroup_node *node,
                               int wd)
{
    node->wd = wd;
    link_wd(table, node);
}

struct agent_cgroup_node *agent_cgroup_table_find(const struct agent_cgroup_table *table,
                                                  uint64_t key)
{
    if (table->n_buckets == 0)
        return NULL;
    struct agent_cgroup_node *node = table->by_key[key_bucket(table, key)];
    while (node != NULL && node->cgroup.key != key)
        node = node->next_key;
    return node;
}

struct agent_cgroup_node *agent_cgroup_table_find_path(const struct agent_cgroup_table *table,
                                                       enum agent_hierarchy hierarchy,
                                                       const char *path)
{
    if (table->n_buckets == 0)
        return NULL;
    struct agent_cgroup_node *node = table->by_path[path_bucket(table, hierarchy, path)];
    while (node != NULL && (node->hierarchy != hierarchy || strcmp(node->cgroup.path, path) != 0))
        node = node->next_path;
    return node;
}

struct agent_cgroup_node *agent_cgroup_table_find_wd(const struct agent_cgroup_table *table, int wd)
{
    if (table->n_buckets == 0)
        return NULL;
    struct agent_cgroup_node *node = table->by_wd[wd_bucket(table, wd)];
    while (node != NULL && node->wd != wd)
        node = node->next_wd;
    return node;
}

struct agent_cgroup_node *agent_cgroup_table_child(const struct agent_cgroup_table *table,
                                                   const struct agent_cgroup_node *node)
{
    for (size_t i = 0; node->children > 0 && i < table->n_buckets; i++) {
        for (struct agent_cgroup_node *child = table->by_path[i]; child != NULL;
             child = child->next_path) {
            if (child->parent == node)
                return child;
        }
    }
    return NULL;
}

struct agent_cgroup_node *agent_cgroup_table_find_if(
    const struct agent_cgroup_table *table,
    bool (*test)(const struct agent_cgroup_node *node, uint64_t argument), uint64_t argument)
{
    for (size_t i = 0; i < table->n_buckets; i++) {
        for (struct agent_cgroup_node *node = table->by_key[i]; node != NULL;
             node = node->next_key) {
            if (test(node, argument))
                return node;
        }
    }
    return NULL;
}
