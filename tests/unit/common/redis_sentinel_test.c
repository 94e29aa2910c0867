/* SPDX-License-Identifier: Apache-2.0 */
/* What sentinels and servers may answer to the questions for the master. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/redis_impl.h"
#include "tests/support/cmocka.h"

/* Parses one reply. */
static void reply_of(const char *bytes, struct kw_redis_replies *ret)
{
    kw_cleanup(kw_redis_parser_free) struct kw_redis_parser *parser = NULL;

    assert_int_equal(kw_redis_parser_new(1, &parser), 0);
    assert_int_equal(kw_redis_parser_feed(parser, bytes, strlen(bytes), NULL), 1);
    kw_redis_parser_take(parser, ret);
}

static void addresses(void **state)
{
    static const struct {
        const char *bytes;
        int want;
        const char *name;
        unsigned port;
    } rows[] = {
        {"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n", 0, "127.0.0.1", 6379},
        {"*2\r\n$3\r\n::1\r\n$5\r\n65535\r\n", 0, "::1", 65535},
        {"*2\r\n$9\r\nredis.svc\r\n$1\r\n1\r\n", 0, "redis.svc", 1},
        {"*-1\r\n", -ENOENT, "no master of this name", 0},
        {"$-1\r\n", -ENOENT, "no master of this name", 0},
        {"-NOAUTH Authentication required.\r\n", -EREMOTEIO, "NOAUTH", 0},
        {"-ERR unknown command 'SENTINEL'\r\n", -EREMOTEIO, "unknown command", 0},
        {"+OK\r\n", -EPROTO, "no address", 0},
        {":5\r\n", -EPROTO, "no address", 0},
        {"*0\r\n", -EPROTO, "no address", 0},
        {"*1\r\n$1\r\na\r\n", -EPROTO, "no address", 0},
        {"*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n1\r\n", -EPROTO, "no address", 0},
        {"*2\r\n$0\r\n\r\n$1\r\n1\r\n", -EPROTO, "no address", 0},
        {"*2\r\n$3\r\na b\r\n$1\r\n1\r\n", -EPROTO, "no address", 0},
        {"*2\r\n$2\r\na\n\r\n$1\r\n1\r\n", -EPROTO, "no address", 0},
        {"*2\r\n$1\r\na\r\n$1\r\n0\r\n", -EPROTO, "no address", 0},
        {"*2\r\n$1\r\na\r\n$5\r\n65536\r\n", -EPROTO, "no address", 0},
        {"*2\r\n$1\r\na\r\n$2\r\n1x\r\n", -EPROTO, "no address", 0},
        {"*2\r\n$1\r\na\r\n$2\r\n-1\r\n", -EPROTO, "no address", 0},
        {"*2\r\n$1\r\na\r\n:1\r\n", -EPROTO, "no address", 0},
        {"*2\r\n:1\r\n$1\r\n1\r\n", -EPROTO, "no address", 0},
        {"*2\r\n*1\r\n$1\r\na\r\n$1\r\n1\r\n", -EPROTO, "no address", 0},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
        struct kw_redis_host host = {.port = 42};
        struct kw_err err = {0};
        reply_of(rows[i].bytes, &replies);
        int r = kw_redis_sentinel_address(&replies.items[0], &host, &err);
        if (r != rows[i].want)
            fail_msg("row %zu: %d %s", i, r, err.text);
        if (r == 0) {
            assert_string_equal(host.name, rows[i].name);
            assert_int_equal(host.port, rows[i].port);
            free(host.name);
        } else {
            assert_non_null(strstr(err.text, rows[i].name));
            assert_int_equal(host.port, 42); /* untouched */
        }
    }
}

static void a_name_of_256_bytes_is_none(void **state)
{
    char name[KW_REDIS_MAX_NAME_BYTES + 2];
    const struct kw_redis_reply elements[] = {
        {.type = KW_REDIS_STRING, .str = name, .len = KW_REDIS_MAX_NAME_BYTES + 1},
        {.type = KW_REDIS_STRING, .str = "1", .len = 1},
    };
    const struct kw_redis_reply reply = {
        .type = KW_REDIS_ARRAY, .elements = elements, .n_elements = 2};
    struct kw_redis_host host = {0};
    (void)state;

    memset(name, 'a', sizeof(name));
    assert_int_equal(kw_redis_sentinel_address(&reply, &host, NULL), -EPROTO);
}

static void roles(void **state)
{
    static const struct {
        const char *bytes;
        int want;
        const char *text;
    } rows[] = {
        {"*3\r\n$6\r\nmaster\r\n:14\r\n*0\r\n", 0, ""},
        {"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n$9\r\nconnected\r\n:1\r\n", -EROFS,
         "no master but a slave"},
        {"*2\r\n$8\r\nsentinel\r\n*0\r\n", -EROFS, "no master but a sentinel"},
        {"*1\r\n$7\r\nmasters\r\n", -EROFS, "no master"},
        {"-NOPERM this user has no permissions to run the 'role' command\r\n", -EREMOTEIO,
         "ROLE: NOPERM"},
        {"*0\r\n", -EPROTO, "role"},
        {"*1\r\n:1\r\n", -EPROTO, "role"},
        {"+master\r\n", -EPROTO, "role"},
        {"$-1\r\n", -EPROTO, "role"},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
        struct kw_err err = {0};
        reply_of(rows[i].bytes, &replies);
        assert_int_equal(kw_redis_role_is_master(&replies.items[0], &err), rows[i].want);
        assert_non_null(strstr(err.text, rows[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(a_name_of_256_bytes_is_none),
        cmocka_unit_test(roles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
