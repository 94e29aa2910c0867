/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis client over TLS against a real redis-server, with certificates made for the occasion,
 * and with bytes that come in pieces or not at all. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/redis.h"
#include "tests/support/cmocka.h"
#include "tests/support/pki.h"
#include "tests/support/redis_server.h"
#include "tests/support/relay.h"

#define SECRET "s3cret-of-tls"

struct fixture {
    struct kwt_redis_server server;
    char more[1024];
    char ca[128], other_ca[128], client_cert[128], client_key[128], password[128];
    uint16_t tls_port;
    char url[64];
};

static void path_of(const struct fixture *f, const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s", f->server.dir, name);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    kwt_redis_init(&f->server);
    const char *dir = f->server.dir;
    kwt_pki_authority(dir, "ca");
    kwt_pki_authority(dir, "other");
    kwt_pki_leaf(dir, "server", "ca", 2, "DNS:localhost,IP:127.0.0.1");
    kwt_pki_leaf(dir, "named", "ca", 2, "DNS:redis.kwatt.test");
    kwt_pki_leaf(dir, "expired", "ca", -1, "IP:127.0.0.1");
    kwt_pki_leaf(dir, "stranger", "other", 2, "IP:127.0.0.1");
    kwt_pki_leaf(dir, "client", "ca", 2, "DNS:client");
    path_of(f, "ca.pem", f->ca, sizeof(f->ca));
    path_of(f, "other.pem", f->other_ca, sizeof(f->other_ca));
    path_of(f, "client.pem", f->client_cert, sizeof(f->client_cert));
    path_of(f, "client.key", f->client_key, sizeof(f->client_key));
    path_of(f, "password", f->password, sizeof(f->password));
    assert_int_equal(kw_file_write_atomic(f->password, SECRET, strlen(SECRET), 0600), 0);
    f->tls_port = kwt_redis_free_port();
    (void)snprintf(f->url, sizeof(f->url), "rediss://127.0.0.1:%u", f->tls_port);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    kwt_redis_done(&f->server);
    free(f);
    return 0;
}

/* @param cert stem of the server's; @param rest further lines of its configuration */
static void serve(struct fixture *f, const char *cert, const char *rest, const char *user_rule)
{
    const char *dir = f->server.dir;

    kwt_redis_kill(&f->server);
    (void)snprintf(f->more, sizeof(f->more),
                   "tls-port %u\ntls-cert-file %s/%s.pem\ntls-key-file %s/%s.key\n"
                   "tls-ca-cert-file %s/ca.pem\n%s",
                   f->tls_port, dir, cert, dir, cert, dir, rest);
    f->server.more = f->more;
    kwt_redis_start(&f->server, user_rule);
}

static int ping(struct kw_redis *redis, struct kw_err *err)
{
    *err = (struct kw_err){0};
    assert_int_equal(kw_redis_queue_texts(redis, "PING", NULL), 0);
    kw_redis_retry_now(redis);
    return kw_redis_exec(redis, NULL, err);
}

static void ping_ok(struct kw_redis *redis)
{
    struct kw_err err;

    if (ping(redis, &err) != 0)
        fail_msg("%s", err.text);
}

/* A pipeline that fills many records each way. */
static void large_values(struct kw_redis *redis)
{
    const size_t size = 3u << 20;
    kw_cleanup_free char *value = malloc(size);
    const char *argv[] = {"SET", "large", value};
    const size_t lens[] = {3, 5, size};
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    struct kw_err err = {0};

    assert_non_null(value);
    for (size_t i = 0; i < size; i++)
        value[i] = (char)(i * 31 >> 3);
    assert_int_equal(kw_redis_queue(redis, 3, argv, lens), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(kw_redis_queue_texts(redis, "GET", "large", NULL), 0);
    if (kw_redis_exec(redis, &replies, &err) != 0)
        fail_msg("%s", err.text);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(replies.items[i].len, size);
        assert_memory_equal(replies.items[i].str, value, size);
    }
}

