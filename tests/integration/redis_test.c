/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis client against a real redis-server: types, ACL, deadlines, and a server that dies,
 * stops or hangs up. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/redis.h"
#include "tests/support/cmocka.h"
#include "tests/support/redis_server.h"

#define ACL_RULE "user kwatt on >s3cret-%s ~kwatt:* +@all"

static void exec_ok(struct kw_redis *redis, struct kw_redis_replies *replies)
{
    struct kw_err err = {0};

    if (kw_redis_exec(redis, replies, &err) != 0)
        fail_msg("%s", err.text);
}

static int setup(void **state)
{
    struct kwt_redis_server *server = calloc(1, sizeof(*server));

    kwt_redis_init(server);
    *state = server;
    return 0;
}

static int teardown(void **state)
{
    kwt_redis_done(*state);
    free(*state);
    return 0;
}

static void replies_over_a_unix_socket(void **state)
{
    struct kwt_redis_server *server = *state;
    kwt_redis_start(server, NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = server->socket_url});
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    const char *binary[] = {"SET", "kwatt:bin", "a\0\r\nb"};
    const size_t lens[] = {3, 9, 5};
    struct kw_err err = {0};

    exec_ok(redis, &replies); /* an empty queue needs no server */
    assert_int_equal(replies.n, 0);
    assert_int_equal(kw_redis_queue(redis, 3, binary, lens), 0);
    kw_redis_queue_texts(redis, "GET", "kwatt:bin", NULL);
    kw_redis_queue_texts(redis, "GET", "kwatt:none", NULL);
    kw_redis_queue_texts(redis, "INCR", "kwatt:n", NULL);
    kw_redis_queue_texts(redis, "HSET", "kwatt:h", "f", "v", "g", "w", NULL);
    kw_redis_queue_texts(redis, "HGETALL", "kwatt:h", NULL);
    kw_redis_queue_texts(redis, "LPUSH", "kwatt:h", "x", NULL);
    kw_redis_queue_texts(redis, "XADD", "kwatt:s", "1-1", "d", "{}", NULL);
    kw_redis_queue_texts(redis, "XRANGE", "kwatt:s", "-", "+", NULL);
    exec_ok(redis, &replies);
    assert_int_equal(replies.n, 9);
    assert_string_equal(replies.items[0].str, "OK");
    assert_int_equal(replies.items[1].len, 5);
    assert_memory_equal(replies.items[1].str, "a\0\r\nb", 5);
    assert_int_equal(replies.items[2].type, KW_REDIS_NIL);
    assert_int_equal(replies.items[3].integer, 1);
    assert_int_equal(replies.items[5].n_elements, 4);
    assert_string_equal(replies.items[5].elements[3].str, "w");
    assert_int_equal(replies.items[6].type, KW_REDIS_ERROR);
    assert_memory_equal(replies.items[6].str, "WRONGTYPE", 9);
    assert_string_equal(replies.items[8].elements[0].elements[1].elements[1].str, "{}");

    kw_redis_queue_texts(redis, "INCR", "kwatt:n", NULL);
    kw_redis_queue_texts(redis, "LPUSH", "kwatt:h", "x", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -EREMOTEIO);
    assert_non_null(strstr(err.text, "command 2 of 2"));
    kw_redis_queue_texts(redis, "NONSENSE", NULL);
    kw_redis_discard(redis);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), 0);
}

static void database_and_name(void **state)
{
    struct kwt_redis_server *server = *state;
    char url[128];
    kwt_redis_start(server, NULL);
    (void)snprintf(url, sizeof(url), "%s/7", server->tcp_url);
    kw_cleanup(kw_redis_free) struct kw_redis *seven =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = url});
    kw_cleanup(kw_redis_free) struct kw_redis *zero =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = server->socket_url});
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    struct kw_err err = {0};

    assert_string_equal(kw_redis_name(seven), url);
    kw_redis_queue_texts(seven, "SET", "kwatt:k", "7", NULL);
    exec_ok(seven, NULL);
    kw_redis_queue_texts(zero, "GET", "kwatt:k", NULL);
    exec_ok(zero, &replies);
    assert_int_equal(replies.items[0].type, KW_REDIS_NIL);
    (void)snprintf(url, sizeof(url), "%s/99", server->tcp_url);
    kw_cleanup(kw_redis_free) struct kw_redis *none =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = url});
    kw_redis_queue_texts(none, "PING", NULL);
    assert_int_equal(kw_redis_exec(none, NULL, &err), -EACCES);
    assert_non_null(strstr(err.text, "SELECT 99"));
}

