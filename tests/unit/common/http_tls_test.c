/* SPDX-License-Identifier: Apache-2.0 */
/* What the HTTP server does beside plain HTTP: whom it lets in, and how its certificates are
 * renewed. The tests of http_server_test.c and http_hostile_test.c run over TLS as well. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/http_server.h"
#include "tests/support/cmocka.h"
#include "tests/support/http_raw.h"
#include "tests/support/tls_rig.h"

static const char probe[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
static const char ask[] = "GET /both HTTP/1.1\r\nHost: x\r\n\r\n";

static void test_versions_and_protocols(void **state)
{
    static const struct {
        const char *priorities, *version;
    } cases[] = {
        {"NORMAL", "TLS1.3"},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2", "TLS1.2"},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.1:%COMPAT", NULL},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.0", NULL},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-CBC", NULL},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+RSA", NULL},
    };
    struct kw_http_server *server = kwt_tls_start(*state, false);
    struct kwt_tls_outcome outcome;

    assert_string_equal(kw_http_server_tls(server), "yes");
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kwt_tls_client client = {.ca = kwt_tls_path(*state, "ca.crt"),
                                        .priorities = cases[i].priorities,
                                        .offers_h2 = true};

        kwt_tls_try(kw_http_server_port(server), &client, &outcome);
        assert_int_equal(outcome.connected, cases[i].version != NULL);
        if (cases[i].version != NULL) {
            assert_string_equal(outcome.version, cases[i].version);
            assert_string_equal(outcome.alpn, "http/1.1");
            assert_int_equal(kwt_tls_request_once(server, &client, ask), 200);
        }
    }
    kw_http_server_free(&server);
}

static void test_who_is_let_in(void **state)
{
    struct kwt_tls_rig *rig = *state;
    struct kw_http_server *server = kwt_tls_start(rig, true);
    struct kwt_tls_client client = kwt_tls_known(rig), nobody = {.ca = kwt_tls_path(rig, "ca.crt")};

    assert_string_equal(kw_http_server_tls(server), "client certificates");
    assert_int_equal(kwt_tls_request_once(server, &client, ask), 200);
    assert_int_equal(kwt_tls_request_once(server, &client, probe), 200);
    client.priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.2";
    assert_int_equal(kwt_tls_request_once(server, &client, ask), 200);
    /* without a certificate: the probes, and the connection lives on after a refusal */
    int fd = kwt_tls_dial(kw_http_server_port(server), &nobody, NULL);

    assert_int_equal(kwt_tls_request(fd, probe), 200);
    assert_int_equal(kwt_tls_request(fd, ask), 403);
    assert_int_equal(
        kwt_tls_request(fd, "POST /both HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"), 403);
    assert_int_equal(kwt_tls_request(fd, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    assert_int_equal(kwt_tls_request(fd, "GET http://x/both HTTP/1.1\r\nHost: x\r\n\r\n"), 403);
    assert_int_equal(kwt_tls_request(fd, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"), 404);
    (void)close(fd);
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_REFUSED], 0);
    kw_http_server_free(&server);
}

static void test_bad_client_certificates_are_refused(void **state)
{
    static const struct {
        const char *name;
        bool foreign;
        struct kwt_leaf leaf;
        const char *alert;
    } cases[] = {
        {"foreign", true, {.client = true}, "unknown"},
        {"expired", false, {.client = true, .from_s = -7200, .until_s = -3600}, "expired"},
        {"early", false, {.client = true, .from_s = 3000}, "bad"},
        {"server", false, {0}, "bad"},
    };
    static const char *const versions[] = {"NORMAL:-VERS-ALL:+VERS-TLS1.2",
                                           "NORMAL:-VERS-ALL:+VERS-TLS1.3"};
    struct kwt_tls_rig *rig = *state;
    struct kw_http_server *server = kwt_tls_start(rig, true);
    struct kwt_tls_outcome outcome;
    unsigned refused = 0;

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases) * KW_ARRAY_SIZE(versions); i++) {
        size_t k = i / 2;
        struct kwt_tls_client client = {.priorities = versions[i % 2],
                                        .cert = kwt_tls_path(rig, "bad.crt"),
                                        .key = kwt_tls_path(rig, "bad.key"),
                                        .insists = true};

        kwt_leaf_write(cases[k].foreign ? rig->other : rig->authority,
                       &(struct kwt_leaf){.name = cases[k].name,
                                          .client = cases[k].leaf.client,
                                          .from_s = cases[k].leaf.from_s,
                                          .until_s = cases[k].leaf.until_s},
                       client.cert, client.key);
        kwt_tls_try(kw_http_server_port(server), &client, &outcome);
        if (outcome.connected || strcasestr(outcome.error, cases[k].alert) == NULL)
            fail_msg("%s by %s: connected %d, '%s'", cases[k].name, versions[i % 2],
                     outcome.connected, outcome.error);
        assert_int_equal(rig->reports.n[KW_HTTP_TLS_REFUSED], ++refused);
        assert_non_null(strstr(rig->reports.last[KW_HTTP_TLS_REFUSED], cases[k].name));
        assert_int_equal(kwt_tls_request_once(server, &client, probe), 0);
        refused++;
    }
    kw_http_server_free(&server);
}

