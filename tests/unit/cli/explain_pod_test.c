/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/explanation.h"
#include "cli/explain_pod.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static struct kw_pod_record pod(const char *id, const char *namespace_, const char *name)
{
    return (struct kw_pod_record){.kind = KW_WORKLOAD_POD,
                                  .id = (char *)id,
                                  .name = (char *)name,
                                  .namespace_ = (char *)namespace_,
                                  .cgroup = (char *)"/kubepods/x",
                                  .runtime = (char *)"",
                                  .epoch = 1,
                                  .cpu_ns = UINT64_C(10000000000),
                                  .active_uj = 5000000,
                                  .watts_mw = 4210,
                                  .dram_mw = 310};
}

static void assert_found(const struct kw_node_view *view, const char *name, size_t want,
                         size_t want_others)
{
    size_t others = 99;

    assert_ptr_equal(cli_explain_pod_find(view, name, &others), &view->pods[want]);
    assert_int_equal(others, want_others);
}

static void finds_by_id_name_and_namespace(void **state)
{
    struct kw_pod_record pods[] = {pod("u1", "shop", "web"), pod("u2", "other", "web"),
                                   pod("u3", "shop", "web"), pod("/a.service", "", "a.service")};
    const struct kw_node_view view = {.n_pods = KW_ARRAY_SIZE(pods), .pods = pods};
    size_t others = 99;

    (void)state;
    pods[2].started_unix_ms = 9;
    pods[2].ended_unix_ms = 10;
    assert_found(&view, "u2", 1, 0);
    assert_found(&view, "other/web", 1, 0);
    assert_found(&view, "shop/web", 0, 0); /* the later one ended */
    assert_found(&view, "web", 0, 1);
    assert_found(&view, "/a.service", 3, 0);
    pods[0].ended_unix_ms = 5;
    assert_found(&view, "shop/web", 2, 0); /* of two that ended the last */
    static const char *const strangers[] = {"",        "/web",      "shop/",
                                            "sho/web", "shop/web2", "/a.servic"};
    for (size_t i = 0; i < KW_ARRAY_SIZE(strangers); i++)
        assert_null(cli_explain_pod_find(&view, strangers[i], &others));
}

static struct kw_node_view view_of(const char *node, int64_t started, int64_t ended)
{
    struct kw_node_view view = {.n_pods = 1, .pods = calloc(1, sizeof(*view.pods))};
    struct kw_pod_record *record = view.pods;

    assert_non_null(record);
    *record = (struct kw_pod_record){.kind = KW_WORKLOAD_POD, .started_unix_ms = started};
    char **const texts[] = {&record->id,     &record->name,    &record->namespace_,
                            &record->cgroup, &record->runtime, &record->requests_unit};
    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++)
        *texts[i] = strdup("web-0");
    record->ended_unix_ms = ended;
    (void)snprintf(view.sample.node, sizeof(view.sample.node), "%s", node);
    return view;
}

/** A pod that moved: it ended on one node and runs on another. */
static void prefers_the_node_where_it_runs(void **state)
{
    static const struct {
        const char *node;
        int64_t started, ended;
    } nodes[] = {{"old", 10, 20}, {"now", 21, 0}, {"older", 1, 5}, {"other", 15, 0}};
    kw_cleanup(cli_explain_found_clear) struct cli_explain_found found = {0};

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(nodes); i++) {
        kw_cleanup(kw_node_view_clear) struct kw_node_view view =
            view_of(nodes[i].node, nodes[i].started, nodes[i].ended);
        cli_explain_pod_merge(&found, &view, "web-0");
        cli_explain_pod_merge(&found, &view, "web-1");
        assert_string_equal(found.view.sample.node, i == 0 ? "old" : "now");
    }
    assert_ptr_equal(found.pod, found.view.pods);
    assert_int_equal(found.running, 2);
}

static void assert_says(const struct kw_node_view *view, const char *const *said, size_t n,
                        const char *unsaid)
{
    kw_cleanup(kw_buf_free) struct kw_buf text = {0};

    cli_explain_pod_text(&text, view, &view->pods[0]);
    for (size_t i = 0; i < n; i++) {
        if (strstr(text.data, said[i]) == NULL)
            fail_msg("\"%s\" is not in\n%s", said[i], text.data);
    }
    if (strstr(text.data, unsaid) != NULL)
        fail_msg("\"%s\" is in\n%s", unsaid, text.data);
}

