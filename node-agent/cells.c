/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing with linear probing, at most 3/4 full, and removal by shifting back, so that
 * there are no tombstones: fork storms add and remove keys all the time, and a table of tombstones
 * would only ever grow. Keys are inode numbers, dense at their low end: a multiplicative hash
 * (Fibonacci, Knuth 6.4) spreads them.
 */
#include "node-agent/cells.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define CAP_MIN 256

struct agent_cells {
    unsigned n_packages;
    size_t n, cap; /* cap is a power of two */
    struct agent_cell *slots;
};

static size_t home(const struct agent_cells *cells, uint64_t key)
{
    uint64_t hash = key * UINT64_C(11400714819323198485);

    return (size_t)(hash >> 32) & (cells->cap - 1);
}

int agent_cells_new(unsigned n_packages, struct agent_cells **ret)
{
    struct agent_cells *cells = calloc(1, sizeof(*cells));

    if (cells == NULL)
        return -ENOMEM;
    cells->n_packages = n_packages;
    cells->cap = CAP_MIN;
    cells->slots = calloc(cells->cap, sizeof(*cells->slots));
    if (cells->slots == NULL) {
        free(cells);
        return -ENOMEM;
    }
    *ret = cells;
    return 0;
}

void agent_cells_free(struct agent_cells **cells)
{
    struct agent_cells *owned = KW_TAKE_PTR(*cells);

    if (owned == NULL)
        return;
    for (size_t i = 0; i < owned->cap; i++) {
        agent_label_unref(&owned->slots[i].container);
        free(owned->slots[i].prev_ns);
        free(owned->slots[i].prev_more);
    }
    free(owned->slots);
    free(owned);
}

struct agent_cell *agent_cells_find(struct agent_cells *cells, uint64_t key)
{
    for (size_t i = home(cells, key); cells->slots[i].used; i = (i + 1) & (cells->cap - 1)) {
        if (cells->slots[i].key == key)
            return &cells->slots[i];
    }
    return NULL;
}

static struct agent_cell *free_slot(struct agent_cells *cells, uint64_t key)
{
    size_t i = home(cells, key);

    while (cells->slots[i].used)
        i = (i + 1) & (cells->cap - 1);
    return &cells->slots[i];
}

static int resize(struct agent_cells *cells, size_t cap)
{
    struct agent_cell *old = cells->slots;
    size_t old_cap = cells->cap;
    struct agent_cell *slots = calloc(cap, sizeof(*slots));

    if (slots == NULL)
        return -ENOMEM;
    cells->slots = slots;
    cells->cap = cap;
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].used)
            *free_slot(cells, old[i].key) = old[i];
    }
    free(old);
    return 0;
}

int agent_cells_add(struct agent_cells *cells, uint64_t key, struct agent_cell **ret)
{
    int rc = (cells->n + 1) * 4 > cells->cap * 3 ? resize(cells, 2 * cells->cap) : 0;

    if (rc < 0)
        return rc;
    uint64_t *prev_ns = calloc(cells->n_packages, sizeof(uint64_t));
    if (prev_ns == NULL)
        return -ENOMEM;
    struct agent_cell *cell = free_slot(cells, key);
    memset(cell, 0, sizeof(*cell));
    cell->key = key;
    cell->used = true;
    cell->prev_ns = prev_ns;
    cells->n++;
    *ret = cell;
    return 0;
}

void agent_cells_remove(struct agent_cells *cells, uint64_t key)
{
    struct agent_cell *cell = agent_cells_find(cells, key);
    size_t mask = cells->cap - 1;

    if (cell == NULL)
        return;
    agent_label_unref(&cell->container);
    free(cell->prev_ns);
    free(cell->prev_more);
    size_t hole = (size_t)(cell - cells->slots);
    for (size_t i = (hole + 1) & mask; cells->slots[i].used; i = (i + 1) & mask) {
        /* an entry may fill the hole unless its home lies behind the hole on its way here */
        if (((i - home(cells, cells->slots[i].key)) & mask) >= ((i - hole) & mask)) {
            cells->slots[hole] = cells->slots[i];
            hole = i;
        }
    }
    memset(&cells->slots[hole], 0, sizeof(cells->slots[hole]));
    cells->n--;
    /* memory goes back after a storm; where there is none for a smaller table, this one stays */
    if (cells->cap > CAP_MIN && cells->n * 16 < cells->cap)
        (void)resize(cells, cells->cap / 4 > CAP_MIN ? cells->cap / 4 : CAP_MIN);
}
