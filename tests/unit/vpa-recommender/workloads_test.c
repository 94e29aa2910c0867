/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cmocka.h"
#include "vpa-recommender/workloads.h"

#define NOW    INT64_C(1795982400000)
#define MINUTE INT64_C(60000)
#define DAY    INT64_C(86400000)

static struct rec_workloads *workloads;
static struct kw_advice last;
static struct kw_container_advice containers[8];
static unsigned advised;

static int setup(void **state)
{
    (void)state;
    workloads = rec_workloads_new();
    return workloads == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    rec_workloads_free(&workloads);
    return 0;
}

static int take(void *user, const char *node, const struct kw_advice *advice)
{
    (void)user;
    assert_string_equal(node, "n");
    assert_true(advice->n_containers <= 8);
    last = *advice;
    memcpy(containers, advice->containers, advice->n_containers * sizeof(containers[0]));
    advised++;
    return 0;
}

static unsigned advise(int64_t now_ms)
{
    advised = 0;
    assert_int_equal(rec_workloads_advise(workloads, now_ms, take, NULL), 0);
    return advised;
}

/** A unit that uses half a core and 500 MB. */
static void feed(char *id, int64_t t_ms, bool ended)
{
    struct kw_pod_record record = {.kind = KW_WORKLOAD_UNIT,
                                   .id = id,
                                   .epoch = 1,
                                   .t_unix_ms = t_ms,
                                   .ended_unix_ms = ended ? t_ms : 0,
                                   .cpu_ns = (uint64_t)(t_ms - NOW + DAY) * 500000,
                                   .memory_bytes = 500000000};
    uint64_t tally[REC_FEED__MAX] = {0};
    assert_int_equal(rec_workloads_feed(workloads, "n", &record, 60000, t_ms, tally), 0);
}

static void test_advice(void **state)
{
    char id[] = "/system.slice/x.service";

    (void)state;
    feed(id, NOW, false);
    assert_int_equal(advise(NOW), 0); /* no CPU sample yet */
    feed(id, NOW + MINUTE, false);
    assert_int_equal(advise(NOW + MINUTE), 1);
    assert_string_equal(last.workload, id);
    assert_int_equal(last.samples, 1);
    assert_int_equal(last.history_s, 0);
    assert_int_equal(last.n_containers, 1);
    assert_string_equal(containers[0].name, id);
    assert_int_equal(containers[0].target_mcpu, 587);
    assert_int_equal(containers[0].target_bytes, 587804717);
    assert_true(containers[0].upper_mcpu <= 1000000);
    feed(id, NOW + 2 * MINUTE, false);
    assert_int_equal(advise(NOW + 2 * MINUTE), 1);
    assert_int_equal(last.history_s, 60);
    assert_true(rec_workloads_running(workloads, "n", id, NOW + 2 * MINUTE));
    assert_false(rec_workloads_running(workloads, "m", id, NOW + 2 * MINUTE));
}

static void test_ended_and_back(void **state)
{
    char id[] = "/system.slice/x.service";

    (void)state;
    feed(id, NOW, false);
    feed(id, NOW + MINUTE, false);
    feed(id, NOW + 2 * MINUTE, true);
    assert_int_equal(advise(NOW + 2 * MINUTE), 0);
    /* started again under the same id: its history is there */
    feed(id, NOW + 3 * MINUTE, false);
    assert_int_equal(advise(NOW + 3 * MINUTE), 1);
    assert_true(last.samples >= 2);
    /* not named by this reading: no advice for it, but it is not forgotten */
    assert_int_equal(advise(NOW + 4 * MINUTE), 0);
    rec_workloads_sweep(workloads, NOW + 4 * MINUTE);
    assert_int_equal(rec_workloads_count(workloads), 1);
    rec_workloads_sweep(workloads, NOW + 2 * DAY);
    assert_int_equal(rec_workloads_count(workloads), 0);
    /* one that was never seen running is not taken in */
    feed(id, NOW + 5 * MINUTE, true);
    assert_int_equal(rec_workloads_count(workloads), 0);
}

static void test_containers(void **state)
{
    struct kw_container_record two[2] = {{.id = (char *)"aa", .name = (char *)"web"},
                                         {.id = (char *)"bb", .name = (char *)""}};
    struct kw_pod_record record = {.kind = KW_WORKLOAD_POD,
                                   .id = (char *)"uid",
                                   .epoch = 1,
                                   .t_unix_ms = NOW,
                                   .n_containers = 2,
                                   .containers = two};
    uint64_t tally[REC_FEED__MAX] = {0};

    (void)state;
    assert_int_equal(rec_workloads_feed(workloads, "n", &record, 60000, NOW, tally), 0);
    assert_int_equal(tally[REC_FEED_BASED], 2);
    record.t_unix_ms += MINUTE;
    two[0].cpu_ns = UINT64_C(60000000000);
    assert_int_equal(rec_workloads_feed(workloads, "n", &record, 60000, NOW + MINUTE, tally), 0);
    assert_int_equal(tally[REC_FEED_SAMPLED], 2);
    assert_int_equal(advise(NOW + MINUTE), 1);
    assert_int_equal(last.n_containers, 2);
    assert_string_equal(containers[0].name, "web");
    assert_string_equal(containers[1].name, "bb");
    assert_int_equal(containers[0].target_mcpu, 1168);
    assert_int_equal(containers[1].target_mcpu, 12); /* the floor of two */
    assert_int_equal(containers[0].target_bytes, 0); /* never measured: not invented */
}

static void test_long_id(void **state)
{
    /* 252 bytes, then a letter of two bytes that the name's end would cut */
    char id[400];

    (void)state;
    memset(id, 'a', sizeof(id));
    memcpy(id + 252, "\xc3\xa9", 2);
    id[sizeof(id) - 1] = '\0';
    feed(id, NOW, false);
    feed(id, NOW + MINUTE, false);
    assert_int_equal(advise(NOW + MINUTE), 1);
    assert_string_equal(last.workload, id);
    assert_int_equal(strlen(containers[0].name), 252);
}

/* A node that makes up container ids and names can fill its own workload, no more. */
static void test_made_up_names(void **state)
{
    char name[32];
    struct kw_container_record container = {.id = name, .name = name};
    struct kw_pod_record record = {.kind = KW_WORKLOAD_POD,
                                   .id = (char *)"uid",
                                   .epoch = 1,
                                   .t_unix_ms = NOW,
                                   .n_containers = 1,
                                   .containers = &container};
    uint64_t tally[REC_FEED__MAX] = {0};

    (void)state;
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof(name), "c%d", i);
        assert_int_equal(rec_workloads_feed(workloads, "n", &record, 60000, NOW, tally), 0);
    }
    assert_int_equal(tally[REC_FEED_BASED], 1024);
    assert_int_equal(tally[REC_FEED_IMPLAUSIBLE], 3000 - 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_advice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ended_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_containers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_id, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_up_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
