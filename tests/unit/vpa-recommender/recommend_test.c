/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cmocka.h"
#include "vpa-recommender/recommend.h"

#define NOW    INT64_C(1795982400000) /* 2026-11-29T20:00:00Z */
#define MINUTE INT64_C(60000)

static struct kw_vpa vpa;
static struct rec_scope *scope;

static int setup(void **state)
{
    (void)state;
    scope = rec_scope_new();
    return scope == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    rec_scope_free(&scope);
    kw_vpa_clear(&vpa);
    return 0;
}

/** A VPA with these fields of its spec and this status, as JSON. */
static void make_vpa(const char *spec, const char *status)
{
    kw_vpa_clear(&vpa);
    char text[4096];
    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"name\":\"v\",\"namespace\":\"n\",\"generation\":3},"
                   "\"spec\":{\"targetRef\":{\"kind\":\"Deployment\",\"name\":\"d\"}%s},"
                   "\"status\":%s}",
                   spec, status);
    const char *why = NULL;
    assert_int_equal(kw_vpa_decode(text, strlen(text), &vpa, &why), 0);
}

/** Half a core and 500 MB of a container, over some minutes. */
static void feed(const char *container, int64_t from_ms, int64_t minutes)
{
    for (int64_t i = 0; i <= minutes; i++) {
        struct rec_reading reading = {.epoch = 1,
                                      .t_unix_ms = from_ms + i * MINUTE,
                                      .cpu_ns = (uint64_t)i * 30000000000,
                                      .memory_bytes = 500000000};
        assert_true(rec_scope_feed(scope, container, container, &reading, 60000,
                                   from_ms + i * MINUTE) >= 0);
    }
}

static struct kw_vpa_status recommend(size_t n_pods, const char *const *names, size_t n_names,
                                      const char *unsupported)
{
    struct kw_vpa_status status = {0};
    struct rec_recommend_input input = {.vpa = &vpa,
                                        .scope = scope,
                                        .unsupported = unsupported,
                                        .n_pods = n_pods,
                                        .n_names = n_names,
                                        .names = names,
                                        .now_unix_ms = NOW};
    assert_int_equal(rec_recommend(&input, &status), 0);
    for (size_t i = 0; i < status.n_containers; i++) {
        const struct kw_vpa_container *entry = &status.containers[i];
        assert_true(entry->lower.mcpu <= entry->target.mcpu);
        assert_true(entry->target.mcpu <= entry->upper.mcpu);
        assert_true(entry->lower.bytes <= entry->target.bytes);
        assert_true(entry->target.bytes <= entry->upper.bytes);
        if (i > 0)
            assert_true(strcmp(entry[-1].container, entry->container) < 0);
    }
    for (size_t i = 1; i < status.n_conditions; i++)
        assert_true(strcmp(status.conditions[i - 1].type, status.conditions[i].type) < 0);
    return status;
}

static enum kw_vpa_truth truth(const struct kw_vpa_status *status, const char *type)
{
    const struct kw_vpa_condition *condition = kw_vpa_condition(status, type);
    return condition == NULL ? KW_VPA_TRUTH__MAX : condition->truth;
}

static const char *const web_side[] = {"web", "side"};

static void test_nothing_seen_nothing_said(void **state)
{
    (void)state;
    make_vpa("", "{}");
    struct kw_vpa_status status = recommend(1, web_side, 2, NULL);
    assert_int_equal(status.n_containers, 0);
    assert_int_equal(status.observed_generation, 3);
    assert_int_equal(truth(&status, REC_CONDITION_PROVIDED), KW_VPA_FALSE);
    assert_string_equal(kw_vpa_condition(&status, REC_CONDITION_PROVIDED)->reason, "NoUsageSeen");
    assert_string_equal(kw_vpa_condition(&status, REC_CONDITION_PROVIDED)->since,
                        "2026-11-29T20:00:00Z");
    assert_int_equal(truth(&status, REC_CONDITION_LOW_CONFIDENCE), KW_VPA_TRUTH__MAX);
    kw_vpa_status_clear(&status);
}

