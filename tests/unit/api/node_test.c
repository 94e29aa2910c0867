/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/node.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static struct kw_node read_node(const char *labels, const char *annotations)
{
    char json[2048];
    struct kw_node node;

    (void)snprintf(json, sizeof(json),
                   "{\"metadata\":{\"name\":\"n\",\"labels\":%s,\"annotations\":%s}}", labels,
                   annotations);
    assert_int_equal(kw_node_decode(json, strlen(json), &node, NULL), 0);
    return node;
}

static void test_values(void **state)
{
    (void)state;
    struct kw_node node = read_node(
        "{\"kwatt.io/power-domain\":\"dc1\",\"kwatt.io/sleepable\":\"true\"}",
        "{\"kwatt.io/power-domain\":\"dc1/row2\",\"kwatt.io/power-cap-watts\":\"0.4k\","
        "\"kwatt.io/carbon-zone\":\"DE-LU\",\"kwatt.io/falling-asleep\":\"true\","
        "\"kwatt.io/headroom-watts\":\"17\",\"kwatt.io/headroom-time\":\"2026-11-30T21:00:00Z\"}");

    assert_string_equal(node.domain, "dc1/row2"); /* the annotation, not the label */
    assert_string_equal(node.zone, "DE-LU");
    assert_int_equal(node.cap_mw, 400000);
    assert_true(node.sleepable && node.falling_asleep && node.has_headroom);
    assert_int_equal(node.headroom_w, 17);
    assert_int_equal(node.headroom_unix_ms, INT64_C(1796072400000));
    assert_int_equal(node.bad, 0);
    assert_false(node.asleep || node.has_sleep || node.has_wake);
    node = read_node("{\"kwatt.io/asleep\":\"true\"}",
                     "{\"kwatt.io/sleep-watts\":\"0\",\"kwatt.io/wake-joules\":\"24.5k\"}");
    assert_true(node.asleep && node.has_sleep && node.has_wake);
    assert_int_equal(node.sleep_mw, 0);
    assert_int_equal(node.wake_mj, 24500000);
    assert_int_equal(node.bad, 0);
    node = read_node("null", "{\"kwatt.io/power-domain\":null}");
    assert_string_equal(node.domain, "");
    assert_false(node.has_headroom);
    assert_int_equal(node.cap_mw + node.bad, 0);
}

static void test_tier(void **state)
{
    (void)state;
    static const struct {
        const char *labels, *annotations;
        int tier;
    } cases[] = {
        {"{\"kwatt.io/power-tier\":\"0\"}", "{}", 0},
        {"{\"kwatt.io/power-tier\":\"9\"}", "{\"kwatt.io/power-tier\":\"3\"}", 9},
        {"{}", "{\"kwatt.io/power-tier\":\"3\"}", KW_TIER_NONE}, /* no annotation */
        {"null", "null", KW_TIER_NONE},
        {"{\"kwatt.io/power-tier\":null}", "{}", KW_TIER_NONE},
        {"{\"kwatt.io/power-tier\":\"10\"}", "{}", KW_TIER_OTHER},
        {"{\"kwatt.io/power-tier\":\"\"}", "{}", KW_TIER_OTHER},
        {"{\"kwatt.io/power-tier\":\"a\"}", "{}", KW_TIER_OTHER},
        {"{\"kwatt.io/power-tier\":4}", "{}", KW_TIER_OTHER},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++)
        assert_int_equal(read_node(cases[i].labels, cases[i].annotations).tier, cases[i].tier);
}

