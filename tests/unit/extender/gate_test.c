/* SPDX-License-Identifier: Apache-2.0 */
/* Caps in requests: what is passed, and with what reason the rest is not; pods that were let in and
 * not seen yet; pods that wait, and when a node's annotation is written for them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/capping.h"
#include "extender/gate.h"
#include "extender/headroom.h"
#include "extender/service.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND    INT64_C(1000000000)
#define NODES_MAX 5

static const struct ext_policy policy = {
    .stale_after_ns = 30 * (uint64_t)SECOND,
    .assumptions = {.default_cpu_mcpu = 100, .request_use_percent = 100},
    .own_namespace = "kwatt"};

struct fixture {
    struct ext_service service;
    struct ext_capping *capping;
    struct kw_log *log;
    struct ext_snapshot *snapshot;
    int64_t now_ns;
    struct kw_buf out;
};

static void tell(struct fixture *f, const char *json)
{
    ext_capping_event(f->capping, KW_KUBE_MODIFIED, json, strlen(json), f->now_ns);
}

/** Nodes with 8 cores and 10 W a core from 100 W on; 4 cores of each are in use. @param n at most
 * NODES_MAX. */
static void publish_nodes(struct fixture *f, const char *const *names, size_t n)
{
    const struct kw_curve curve = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 100000, 0}, {1000, 180000, 0}}};
    struct ext_node nodes[NODES_MAX];
    struct ext_held held[NODES_MAX] = {{0}};
    struct ext_snapshot *before = f->snapshot;

    for (size_t i = 0; i < n; i++) {
        nodes[i] = kwt_node(names[i], &curve, 4000);
        nodes[i].fresh_ns = nodes[i].covered_ns = f->now_ns;
        nodes[i].watts.heard = true;
        ext_watts_curve(&nodes[i].watts, &curve);
    }
    f->snapshot = ext_snapshot_new(nodes, n, 5, policy.stale_after_ns);
    assert_int_equal(ext_capping_settle(f->capping, f->snapshot, held, before, f->now_ns), 0);
    ext_snapshot_free(&before);
}

