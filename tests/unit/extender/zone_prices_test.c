/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes get the price of their zone, in the snapshot that requests read, and keep it until it
 * changes. */
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/service.h"
#include "extender/zone_prices.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define LIMIT UINT64_C(30000000000)
#define HEAD  "unit = gCO2eq/kWh\nsource = grid operator, week 48\n"

static struct ext_zones *zones_of(const char *text)
{
    struct ext_zones *zones = NULL;
    struct kw_err err = {0};

    assert_int_equal(ext_zones_parse("z", text, strlen(text), &zones, &err), 0);
    return zones;
}

static void put(struct ext_node_table *table, const char *name, const char *zone)
{
    struct kw_node node = {0};

    (void)snprintf(node.name, sizeof(node.name), "%s", name);
    (void)snprintf(node.zone, sizeof(node.zone), "%s", zone);
    assert_int_equal(ext_node_table_put(table, &node, 0), 0);
}

/** Equal nodes a to d. */
static struct ext_snapshot *four_nodes(void)
{
    struct kw_curve curve = kwt_server_curve(10000);
    const struct ext_node nodes[] = {kwt_node("a", &curve, 1000), kwt_node("b", &curve, 1000),
                                     kwt_node("c", &curve, 1000), kwt_node("d", &curve, 1000)};
    struct ext_snapshot *snapshot = ext_snapshot_new(nodes, KW_ARRAY_SIZE(nodes), 7, LIMIT);

    assert_non_null(snapshot);
    return snapshot;
}

static unsigned price_of(const struct ext_snapshot *snapshot, size_t index)
{
    return snapshot->places[index].price_permille;
}

static void test_prices(void **state)
{
    (void)state;
    kw_cleanup(ext_node_table_free) struct ext_node_table *table = ext_node_table_new(3);
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *first = four_nodes();
    kw_cleanup(ext_zones_free) struct ext_zones *zones =
        zones_of(HEAD "north,50\nsouth,400\nwest,100\n");
    struct ext_zone_census census;

    /* pricing takes every factor as it is */
    assert_true(EXT_ZONE_FACTOR_MAX <= EXT_FACTOR_MAX);
    assert_true(1 / EXT_ZONE_FACTOR_MAX >= EXT_FACTOR_MIN);
    put(table, "a", "north");
    put(table, "b", "south");
    put(table, "c", "nowhere"); /* d is not told of */
    ext_zone_prices_set(first, NULL, table, true, &census);
    assert_int_equal(census.listed + census.unlisted + census.unlabelled, 0);
    assert_int_equal(price_of(first, 0), 1000);
    ext_zone_prices_set(first, zones, table, false, &census);
    assert_int_equal(census.listed, 2);
    assert_int_equal(census.unlisted, 1);
    assert_int_equal(census.unlabelled, 1);
    assert_int_equal(price_of(first, 0), 500);
    assert_int_equal(price_of(first, 1), 4000);
    assert_int_equal(price_of(first, 2), 1000);
    assert_int_equal(price_of(first, 3), 1000);
    for (size_t i = 0; i < first->n; i++)
        assert_ptr_equal(ext_place_node(&first->places[i]), &first->nodes[i]);
    assert_string_equal(ext_snapshot_zone(first, &first->nodes[1])->name, "south");
    assert_null(ext_snapshot_zone(first, &first->nodes[2]));

    /* the next snapshot has them, too, and a pod that is placed does not lose them */
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *second = ext_snapshot_copy(first);
    assert_null(ext_snapshot_zone(second, &second->nodes[1])); /* its zones are not there yet */
    ext_zone_prices_set(second, zones, table, false, &census);
    assert_int_equal(census.listed, 2);
    assert_int_equal(price_of(second, 1), 4000);
    assert_int_equal(ext_snapshot_add_in_flight(second, "b", 500), 0);
    const struct ext_place *moved = ext_place_now(second, 1);
    assert_int_equal(moved->price_permille, 4000);
    assert_ptr_equal(ext_place_node(moved), &second->nodes[1]);

    /* other zones, other prices; requests that read the old ones still have them */
    ext_zones_free(&zones);
    zones = zones_of(HEAD "nowhere,1\nsouth,1\n");
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *third = ext_snapshot_copy(second);
    ext_zone_prices_set(third, zones, table, true, &census);
    assert_int_equal(census.unlisted, 1);
    assert_int_equal(price_of(third, 1), 1000);
    assert_string_equal(ext_snapshot_zone(third, &third->nodes[2])->name, "nowhere");
    assert_true(ext_snapshot_zone(first, &first->nodes[1])->value == 400);
}

/** What a request scores and keeps. */
static void test_a_request(void **state)
{
    (void)state;
    static const struct ext_policy policy = {.stale_after_ns = LIMIT, .assumptions = {100, 100}};
    static const char body[] =
        "{\"Pod\":{\"metadata\":{\"namespace\":\"x\",\"name\":\"p\"},\"spec\":{\"containers\":[]}},"
        "\"NodeNames\":[\"a\",\"b\",\"d\"]}";
    kw_cleanup(ext_node_table_free) struct ext_node_table *table = ext_node_table_new(3);
    kw_cleanup(ext_zones_free) struct ext_zones *zones = zones_of(HEAD "north,50\nsouth,400\n");
    kw_cleanup(kw_buf_free) struct kw_buf out = {0};
    struct ext_snapshot *snapshot = four_nodes();
    struct ext_service service;
    struct ext_zone_census census;

    put(table, "a", "north");
    put(table, "b", "south");
    ext_zone_prices_set(snapshot, zones, table, true, &census);
    assert_int_equal(ext_service_init(&service, 1, &policy), 0);
    assert_int_equal(ext_service_answer(&service, EXT_VERB_PRIORITIZE, snapshot, 0, body,
                                        sizeof(body) - 1, &out),
                     200);
    assert_non_null(strstr(out.data, "{\"Host\":\"a\",\"Score\":10}"));
    assert_non_null(strstr(out.data, "{\"Host\":\"b\",\"Score\": 0}"));
    ext_snapshot_free(&snapshot); /* the decision has all that it shows */
    ext_zones_free(&zones);
    kw_buf_reset(&out);
    assert_int_equal(ext_decisions_page(service.decisions, "x/p", EXT_FORM_JSON, NULL, &out), 1);
    assert_non_null(strstr(out.data, "\"zones\":{\"unit\":\"gCO2eq/kWh\",\"source\":"
                                     "\"grid operator, week 48\",\"median\":225}"));
    assert_non_null(
        strstr(out.data, "\"score\":10,\"wake_j\":null,\"zone\":\"north\",\"zone_value\":50}"));
    kw_buf_reset(&out);
    assert_int_equal(ext_decisions_page(service.decisions, "x/p", EXT_FORM_TEXT, NULL, &out), 1);
    assert_non_null(strstr(out.data, "a joule costs what its zone says, in gCO2eq/kWh; source: "
                                     "grid operator, week 48; median: 225\n"));
    assert_non_null(strstr(out.data, " a  north: 50 gCO2eq/kWh\n"));
    ext_service_clear(&service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prices),
                                       cmocka_unit_test(test_a_request)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