static void test_memory_alone_waits_for_cpu(void **state)
{
    (void)state;
    make_vpa("", "{}");
    feed("web", NOW - MINUTE, 0);
    struct kw_vpa_status status = recommend(1, web_side, 1, NULL);
    assert_int_equal(status.n_containers, 0);
    kw_vpa_status_clear(&status);
    /* unless it dies of it */
    assert_int_equal(rec_scope_oom(scope, "web", "web", UINT64_C(1) << 30, NOW, NOW), 1);
    assert_int_equal(rec_scope_oom(scope, "web", "web", UINT64_C(1) << 30, NOW, NOW), 0);
    status = recommend(1, web_side, 1, NULL);
    assert_int_equal(status.n_containers, 1);
    assert_false(status.containers[0].target.has_mcpu);
    assert_true(status.containers[0].target.bytes > (UINT64_C(1) << 30) * 12 / 10);
    kw_vpa_status_clear(&status);
}

static void test_entries(void **state)
{
    (void)state;
    make_vpa("", "{\"conditions\":[{\"type\":\"Zebra\",\"status\":\"True\","
                 "\"lastTransitionTime\":\"2020-01-01T00:00:00Z\",\"reason\":\"r\"},"
                 "{\"type\":\"RecommendationProvided\",\"status\":\"False\","
                 "\"lastTransitionTime\":\"2021-01-01T00:00:00Z\"},"
                 "{\"type\":\"NoPodsMatched\",\"status\":\"True\"},"
                 "{\"type\":\"ConfigDeprecated\",\"status\":\"True\"}]}");
    feed("web", NOW - 10 * MINUTE, 10);
    feed("side", NOW - 10 * MINUTE, 10);
    feed("gone", NOW - 10 * MINUTE, 10);
    struct kw_vpa_status status = recommend(1, web_side, 2, NULL);
    assert_int_equal(status.n_containers, 2); /* "gone" lives in no pod */
    assert_string_equal(status.containers[0].container, "side");
    assert_int_equal(status.containers[1].target.mcpu, 587);
    assert_int_equal(status.containers[1].target.bytes, 587804717);
    assert_int_equal(status.containers[1].uncapped.mcpu, 587);
    assert_true(status.containers[1].upper.mcpu <= 1000000);
    assert_int_equal(truth(&status, REC_CONDITION_PROVIDED), KW_VPA_TRUE);
    assert_string_equal(kw_vpa_condition(&status, REC_CONDITION_PROVIDED)->since,
                        "2026-11-29T20:00:00Z");
    assert_int_equal(truth(&status, REC_CONDITION_LOW_CONFIDENCE), KW_VPA_TRUE);
    assert_int_equal(truth(&status, REC_CONDITION_NO_PODS), KW_VPA_TRUTH__MAX);
    assert_int_equal(truth(&status, REC_CONDITION_DEPRECATED), KW_VPA_TRUTH__MAX);
    assert_string_equal(kw_vpa_condition(&status, "Zebra")->since, "2020-01-01T00:00:00Z");
    assert_string_equal(kw_vpa_condition(&status, "Zebra")->reason, "r");
    kw_vpa_status_clear(&status);
}

static void test_a_day_is_confident(void **state)
{
    (void)state;
    make_vpa("", "{}");
    feed("web", NOW - 1500 * MINUTE, 1500);
    struct kw_vpa_status status = recommend(1, web_side, 1, NULL);
    assert_int_equal(truth(&status, REC_CONDITION_LOW_CONFIDENCE), KW_VPA_TRUTH__MAX);
    kw_vpa_status_clear(&status);
}

static void test_nothing_changes_nothing_differs(void **state)
{
    (void)state;
    make_vpa("", "{}");
    feed("web", NOW - 10 * MINUTE, 10);
    struct kw_vpa_status status = recommend(1, web_side, 2, NULL);
    kw_vpa_status_clear(&vpa.status);
    vpa.status = status;
    struct kw_vpa_status again = recommend(1, web_side, 2, NULL);
    assert_true(kw_vpa_status_equal(&status, &again));
    assert_string_equal(again.conditions[0].since, status.conditions[0].since);
    kw_vpa_status_clear(&again);
}