/** Kubernetes' own label, where kwatt's names no zone. */
static void test_topology_zone(void **state)
{
    (void)state;
    static const struct {
        const char *labels, *annotations, *zone;
        uint32_t bad;
    } cases[] = {
        {"{\"topology.kubernetes.io/zone\":\"eu-1a\"}", "{}", "eu-1a", 0},
        {"{\"topology.kubernetes.io/zone\":\"eu-1a\",\"kwatt.io/carbon-zone\":\"DE\"}", "{}", "DE",
         0},
        {"{\"topology.kubernetes.io/zone\":\"eu-1a\"}", "{\"kwatt.io/carbon-zone\":\"DE\"}", "DE",
         0},
        {"{\"topology.kubernetes.io/zone\":\"eu-1a\"}", "{\"kwatt.io/carbon-zone\":\"\"}", "eu-1a",
         1U << KW_NODE_CARBON_ZONE},
        {"{}", "{\"topology.kubernetes.io/zone\":\"eu-1a\"}", "", 0},
        {"{\"topology.kubernetes.io/zone\":7}", "{}", "", 0},
        {"{\"topology.kubernetes.io/zone\":\"\"}", "{}", "", 0},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kw_node node = read_node(cases[i].labels, cases[i].annotations);
        assert_string_equal(node.zone, cases[i].zone);
        assert_int_equal(node.bad, cases[i].bad);
    }
}

/** A bad value is its default and is named. */
static void test_bad_values(void **state)
{
    (void)state;
    static const struct {
        enum kw_node_key key;
        const char *value;
    } cases[] = {
        {KW_NODE_POWER_DOMAIN, "\"\""},
        {KW_NODE_POWER_DOMAIN, "\"/dc1\""},
        {KW_NODE_POWER_DOMAIN, "\"dc1/\""},
        {KW_NODE_POWER_DOMAIN, "\"a//b\""},
        {KW_NODE_POWER_DOMAIN, "\"a b\""},
        {KW_NODE_POWER_DOMAIN, "7"},
        {KW_NODE_POWER_CAP_WATTS, "\"0\""},
        {KW_NODE_POWER_CAP_WATTS, "\"-4\""},
        {KW_NODE_POWER_CAP_WATTS, "\"400W\""},
        {KW_NODE_POWER_CAP_WATTS, "\"2M\""},
        {KW_NODE_POWER_CAP_WATTS, "400"},
        {KW_NODE_SLEEPABLE, "\"yes\""},
        {KW_NODE_SLEEPABLE, "true"},
        {KW_NODE_FALLING_ASLEEP, "\"\""},
        {KW_NODE_CARBON_ZONE, "\"\""},
        {KW_NODE_CARBON_ZONE, "{}"},
        {KW_NODE_ASLEEP, "\"asleep\""},
        {KW_NODE_SLEEP_WATTS, "\"-1\""},
        {KW_NODE_SLEEP_WATTS, "8"},
        {KW_NODE_SLEEP_WATTS, "\"8W\""},
        {KW_NODE_WAKE_JOULES, "\"1001k\""},
        {KW_NODE_WAKE_JOULES, "\"\""},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        char annotations[256];
        (void)snprintf(annotations, sizeof(annotations), "{\"%s\":%s}",
                       kw_node_key_names[cases[i].key], cases[i].value);
        struct kw_node node = read_node("{}", annotations);
        assert_int_equal(node.bad, 1U << cases[i].key);
        assert_int_equal(node.cap_mw, 0);
        assert_string_equal(node.domain, "");
        assert_string_equal(node.zone, "");
        assert_false(node.sleepable || node.falling_asleep || node.asleep);
        assert_false(node.has_sleep || node.has_wake);
    }
}

static void test_no_nodes(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "null",
                                        "[]",
                                        "{}",
                                        "{\"metadata\":7}",
                                        "{\"metadata\":{}}",
                                        "{\"metadata\":{\"name\":\"\"}}",
                                        "{\"metadata\":{\"name\":\"a\\u0000b\"}}"};

    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++) {
        struct kw_node node;
        const char *why = NULL;
        assert_int_equal(kw_node_decode(texts[i], strlen(texts[i]), &node, &why), -EBADMSG);
        assert_non_null(why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_tier),
        cmocka_unit_test(test_topology_zone), cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_no_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