static void acl_user_and_password_file(void **state)
{
    struct kwt_redis_server *server = *state;
    char rule[128], password_file[128];
    struct kw_err err = {0};
    (void)snprintf(rule, sizeof(rule), ACL_RULE, "one");
    kwt_redis_start(server, rule);
    (void)snprintf(password_file, sizeof(password_file), "%s/password", server->dir);
    kw_cleanup(kw_redis_free) struct kw_redis *redis = kwt_redis_client(&(struct kw_redis_conf){
        .access = {.url = server->tcp_url, .user = "kwatt", .password_file = password_file}});

    kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -ENOENT);
    assert_non_null(strstr(err.text, password_file));

    assert_int_equal(kw_file_write_atomic(password_file, "s3cret-two\n", 11, 0600), 0);
    kw_redis_retry_now(redis);
    kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -EACCES);
    assert_non_null(strstr(err.text, "kwatt"));
    assert_null(strstr(err.text, "s3cret"));

    assert_int_equal(kw_file_write_atomic(password_file, "\xef\xbb\xbfs3cret-one\r\n", 15, 0600),
                     0);
    kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -EAGAIN);
    kw_redis_retry_now(redis);
    kw_redis_queue_texts(redis, "SET", "kwatt:a", "1", NULL);
    exec_ok(redis, NULL);
    kw_redis_queue_texts(redis, "SET", "other", "1", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -EREMOTEIO);
    assert_non_null(strstr(err.text, "NOPERM"));

    /* both rotate: the file is read again with the next connection */
    kwt_redis_kill(server);
    (void)snprintf(rule, sizeof(rule), ACL_RULE, "three");
    kwt_redis_start(server, rule);
    assert_int_equal(kw_file_write_atomic(password_file, "s3cret-three", 12, 0600), 0);
    kw_redis_queue_texts(redis, "PING", NULL);
    exec_ok(redis, NULL);

    kw_cleanup(kw_redis_free) struct kw_redis *nobody =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = server->tcp_url});
    kw_redis_queue_texts(nobody, "PING", NULL);
    assert_int_equal(kw_redis_exec(nobody, NULL, &err), -EREMOTEIO);
    assert_non_null(strstr(err.text, "NOAUTH"));
}

static void killed_and_back(void **state)
{
    struct kwt_redis_server *server = *state;
    struct kw_err err = {0};
    int again = 0;
    kwt_redis_start(server, NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = server->tcp_url});

    kw_redis_queue_texts(redis, "PING", NULL);
    exec_ok(redis, NULL);
    kwt_redis_kill(server);
    kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -ECONNREFUSED);
    for (int i = 0; i < 100; i++) {
        kw_redis_queue_texts(redis, "PING", NULL);
        int r = kw_redis_exec(redis, NULL, &err);
        assert_true(r == -ECONNREFUSED || r == -EAGAIN);
        again += r == -EAGAIN;
        assert_non_null(strstr(err.text, kw_redis_name(redis)));
    }
    assert_true(again >= 90); /* the back-off held most of them back */
    kwt_redis_start(server, NULL);
    kw_redis_retry_now(redis);
    kw_redis_queue_texts(redis, "PING", NULL);
    exec_ok(redis, NULL);
    /* without retry_now it comes back by itself, at most one back-off later */
    kwt_redis_kill(server);
    kw_redis_queue_texts(redis, "PING", NULL);
    assert_true(kw_redis_exec(redis, NULL, &err) < 0);
    kwt_redis_start(server, NULL);
    int r = -EAGAIN;
    for (int i = 0; i < 1000 && r != 0; i++) {
        kw_redis_queue_texts(redis, "PING", NULL);
        r = kw_redis_exec(redis, NULL, &err);
        if (r != 0)
            (void)poll(NULL, 0, 10);
    }
    assert_int_equal(r, 0);
}

