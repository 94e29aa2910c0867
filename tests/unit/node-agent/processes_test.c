/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of workloads divided among processes that come, go, move, and use each other's numbers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "node-agent/processes.h"
#include "tests/support/cmocka.h"

#define TICK_NS (10 * KW_NS_PER_MS)

static struct agent_processes *processes;
static uint64_t boot_ns;

static int setup(void **state)
{
    (void)state;
    boot_ns = 100 * KW_NS_PER_S;
    return agent_processes_new(TICK_NS, &processes);
}

static int teardown(void **state)
{
    (void)state;
    agent_processes_free(&processes);
    return 0;
}

static void begin(void)
{
    boot_ns += KW_NS_PER_S;
    agent_processes_begin(processes, boot_ns);
}

static int see(pid_t pid, uint64_t party, uint64_t start_ticks, uint64_t used_ticks,
               const char *comm)
{
    struct agent_process seen = {
        .pid = pid,
        .party = party,
        .stat = {.start_ticks = start_ticks, .used_ticks = used_ticks},
    };
    struct agent_process *process = NULL;

    (void)snprintf(seen.stat.comm, sizeof(seen.stat.comm), "%s", comm);
    int rc = agent_processes_see(processes, &seen, &process);
    if (rc == 0 && process->text == NULL)
        assert_int_equal(agent_process_text_new(comm, "", &process->text), 0);
    return rc;
}

/** One party's round. */
static void share(uint64_t number, uint64_t cpu_ns, uint64_t cpu_uj, uint64_t dram_uj)
{
    struct agent_party party = {number, cpu_ns, cpu_uj, dram_uj};

    assert_int_equal(agent_processes_share(processes, &party, 1, KW_NS_PER_S), 0);
}

static const struct agent_process *get(pid_t pid)
{
    const struct agent_process *const *list = NULL;
    size_t n = agent_processes_list(processes, &list);

    for (size_t i = 0; i < n; i++) {
        if (list[i]->pid == pid)
            return list[i];
    }
    return NULL;
}

static void test_shares_go_by_time(void **state)
{
    (void)state;
    begin();
    (void)see(10, 1, 50, 1000, "old"); /* what it used before is not ours */
    (void)see(11, 1, 60, 0, "young");
    share(1, KW_NS_PER_S, 1000, 100);
    assert_int_equal(get(10)->cpu_uj, 0);
    begin();
    (void)see(11, 1, 60, 25, "young");
    (void)see(10, 1, 50, 1075, "old");
    share(1, KW_NS_PER_S, 1000, 101);
    assert_int_equal(get(10)->cpu_uj, 750);
    assert_int_equal(get(11)->cpu_uj, 250);
    assert_int_equal(get(10)->dram_uj + get(11)->dram_uj, 101);
    assert_int_equal(get(10)->cpu_ns, 750 * KW_NS_PER_MS);
    assert_int_equal(get(10)->cpu_mw, 0); /* 750 uJ in a second */
    /* half of the time was of processes that nobody saw: their energy is nobody's */
    begin();
    (void)see(10, 1, 50, 1100, "old");
    (void)see(11, 1, 60, 50, "young");
    share(1, KW_NS_PER_S, 1000, 0);
    assert_int_equal(get(10)->cpu_uj, 750 + 250);
    assert_int_equal(get(11)->cpu_uj, 250 + 250);
    /* ticks may tell of more than there was: energy stays what it is */
    begin();
    (void)see(10, 1, 50, 1300, "old");
    (void)see(11, 1, 60, 250, "young");
    share(1, KW_NS_PER_S, 1000, 0);
    assert_int_equal(get(10)->cpu_uj + get(11)->cpu_uj, 2500);
}

static void test_a_number_used_again_is_another(void **state)
{
    (void)state;
    begin();
    (void)see(10, 1, 50, 0, "a");
    share(1, 0, 0, 0);
    begin();
    (void)see(10, 1, 50, 100, "a");
    share(1, KW_NS_PER_S, 500, 0);
    assert_int_equal(get(10)->cpu_uj, 500);
    begin();
    /* started within the round, and used less than the one before had */
    (void)see(10, 1, boot_ns / TICK_NS - 10, 50, "b");
    share(1, KW_NS_PER_S, 500, 0);
    assert_int_equal(get(10)->cpu_uj, 250);
    assert_string_equal(get(10)->text->comm, "b");
    assert_int_equal(get(10)->cpu_ns, 500 * KW_NS_PER_MS);
    begin();
    share(1, KW_NS_PER_S, 500, 0);
    assert_null(get(10));
    /* it was there before, and is seen only now: what it used until then is not of this round */
    begin();
    (void)see(10, 1, 7, 90, "c");
    share(1, KW_NS_PER_S, 500, 0);
    assert_int_equal(get(10)->cpu_uj, 0);
}

static void test_moves_and_names(void **state)
{
    (void)state;
    begin();
    (void)see(10, 1, 50, 0, "bash");
    share(1, 0, 0, 0);
    begin();
    (void)see(10, 1, 50, 10, "bash");
    share(1, 10 * TICK_NS, 40, 0);
    begin();
    (void)see(10, 2, 50, 20, "qemu"); /* and another program */
    share(2, 10 * TICK_NS, 60, 0);
    assert_int_equal(get(10)->cpu_uj, 100);
    assert_int_equal(get(10)->party, 2);
    assert_string_equal(get(10)->text->comm, "qemu");
    /* the system is a party as others */
    begin();
    (void)see(10, AGENT_PARTY_SYSTEM, 50, 30, "qemu");
    share(AGENT_PARTY_SYSTEM, 10 * TICK_NS, 5, 0);
    assert_int_equal(get(10)->cpu_uj, 105);
    /* a party without processes keeps its energy */
    begin();
    (void)see(10, 7, 50, 40, "qemu");
    share(3, 10 * TICK_NS, 5, 0);
    assert_int_equal(get(10)->cpu_uj, 105);
}

