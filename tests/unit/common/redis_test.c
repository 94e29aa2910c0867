/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis client against a server that is none: each test scripts what the other end does. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/redis.h"
#include "tests/support/cmocka.h"

/* One connection: waits for the client's first bytes, sends `say`, then closes or waits for the
 * client to close. */
struct act {
    const char *say;
    const char *later; /* said after go_on was posted */
    bool stay;         /* keep the connection until the client closes it */
    bool before;       /* say it without waiting for the client */
};

struct server {
    char dir[64], path[96], url[112];
    int fd;
    const struct act *acts;
    size_t n_acts;
    pthread_t thread;
    sem_t go_on, said;
};

static void *serve(void *user)
{
    struct server *server = user;
    char bytes[4096];

    for (size_t i = 0; i < server->n_acts; i++) {
        const struct act *act = &server->acts[i];
        kw_cleanup_close int fd = accept(server->fd, NULL, NULL);
        if (fd < 0)
            break;
        if (!act->before && recv(fd, bytes, sizeof(bytes), 0) <= 0)
            continue;
        (void)send(fd, act->say, strlen(act->say), MSG_NOSIGNAL);
        if (act->later != NULL) {
            (void)sem_wait(&server->go_on);
            (void)send(fd, act->later, strlen(act->later), MSG_NOSIGNAL);
            (void)sem_post(&server->said);
        }
        while (act->stay && recv(fd, bytes, sizeof(bytes), 0) > 0)
            ;
        (void)shutdown(fd, SHUT_WR);
    }
    return NULL;
}

static void start(struct server *server, const struct act *acts, size_t n)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *server = (struct server){.acts = acts, .n_acts = n};
    (void)snprintf(server->dir, sizeof(server->dir), "/tmp/kwatt-noredis-XXXXXX");
    assert_non_null(mkdtemp(server->dir));
    (void)snprintf(server->path, sizeof(server->path), "%s/s", server->dir);
    (void)snprintf(server->url, sizeof(server->url), "unix://%s", server->path);
    memcpy(address.sun_path, server->path, strlen(server->path) + 1);
    server->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server->fd, 8), 0);
    (void)sem_init(&server->go_on, 0, 0);
    (void)sem_init(&server->said, 0, 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop(struct server *server)
{
    (void)shutdown(server->fd, SHUT_RDWR);
    (void)pthread_join(server->thread, NULL);
    (void)sem_destroy(&server->go_on);
    (void)sem_destroy(&server->said);
    (void)close(server->fd);
    (void)unlink(server->path);
    (void)rmdir(server->dir);
}

static struct kw_redis *client(const struct kw_redis_conf *conf)
{
    struct kw_redis *redis = NULL;

    assert_int_equal(kw_redis_new(conf, &redis, NULL), 0);
    return redis;
}

static void what_is_not_redis(void **state)
{
    static const struct {
        struct act act;
        int want;
        const char *text;
    } rows[] = {
        {{.say = "HTTP/1.1 400 Bad Request\r\n\r\n"}, -EPROTO, "not the Redis protocol"},
        {{.say = "*2147483647\r\n", .stay = true}, -EPROTO, "64 MiB"},
        {{.say = "+a\r\n+b\r\n+c\r\n", .stay = true}, -EPROTO, "more replies than commands"},
        {{.say = "+a\r\n$5\r\nab"}, -EPIPE, "after 1 of 2 replies"},
        {{.say = ""}, -EPIPE, "after 0 of 2 replies"},
        {{.say = "-ERR max number of clients\n reached\r\n"},
         -EPIPE,
         "ERR max number of clients? reached"},
        {{.say = "+a\r\n", .stay = true}, -ETIMEDOUT, "1 of 2 replies"},
        {{.say = "-DENIED go away\r\n", .before = true}, -EPIPE, "DENIED go away"},
        {{.say = "\x15\x03\x03"}, -EPROTO, "speaks TLS on this port"},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct server server;
        struct kw_err err = {0};
        struct kw_redis_replies replies = {.n = 42};
        start(&server, &rows[i].act, 1);
        kw_cleanup(kw_redis_free) struct kw_redis *redis =
            client(&(struct kw_redis_conf){.access.url = server.url, .timeout_ms = 500});
        (void)kw_redis_queue_texts(redis, "PING", NULL);
        (void)kw_redis_queue_texts(redis, "PING", NULL);
        int r = kw_redis_exec(redis, &replies, &err);
        /* the other end closes with our bytes unread: which of the two the kernel says is a race */
        bool reset = rows[i].want == -EPIPE && r == -ECONNRESET;
        if ((r != rows[i].want && !reset) || strstr(err.text, rows[i].text) == NULL)
            fail_msg("row %zu: %d %s", i, r, err.text);
        assert_int_equal(replies.n, 42); /* untouched */
        assert_non_null(strstr(err.text, server.url));
        /* nothing is left in the queue */
        assert_int_equal(kw_redis_exec(redis, NULL, &err), 0);
        stop(&server);
    }
}

static void server_that_repeats_the_password(void **state)
{
    static const char *const says[] = {
        "-ERR unknown command `AUTH`, with args beginning with: `me`, `s3cret`, \r\n",
        "-s3cret\r\n",
        "-s3cret is wrong\r\n",
        "s3cret",
        "-WRONGPASS no s3cret\r\n",
    };
    char password_file[96];
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(says); i++) {
        const struct act act = {.say = says[i]};
        struct server server;
        struct kw_err err = {0};
        start(&server, &act, 1);
        (void)snprintf(password_file, sizeof(password_file), "%s/pw", server.dir);
        assert_int_equal(kw_file_write_atomic(password_file, "s3cret\n", 7, 0600), 0);
        kw_cleanup(kw_redis_free) struct kw_redis *redis = client(&(struct kw_redis_conf){
            .access = {.url = server.url, .user = "me", .password_file = password_file}});
        (void)kw_redis_queue_texts(redis, "PING", NULL);
        int r = kw_redis_exec(redis, NULL, &err);
        assert_true(r == -EACCES || r == -EPROTO);
        assert_null(strstr(err.text, "s3cret"));
        (void)unlink(password_file);
        stop(&server);
    }
}