static void test_bad_files_are_named(void **state)
{
    struct kwt_tls_rig *rig = *state;
    static const struct {
        const char *cert, *key, *ca, *part;
    } cases[] = {
        {"server.crt", NULL, NULL, "--tls-cert-file is given without --tls-private-key-file"},
        {NULL, "server.key", NULL, "--tls-private-key-file is given without"},
        {NULL, NULL, "ca.crt", "--client-ca-file is given without"},
        {"none.crt", "server.key", NULL, "none.crt: No such file"},
        {"server.crt", "none.key", NULL, "none.key: No such file"},
        {"server.crt", "server.key", "none.crt", "client CA "},
        {"server.crt", "client.key", NULL, "client.key does not belong to certificate "},
        {"server.crt", "locked.key", NULL, "locked.key has a passphrase"},
        {"server.crt", "server.crt", NULL, "private key "},
        {"server.key", "server.key", NULL, "server.key: holds none in PEM"},
        {"empty", "server.key", NULL, "certificate "},
        {"server.crt", "empty", NULL, "private key "},
        {"garbage", "server.key", NULL, "garbage: "},
        {"server.crt", "server.key", "garbage", "client CA "},
        {"server.crt", "server.key", "server.key", "server.key: holds none in PEM"},
        {"large", "server.key", NULL, "large: "},
        {".", "server.key", NULL, "Is a directory"},
    };
    char *large = calloc(1, 2u << 20);

    assert_non_null(large);
    kwt_tls_leaf(rig, rig->authority, "locked", (struct kwt_leaf){.password = true});
    (void)kw_file_write_atomic(kwt_tls_path(rig, "empty"), "", 0, 0600);
    (void)kw_file_write_atomic(kwt_tls_path(rig, "garbage"), "-----BEGIN CERTIFICATE-----\nx\n", 30,
                               0600);
    (void)kw_file_write_atomic(kwt_tls_path(rig, "large"), large, 2u << 20, 0600);
    free(large);
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kw_http_tls_files files = {
            .cert = cases[i].cert == NULL ? "" : kwt_tls_path(rig, cases[i].cert),
            .key = cases[i].key == NULL ? NULL : kwt_tls_path(rig, cases[i].key),
            .client_ca = cases[i].ca == NULL ? NULL : kwt_tls_path(rig, cases[i].ca)};
        struct kw_http_server *server = NULL;
        struct kw_err err = {0};

        assert_true(kwt_tls_try_start(rig, files, 60, &server, &err) < 0);
        if (strstr(err.text, cases[i].part) == NULL)
            fail_msg("case %zu: %s", i, err.text);
    }
}

