/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/idle_policy.h"
#include "tests/support/cmocka.h"

#define WORKLOADS 3

static struct agent_workload all[WORKLOADS];
static struct agent_container containers[WORKLOADS];
static struct agent_names names[WORKLOADS];
static struct agent_workload *const list[WORKLOADS] = {&all[0], &all[1], &all[2]};
static struct agent_idle_shares shares;

static int setup(void **state)
{
    (void)state;
    memset(all, 0, sizeof(all));
    memset(&shares, 0, sizeof(shares));
    for (size_t i = 0; i < WORKLOADS; i++) {
        names[i] = (struct agent_names){.request_mcpu = 500 * i}; /* none, 500, 1000 */
        containers[i] = (struct agent_container){.names = &names[i], .cgroups = 1};
        all[i].cgroups = 1;
        all[i].n_containers = 1;
        all[i].containers = &containers[i];
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_idle_shares_free(&shares);
    return 0;
}

static void assert_idle(uint64_t a_uj, uint64_t b_uj, uint64_t c_uj, uint64_t unshared_uj)
{
    assert_int_equal(all[0].idle_uj, a_uj);
    assert_int_equal(all[1].idle_uj, b_uj);
    assert_int_equal(all[2].idle_uj, c_uj);
    assert_int_equal(shares.unshared_uj, unshared_uj);
}

static void test_none(void **state)
{
    (void)state;
    agent_idle_share(&shares, list, WORKLOADS, 100, 4000);
    assert_idle(0, 0, 0, 100);
}

static void test_equal(void **state)
{
    (void)state;
    shares.policy = AGENT_IDLE_EQUAL;
    agent_idle_share(&shares, list, WORKLOADS, 100, 4000);
    assert_idle(34, 33, 33, 0);
    all[0].cgroups = 0; /* it ended: it keeps what it has, and gets no more */
    agent_idle_share(&shares, list, WORKLOADS, 100, 4000);
    assert_idle(34, 83, 83, 0);
}

static void test_by_request(void **state)
{
    (void)state;
    shares.policy = AGENT_IDLE_REQUESTS;
    agent_idle_share(&shares, list, WORKLOADS, 4000, 4000);
    assert_idle(0, 500, 1000, 2500);
    containers[2].cgroups = 0;  /* a container that ended requests nothing */
    containers[1].names = NULL; /* and of one without a name nobody knows */
    agent_idle_share(&shares, list, WORKLOADS, 4000, 4000);
    assert_idle(0, 500, 1000, 6500);
}

/** What each would get by any policy, whichever is in use: nothing is booked by asking. */
static void test_portions(void **state)
{
    (void)state;
    const uint64_t *given =
        agent_idle_portions(&shares, AGENT_IDLE_REQUESTS, list, WORKLOADS, 4000, 4000);
    static const uint64_t by_request[] = {0, 500, 1000, 2500};
    assert_memory_equal(given, by_request, sizeof(by_request));
    given = agent_idle_portions(&shares, AGENT_IDLE_EQUAL, list, WORKLOADS, 100, 4000);
    static const uint64_t equal[] = {34, 33, 33, 0};
    assert_memory_equal(given, equal, sizeof(equal));
    assert_null(agent_idle_portions(&shares, AGENT_IDLE_NONE, list, WORKLOADS, 100, 4000));
    assert_null(agent_idle_portions(&shares, AGENT_IDLE_EQUAL, list, 0, 100, 4000));
    assert_idle(0, 0, 0, 0);
}

/** More is requested than there is: all of it is shared. */
static void test_more_requested_than_there_is(void **state)
{
    (void)state;
    shares.policy = AGENT_IDLE_REQUESTS;
    agent_idle_share(&shares, list, WORKLOADS, 300, 1000);
    assert_idle(0, 100, 200, 0);
}

static void test_nobody_runs(void **state)
{
    (void)state;
    shares.policy = AGENT_IDLE_EQUAL;
    for (size_t i = 0; i < WORKLOADS; i++)
        all[i].cgroups = 0;
    agent_idle_share(&shares, list, WORKLOADS, 100, 4000);
    agent_idle_share(&shares, list, 0, 7, 4000);
    assert_idle(0, 0, 0, 107);
}

/** Nothing is lost or made, whatever is requested. */
static void test_conserves(void **state)
{
    uint64_t seed = 3, total_uj = 0;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        shares.policy = (enum agent_idle_policy)(round % AGENT_IDLE__MAX);
        for (size_t i = 0; i < WORKLOADS; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            names[i].request_mcpu = (seed >> 40) % 3000;
            all[i].cgroups = (seed >> 33) % 3 > 0;
        }
        uint64_t idle_uj = (seed >> 30) % 100000;
        total_uj += idle_uj;
        agent_idle_share(&shares, list, WORKLOADS, idle_uj, (seed >> 50) % 5000);
        assert_int_equal(all[0].idle_uj + all[1].idle_uj + all[2].idle_uj + shares.unshared_uj,
                         total_uj);
    }
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_none),
        TEST(test_equal),
        TEST(test_portions),
        TEST(test_by_request),
        TEST(test_more_requested_than_there_is),
        TEST(test_nobody_runs),
        TEST(test_conserves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
