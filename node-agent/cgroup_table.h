/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/cgroup_mounts.h"
#include "node-agent/cgroups.h"

/*
 * The table behind node-agent/cgroups.h: nodes found by key, by path and by watch. Nodes that are
 * gone are found by key only. No system calls here.
 */

struct agent_cgroup_node {
    struct agent_cgroup cgroup; /**< its path is the node's own */
    enum agent_hierarchy hierarchy;
    struct agent_cgroup_node *parent; /**< while it is there; NULL at the top */
    unsigned children;                /**< that are there */
    int wd;                           /**< watch; -1 none */
    uint64_t generation;              /**< of the scan that saw it last */
    struct agent_cgroup_node *next_key, *next_path, *next_wd;
};

struct agent_cgroup_table {
    size_t n;         /**< nodes, gone ones included */
    size_t n_buckets; /**< a power of two, or 0 while empty */
    uint64_t changes; /**< nodes added, unlinked and removed so far */
    struct agent_cgroup_node **by_key, **by_path, **by_wd;
};

/** Frees all nodes. */
void agent_cgroup_table_clear(struct agent_cgroup_table *table);

/**
 * Adds a node that is there. A gone node of the same key is taken up again, under its new path.
 * @param path absolute, not yet in the table of this hierarchy. @return NULL: no memory.
 */
struct agent_cgroup_node *agent_cgroup_table_add(struct agent_cgroup_table *table,
                                                 enum agent_hierarchy hierarchy, const char *path,
                                                 uint64_t key);

/** Marks a node as gone: it is found by key only. @param node is there and has no children. @param
 * now_ns not 0. */
void agent_cgroup_table_unlink(struct agent_cgroup_table *table, struct agent_cgroup_node *node,
                               uint64_t now_ns);

/** Frees a node that is gone. */
void agent_cgroup_table_remove(struct agent_cgroup_table *table, struct agent_cgroup_node *node);

/** Enters the watch of a node that has none. */
void agent_cgroup_table_set_wd(struct agent_cgroup_table *table, struct agent_cgroup_node *node,
                               int wd);

/** The node of a key, there or gone; NULL: none. */
struct agent_cgroup_node *agent_cgroup_table_find(const struct agent_cgroup_table *table,
                                                  uint64_t key);
/** The node that is there at a path; NULL: none. */
struct agent_cgroup_node *agent_cgroup_table_find_path(const struct agent_cgroup_table *table,
                                                       enum agent_hierarchy hierarchy,
                                                       const char *path);
/** The node that is there and has this watch; NULL: none. */
struct agent_cgroup_node *agent_cgroup_table_find_wd(const struct agent_cgroup_table *table,
                                                     int wd);

/** Some child of a node that is there; NULL: none. Walks the table: for rare cases. */
struct agent_cgroup_node *agent_cgroup_table_child(const struct agent_cgroup_table *table,
                                                   const struct agent_cgroup_node *node);

/** Some node for which `test` holds; NULL: none. Walks the table. */
struct agent_cgroup_node *agent_cgroup_table_find_if(
    const struct agent_cgroup_table *table,
    bool (*test)(const struct agent_cgroup_node *node, uint64_t argument), uint64_t argument);