static void every_version(void **state)
{
    static const char *const protocols[] = {"tls-protocols \"TLSv1.2\"",
                                            "tls-protocols \"TLSv1.3\""};
    struct fixture *f = *state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(protocols); i++) {
        char rest[128];
        (void)snprintf(rest, sizeof(rest), "tls-auth-clients no\n%s", protocols[i]);
        serve(f, "server", rest, NULL);
        kw_cleanup(kw_redis_free) struct kw_redis *redis = kwt_redis_client(&(struct kw_redis_conf){
            .access = {.url = f->url, .ca_file = f->ca}, .timeout_ms = 60000});
        assert_string_equal(kw_redis_name(redis), f->url);
        ping_ok(redis);
        large_values(redis);
        /* the tickets of TLS 1.3, which come on the idle connection, do not spend it */
        ping_ok(redis);
        ping_ok(redis);
        assert_int_equal(kw_redis_connections(redis), 1);
    }
}

static void a_database_user_and_password(void **state)
{
    struct fixture *f = *state;
    struct kw_err err;
    char url[128];

    serve(f, "server", "tls-auth-clients no", "user kwatt on >" SECRET " ~* +@all");
    (void)snprintf(url, sizeof(url), "rediss://kwatt@localhost:%u/3", f->tls_port);
    kw_cleanup(kw_redis_free) struct kw_redis *redis = kwt_redis_client(&(struct kw_redis_conf){
        .access = {.url = url, .ca_file = f->ca, .password_file = f->password}});
    ping_ok(redis);

    assert_int_equal(kw_file_write_atomic(f->password, SECRET "-old", strlen(SECRET "-old"), 0600),
                     0);
    kw_cleanup(kw_redis_free) struct kw_redis *wrong = kwt_redis_client(&(struct kw_redis_conf){
        .access = {.url = url, .ca_file = f->ca, .password_file = f->password}});
    assert_int_equal(ping(wrong, &err), -EACCES);
    assert_null(strstr(err.text, SECRET));
    assert_non_null(strstr(err.text, "rediss://localhost"));
}