static void test_policies(void **state)
{
    static const struct {
        const char *policies;
        size_t n;
        uint64_t target, lower_max, uncapped;
        bool memory;
    } rows[] = {
        {"[{\"containerName\":\"web\",\"mode\":\"Off\"}]", 0, 0, 0, 0, false},
        {"[{\"containerName\":\"*\",\"mode\":\"Off\"}]", 0, 0, 0, 0, false},
        /* the exact name wins over "*" */
        {"[{\"containerName\":\"*\",\"mode\":\"Off\"},{\"containerName\":\"web\"}]", 1, 587, 587,
         587, true},
        {"[{\"containerName\":\"web\",\"minAllowed\":{\"cpu\":2}}]", 1, 2000, 2000, 587, true},
        {"[{\"containerName\":\"web\",\"maxAllowed\":{\"cpu\":\"100m\"}}]", 1, 100, 100, 587, true},
        /* min first, then max, as in the stock recommender */
        {"[{\"containerName\":\"web\",\"minAllowed\":{\"cpu\":\"2\"},\"maxAllowed\":{\"cpu\":\"1\"}"
         "}]",
         1, 1000, 1000, 587, true},
        {"[{\"containerName\":\"web\",\"minAllowed\":{\"cpu\":\"0\"},\"maxAllowed\":{\"cpu\":\"0\"}"
         "}]",
         1, 587, 587, 587, true},
        {"[{\"containerName\":\"web\",\"minAllowed\":{\"cpu\":\"-1\",\"x\":\"y\"}}]", 1, 587, 587,
         587, true},
        {"[{\"containerName\":\"web\",\"controlledResources\":[\"cpu\"]}]", 1, 587, 587, 587,
         false},
    };

    (void)state;
    feed("web", NOW - 10 * MINUTE, 10);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char spec[512];
        (void)snprintf(spec, sizeof(spec), ",\"resourcePolicy\":{\"containerPolicies\":%s}",
                       rows[i].policies);
        make_vpa(spec, "{}");
        struct kw_vpa_status status = recommend(1, web_side, 1, NULL);
        assert_int_equal(status.n_containers, rows[i].n);
        if (rows[i].n == 1) {
            assert_int_equal(status.containers[0].target.mcpu, rows[i].target);
            assert_true(status.containers[0].lower.mcpu <= rows[i].lower_max);
            assert_int_equal(status.containers[0].uncapped.mcpu, rows[i].uncapped);
            assert_true(status.containers[0].target.has_bytes == rows[i].memory);
            assert_true(status.containers[0].uncapped.has_bytes == rows[i].memory);
        } else {
            assert_string_equal(kw_vpa_condition(&status, REC_CONDITION_PROVIDED)->reason,
                                "AllContainersOff");
        }
        kw_vpa_status_clear(&status);
    }
}

/* The floor is divided by the containers that live and are not off. */
static void test_floor(void **state)
{
    (void)state;
    struct rec_reading reading = {.epoch = 1, .t_unix_ms = NOW - MINUTE, .memory_bytes = 1000};
    (void)rec_scope_feed(scope, "web", "web", &reading, 60000, NOW);
    reading.t_unix_ms = NOW;
    (void)rec_scope_feed(scope, "web", "web", &reading, 60000, NOW);
    make_vpa("", "{}");
    struct kw_vpa_status status = recommend(1, web_side, 2, NULL);
    assert_int_equal(status.containers[0].target.mcpu, 12);
    assert_int_equal(status.containers[0].target.bytes, 131072000);
    kw_vpa_status_clear(&status);
    make_vpa(",\"resourcePolicy\":{\"containerPolicies\":[{\"containerName\":\"side\",\"mode\":"
             "\"Off\"}]}",
             "{}");
    status = recommend(1, web_side, 2, NULL);
    assert_int_equal(status.containers[0].target.mcpu, 25);
    assert_int_equal(status.containers[0].target.bytes, 262144000);
    kw_vpa_status_clear(&status);
}