static void surplus_bytes_on_an_idle_connection(void **state)
{
    /* "late" comes with nobody asking: it must not become the answer to the next command */
    static const struct act acts[] = {{.say = "+one\r\n", .later = "+late\r\n", .stay = true},
                                      {.say = "+two\r\n", .stay = true}};
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    struct server server;
    struct kw_err err = {0};
    (void)state;

    start(&server, acts, KW_ARRAY_SIZE(acts));
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        client(&(struct kw_redis_conf){.access.url = server.url});
    (void)kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, &replies, &err), 0);
    assert_string_equal(replies.items[0].str, "one");
    kw_redis_replies_free(&replies);
    (void)sem_post(&server.go_on);
    (void)sem_wait(&server.said);
    (void)kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, &replies, &err), 0);
    assert_string_equal(replies.items[0].str, "two");
    kw_redis_free(&redis);
    stop(&server);
}

static void nobody_listens(void **state)
{
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        client(&(struct kw_redis_conf){.access.url = "unix:///nonexistent/redis.sock"});
    struct kw_err err = {0};
    (void)state;

    (void)kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -ENOENT);
    assert_non_null(strstr(err.text, "unix:///nonexistent/redis.sock: connect"));
    (void)kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -EAGAIN);
    assert_non_null(strstr(err.text, "next try in"));
}

static void name_that_does_not_resolve(void **state)
{
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        client(&(struct kw_redis_conf){.access.url = "redis://-no-such-host-.invalid"});
    struct kw_err err = {0};
    (void)state;

    (void)kw_redis_queue_texts(redis, "PING", NULL);
    assert_int_equal(kw_redis_exec(redis, NULL, &err), -EHOSTUNREACH);
    assert_non_null(strstr(err.text, "-no-such-host-.invalid"));
}

static void queue_is_bounded(void **state)
{
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        client(&(struct kw_redis_conf){.access.url = "unix:///nonexistent"});
    size_t len = 40u << 20;
    kw_cleanup_free char *value = calloc(1, len);
    const char *argv[] = {"ECHO", value};
    const size_t lens[] = {4, len};
    (void)state;

    assert_non_null(value);
    assert_int_equal(kw_redis_queue(redis, 2, argv, lens), 0);
    assert_int_equal(kw_redis_queue(redis, 2, argv, lens), -ENOMEM);
    kw_redis_discard(redis);
    assert_int_equal(kw_redis_queue(redis, 2, argv, lens), 0);
    assert_int_equal(kw_redis_queue_texts(redis, NULL), -EINVAL);
}

static void bad_configuration(void **state)
{
    struct kw_redis *redis = NULL;
    struct kw_err err = {0};
    (void)state;

    assert_int_equal(
        kw_redis_new(&(struct kw_redis_conf){.access.url = "redis://a:s3cret@b"}, &redis, &err),
        -EINVAL);
    assert_non_null(strstr(err.text, "password file"));
    assert_null(strstr(err.text, "s3cret"));
    assert_null(redis);
    kw_redis_free(&redis);
}

/* What would be of no effect is refused, so that nobody believes in TLS that is not there. */
static void what_the_url_has_no_use_for(void **state)
{
    static const struct {
        struct kw_redis_access access;
        const char *text;
    } rows[] = {
        {{.url = "redis://h", .ca_file = "/ca"}, "CA file"},
        {{.url = "unix:///s", .server_name = "h"}, "server name"},
        {{.url = "redis+sentinel://h/m", .cert_file = "/c"}, "certificate file"},
        {{.url = "rediss://h", .key_file = "/k"}, "no certificate file"},
        {{.url = "rediss://h", .sentinel_user = "u"}, "sentinel's user"},
        {{.url = "redis://h", .sentinel_password_file = "/p"}, "sentinel's password file"},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        const struct kw_redis_conf conf = {.access = rows[i].access};
        struct kw_redis *redis = NULL;
        struct kw_err err = {0};
        assert_int_equal(kw_redis_new(&conf, &redis, &err), -EINVAL);
        assert_null(redis);
        if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("row %zu: %s", i, err.text);
    }
    const struct kw_redis_conf empty = {.access = {.url = "redis://h", .ca_file = ""}};
    kw_cleanup(kw_redis_free) struct kw_redis *good = NULL;
    assert_int_equal(kw_redis_new(&empty, &good, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_url_has_no_use_for),
        cmocka_unit_test(what_is_not_redis),
        cmocka_unit_test(server_that_repeats_the_password),
        cmocka_unit_test(surplus_bytes_on_an_idle_connection),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(name_that_does_not_resolve),
        cmocka_unit_test(queue_is_bounded),
        cmocka_unit_test(bad_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