static void client_certificates(void **state)
{
    struct fixture *f = *state;
    struct kw_err err;

    serve(f, "server", "tls-auth-clients yes", NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *with =
        kwt_redis_client(&(struct kw_redis_conf){.access = {.url = f->url,
                                                            .ca_file = f->ca,
                                                            .cert_file = f->client_cert,
                                                            .key_file = f->client_key}});
    ping_ok(with);
    kw_cleanup(kw_redis_free) struct kw_redis *without =
        kwt_redis_client(&(struct kw_redis_conf){.access = {.url = f->url, .ca_file = f->ca}});
    assert_true(ping(without, &err) < 0);
    assert_non_null(strstr(err.text, f->url));
    /* TLS 1.3 tells it after the handshake, in the place of the first reply */
    if (strstr(err.text, "certificate required") == NULL)
        assert_non_null(strstr(err.text, "connection ended")); /* the alert was lost to a reset */
}

/* Files that cannot be used: said with the file, before anything is sent. */
static void files_of_no_use(void **state)
{
    struct fixture *f = *state;
    char empty[128], locked[128], server_key[128];
    struct kw_err err;

    path_of(f, "empty.pem", empty, sizeof(empty));
    path_of(f, "locked.key", locked, sizeof(locked));
    path_of(f, "server.key", server_key, sizeof(server_key));
    assert_int_equal(kw_file_write_atomic(empty, "no PEM\n", 7, 0600), 0);
    assert_true(kwt_openssl(f->server.dir, "openssl ec -in client.key -aes128 -passout pass:x -out "
                                           "locked.key"));
    serve(f, "server", "tls-auth-clients optional", NULL);
    const struct {
        struct kw_redis_access access;
        const char *file, *text;
    } rows[] = {
        {{.ca_file = "/nonexistent/ca.pem"}, "/nonexistent/ca.pem", "No such file"},
        {{.ca_file = empty}, empty, "holds no certificate"},
        {{.ca_file = f->ca, .cert_file = empty}, empty, "holds no certificate"},
        {{.ca_file = f->ca, .cert_file = f->client_cert, .key_file = empty},
         empty,
         "no private key"},
        {{.ca_file = f->ca, .cert_file = f->client_cert}, f->client_cert, "no private key"},
        {{.ca_file = f->ca, .cert_file = f->client_cert, .key_file = locked},
         locked,
         "pass phrase"},
        {{.ca_file = f->ca, .cert_file = f->client_cert, .key_file = server_key},
         server_key,
         "does not belong"},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_redis_conf conf = {.access = rows[i].access};
        conf.access.url = f->url;
        kw_cleanup(kw_redis_free) struct kw_redis *redis = kwt_redis_client(&conf);
        assert_true(ping(redis, &err) < 0);
        if (strstr(err.text, rows[i].file) == NULL || strstr(err.text, rows[i].text) == NULL ||
            strstr(err.text, f->url) == NULL)
            fail_msg("row %zu: %s", i, err.text);
    }
}

static void servers_that_are_not_accepted(void **state)
{
    struct fixture *f = *state;
    const struct {
        const char *cert, *ca, *name, *text;
    } rows[] = {
        {"server", f->other_ca, NULL, f->other_ca},
        {"server", NULL, NULL, "the system's authorities"},
        {"stranger", f->ca, NULL, "unable to get local issuer certificate"},
        {"expired", f->ca, NULL, "certificate has expired"},
        {"named", f->ca, NULL, "it is not for 127.0.0.1"},
        {"named", f->ca, "other.kwatt.test", "it is not for other.kwatt.test"},
        {"named", f->ca, "redis.kwatt.test", NULL},
        {"named", f->ca, "redis.kwatt.test.", NULL},
        {"server", f->ca, "localhost", NULL},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_err err;
        serve(f, rows[i].cert, "tls-auth-clients no", NULL);
        kw_cleanup(kw_redis_free) struct kw_redis *redis = kwt_redis_client(&(struct kw_redis_conf){
            .access = {.url = f->url, .ca_file = rows[i].ca, .server_name = rows[i].name}});
        int r = ping(redis, &err);
        if (rows[i].text == NULL ? r != 0 : r != -EPROTO)
            fail_msg("row %zu: %d %s", i, r, err.text);
        if (rows[i].text != NULL &&
            (strstr(err.text, rows[i].text) == NULL || strstr(err.text, f->url) == NULL))
            fail_msg("row %zu: %s", i, err.text);
    }
}

static void the_wrong_port(void **state)
{
    struct fixture *f = *state;
    struct kw_err err;
    char url[64];

    serve(f, "server", "tls-auth-clients no", "user kwatt on >" SECRET " ~* +@all");
    (void)snprintf(url, sizeof(url), "redis://kwatt@127.0.0.1:%u", f->tls_port);
    kw_cleanup(kw_redis_free) struct kw_redis *plain = kwt_redis_client(
        &(struct kw_redis_conf){.access = {.url = url, .password_file = f->password}});
    assert_true(ping(plain, &err) < 0);
    assert_null(strstr(err.text, SECRET));
    if (strstr(err.text, "rediss://") == NULL)
        fail_msg("%s", err.text);

    (void)snprintf(url, sizeof(url), "rediss://127.0.0.1:%u", f->server.port);
    kw_cleanup(kw_redis_free) struct kw_redis *tls = kwt_redis_client(&(struct kw_redis_conf){
        .access = {.url = url, .ca_file = f->ca}, .connect_timeout_ms = 300});
    int r = ping(tls, &err);
    /* Redis waits for the end of what it takes for a line, unless the greeting held one by chance
     */
    assert_true(r == -ETIMEDOUT || r == -EPROTO || r == -EPIPE || r == -ECONNRESET);
    if (strstr(err.text, "TLS") == NULL || strstr(err.text, url) == NULL)
        fail_msg("%s", err.text);
}

static void renewed_certificates_are_used(void **state)
{
    struct fixture *f = *state;
    struct kw_err err;
    char ca[128];

    path_of(f, "renewed.pem", ca, sizeof(ca));
    assert_int_equal(link(f->ca, ca), 0);
    serve(f, "server", "tls-auth-clients no", NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        kwt_redis_client(&(struct kw_redis_conf){.access = {.url = f->url, .ca_file = ca}});
    ping_ok(redis);
    serve(f, "stranger", "tls-auth-clients no", NULL);
    assert_int_equal(ping(redis, &err), -EPROTO);
    assert_int_equal(unlink(ca), 0);
    assert_int_equal(link(f->other_ca, ca), 0);
    ping_ok(redis);
}

static void killed_and_back(void **state)
{
    struct fixture *f = *state;
    struct kw_err err;

    serve(f, "server", "tls-auth-clients no", NULL);
    kw_cleanup(kw_redis_free) struct kw_redis *redis =
        kwt_redis_client(&(struct kw_redis_conf){.access = {.url = f->url, .ca_file = f->ca}});
    ping_ok(redis);
    kwt_redis_kill(&f->server);
    assert_int_equal(ping(redis, &err), -ECONNREFUSED);
    serve(f, "server", "tls-auth-clients no", NULL);
    ping_ok(redis);
    assert_int_equal(kill(f->server.pid, SIGSTOP), 0);
    kw_cleanup(kw_redis_free) struct kw_redis *hasty = kwt_redis_client(&(struct kw_redis_conf){
        .access = {.url = f->url, .ca_file = f->ca}, .connect_timeout_ms = 100});
    assert_int_equal(ping(hasty, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.text, "TLS"));
    assert_int_equal(kill(f->server.pid, SIGCONT), 0);
}

/* One byte at a time: every record is partial, over and over. */
static void records_in_parts(void **state)
{
    struct fixture *f = *state;
    struct kwt_relay relay = {.piece_bytes = 1};
    char url[64];

    serve(f, "server", "tls-auth-clients no", NULL);
    kwt_relay_start(&relay, f->tls_port);
    (void)snprintf(url, sizeof(url), "rediss://127.0.0.1:%u", relay.port);
    {
        kw_cleanup(kw_redis_free) struct kw_redis *redis =
            kwt_redis_client(&(struct kw_redis_conf){.access = {.url = url, .ca_file = f->ca},
                                                     .connect_timeout_ms = 60000,
                                                     .timeout_ms = 60000});
        ping_ok(redis);
        ping_ok(redis);
        assert_int_equal(kw_redis_connections(redis), 1);
    }
    kwt_relay_end(&relay);
}

/* A handshake that goes on and on, or not at all, ends at the deadline; a cut one is said. */
static void stalled_and_cut_handshakes(void **state)
{
    struct fixture *f = *state;
    const struct {
        size_t piece_bytes, stop_after;
        int pause_ms, want;
        const char *text;
    } rows[] = {
        {0, 0, 0, -ETIMEDOUT, "did not finish the handshake in time"},
        {1, 0, 20, -ETIMEDOUT, "did not finish the handshake in time"},
        {50, 50, 0, -EPIPE, "ended the connection during the handshake"},
    };

    serve(f, "server", "tls-auth-clients no", NULL);
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kwt_relay relay = {.piece_bytes = rows[i].piece_bytes,
                                  .stop_after = rows[i].stop_after,
                                  .pause_ms = rows[i].pause_ms};
        struct kw_err err;
        char url[64];
        kwt_relay_start(&relay, f->tls_port);
        (void)snprintf(url, sizeof(url), "rediss://127.0.0.1:%u", relay.port);
        kw_cleanup(kw_redis_free) struct kw_redis *redis = kwt_redis_client(&(struct kw_redis_conf){
            .access = {.url = url, .ca_file = f->ca},
            .connect_timeout_ms = rows[i].want == -ETIMEDOUT ? 300 : 60000});
        uint64_t begin_ns = kw_now_ns();
        int r = ping(redis, &err);
        /* 1 byte in 20 ms is 30 s for a certificate: a time-out that began anew would show */
        assert_true(kw_now_ns() - begin_ns < 10 * KW_NS_PER_S);
        if (r == -ECONNRESET) /* what was unread when it was cut */
            r = -EPIPE;
        else if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(r, rows[i].want);
        assert_non_null(strstr(err.text, url));
        kwt_relay_end(&relay);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version),
        cmocka_unit_test(a_database_user_and_password),
        cmocka_unit_test(client_certificates),
        cmocka_unit_test(files_of_no_use),
        cmocka_unit_test(servers_that_are_not_accepted),
        cmocka_unit_test(the_wrong_port),
        cmocka_unit_test(renewed_certificates_are_used),
        cmocka_unit_test(killed_and_back),
        cmocka_unit_test(records_in_parts),
        cmocka_unit_test(stalled_and_cut_handshakes),
    };

    kwt_redis_need();
    if (!kwt_openssl("/", "openssl version")) {
        printf("SKIP: openssl is not installed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
