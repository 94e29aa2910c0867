/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/redis_impl.h"
#include "tests/support/cmocka.h"

/* Parses `text` in pieces of `step` bytes. @return result of the last feed */
static int parse(const char *text, size_t n, size_t step, struct kw_redis_replies *ret,
                 struct kw_err *err)
{
    kw_cleanup(kw_redis_parser_free) struct kw_redis_parser *parser = NULL;
    size_t len = strlen(text);
    int r = kw_redis_parser_new(n, &parser);

    for (size_t at = 0; r == 0 && at < len; at += step)
        r = kw_redis_parser_feed(parser, text + at, len - at < step ? len - at : step, err);
    if (r == 1)
        kw_redis_parser_take(parser, ret);
    return r;
}

static void every_type_in_pieces(void **state)
{
    static const char text[] = "+OK\r\n$3\r\na\nb\r\n:-42\r\n$-1\r\n*-1\r\n-ERR no\r\n$0\r\n\r\n"
                               "*3\r\n:1\r\n*2\r\n$1\r\nx\r\n*0\r\n$-1\r\n";
    (void)state;

    for (size_t step = 1; step <= sizeof(text); step++) {
        kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
        struct kw_err err = {0};
        assert_int_equal(parse(text, 8, step, &replies, &err), 1);
        assert_int_equal(replies.n, 8);
        const struct kw_redis_reply *r = replies.items;
        assert_int_equal(r[0].type, KW_REDIS_STRING);
        assert_string_equal(r[0].str, "OK");
        assert_int_equal(r[1].len, 3);
        assert_string_equal(r[1].str, "a\nb");
        assert_int_equal(r[2].type, KW_REDIS_INTEGER);
        assert_int_equal(r[2].integer, -42);
        assert_int_equal(r[3].type, KW_REDIS_NIL);
        assert_int_equal(r[4].type, KW_REDIS_NIL);
        assert_int_equal(r[5].type, KW_REDIS_ERROR);
        assert_string_equal(r[5].str, "ERR no");
        assert_int_equal(r[6].len, 0);
        assert_string_equal(r[6].str, "");
        assert_int_equal(r[7].type, KW_REDIS_ARRAY);
        assert_int_equal(r[7].n_elements, 3);
        assert_int_equal(r[7].elements[0].integer, 1);
        assert_int_equal(r[7].elements[1].n_elements, 2);
        assert_string_equal(r[7].elements[1].elements[0].str, "x");
        assert_int_equal(r[7].elements[1].elements[1].type, KW_REDIS_ARRAY);
        assert_int_equal(r[7].elements[1].elements[1].n_elements, 0);
        assert_int_equal(r[7].elements[2].type, KW_REDIS_NIL);
    }
}

static void hostile_replies(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } rows[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 1},
        {"*2147483647\r\n", 1},
        {"*9999999999999999999\r\n", 1},
        {"*-5\r\n", 1},
        {"$-5\r\n", 1},
        {"$99999999999999999999\r\n", 1},
        {":12a\r\n", 1},
        {":\r\n", 1},
        {"+OK\r\n+OK\r\n", 1},
        {"+OK\r\n+O", 1},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", 1},
        {"*1300000\r\n*1300000\r\n", 1},
        {"%1\r\n+a\r\n+b\r\n", 1},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_redis_replies replies = {0};
        struct kw_err err = {0};
        int r = parse(rows[i].text, rows[i].n, 4096, &replies, &err);
        if (r != -EPROTO)
            fail_msg("row %zu: %d %s", i, r, err.text);
        assert_int_equal(err.code, -EPROTO);
        assert_null(replies.items);
    }
    assert_int_equal(parse("$5\r\nabc", 1, 1, &(struct kw_redis_replies){0}, NULL), 0);
}

static void replies_are_bounded_on_the_wire(void **state)
{
    kw_cleanup(kw_redis_parser_free) struct kw_redis_parser *parser = NULL;
    size_t piece_len = 1u << 20;
    kw_cleanup_free char *piece = calloc(1, piece_len);
    struct kw_err err = {0};
    int r;
    (void)state;

    assert_non_null(piece);
    assert_int_equal(kw_redis_parser_new(1, &parser), 0);
    r = kw_redis_parser_feed(parser, "$536870912\r\n", 12, &err);
    for (int i = 0; i < 64 && r == 0; i++)
        r = kw_redis_parser_feed(parser, piece, piece_len, &err);
    assert_int_equal(r, -EPROTO);
    assert_non_null(strstr(err.text, "64 MiB"));
}

static void formats_binary_arguments(void **state)
{
    const char *argv[] = {"SET", "k", "a\0b\r\n"};
    const size_t lens[] = {3, 1, 5};
    static const char want[] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\0b\r\n\r\n";
    char *command = NULL;
    size_t len = 0;
    (void)state;

    assert_int_equal(kw_redis_wire_format(3, argv, lens, &command, &len), 0);
    assert_int_equal(len, sizeof(want) - 1);
    assert_memory_equal(command, want, len);
    kw_redis_wire_free(&command, len);
    assert_null(command);
    assert_int_equal(kw_redis_wire_format(0, argv, lens, &command, &len), -EINVAL);
    const size_t huge[] = {3, 1, (size_t)KW_REDIS_MAX_BYTES};
    assert_int_equal(kw_redis_wire_format(3, argv, huge, &command, &len), -ENOMEM);
    assert_null(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_in_pieces),
        cmocka_unit_test(hostile_replies),
        cmocka_unit_test(replies_are_bounded_on_the_wire),
        cmocka_unit_test(formats_binary_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
