/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client against a real TLS server (openssl s_server) with certificates made for the
 * occasion. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/http_client.h"
#include "common/num.h"
#include "tests/support/cmocka.h"
#include "tests/support/pki.h"

struct fixture {
    char folder[32];
    char *ca, *other_ca, *client_cert, *client_key; /* PEM */
    pid_t running;                                  /* a server that a failed test left behind */
};

/** A running openssl s_server. */
struct tls_server {
    pid_t pid;
    int out;
    uint64_t port;
};

static char *slurp(const char *folder, const char *name)
{
    char path[128];
    char *text = NULL;
    size_t len = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(kw_file_slurp(path, 65536, &text, &len), 0);
    return text;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    (void)snprintf(f->folder, sizeof(f->folder), "/tmp/kwatt-tls-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    kwt_pki_authority(f->folder, "ca");
    kwt_pki_authority(f->folder, "other");
    kwt_pki_leaf(f->folder, "server", "ca", 2, "DNS:kwatt.test,IP:127.0.0.1");
    kwt_pki_leaf(f->folder, "named", "ca", 2, "DNS:kwatt.test");
    kwt_pki_leaf(f->folder, "client", "ca", 2, "DNS:client");
    f->ca = slurp(f->folder, "ca.pem");
    f->other_ca = slurp(f->folder, "other.pem");
    f->client_cert = slurp(f->folder, "client.pem");
    f->client_key = slurp(f->folder, "client.key");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    static const char *const stems[] = {"ca", "other", "server", "named", "client"};
    static const char *const kinds[] = {"key", "pem", "csr", "ext", "srl"};
    struct fixture *f = *state;

    if (f->running > 0) {
        (void)kill(f->running, SIGKILL);
        (void)waitpid(f->running, NULL, 0);
    }
    for (size_t i = 0; i < KW_ARRAY_SIZE(stems) * KW_ARRAY_SIZE(kinds); i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/%s.%s", f->folder, stems[i / KW_ARRAY_SIZE(kinds)],
                       kinds[i % KW_ARRAY_SIZE(kinds)]);
        (void)unlink(path);
    }
    (void)rmdir(f->folder);
    free(f->ca);
    free(f->other_ca);
    free(f->client_cert);
    free(f->client_key);
    free(f);
    return 0;
}

/* Starts a server on a free port, which it prints. */
static struct tls_server serve(struct fixture *f, const char *cert, const char *options)
{
    struct tls_server server = {0};
    char line[256];
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)snprintf(line, sizeof(line),
                   "openssl s_server -accept 127.0.0.1:0 -cert %s.pem -key %s.key -www%s", cert,
                   cert, options);
    server.pid = kwt_openssl_spawn(f->folder, line, fds[1]);
    assert_true(server.pid > 0);
    f->running = server.pid;
    (void)close(fds[1]);
    server.out = fds[0];
    FILE *out = fdopen(dup(fds[0]), "r");

    assert_non_null(out);
    while (server.port == 0 && fgets(line, sizeof(line), out) != NULL) {
        char *colon = strrchr(line, ':');

        if (strncmp(line, "ACCEPT ", 7) == 0 && colon != NULL)
            (void)kw_parse_u64_span(colon + 1, strcspn(colon + 1, " \n"), 1, 65535, &server.port);
    }
    (void)fclose(out);
    assert_true(server.port > 0);
    return server;
}

static void stop(struct fixture *f, struct tls_server *server)
{
    f->running = 0;
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    (void)close(server->out);
}

/* One GET. @param conf without base_url. */
static int get(const struct tls_server *server, const struct kw_http_client_conf *conf,
               const char *host, struct kw_err *err)
{
    struct kw_http_client_conf with_url = *conf;
    struct kw_http_client *client = NULL;
    struct kw_buf body = {0};
    struct kw_http_call call = {.method = "GET", .path = "/"};
    unsigned status = 0;
    char url[64];

    (void)snprintf(url, sizeof(url), "https://%s:%u", host, (unsigned)server->port);
    with_url.base_url = url;
    int rc = kw_http_client_new(&with_url, &client, err);

    if (rc == 0)
        rc = kw_http_client_call(client, &call, &status, &body, err);
    if (rc == 0 && (status != 200 || body.len == 0))
        rc = -EBADMSG;
    kw_http_client_free(&client);
    kw_buf_free(&body);
    return rc;
}