static void says_all_that_is_known(void **state)
{
    static const char *const said[] = {"shop/web (pod) on n1",
                                       "kalman",
                                       "multiplexed",
                                       "4.21 +- 0.30 W  (CPU packages 3.90 W, memory 0.31 W)",
                                       "10.0 s",
                                       "2.5 s, 25 % of that",
                                       "8e+09, 1.60 a cycle, 8e+08 a CPU second",
                                       "2.00 a thousand instructions",
                                       "1.12 +- 0.05",
                                       "42.00 +- 0.90 W",
                                       "by policy none      0.00 W",
                                       "by policy equal     1.40 W  (in use)",
                                       "by policy requests  2.10 W"};
    struct kw_pod_record record = pod("u1", "shop", "web");
    struct kw_node_view view = {.n_pods = 1, .pods = &record};

    (void)state;
    record.sigma_uj = 100;
    record.sigma_mw = 300;
    record.shared_ns = UINT64_C(2500000000);
    record.cycles = UINT64_C(5000000000);
    record.instructions = UINT64_C(8000000000);
    record.llc_misses = 16000000;
    record.cpu_intensity = (struct kw_intensity){1120, 50};
    record.idle_equal_mw = 1400;
    record.idle_requests_mw = 2100;
    view.sample = (struct kw_sample){.node = "n1",
                                     .method = "kalman",
                                     .idle_policy = "equal",
                                     .idle_mw = 42000,
                                     .idle_sigma_mw = 900,
                                     .quality = KW_QUALITY_BIT(KW_QUALITY_MULTIPLEXED)};
    assert_says(&view, said, KW_ARRAY_SIZE(said), "does not say");
}

static void says_what_is_not_known(void **state)
{
    static const char *const said[] = {
        "web?[2J",         "model (estimated)",       "does not say how sure",
        "CPU time is all", "takes all work as equal", "nothing to complain of"};
    struct kw_pod_record record = pod("u1", "", "web\033[2J");
    struct kw_node_view view = {.n_pods = 1, .pods = &record};

    (void)state;
    record.estimated = true;
    view.sample = (struct kw_sample){.method = "ratio-cpu", .meter = "model"};
    assert_says(&view, said, KW_ARRAY_SIZE(said), "\033");
}

static void writes_it_as_json(void **state)
{
    struct kw_pod_record record = pod("u1", "shop", "web");
    struct kw_node_view view = {.n_pods = 1, .pods = &record};
    kw_cleanup_free char *json = NULL;
    size_t len = 0;

    (void)state;
    record.idle_equal_mw = 1400;
    view.sample = (struct kw_sample){.node = "n1", .method = "kalman", .idle_policy = "none"};
    view.sample.idle_mw = 42000;
    assert_int_equal(kw_explanation_encode(&view, &record, &json, &len), 0);
    static const char head[] =
        "{\"schema\":1,\"node\":\"n1\",\"meter\":\"\",\"method\":\"kalman\",\"accounting\":\"\","
        "\"quality\":[],\"quality_epoch\":[],\"idle_policy\":\"none\","
        "\"idle_mw\":{\"none\":0,\"equal\":1400,\"requests\":0,\"node\":42000},"
        "\"workload\":{\"schema\":1,\"kind\":\"pod\",\"id\":\"u1\",";
    assert_true(len > sizeof(head) && memcmp(json, head, sizeof(head) - 1) == 0);
    assert_string_equal(json + len - 4, "[]}}");
    record.id = (char *)"";
    char *none = NULL;
    assert_true(kw_explanation_encode(&view, &record, &none, &len) < 0);
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_by_id_name_and_namespace),
        cmocka_unit_test(prefers_the_node_where_it_runs),
        cmocka_unit_test(says_all_that_is_known),
        cmocka_unit_test(says_what_is_not_known),
        cmocka_unit_test(writes_it_as_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
