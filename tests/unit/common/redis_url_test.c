/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/redis_impl.h"
#include "tests/support/cmocka.h"

static void good_urls(void **state)
{
    static const struct {
        const char *text, *host, *path, *user, *name;
        unsigned port, db;
    } rows[] = {
        {"redis://localhost", "localhost", NULL, NULL, "redis://localhost:6379", 6379, 0},
        {"redis://10.0.0.1:7000/3", "10.0.0.1", NULL, NULL, "redis://10.0.0.1:7000/3", 7000, 3},
        {"redis://kwatt@redis.svc/", "redis.svc", NULL, "kwatt", "redis://redis.svc:6379", 6379, 0},
        {"redis://[fd00::1]:1", "fd00::1", NULL, NULL, "redis://[fd00::1]:1", 1, 0},
        {"redis://a@b@[::1]/0", "::1", NULL, "a@b", "redis://[::1]:6379", 6379, 0},
        {"rediss://kwatt@redis.svc:6380/1", "redis.svc", NULL, "kwatt", "rediss://redis.svc:6380/1",
         6380, 1},
        {"rediss://[::1]", "::1", NULL, NULL, "rediss://[::1]:6379", 6379, 0},
        {"redis+sentinel://s/mymaster", "s", NULL, NULL, "redis+sentinel://s:26379/mymaster", 26379,
         0},
        {"redis+sentinel://u@s1,s2:1,[::1],[::2]:5/my:master/7", "s1", NULL, "u",
         "redis+sentinel://s1:26379,s2:1,[::1]:26379,[::2]:5/my:master/7", 26379, 7},
        {"rediss+sentinel://s:7/m/", "s", NULL, NULL, "rediss+sentinel://s:7/m", 7, 0},
        {"unix:///run/redis.sock", NULL, "/run/redis.sock", NULL, "unix:///run/redis.sock", 0, 0},
        {"unix:///r?db=15", NULL, "/r", NULL, "unix:///r?db=15", 0, 15},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup(kw_redis_url_free) struct kw_redis_url url = {0};
        struct kw_err err = {0};
        if (kw_redis_url_parse(rows[i].text, &url, &err) != 0)
            fail_msg("%s: %s", rows[i].text, err.text);
        kw_cleanup_free char *name = kw_redis_url_name(&url);
        assert_string_equal(name, rows[i].name);
        assert_int_equal(url.db, rows[i].db);
        if (rows[i].host != NULL) {
            assert_string_equal(url.hosts[0].name, rows[i].host);
            assert_int_equal(url.hosts[0].port, rows[i].port);
            assert_null(url.path);
        } else {
            assert_string_equal(url.path, rows[i].path);
            assert_int_equal(url.n_hosts, 0);
        }
        if (rows[i].user != NULL)
            assert_string_equal(url.user, rows[i].user);
        else
            assert_null(url.user);
    }
}

static void bad_urls_name_the_part_and_no_secret(void **state)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "scheme"},
        {"localhost:6379", "scheme"},
        {"http://localhost", "scheme"},
        {"rediss://", "host: empty"},
        {"rediss://:s3cret@host", "password"},
        {"redis://a,b", "several"},
        {"rediss://a,b", "several"},
        {"redis-sentinel://a/m", "scheme"},
        {"redis+sentinel://a", "master"},
        {"redis+sentinel://a/", "master"},
        {"redis+sentinel://a//0", "master"},
        {"redis+sentinel:///m", "host: empty"},
        {"redis+sentinel://a,/m", "host: empty"},
        {"redis+sentinel://,a/m", "host: empty"},
        {"redis+sentinel://a,b:0/m", "port"},
        {"redis+sentinel://a/m/x", "database"},
        {"redis+sentinel://a/m/1/2", "database"},
        {"redis+sentinel://a/m?db=1", "query"},
        {"redis+sentinel://u:s3cret@a,b/m", "password"},
        {"redis+sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/m", "more than 16"},
        {"redis://", "host: empty"},
        {"redis://:6379", "host: empty"},
        {"redis://user@", "host: empty"},
        {"redis://@host", "user"},
        {"redis://us%65r@host", "user"},
        {"redis://host:", "port"},
        {"redis://host:0", "port"},
        {"redis://host:65536", "port"},
        {"redis://host:s3cret", "port"},
        {"redis://::1:6379", "brackets"},
        {"redis://[::1", "']'"},
        {"redis://[::1]6379", "']'"},
        {"redis://[]", "host: empty"},
        {"redis://host/x", "database"},
        {"redis://host/-1", "database"},
        {"redis://host/2147483648", "database"},
        {"redis://host?db=1", "query"},
        {"redis://user:s3cret@host", "password"},
        {"redis://:s3cret@host", "password"},
        {"redis://user:s3@cret@host", "password"},
        {"redis://user:s3/cret@host:6379/1", "password"},
        {"redis://ho st", "blank"},
        {"redis://host\n", "blank"},
        {"unix://relative", "path"},
        {"unix:///", "path"},
        {"unix://", "path"},
        {"unix:///r?x=s3cret", "query"},
        {"unix:///r?db=", "database"},
        {"unix:///aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "107"},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_redis_url url = {.db = 42};
        struct kw_err err = {0};
        if (kw_redis_url_parse(rows[i].text, &url, &err) != -EINVAL)
            fail_msg("%s was taken", rows[i].text);
        if (strstr(err.text, rows[i].part) == NULL)
            fail_msg("%s: '%s' does not name %s", rows[i].text, err.text, rows[i].part);
        assert_null(strstr(err.text, "cret"));
        assert_null(strstr(err.text, "s3"));
        assert_int_equal(url.db, 42); /* untouched */
    }
    assert_int_equal(kw_redis_url_parse(NULL, &(struct kw_redis_url){0}, NULL), -EINVAL);
}

static void everything_of_a_sentinel_url(void **state)
{
    kw_cleanup(kw_redis_url_free) struct kw_redis_url url = {0};
    (void)state;

    assert_int_equal(kw_redis_url_parse("rediss+sentinel://a:1,b,[::1]:3/m", &url, NULL), 0);
    assert_true(url.tls);
    assert_string_equal(url.master, "m");
    assert_int_equal(url.n_hosts, 3);
    assert_string_equal(url.hosts[1].name, "b");
    assert_int_equal(url.hosts[1].port, 26379);
    assert_string_equal(url.hosts[2].name, "::1");
    assert_int_equal(url.hosts[2].port, 3);
}

static void long_names_are_refused(void **state)
{
    char text[700];
    struct kw_redis_url url = {0};
    struct kw_err err = {0};
    (void)state;

    (void)snprintf(text, sizeof(text), "redis://%0256d", 1);
    assert_int_equal(kw_redis_url_parse(text, &url, &err), -EINVAL);
    assert_non_null(strstr(err.text, "host: longer"));
    (void)snprintf(text, sizeof(text), "redis+sentinel://h/%0256d", 1);
    assert_int_equal(kw_redis_url_parse(text, &url, &err), -EINVAL);
    assert_non_null(strstr(err.text, "master: longer"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls),
        cmocka_unit_test(everything_of_a_sentinel_url),
        cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(bad_urls_name_the_part_and_no_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