static void test_the_named_authority_is_trusted_alone(void **state)
{
    struct fixture *f = *state;
    struct tls_server server = serve(f, "server", "");
    struct kw_err err = {0};
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/ca.pem", f->folder);
    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = f->ca}, "127.0.0.1", &err), 0);
    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_file = path}, "127.0.0.1", &err), 0);
    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = f->other_ca}, "127.0.0.1", &err),
        -EPROTO);
    assert_non_null(strstr(err.text, "certificate"));
    /* the system's authorities do not know it */
    assert_int_equal(get(&server, &(struct kw_http_client_conf){0}, "127.0.0.1", &err), -EPROTO);
    /* bytes win over a file */
    assert_int_equal(get(&server,
                         &(struct kw_http_client_conf){.ca_pem = f->other_ca, .ca_file = path},
                         "127.0.0.1", &err),
                     -EPROTO);
    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = "no certificate"}, "127.0.0.1", &err),
        -EPROTO);
    stop(f, &server);
}

static void test_the_name_is_verified(void **state)
{
    struct fixture *f = *state;
    struct tls_server server = serve(f, "named", "");
    struct kw_err err = {0};

    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = f->ca}, "127.0.0.1", &err), -EPROTO);
    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = f->ca}, "localhost", &err), -EPROTO);
    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = f->ca, .server_name = "kwatt.test"},
            "127.0.0.1", &err),
        0);
    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = f->ca, .server_name = "other.test"},
            "127.0.0.1", &err),
        -EPROTO);
    stop(f, &server);
}

static void test_client_certificates(void **state)
{
    struct fixture *f = *state;
    struct tls_server server = serve(f, "server", " -Verify 1 -verify_return_error -CAfile ca.pem");
    struct kw_err err = {0};
    char cert[64];
    char key[64];

    (void)snprintf(cert, sizeof(cert), "%s/client.pem", f->folder);
    (void)snprintf(key, sizeof(key), "%s/client.key", f->folder);
    assert_int_not_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = f->ca}, "127.0.0.1", &err), 0);
    assert_int_equal(get(&server,
                         &(struct kw_http_client_conf){
                             .ca_pem = f->ca, .cert_pem = f->client_cert, .key_pem = f->client_key},
                         "127.0.0.1", &err),
                     0);
    assert_int_equal(
        get(&server,
            &(struct kw_http_client_conf){.ca_pem = f->ca, .cert_file = cert, .key_file = key},
            "127.0.0.1", &err),
        0);
    /* a key that is none is an error without its text */
    assert_int_equal(get(&server,
                         &(struct kw_http_client_conf){
                             .ca_pem = f->ca, .cert_pem = f->client_cert, .key_pem = "hunter2"},
                         "127.0.0.1", &err),
                     -EPROTO);
    assert_null(strstr(err.text, "hunter2"));
    stop(f, &server);
}

static void test_old_protocols_are_refused(void **state)
{
    struct fixture *f = *state;
    struct tls_server server = serve(f, "server", " -tls1_1 -cipher DEFAULT@SECLEVEL=0");
    struct kw_err err = {0};

    assert_int_equal(
        get(&server, &(struct kw_http_client_conf){.ca_pem = f->ca}, "127.0.0.1", &err), -EPROTO);
    stop(f, &server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_named_authority_is_trusted_alone),
        cmocka_unit_test(test_the_name_is_verified),
        cmocka_unit_test(test_client_certificates),
        cmocka_unit_test(test_old_protocols_are_refused),
    };

    if (!kwt_openssl("/", "openssl version")) {
        (void)printf("SKIP: the openssl program is not installed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
