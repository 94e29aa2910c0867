/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/kalman_parties.h"
#include "tests/support/cmocka.h"

static struct agent_parties *parties;

static int setup(void **state)
{
    (void)state;
    return agent_parties_new(&parties);
}

static int teardown(void **state)
{
    (void)state;
    agent_parties_free(&parties);
    return parties == NULL ? 0 : -1;
}

static void test_add_find_remove(void **state)
{
    (void)state;
    assert_null(agent_parties_find(parties, 0));
    struct agent_party *party = agent_parties_add(parties, 0, 5, 9);
    assert_non_null(party);
    assert_ptr_equal(agent_parties_find(parties, 0), party);
    assert_ptr_equal(agent_parties_of_state(parties, 9), party);
    agent_parties_move(parties, party, 11);
    assert_null(agent_parties_of_state(parties, 9));
    assert_ptr_equal(agent_parties_of_state(parties, 11), party);
    agent_parties_remove(parties, 0);
    agent_parties_remove(parties, 0);
    assert_null(agent_parties_find(parties, 0));
    assert_null(agent_parties_of_state(parties, 11));
    assert_int_equal(agent_parties_count(parties), 0);
}

/** Random life against a plain array; numbers that meet in the table included. */
static void test_random_life(void **state)
{
    enum { NUMBERS = 3000 };
    static uint32_t state_of[NUMBERS]; /* 0: not there */
    uint64_t seed = 3;
    size_t n = 0;

    (void)state;
    for (unsigned k = 0; k < 200000; k++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        size_t i = (size_t)(seed >> 33) % NUMBERS;
        uint64_t workload = (uint64_t)i * 4096;
        struct agent_party *party = agent_parties_find(parties, workload);
        if (state_of[i] == 0)
            assert_null(party);
        else
            assert_int_equal(party->state, state_of[i]);
        if (state_of[i] != 0) {
            agent_parties_remove(parties, workload);
            state_of[i] = 0;
            n--;
        } else if (n < AGENT_PARTIES_MAX) {
            uint32_t at = 1;
            while (agent_parties_of_state(parties, at) != NULL)
                at++;
            assert_non_null(agent_parties_add(parties, workload, 0, at));
            state_of[i] = at;
            n++;
        } else {
            assert_null(agent_parties_add(parties, workload, 0, 1));
            for (size_t other = 0; other < NUMBERS && n > 10; other++) {
                if (state_of[other] == 0)
                    continue;
                agent_parties_remove(parties, (uint64_t)other * 4096);
                state_of[other] = 0;
                n--;
            }
        }
        assert_int_equal(agent_parties_count(parties), n);
    }
}

static void test_smallest(void **state)
{
    (void)state;
    assert_null(agent_parties_smallest(parties));
    for (uint32_t i = 0; i < 10; i++)
        agent_parties_add(parties, i, 0, i)->size = 10 + (i * 7) % 10;
    assert_int_equal(agent_parties_smallest(parties)->workload, 1);
    agent_parties_clear(parties);
    assert_null(agent_parties_smallest(parties));
}

static void test_owners(void **state)
{
    const double first[AGENT_VIEWS] = {1.75, 0.5}, none[AGENT_VIEWS] = {3, 3};
    double intensity[AGENT_VIEWS];

    (void)state;
    assert_false(agent_parties_recall(parties, 42, intensity));
    agent_parties_note(parties, 42, first);
    agent_parties_note(parties, 0, none);
    assert_true(agent_parties_recall(parties, 42, intensity));
    assert_true(intensity[AGENT_VIEW_TIME] == 1.75 && intensity[AGENT_VIEW_COUNTERS] == 0.5);
    assert_false(agent_parties_recall(parties, 0, intensity));
    agent_parties_clear(parties);
    assert_true(agent_parties_recall(parties, 42, intensity));
}

static void test_those_of_an_owner(void **state)
{
    uint32_t states[4];

    (void)state;
    for (uint32_t i = 0; i < 12; i++)
        (void)agent_parties_add(parties, i, i % 3, 20 - i);
    assert_int_equal(agent_parties_of_kin(parties, 2, 8, states), 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(states[i], 9 + 3 * i);
    assert_int_equal(agent_parties_of_kin(parties, 2, 1, states), 1);
    assert_int_equal(states[0], 9);
    assert_int_equal(agent_parties_of_kin(parties, 0, 4, states), 0);
    assert_int_equal(agent_parties_of_kin(parties, 3, 4, states), 0);
    agent_parties_remove(parties, 11);
    assert_int_equal(agent_parties_of_kin(parties, 2, 1, states), 1);
    assert_int_equal(states[0], 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_add_find_remove, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_smallest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owners, setup, teardown),
        cmocka_unit_test_setup_teardown(test_those_of_an_owner, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
