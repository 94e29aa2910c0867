/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/http_client.h"
#include "node-agent/exporter.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/snapshot_rig.h"

static struct agent_snapshot_pool *pool;
static struct kw_snapshot *snapshots;
static struct agent_exporter *exporter;
static struct kw_http_client *client;
static struct kw_buf body;

static int setup(void **state)
{
    struct kw_err err = {0};
    char url[64];

    (void)state;
    if (agent_snapshot_pool_new(&pool) < 0 ||
        kw_snapshot_new(AGENT_EXPORTER_THREADS, agent_snapshot_recycle, &snapshots) < 0)
        return -1;
    struct agent_exporter_conf conf = {.listen = "127.0.0.1:0",
                                       .info = &kwt_snapshot_info,
                                       .snapshots = snapshots,
                                       .interval_ns = KW_NS_PER_S};
    if (agent_exporter_start(&conf, &exporter, &err) < 0)
        return -1;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", agent_exporter_port(exporter));
    struct kw_http_client_conf client_conf = {.base_url = url};
    return kw_http_client_new(&client_conf, &client, &err);
}

static int teardown(void **state)
{
    (void)state;
    kw_http_client_free(&client);
    agent_exporter_stop(&exporter);
    kw_snapshot_free(&snapshots);
    agent_snapshot_pool_free(&pool);
    kw_buf_free(&body);
    return 0;
}

static unsigned get(const char *path)
{
    struct kw_http_call call = {.method = "GET", .path = path};
    struct kw_err err = {0};
    unsigned status = 0;

    if (kw_http_client_call(client, &call, &status, &body, &err) < 0)
        fail_msg("%s", err.text);
    return status;
}

static void test_before_and_after_the_first_sample(void **state)
{
    (void)state;
    assert_int_equal(get("/healthz"), 200);
    assert_int_equal(get("/readyz"), 503);
    assert_int_equal(get("/v1/pods"), 503);
    assert_int_equal(get("/metrics"), 200);
    kw_snapshot_publish(snapshots, kwt_snapshot_make(pool));
    assert_int_equal(get("/readyz"), 200);
    assert_int_equal(get("/v1/pods"), 200);
    assert_non_null(strstr(body.data, "\"pod-uid\""));
    assert_int_equal(get("/metrics"), 200);
    assert_non_null(strstr(body.data, "kepler_pod_cpu_joules_total"));
    assert_int_equal(get("/nothing"), 404);
}

/** A loop that hangs is reported; one sample makes it healthy again. */
static void test_a_hanging_loop(void **state)
{
    uint64_t now_ns = kw_now_ns();

    (void)state;
    agent_exporter_beat(exporter, now_ns > 60 * KW_NS_PER_S ? now_ns - 60 * KW_NS_PER_S : 1);
    assert_int_equal(get("/healthz"), 503);
    agent_exporter_beat(exporter, kw_now_ns());
    assert_int_equal(get("/healthz"), 200);
}

static void test_address_in_use(void **state)
{
    struct agent_exporter *second = NULL;
    struct kw_err err = {0};
    char listen[64];

    (void)state;
    (void)snprintf(listen, sizeof(listen), "127.0.0.1:%u", agent_exporter_port(exporter));
    struct agent_exporter_conf conf = {
        .listen = listen, .info = &kwt_snapshot_info, .snapshots = snapshots, .interval_ns = 1};
    assert_true(agent_exporter_start(&conf, &second, &err) < 0);
    assert_non_null(strstr(err.text, listen));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_before_and_after_the_first_sample),
        TEST(test_a_hanging_loop),
        TEST(test_address_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
