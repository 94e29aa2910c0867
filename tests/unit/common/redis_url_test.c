/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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
            assert_string_equal(url.host, rows[i].host);
            assert_int_equal(url.port, rows[i].port);
            assert_null(url.path);
        } else {
            assert_string_equal(url.path, rows[i].path);
            assert_null(url.host);
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
        {"rediss://localhost", "TLS"},
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
        struct kw_redis_url url = {.port = 42};
        struct kw_err err = {0};
        if (kw_redis_url_parse(rows[i].text, &url, &err) != -EINVAL)
            fail_msg("%s was taken", rows[i].text);
        if (strstr(err.text, rows[i].part) == NULL)
            fail_msg("%s: '%s' does not name %s", rows[i].text, err.text, rows[i].part);
        assert_null(strstr(err.text, "cret"));
        assert_null(strstr(err.text, "s3"));
        assert_int_equal(url.port, 42); /* untouched */
    }
    assert_int_equal(kw_redis_url_parse(NULL, &(struct kw_redis_url){0}, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls),
        cmocka_unit_test(bad_urls_name_the_part_and_no_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