static void test_warnings(void **state)
{
    struct kwt_tls_rig *rig = *state;
    struct kw_http_server *server = kwt_tls_start(rig, true);

    assert_int_equal(rig->reports.n[KW_HTTP_TLS_LOADED], 1);
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_WARNING], 0);
    assert_non_null(strstr(rig->reports.last[KW_HTTP_TLS_LOADED], "CN=server"));
    kw_http_server_free(&server);
    assert_int_equal(chmod(kwt_tls_path(rig, "server.key"), 0644), 0);
    server = kwt_tls_start(rig, false);
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_WARNING], 1);
    assert_non_null(strstr(rig->reports.last[KW_HTTP_TLS_WARNING], "server.key can be read by"));
    assert_int_equal(kwt_tls_request_once(server, &(struct kwt_tls_client){0}, ask), 200);
    kw_http_server_free(&server);
    /* out of date is served all the same: the clock may be what is wrong */
    kwt_tls_leaf(rig, rig->authority, "server",
                 (struct kwt_leaf){.from_s = -7200, .until_s = -3600, .rsa = 2048});
    server = kwt_tls_start(rig, false);
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_WARNING], 2);
    assert_non_null(strstr(rig->reports.last[KW_HTTP_TLS_WARNING], "and not now"));
    assert_int_equal(kwt_tls_request_once(server, &(struct kwt_tls_client){0}, ask), 200);
    kw_http_server_free(&server);
}

/* What is no TLS ends, and says why to people who took the port for plain HTTP. */
static void test_other_bytes(void **state)
{
    static const char garbage[] = "\x16\x03\x01\xff\xff garbage garbage garbage";
    struct kw_http_server *server = kwt_tls_start(*state, true);
    struct kwt_tls_client client = kwt_tls_known(*state);
    struct kw_buf answer = {0};

    kwt_http_exchange(server, probe, sizeof(probe) - 1, &answer);
    assert_int_equal(strncmp(answer.data, "HTTP/1.0 400 ", 13), 0);
    assert_non_null(strstr(answer.data, "\r\n\r\n400 plain HTTP sent to an HTTPS port\n"));
    for (size_t len = 1; len < sizeof(garbage); len++) {
        int fd = kwt_http_dial(server);

        kwt_http_send(fd, garbage, len);
        (void)shutdown(fd, SHUT_WR);
        kwt_http_receive(fd, &answer);
        assert_true(answer.len < 64); /* nothing, or an alert */
        (void)close(fd);
    }
    assert_int_equal(kwt_tls_request_once(server, &client, ask), 200);
    kw_buf_free(&answer);
    kw_http_server_free(&server);
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * KW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* A handshake that stops in the middle costs neither CPU nor a place for ever; one that goes on by
 * a byte now and then does not last either. */
static void test_stalled_handshakes_end(void **state)
{
    static const unsigned char hello[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc};
    struct kwt_tls_rig *rig = *state;
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};
    unsigned sent = 0;
    char byte;

    assert_int_equal(
        kwt_tls_try_start(rig,
                          (struct kw_http_tls_files){.cert = kwt_tls_path(rig, "server.crt"),
                                                     .key = kwt_tls_path(rig, "server.key")},
                          1, &server, &err),
        0);
    int stalled = kwt_http_dial(server);
    uint64_t began_ns = kw_now_ns(), began_cpu_ns = cpu_ns();

    kwt_http_send(stalled, (const char *)hello, sizeof(hello));
    while (recv(stalled, &byte, 1, 0) > 0) /* an alert */
        continue;
    assert_true(cpu_ns() - began_cpu_ns < (kw_now_ns() - began_ns) / 20);
    (void)close(stalled);
    int slow = kwt_http_dial(server);

    kwt_http_send(slow, (const char *)hello, sizeof(hello));
    while (sent < 400 && send(slow, "x", 1, MSG_NOSIGNAL) == 1) {
        sent++;
        (void)poll(NULL, 0, 100);
    }
    assert_true(sent < 400);
    (void)close(slow);
    kw_http_server_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_versions_and_protocols, kwt_tls_setup,
                                        kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_who_is_let_in, kwt_tls_setup, kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_bad_client_certificates_are_refused, kwt_tls_setup,
                                        kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_bad_files_are_named, kwt_tls_setup, kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_warnings, kwt_tls_setup, kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_other_bytes, kwt_tls_setup, kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_stalled_handshakes_end, kwt_tls_setup,
                                        kwt_tls_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
