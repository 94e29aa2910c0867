/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "common/cleanup.h"
#include "node-agent/batch.h"
#include "node-agent/view.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/snapshot_rig.h"

static struct agent_snapshot_pool *pool;
static struct agent_snapshot *snapshot;

static int setup(void **state)
{
    (void)state;
    if (agent_snapshot_pool_new(&pool) < 0)
        return -1;
    snapshot = kwt_snapshot_make(pool);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_snapshot_recycle(snapshot);
    agent_snapshot_pool_free(&pool);
    return 0;
}

/** What is written can be read by every consumer, with the same figures. */
static void test_round_trip(void **state)
{
    kw_cleanup_free char *json = NULL;
    kw_cleanup(kw_node_view_clear) struct kw_node_view view = {0};
    const char *why = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(agent_view_encode(snapshot, &kwt_snapshot_info, &json, &len), 0);
    int rc = kw_node_view_decode(json, len, &view, &why);
    if (rc < 0)
        fail_msg("%s", why != NULL ? why : "?");
    assert_string_equal(view.info.node, "node-1");
    assert_int_equal(view.n_pods, 3);
    assert_int_equal(view.pods[0].active_uj, 9007199254741000);
    assert_int_equal(view.pods[0].dram_uj, 7);
    assert_int_equal(view.pods[0].watts_mw, 1750);
    assert_int_equal(view.pods[0].dram_mw, 250);
    assert_int_equal(view.pods[0].sigma_mw, 80);
    assert_int_equal(view.pods[0].shared_ns, 11);
    assert_int_equal(view.pods[0].llc_misses, 14);
    assert_int_equal(view.pods[0].cpu_intensity.permille, 1120);
    assert_int_equal(view.pods[0].dram_intensity.sigma_permille, 0);
    assert_int_equal(view.pods[0].idle_requests_mw, 900);
    assert_int_equal(view.pods[0].epoch, 1700000000000);
    assert_int_equal(view.pods[0].n_containers, 2);
    assert_string_equal(view.pods[0].containers[1].id, "bbb");
    assert_int_equal(view.pods[1].ended_unix_ms, 1700000001000);
    assert_int_equal(view.pods[2].kind, KW_WORKLOAD_UNIT);
    assert_int_equal(view.curve.n, KW_CURVE_KNOTS);
}

/** What is known of workloads that are no pods goes the same way. */
static void test_names_of_others(void **state)
{
    struct agent_names container = {.name = (char *)"web", .image = (char *)"nginx"};
    struct agent_names machine = {.name = (char *)"db", .uuid = (char *)"u-1", .vm = true};
    kw_cleanup_free char *json = NULL;
    kw_cleanup(kw_node_view_clear) struct kw_node_view view = {0};
    const char *why = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(agent_names_new(&container, &snapshot->rows[1].names), 0);
    assert_int_equal(agent_names_new(&machine, &snapshot->rows[2].names), 0);
    assert_int_equal(agent_view_encode(snapshot, &kwt_snapshot_info, &json, &len), 0);
    assert_int_equal(kw_node_view_decode(json, len, &view, &why), 0);
    assert_string_equal(view.pods[0].image, "");
    assert_string_equal(view.pods[1].name, "web");
    assert_string_equal(view.pods[1].image, "nginx");
    assert_string_equal(view.pods[1].containers[0].name, "web");
    assert_int_equal(view.pods[2].kind, KW_WORKLOAD_VM);
    assert_string_equal(view.pods[2].name, "db");
    assert_string_equal(view.pods[2].uuid, "u-1");
}

static void test_ids_of_a_batch(void **state)
{
    struct agent_batch_ids ids = {0};

    (void)state;
    assert_false(agent_batch_ids_have(&ids, "pod-uid"));
    for (unsigned i = 0; i < 2; i++) { /* memory is used again */
        assert_int_equal(agent_batch_ids_fill(&ids, snapshot), 0);
        assert_int_equal(ids.n, 3);
        assert_true(agent_batch_ids_have(&ids, "pod-uid"));
        assert_true(agent_batch_ids_have(&ids, "c0ffee"));
        assert_false(agent_batch_ids_have(&ids, "c0ffe"));
        assert_false(agent_batch_ids_have(&ids, ""));
    }
    agent_batch_ids_free(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ids_of_a_batch, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