static void test_seen_twice(void **state)
{
    (void)state;
    begin();
    assert_int_equal(see(10, 1, 50, 0, "a"), 0);
    (void)see(10, 2, 50, 0, "a");
    share(1, 0, 0, 0);
    const struct agent_process *const *list = NULL;
    assert_int_equal(agent_processes_list(processes, &list), 1);
    assert_int_equal(list[0]->party, 1);
    begin();
    assert_int_equal(see(10, 1, 50, 10, "a"), 0);
    assert_int_equal(see(10, 2, 50, 10, "a"), -EEXIST);
    share(1, 10 * TICK_NS, 10, 0);
    assert_int_equal(get(10)->cpu_uj, 10);
}

/** Any lives: what living ones have never falls, and never exceeds what was drawn. */
static void test_any_lives(void **state)
{
    enum { PIDS = 40, ROUNDS = 400, PARTIES = 4 };
    uint64_t start[PIDS] = {0}, used[PIDS] = {0}, had[PIDS] = {0}, drawn_uj = 0, ended_uj = 0;
    bool lives[PIDS] = {false};

    (void)state;
    srandom(7);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct agent_party parties[PARTIES] = {{0}};
        begin();
        for (unsigned party = 0; party < PARTIES; party++) {
            parties[party] = (struct agent_party){.number = PARTIES - 1 - party,
                                                  .cpu_ns = (uint64_t)random() % KW_NS_PER_S,
                                                  .cpu_uj = (uint64_t)random() % 1000000};
            drawn_uj += parties[party].cpu_uj;
        }
        for (unsigned i = 0; i < PIDS; i++) {
            if (random() % 10 == 0) { /* ended, and perhaps its number is used again */
                lives[i] = random() % 2 == 0;
                start[i] = boot_ns / TICK_NS - (uint64_t)random() % 100;
                used[i] = had[i] = 0;
            }
            used[i] += (uint64_t)random() % 5;
            if (lives[i])
                (void)see((pid_t)i + 1, (uint64_t)random() % PARTIES, start[i], used[i], "x");
        }
        assert_int_equal(agent_processes_share(processes, parties, PARTIES, KW_NS_PER_S), 0);
        const struct agent_process *const *list = NULL;
        size_t n = agent_processes_list(processes, &list);
        uint64_t living_uj = 0;
        for (size_t i = 0; i < n; i++) {
            assert_true(i == 0 || list[i - 1]->cpu_mw >= list[i]->cpu_mw);
            assert_true(list[i]->cpu_uj >= had[list[i]->pid - 1]);
            had[list[i]->pid - 1] = list[i]->cpu_uj;
            living_uj += list[i]->cpu_uj;
        }
        assert_true(living_uj <= drawn_uj);
        assert_true(drawn_uj - living_uj >= ended_uj);
        ended_uj = drawn_uj - living_uj;
    }
}

static int parse(const char *text, struct agent_proc_stat *ret)
{
    return agent_proc_stat_parse(text, strlen(text), ret);
}

#define REST " S 1 2 3 0 -1 4194560 1 0 0 0 70 30 5 6 20 0 1 0 4242 0 0 18446744073709551615 0\n"

static void test_stat_files(void **state)
{
    static const char *const bad[] = {
        "",
        "1",
        "1 (a",
        "1 (a)",
        "1 (a) S",
        "1 (a) S 1 2 3 0 -1 4194560 1 0 0 0 70 30 5 6 20 0 1 0",
        "1 (a) S 1 2 3 0 -1 4194560 1 0 0 0 x 30 5 6 20 0 1 0 4242",
        "1 (a) S 1 2 3 0 -1 4194560 1 0 0 0 -70 30 5 6 20 0 1 0 4242",
        "1 a S" REST,
    };
    struct agent_proc_stat stat = {0};

    (void)state;
    assert_int_equal(parse("42 (bash)" REST, &stat), 0);
    assert_string_equal(stat.comm, "bash");
    assert_int_equal(stat.used_ticks, 100);
    assert_int_equal(stat.start_ticks, 4242);
    assert_int_equal(parse("42 (a) S 9 (b)\n c)" REST, &stat), 0);
    assert_string_equal(stat.comm, "a) S 9 (b)\n c");
    assert_int_equal(parse("42 ()" REST, &stat), 0);
    assert_string_equal(stat.comm, "");
    /* a worker is not another one for what it does */
    assert_int_equal(parse("7 (kworker/u8:2-events_unbound)" REST, &stat), 0);
    assert_string_equal(stat.comm, "kworker/u8:2");
    assert_int_equal(parse("7 (kworker/0:1H+kblockd)" REST, &stat), 0);
    assert_string_equal(stat.comm, "kworker/0:1H");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(parse(bad[i], &stat), -EBADMSG);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_shares_go_by_time), TEST(test_a_number_used_again_is_another),
        TEST(test_moves_and_names),   TEST(test_seen_twice),
        TEST(test_any_lives),         cmocka_unit_test(test_stat_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
