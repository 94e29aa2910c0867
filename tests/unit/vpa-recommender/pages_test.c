/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "tests/support/cmocka.h"
#include "vpa-recommender/pages.h"

#define S UINT64_C(1000000000)

static void test_health(void **state)
{
    struct rec_stats stats = {.loop_end_ns = 1000 * S};
    const char *why;

    (void)state;
    /* five missed loops of a minute */
    assert_true(rec_pages_healthy(&stats, 60 * S, 0, 1299 * S, &why));
    assert_false(rec_pages_healthy(&stats, 60 * S, 0, 1300 * S, &why));
    assert_non_null(strstr(why, "loop"));
    /* a short loop is not unhealthy for one slow answer */
    assert_true(rec_pages_healthy(&stats, S, 0, 1059 * S, &why));
    assert_false(rec_pages_healthy(&stats, S, 0, 1060 * S, &why));
    /* a first loop that never ends */
    assert_true(rec_pages_healthy(NULL, 60 * S, 1000 * S, 1299 * S, &why));
    assert_false(rec_pages_healthy(NULL, 60 * S, 1000 * S, 1300 * S, &why));
}

static void test_ready(void **state)
{
    struct rec_stats stats = {.redis_up = true};
    const char *why;

    (void)state;
    assert_false(rec_pages_ready(NULL, &why));
    assert_true(rec_pages_ready(&stats, &why));
    stats.cluster = true;
    assert_false(rec_pages_ready(&stats, &why));
    stats.synced = true;
    assert_false(rec_pages_ready(&stats, &why));
    stats.elected = true;
    assert_true(rec_pages_ready(&stats, &why));
    assert_non_null(strstr(why, "standing by"));
    stats.leader = true;
    assert_true(rec_pages_ready(&stats, &why));
    assert_string_equal(why, "ok\n");
    stats.redis_up = false;
    assert_false(rec_pages_ready(&stats, &why));
}

static void test_metrics(void **state)
{
    struct rec_stats stats = {.cluster = true, .loops = 3};
    struct kw_buf page = {0};

    (void)state;
    stats.vpas[KW_VPA_MODE_OFF][1][1][0] = 2;
    assert_int_equal(rec_pages_metrics(&stats, KW_METRICS_TEXT, &page), 0);
    assert_non_null(strstr(page.data, "kwatt_recommender_loops_total 3\n"));
    assert_non_null(strstr(page.data, "kwatt_recommender_vpa_objects{update_mode=\"Off\","
                                      "has_recommendation=\"true\",matches_pods=\"true\","
                                      "unsupported_config=\"false\"} 2\n"));
    kw_buf_free(&page);
    /* before the first loop */
    assert_int_equal(rec_pages_metrics(NULL, KW_METRICS_OPENMETRICS, &page), 0);
    assert_non_null(strstr(page.data, "kwatt_build_info{"));
    kw_buf_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health),
        cmocka_unit_test(test_ready),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