static void publish(struct fixture *f)
{
    static const char *const names[] = {"a", "b", "c\"x", "d"};

    publish_nodes(f, names, KW_ARRAY_SIZE(names));
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct kw_err err = {0};

    if (f == NULL || ext_service_init(&f->service, 2, &policy) < 0)
        return -1;
    f->log = kw_log_new("test", KW_LOG_ERROR, NULL);
    const struct ext_capping_conf conf = {.policy = {.sigmas = 0, .soft_permille = 900},
                                          .stats = &f->service.stats,
                                          .decisions = f->service.decisions,
                                          .log = f->log};
    if (ext_capping_new(&conf, &f->capping, &err) < 0)
        return -1;
    f->service.tally = ext_capping_tally(f->capping);
    f->service.waiters = ext_capping_waiters(f->capping);
    f->now_ns = 1000 * SECOND;
    tell(f,
         "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"kwatt.io/power-cap-watts\":\"160\"}}}");
    tell(f,
         "{\"metadata\":{\"name\":\"b\",\"annotations\":{\"kwatt.io/power-cap-watts\":\"150\"}}}");
    tell(f,
         "{\"metadata\":{\"name\":\"d\",\"annotations\":{\"kwatt.io/falling-asleep\":\"true\"}}}");
    publish(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ext_snapshot_free(&f->snapshot);
    ext_capping_free(&f->capping);
    ext_service_clear(&f->service);
    kw_log_free(&f->log);
    kw_buf_free(&f->out);
    free(f);
    return 0;
}

static const char *ask(struct fixture *f, enum ext_verb verb, const char *uid, const char *cpu,
                       const char *more, const char *rest)
{
    struct kw_buf body = {0};

    (void)kw_buf_addf(
        &body,
        "{\"Pod\":{\"metadata\":{\"uid\":\"%s\",\"namespace\":\"x\",\"name\":\"%s\"%s},"
        "\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"%s\"}}}]}},"
        "%s}",
        uid, uid, more, cpu, rest);
    kw_buf_reset(&f->out);
    assert_int_equal(
        ext_service_answer(&f->service, verb, f->snapshot, f->now_ns, body.data, body.len, &f->out),
        200);
    kw_buf_free(&body);
    return f->out.data;
}

static const char *filter(struct fixture *f, const char *uid, const char *cpu, const char *names)
{
    char rest[256];

    (void)snprintf(rest, sizeof(rest), "\"NodeNames\":%s", names);
    return ask(f, EXT_VERB_FILTER, uid, cpu, "", rest);
}

#define NODE_TEXT "\"kwatt: no room under the node's power cap\""
#define LATE_TEXT "\"kwatt: the node is being put to sleep\""

static void test_filter_gives_reasons(void **state)
{
    struct fixture *f = *state;

    /* names byte for byte, escapes and doubles included; unknown ones pass */
    assert_string_equal(
        filter(f, "u1", "2", "[\"a\",\"b\",\"\\u0062\",\"c\\\"x\",null,\"zz\",\"d\",\"a\"]"),
        "{\"Nodes\":null,\"NodeNames\":[\"a\",\"c\\\"x\",\"\",\"zz\",\"a\"],"
        "\"FailedNodes\":{\"b\":" NODE_TEXT ",\"\\u0062\":" NODE_TEXT "},"
        "\"FailedAndUnresolvableNodes\":{\"d\":" LATE_TEXT "},\"Error\":\"\"}");
    assert_string_equal(filter(f, "u1", "2", "[\"b\",\"d\"]"),
                        "{\"Nodes\":null,\"NodeNames\":[],\"FailedNodes\":{\"b\":" NODE_TEXT
                        "},\"FailedAndUnresolvableNodes\":{\"d\":" LATE_TEXT "},\"Error\":\"\"}");
    assert_string_equal(
        ask(f, EXT_VERB_FILTER, "u1", "2", "",
            "\"nodes\":{\"items\":[{\"metadata\":{\"name\":\"b\"}},{\"metadata\":{\"name\":\"a\"},"
            "\"spec\":{}},null]}"),
        "{\"Nodes\":{\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"a\"},\"spec\":{}},null]},"
        "\"NodeNames\":null,\"FailedNodes\":{\"b\":" NODE_TEXT
        "},\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}");
    assert_int_equal(f->service.stats.rejected[EXT_CAP_NODE], 4);
    assert_int_equal(f->service.stats.rejected[EXT_CAP_ASLEEP], 2);
    /* what caps left out is kept */
    struct kw_buf page = {0};
    assert_int_equal(ext_decisions_page(f->service.decisions, "x/u1", EXT_FORM_JSON, NULL, &page),
                     3);
    assert_non_null(strstr(
        page.data, "\"capped\":{\"node\":2,\"domain\":0,\"cluster\":0,\"sleep\":1,\"start\":0}"));
    kw_buf_free(&page);
    /* whom caps are not for */
    struct ext_policy dry = policy;
    dry.dry_run = true;
    assert_int_equal(ext_service_set_policy(&f->service, &dry), 0);
    assert_non_null(strstr(filter(f, "u2", "2", "[\"b\",\"d\"]"), "\"NodeNames\":[\"b\",\"d\"]"));
    assert_int_equal(ext_service_set_policy(&f->service, &policy), 0);
    assert_non_null(strstr(ask(f, EXT_VERB_FILTER, "u2", "2",
                               ",\"annotations\":{\"kubernetes.io/config.mirror\":\"x\"}",
                               "\"NodeNames\":[\"b\",\"d\"]"),
                           "\"NodeNames\":[\"b\",\"d\"]"));
    assert_non_null(
        strstr(ask(f, EXT_VERB_FILTER, "u2", "2",
                   ",\"annotations\":{\"kwatt.io/placement\":\"off\"}", "\"NodeNames\":[\"b\"]"),
               "\"NodeNames\":[]"));
}

/** Pods that were let in count until they are seen, each once. */
static void test_pods_that_were_let_in(void **state)
{
    struct fixture *f = *state;

    assert_non_null(strstr(filter(f, "u1", "1", "[\"a\"]"), "\"NodeNames\":[\"a\"]"));
    assert_non_null(strstr(filter(f, "u1", "1", "[\"a\"]"), "\"NodeNames\":[\"a\"]")); /* again */
    assert_non_null(strstr(filter(f, "u2", "1", "[\"a\"]"), "\"NodeNames\":[\"a\"]"));
    assert_non_null(strstr(filter(f, "u3", "1", "[\"a\"]"), "\"NodeNames\":[]")); /* 20 W in all */
    ext_tally_seen(f->service.tally, ext_tally_key("u2", "", ""));
    assert_non_null(strstr(filter(f, "u3", "1", "[\"a\"]"), "\"NodeNames\":[\"a\"]"));
    f->now_ns += EXT_TALLY_NS + 1;
    publish(f);
    assert_non_null(strstr(filter(f, "u4", "2", "[\"a\"]"), "\"NodeNames\":[\"a\"]"));
    /* while nobody tells of bindings, for as long as a pod may wait for its start */
    f->service.stats.watch_lost = true;
    f->now_ns += EXT_TALLY_NS + 1;
    publish(f);
    assert_non_null(strstr(filter(f, "u5", "1", "[\"a\"]"), "\"NodeNames\":[]"));
    f->now_ns += EXT_TALLY_BLIND_NS;
    publish(f);
    assert_non_null(strstr(filter(f, "u5", "1", "[\"a\"]"), "\"NodeNames\":[\"a\"]"));
}

static void test_soft_caps_take_levels(void **state)
{
    struct fixture *f = *state;
    static const char names[] = "\"NodeNames\":[\"a\",\"b\",\"zz\"]";

    /* a goes 6 W into its band of 16 W, b 5 W into its band of 15 W */
    assert_string_equal(ask(f, EXT_VERB_PRIORITIZE, "u1", "1", "", names),
                        "[{\"Host\":\"a\",\"Score\": 6},{\"Host\":\"b\",\"Score\": 0},"
                        "{\"Host\":\"zz\",\"Score\":10}]");
    assert_string_equal(ask(f, EXT_VERB_PRIORITIZE, "u1", "1",
                            ",\"annotations\":{\"kwatt.io/critical\":\"true\"}", names),
                        "[{\"Host\":\"a\",\"Score\":10},{\"Host\":\"b\",\"Score\":10},"
                        "{\"Host\":\"zz\",\"Score\":10}]");
}

/** Evicting helps under a node's own cap alone, and where there is somebody to evict. */
static void test_preempt(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *rest, *answer;
    } cases[] = {
        {"\"NodeNameToMetaVictims\":{\"a\":{\"Pods\":[],\"NumPDBViolations\":0},\"b\":{\"Pods\":[]}"
         ","
         "\"\\u0062\":{\"Pods\":[{\"UID\":\"v\"}]},\"d\":{\"Pods\":[{\"UID\":\"w\"}]},\"zz\":null}",
         "{\"a\":{\"Pods\":[],\"NumPDBViolations\":0},\"\\u0062\":{\"Pods\":[{\"UID\":\"v\"}]},"
         "\"zz\":null}"},
        {"\"NodeNameToVictims\":{\"d\":{\"Pods\":[{\"metadata\":{\"uid\":\"w\"}}]},\"b\":{\"Pods\":"
         "[{\"metadata\":{\"uid\":\"v\"}}],\"NumPDBViolations\":2}}",
         "{\"b\":{\"Pods\":[{\"UID\":\"v\"}],\"NumPDBViolations\":2}}"},
        {"\"NodeNameToMetaVictims\":null", "{}"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        char want[512];
        (void)snprintf(want, sizeof(want), "{\"NodeNameToMetaVictims\":%s}", cases[i].answer);
        assert_string_equal(ask(f, EXT_VERB_PREEMPT, "u1", "2", "", cases[i].rest), want);
    }
}

static size_t plan(struct fixture *f, struct ext_node_table *table, uint64_t held_mcpu,
                   struct ext_headroom_write writes[EXT_HEADROOM_WRITES])
{
    const struct ext_tally_sum held = {.mcpu = held_mcpu};

    return ext_headroom_plan(f->snapshot, table, f->service.waiters, &held, 7, f->now_ns, writes);
}

static struct ext_node_table *table_of(bool capped, uint64_t headroom_w, int64_t now_ns)
{
    struct ext_node_table *table = ext_node_table_new(1);
    struct kw_node node = {.name = "a", .cap_mw = 160000, .has_headroom = true};

    node.headroom_w = headroom_w;
    assert_int_equal(ext_node_table_put(table, &node, now_ns), 0);
    node = (struct kw_node){.name = "b", .cap_mw = capped ? 150000 : 0};
    assert_int_equal(ext_node_table_put(table, &node, now_ns), 0);
    return table;
}

static void test_headroom_is_written_rarely(void **state)
{
    struct fixture *f = *state;
    struct ext_headroom_write writes[EXT_HEADROOM_WRITES];
    struct ext_node_table *table = table_of(true, 20, f->now_ns);

    /* b has none yet: within the time in which replicas choose */
    assert_int_equal(plan(f, table, 0, writes), 0);
    f->now_ns += 5 * SECOND;
    assert_int_equal(plan(f, table, 0, writes), 1);
    assert_string_equal(writes[0].node, "b");
    assert_int_equal(writes[0].room_w, 10);
    assert_false(writes[0].wakes || writes[0].remove);
    f->now_ns += 59 * SECOND; /* not again within a minute, though nobody has seen it written */
    assert_int_equal(plan(f, table, 0, writes), 0);
    ext_node_table_free(&table);
    /* a twentieth is not enough, and what another replica wrote counts */
    table = table_of(true, 19, f->now_ns);
    ext_node_table_find(table, "b")->wrote_ns = f->now_ns;
    assert_int_equal(plan(f, table, 0, writes), 0);
    f->now_ns += 58 * SECOND;
    assert_int_equal(plan(f, table, 0, writes), 0);
    ext_node_table_free(&table);
}

static void test_rejected_pods_are_woken(void **state)
{
    struct fixture *f = *state;
    struct ext_headroom_write writes[EXT_HEADROOM_WRITES];
    struct ext_node_table *table = table_of(true, 20, f->now_ns);

    ext_node_table_find(table, "b")->wrote_ns = f->now_ns + 3600 * SECOND;
    assert_non_null(strstr(filter(f, "big", "5", "[\"b\",\"d\"]"), "\"NodeNames\":[]"));
    assert_non_null(strstr(filter(f, "small", "2", "[\"b\"]"), "\"NodeNames\":[]"));
    assert_int_equal(plan(f, table, 0, writes), 0); /* there is no room */
    /* a cap of 200 W for b: both have room there, and one write wakes both */
    tell(f,
         "{\"metadata\":{\"name\":\"b\",\"annotations\":{\"kwatt.io/power-cap-watts\":\"200\"}}}");
    f->now_ns += SECOND;
    publish(f);
    assert_int_equal(plan(f, table, 9000, writes), 0); /* others may have taken it */
    assert_int_equal(plan(f, table, 0, writes), 1);
    assert_string_equal(writes[0].node, "b");
    assert_true(writes[0].wakes && writes[0].room_w == 60);
    assert_int_equal(plan(f, table, 0, writes), 0);
    /* asked about again, one is let in; the other is rejected once more, for want of something else
     * than watts as it seems: woken after 1 s, 2 s, ... */
    assert_non_null(strstr(filter(f, "small", "2", "[\"b\"]"), "\"NodeNames\":[\"b\"]"));
    tell(f,
         "{\"metadata\":{\"name\":\"b\",\"annotations\":{\"kwatt.io/power-cap-watts\":\"150\"}}}");
    publish(f);
    assert_non_null(strstr(filter(f, "big", "5", "[\"b\",\"d\"]"), "\"NodeNames\":[]"));
    tell(f,
         "{\"metadata\":{\"name\":\"b\",\"annotations\":{\"kwatt.io/power-cap-watts\":\"200\"}}}");
    publish(f);
    assert_int_equal(plan(f, table, 0, writes), 0);
    f->now_ns += SECOND;
    assert_int_equal(plan(f, table, 0, writes), 1);
    /* whoever is not asked about is woken again, once a minute */
    f->now_ns += 61 * SECOND;
    assert_int_equal(plan(f, table, 0, writes), 1);
    assert_int_equal(plan(f, table, 0, writes), 0);
    /* until it is gone */
    f->now_ns += EXT_WAITER_NS + SECOND;
    ext_node_table_find(table, "b")->wrote_ns = f->now_ns + 3600 * SECOND;
    assert_int_equal(plan(f, table, 0, writes), 0);
    ext_node_table_free(&table);
}

/** Nodes come and go while a pod waits: what it was offered is told by name. */
static void test_waiting_over_changes_of_nodes(void **state)
{
    struct fixture *f = *state;
    static const char *const more[] = {"new", "a", "b", "c\"x", "d"};
    struct ext_headroom_write writes[EXT_HEADROOM_WRITES];
    struct ext_node_table *table = table_of(true, 20, f->now_ns);

    ext_node_table_find(table, "b")->wrote_ns = f->now_ns + 3600 * SECOND;
    assert_non_null(strstr(filter(f, "small", "2", "[\"b\"]"), "\"NodeNames\":[]"));
    f->now_ns += SECOND;
    publish_nodes(f, more, KW_ARRAY_SIZE(more));
    /* a, which stands where b stood, has room, but was not asked about */
    assert_int_equal(plan(f, table, 0, writes), 0);
    tell(f,
         "{\"metadata\":{\"name\":\"b\",\"annotations\":{\"kwatt.io/power-cap-watts\":\"200\"}}}");
    f->now_ns += SECOND;
    publish_nodes(f, more, KW_ARRAY_SIZE(more));
    assert_int_equal(plan(f, table, 0, writes), 1);
    assert_string_equal(writes[0].node, "b");
    assert_true(writes[0].wakes);
    ext_node_table_free(&table);
}

/** Thousands that wait, many more than are kept: as room comes back all are let in, some at a time,
 * and each wake leads to something. */
static void test_a_storm_of_rejected_pods(void **state)
{
    struct fixture *f = *state;
    enum { PODS = 2000, AT_ONCE = 150 }; /* room for so many of 10 mcpu in 15 W */
    static bool in[PODS];
    struct ext_headroom_write writes[EXT_HEADROOM_WRITES];
    struct ext_node_table *table = table_of(true, 20, f->now_ns);
    unsigned left = PODS;
    unsigned rounds = 0;

    memset(in, 0, sizeof(in));
    for (bool woken = true; left > 0; rounds++) {
        unsigned let_in = 0;
        char uid[16];
        assert_true(rounds < 10 * PODS / AT_ONCE);
        for (unsigned i = 0; i < PODS && woken; i++) {
            (void)snprintf(uid, sizeof(uid), "storm-%u", i);
            if (in[i] || strstr(filter(f, uid, "10m", "[\"b\"]"), "\"NodeNames\":[\"b\"]") == NULL)
                continue;
            in[i] = true;
            let_in++;
        }
        assert_true(let_in <= AT_ONCE);
        left -= let_in;
        /* they were seen, and end at once */
        for (unsigned i = 0; i < PODS; i++) {
            (void)snprintf(uid, sizeof(uid), "storm-%u", i);
            if (in[i])
                ext_tally_seen(f->service.tally, ext_tally_key(uid, "", ""));
        }
        f->now_ns += 11 * SECOND;
        publish(f);
        size_t n = plan(f, table, 0, writes);
        woken = n > 0 && writes[0].wakes;
    }
    assert_true(rounds <= 2 * (PODS / AT_ONCE + 1));
    ext_node_table_free(&table);
}

/** Where the last cap goes, so do the annotations, and whoever waited is woken by just that. */
static void test_no_caps_any_more(void **state)
{
    struct fixture *f = *state;
    struct ext_headroom_write writes[EXT_HEADROOM_WRITES];
    struct ext_node_table *table = table_of(false, 20, 0);

    assert_non_null(strstr(filter(f, "big", "5", "[\"b\"]"), "\"NodeNames\":[]"));
    ext_caps_free(&f->snapshot->caps);
    assert_int_equal(plan(f, table, 0, writes), 1);
    assert_true(writes[0].wakes && writes[0].remove);
    assert_string_equal(writes[0].node, "b");
    f->now_ns += 65 * SECOND;
    assert_int_equal(plan(f, table, 0, writes), 1);
    assert_true(writes[0].remove && !writes[0].wakes);
    assert_string_equal(writes[0].node, "a");
    ext_node_table_free(&table);
}

/** What a pod may use beyond what is expected of it, alone and with others, whose deviations do not
 * fall together; not one that says what it draws. */
static void test_unsure_use(void **state)
{
    (void)state;
    struct kw_extender_pod pod = {.critical = true};
    struct ext_outlook outlook = {.mcpu = 1000};
    struct ext_tally tally = {0};
    struct ext_tally_sum others;

    struct ext_caps caps = {.use = EXT_USE_AS_EXPECTED};

    struct ext_cap_need need = ext_gate_need(&caps, &pod, &outlook, 4);
    assert_true(need.critical && need.mcpu == 1000 && need.mw == 0);
    assert_true(fabs(need.held_mcpu - 4 * EXT_PRIOR_SPREAD * 1000) < 1);
    outlook.profile.sigma_mcpu = 300;
    assert_true(fabs(ext_gate_need(&caps, &pod, &outlook, 4).held_mcpu - 4 * 300) < 1);
    /* pods were seen to use twice what is expected of them, more or less */
    caps.use = (struct ext_use){.flight = 2, .spread = 0.5};
    need = ext_gate_need(&caps, &pod, &outlook, 4);
    assert_true(need.mcpu == 2000 && fabs(need.held_mcpu - 4 * 500) < 1);
    caps.use.spread = 0.2;
    assert_true(fabs(ext_gate_need(&caps, &pod, &outlook, 4).held_mcpu - 4 * 300) < 1);
    pod.expected_mw = 7000;
    need = ext_gate_need(&caps, &pod, &outlook, 4);
    assert_true(need.mcpu == 0 && need.mw == 7000 && need.held_mcpu == 0);
    for (uint64_t key = 1; key <= 3; key++)
        ext_tally_put(&tally, key, &(const struct ext_tally_sum){100, 1000, 10000}, 1, &others);
    assert_true(others.mcpu == 200 && others.mw == 2000 && others.variance_mcpu2 == 20000);
    /* again: once */
    ext_tally_put(&tally, 2, &(const struct ext_tally_sum){50, 0, 400}, 1, &others);
    assert_true(others.mcpu == 200 && others.variance_mcpu2 == 20000);
    ext_tally_seen(&tally, 1);
    ext_tally_seen(&tally, 2);
    ext_tally_sum(&tally, &others);
    assert_true(others.mcpu == 100 && others.mw == 1000 && others.variance_mcpu2 == 10000);
}

/** A pod that may use twenty times what is expected goes where there is room for that; where there
 * is none, where next to nothing runs. */
static void test_single_pods(void **state)
{
    struct fixture *f = *state;
    struct ext_caps *caps = f->snapshot->caps;

    caps->use.alone = 20;
    caps->nodes[1].hard_mw = 45000; /* of b; of a 20 W are left; 10 W a core */
    assert_non_null(strstr(filter(f, "1", "200m", "[\"a\",\"b\"]"), "\"NodeNames\":[\"b\"]"));
    ext_tally_take_back(f->service.tally, ext_tally_key("1", "x", "1"));
    assert_non_null(strstr(filter(f, "2", "400m", "[\"a\",\"b\"]"), "\"NodeNames\":[\"b\"]"));
    ext_tally_take_back(f->service.tally, ext_tally_key("2", "x", "2"));
    caps->nodes[1].hard_mw = 44000; /* something runs */
    assert_non_null(strstr(filter(f, "3", "400m", "[\"a\",\"b\"]"), "\"NodeNames\":[]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_filter_gives_reasons, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pods_that_were_let_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_soft_caps_take_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_preempt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_headroom_is_written_rarely, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rejected_pods_are_woken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_over_changes_of_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_storm_of_rejected_pods, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_caps_any_more, set_up, tear_down),
        cmocka_unit_test(test_unsure_use),
        cmocka_unit_test_setup_teardown(test_single_pods, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
