/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "node-agent/cells.h"
#include "tests/support/cmocka.h"

#define KEYS 3000

/** Against a plain array: what was added is found, with its own content, and nothing else. */
static void test_random_use(void **state)
{
    static bool there[KEYS];
    struct agent_cells *cells = NULL;

    (void)state;
    srandom(4);
    assert_int_equal(agent_cells_new(2, &cells), 0);
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t key = (uint64_t)random() % KEYS;
        struct agent_cell *cell = agent_cells_find(cells, key);
        assert_int_equal(cell != NULL, there[key]);
        if (cell != NULL) {
            assert_int_equal(cell->key, key);
            assert_int_equal(cell->prev_ns[1], key);
        }
        if (random() % 2 == 0) {
            agent_cells_remove(cells, key);
            there[key] = false;
        } else if (cell == NULL) {
            assert_int_equal(agent_cells_add(cells, key, &cell), 0);
            cell->prev_ns[1] = key;
            there[key] = true;
        }
    }
    agent_cells_free(&cells);
    assert_null(cells);
}

static void test_special_keys(void **state)
{
    struct agent_cells *cells = NULL;
    struct agent_cell *cell = NULL;

    (void)state;
    assert_int_equal(agent_cells_new(1, &cells), 0);
    assert_null(agent_cells_find(cells, 0));
    assert_int_equal(agent_cells_add(cells, 0, &cell), 0);
    assert_int_equal(agent_cells_add(cells, UINT64_MAX, &cell), 0);
    assert_non_null(agent_cells_find(cells, 0));
    assert_non_null(agent_cells_find(cells, UINT64_MAX));
    agent_cells_remove(cells, 5);
    agent_cells_remove(cells, 0);
    assert_null(agent_cells_find(cells, 0));
    agent_cells_free(&cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_use),
        cmocka_unit_test(test_special_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
