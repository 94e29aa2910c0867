/* SPDX-License-Identifier: Apache-2.0 */
/* Out of memory at every single allocation of the Redis and Kubernetes clients' parsers and makers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/kube_impl.h"
#include "common/redis_impl.h"
#include "tests/support/cmocka.h"
#include "tests/support/fail_alloc.h"

static int try_redis_client(void *user)
{
    const struct kw_redis_conf *conf = user;
    struct kw_redis *redis = NULL;
    int r = kw_redis_new(conf, &redis, NULL);

    if (r == 0)
        r = kw_redis_queue_texts(redis, "SET", "k", "v", NULL);
    else
        assert_null(redis);
    kw_redis_free(&redis);
    return r;
}

static void redis_client(void **state)
{
    struct kw_redis_conf tcp = {
        .access = {.url = "redis://me@h:1/2", .user = "u", .password_file = "/f"}};
    struct kw_redis_conf sentinels = {.access = {.url = "rediss+sentinel://me@h:1,i/m/2",
                                                 .ca_file = "/ca",
                                                 .cert_file = "/cert",
                                                 .key_file = "/key",
                                                 .server_name = "n",
                                                 .sentinel_user = "u",
                                                 .sentinel_password_file = "/f"}};
    struct kw_redis_conf local = {.access.url = "unix:///s?db=3"};
    (void)state;

    assert_true(kwt_fail_each(try_redis_client, &tcp) >= 6);
    assert_true(kwt_fail_each(try_redis_client, &local) >= 3);
    assert_true(kwt_fail_each(try_redis_client, &sentinels) >= 14);
}

static int try_redis_replies(void *user)
{
    const char *text = user;
    struct kw_redis_parser *parser = NULL;
    struct kw_redis_replies replies = {0};
    int r = kw_redis_parser_new(2, &parser);

    if (r == 0)
        r = kw_redis_parser_feed(parser, text, strlen(text), NULL);
    if (r == 1) {
        kw_redis_parser_take(parser, &replies);
        r = 0;
    }
    kw_redis_parser_free(&parser);
    kw_redis_replies_free(&replies);
    return r;
}

static void redis_replies(void **state)
{
    /* 1000 elements do not fit into the first chunk */
    static char text[8192] = "*1000\r\n";
    (void)state;

    for (int i = 0; i < 1000; i++)
        strncat(text, ":1\r\n", 5);
    strncat(text, "$2\r\nhi\r\n", 9);
    assert_true(kwt_fail_each(try_redis_replies, text) >= 3);
}

static int try_kubeconfig(void *user)
{
    const char *text = user;
    struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    struct kw_err err = {0};
    int r = kw_kube_target_parse("/nonexistent/config", text, strlen(text), NULL, &target, &err);

    if (r < 0) {
        assert_null(target.server);
        assert_true(err.text[0] != '\0');
    }
    kw_kube_target_free(&target);
    return r;
}

static void kubeconfig(void **state)
{
    static char text[] =
        "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'https://a', tls-server-name: b,\n"
        "  certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==}}]\n"
        "users: [{name: a, user: {username: a, password: b}}]\n";
    (void)state;

    assert_true(kwt_fail_each(try_kubeconfig, text) > 20);
}

static int take_line(void *user, const char *bytes, size_t len)
{
    struct kw_kube_line line;
    (void)user;

    return kw_kube_cut_line(bytes, len, &line, NULL);
}

static int try_watch_stream(void *user)
{
    const char *text = user;
    struct kw_kube_lines lines = {0};
    int r = kw_kube_lines_feed(&lines, text, strlen(text), take_line, NULL);

    kw_kube_lines_free(&lines);
    return r;
}

static bool take_item(void *user, const char *json, size_t len)
{
    (void)user;
    (void)json;
    (void)len;
    return true;
}

static int try_list(void *user)
{
    const char *text = user;
    struct kw_kube_page page = {0};
    int r = kw_kube_cut_list(text, strlen(text), take_item, NULL, &page, NULL);

    if (r < 0)
        assert_null(page.version);
    kw_kube_page_free(&page);
    return r;
}

static void answers(void **state)
{
    static char line[] =
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}\n";
    static char list[] =
        "{\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"c\"},\"items\":[{}]}";
    (void)state;

    assert_true(kwt_fail_each(try_watch_stream, line) >= 2);
    assert_true(kwt_fail_each(try_list, list) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redis_client),
        cmocka_unit_test(redis_replies),
        cmocka_unit_test(kubeconfig),
        cmocka_unit_test(answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