#define STANDING                                                                                \
    "{\"recommendation\":{\"containerRecommendations\":[{\"containerName\":\"web\","            \
    "\"target\":{\"cpu\":\"2\",\"memory\":\"100Mi\"},\"lowerBound\":{\"cpu\":\"1\",\"memory\":" \
    "\"90Mi\"},"                                                                                \
    "\"upperBound\":{\"cpu\":\"3\",\"memory\":\"200Mi\"},\"uncappedTarget\":{\"cpu\":\"2\","    \
    "\"memory\":\"100Mi\"}}]}}"

static void test_outage_and_scale_to_zero_keep_advice(void **state)
{
    (void)state;
    make_vpa("", STANDING);
    struct kw_vpa_status status = recommend(0, NULL, 0, NULL);
    assert_int_equal(status.n_containers, 1);
    assert_int_equal(status.containers[0].target.mcpu, 2000);
    assert_int_equal(status.containers[0].lower.mcpu, 1000);
    assert_int_equal(truth(&status, REC_CONDITION_NO_PODS), KW_VPA_TRUE);
    assert_int_equal(truth(&status, REC_CONDITION_PROVIDED), KW_VPA_TRUE);
    kw_vpa_status_clear(&status);
    /* pods, but no samples */
    status = recommend(1, web_side, 2, NULL);
    assert_int_equal(status.n_containers, 1);
    assert_int_equal(status.containers[0].target.mcpu, 2000);
    kw_vpa_status_clear(&status);
    status = recommend(0, NULL, 0, "because");
    assert_int_equal(status.n_containers, 1);
    assert_string_equal(kw_vpa_condition(&status, REC_CONDITION_UNSUPPORTED)->message, "because");
    kw_vpa_status_clear(&status);
}

/* A restarted process holds what stands there for an hour, but gives more where more is needed. */
static void test_restart(void **state)
{
    (void)state;
    make_vpa("", STANDING);
    feed("web", NOW - 10 * MINUTE, 10);
    struct kw_vpa_status status = recommend(1, web_side, 1, NULL);
    assert_int_equal(status.containers[0].target.mcpu, 2000);
    assert_int_equal(status.containers[0].target.bytes, 587804717);
    kw_vpa_status_clear(&status);
    feed("web", NOW, 90);
    status = recommend(1, web_side, 1, NULL);
    assert_int_equal(status.containers[0].target.mcpu, 587);
    kw_vpa_status_clear(&status);
}

static void test_unsupported_and_empty(void **state)
{
    (void)state;
    make_vpa("", "{}");
    struct kw_vpa_status status = recommend(0, NULL, 0, "targetRef: why");
    assert_int_equal(truth(&status, REC_CONDITION_UNSUPPORTED), KW_VPA_TRUE);
    assert_int_equal(truth(&status, REC_CONDITION_PROVIDED), KW_VPA_FALSE);
    assert_string_equal(kw_vpa_condition(&status, REC_CONDITION_PROVIDED)->message,
                        "targetRef: why");
    kw_vpa_status_clear(&status);
    status = recommend(0, NULL, 0, NULL);
    assert_int_equal(truth(&status, REC_CONDITION_UNSUPPORTED), KW_VPA_TRUTH__MAX);
    assert_string_equal(kw_vpa_condition(&status, REC_CONDITION_PROVIDED)->reason,
                        REC_CONDITION_NO_PODS);
    kw_vpa_status_clear(&status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_seen_nothing_said, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_alone_waits_for_cpu, setup, teardown),
        cmocka_unit_test_setup_teardown(test_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_day_is_confident, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_changes_nothing_differs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_policies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_floor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_outage_and_scale_to_zero_keep_advice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unsupported_and_empty, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