static void killed_in_the_middle_of_a_pipeline(void **state)
{
    struct kwt_redis_server *server = *state;
    struct kw_err err = {0};
    kwt_redis_start(server, NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *redis = kwt_redis_client(
        &(struct kw_redis_conf){.access.url = server->socket_url, .timeout_ms = 60000});

    /* replies of the first commands are on their way while the server sleeps and is killed */
    for (int i = 0; i < 100; i++)
        kw_redis_queue_texts(redis, "INCR", "kwatt:n", NULL);
    kw_redis_queue_texts(redis, "DEBUG", "SLEEP", "30", NULL);
    kw_redis_queue_texts(redis, "BLPOP", "kwatt:empty", "0", NULL);
    pid_t killer = fork();
    if (killer == 0) {
        (void)poll(NULL, 0, 300);
        (void)kill(server->pid, SIGKILL);
        _exit(0);
    }
    int r = kw_redis_exec(redis, NULL, &err);
    assert_true(r == -EPIPE || r == -ECONNRESET);
    kwt_redis_kill(server);
    kwt_redis_start(server, NULL);
    kw_redis_retry_now(redis);
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    kw_redis_queue_texts(redis, "INCR", "kwatt:n", NULL);
    exec_ok(redis, &replies);
    assert_int_equal(replies.items[0].integer, 1);
}

static void stalled_server_times_out(void **state)
{
    struct kwt_redis_server *server = *state;
    struct kw_err err = {0};
    kwt_redis_start(server, NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = server->tcp_url, .timeout_ms = 300});
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};

    kw_redis_queue_texts(redis, "SET", "kwatt:x", "stale", NULL);
    exec_ok(redis, NULL);
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    kw_redis_queue_texts(redis, "GET", "kwatt:x", NULL);
    uint64_t begin = kw_now_ns();
    assert_int_equal(kw_redis_exec(redis, &replies, &err), -ETIMEDOUT);
    assert_true(kw_now_ns() - begin >= 300 * KW_NS_PER_MS);
    assert_int_equal(kill(server->pid, SIGCONT), 0);
    /* the late answer belongs to the closed connection */
    kw_redis_retry_now(redis);
    kw_redis_queue_texts(redis, "ECHO", "fresh", NULL);
    exec_ok(redis, &replies);
    assert_int_equal(replies.n, 1);
    assert_string_equal(replies.items[0].str, "fresh");
}

static void large_pipeline_does_not_deadlock(void **state)
{
    struct kwt_redis_server *server = *state;
    enum { N = 3000, VALUE = 8192 };
    kw_cleanup_free char *value = malloc(VALUE + 1);
    kwt_redis_start(server, NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *redis = kwt_redis_client(
        &(struct kw_redis_conf){.access.url = server->socket_url, .timeout_ms = 60000});
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};

    memset(value, 'v', VALUE);
    value[VALUE] = '\0';
    for (int i = 0; i < N; i++)
        assert_int_equal(kw_redis_queue_texts(redis, "ECHO", value, NULL), 0);
    exec_ok(redis, &replies);
    assert_int_equal(replies.n, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(replies.items[i].len, VALUE);
}

static void closed_while_idle_is_no_failure(void **state)
{
    struct kwt_redis_server *server = *state;
    kwt_redis_start(server, NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = server->socket_url});
    kw_cleanup(kw_redis_free) struct kw_redis *other =
        kwt_redis_client(&(struct kw_redis_conf){.access.url = server->socket_url});

    kw_redis_queue_texts(redis, "PING", NULL);
    exec_ok(redis, NULL);
    kw_redis_queue_texts(other, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes", NULL);
    exec_ok(other, NULL);
    kw_redis_queue_texts(redis, "PING", NULL);
    exec_ok(redis, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(replies_over_a_unix_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(database_and_name, setup, teardown),
        cmocka_unit_test_setup_teardown(acl_user_and_password_file, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_in_the_middle_of_a_pipeline, setup, teardown),
        cmocka_unit_test_setup_teardown(stalled_server_times_out, setup, teardown),
        cmocka_unit_test_setup_teardown(large_pipeline_does_not_deadlock, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_while_idle_is_no_failure, setup, teardown),
    };
    kwt_redis_need();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
