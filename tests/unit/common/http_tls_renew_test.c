/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that change under a server that is being asked. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "tests/support/cmocka.h"
#include "tests/support/tls_rig.h"

static const char ask[] = "GET /both HTTP/1.1\r\nHost: x\r\n\r\n";

/* Far more than a renewal takes, a second. */
#define PATIENCE 3000

/* What new connections are shown, as text. */
static void serial_of(const struct kw_http_server *server, const struct kwt_tls_rig *rig,
                      char text[80])
{
    struct kwt_tls_client client = kwt_tls_known(rig);
    struct kwt_tls_outcome outcome;

    client.ca = NULL;
    kwt_tls_try(kw_http_server_port(server), &client, &outcome);
    if (!outcome.connected)
        fail_msg("%s", outcome.error);
    for (size_t i = 0; i < outcome.serial_len && i < 32; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", outcome.serial[i]);
}

static void wait_for_another(const struct kw_http_server *server, const struct kwt_tls_rig *rig,
                             char serial[80])
{
    char now[80];

    for (unsigned i = 0; i < PATIENCE; i++) {
        serial_of(server, rig, now);
        if (strcmp(now, serial) != 0) {
            memcpy(serial, now, sizeof(now));
            return;
        }
        (void)poll(NULL, 0, 20);
    }
    fail_msg("the new certificate is not used");
}

static void wait_for_report(const struct kwt_tls_rig *rig, enum kw_http_tls_event event, unsigned n)
{
    for (unsigned i = 0; i < PATIENCE && rig->reports.n[event] < n; i++)
        (void)poll(NULL, 0, 20);
    assert_int_equal(rig->reports.n[event], n);
}

/* Writes a file over, as an editor without renames does. */
static void write_over(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void copy_over(const struct kwt_tls_rig *rig, const char *from, const char *to)
{
    kw_cleanup_free char *bytes = NULL;
    size_t len = 0;

    assert_int_equal(kw_file_slurp(kwt_tls_path(rig, from), 65536, &bytes, &len), 0);
    write_over(kwt_tls_path(rig, to), bytes, len);
}

/* A folder of certificates as the kubelet mounts a Secret: names lead through "..data" to one of
 * several folders, and all change at once. */
static void swap_data(const struct kwt_tls_rig *rig, unsigned n)
{
    char folder[32], name[64];

    (void)snprintf(folder, sizeof(folder), "..%u", n);
    assert_int_equal(mkdir(kwt_tls_path(rig, folder), 0700), 0);
    (void)snprintf(name, sizeof(name), "%s/tls", folder);
    kwt_tls_leaf(rig, rig->authority, name, (struct kwt_leaf){0});
    assert_int_equal(symlink(folder, kwt_tls_path(rig, "..data_tmp")), 0);
    assert_int_equal(rename(kwt_tls_path(rig, "..data_tmp"), kwt_tls_path(rig, "..data")), 0);
}

static struct kw_http_server *start_mounted(struct kwt_tls_rig *rig)
{
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};

    swap_data(rig, 0);
    assert_int_equal(symlink("..data/tls.crt", kwt_tls_path(rig, "tls.crt")), 0);
    assert_int_equal(symlink("..data/tls.key", kwt_tls_path(rig, "tls.key")), 0);
    if (kwt_tls_try_start(rig,
                          (struct kw_http_tls_files){.cert = kwt_tls_path(rig, "tls.crt"),
                                                     .key = kwt_tls_path(rig, "tls.key"),
                                                     .client_ca = kwt_tls_path(rig, "ca.crt")},
                          60, &server, &err) < 0)
        fail_msg("%s", err.text);
    return server;
}

static void test_files_are_renewed_however_they_change(void **state)
{
    struct kwt_tls_rig *rig = *state;
    struct kw_http_server *server = kwt_tls_start(rig, true);
    struct kwt_tls_client client = kwt_tls_known(rig);
    int kept = kwt_tls_dial(kw_http_server_port(server), &client, NULL);
    char serial[80] = "";

    assert_int_equal(kwt_tls_request(kept, ask), 200);
    serial_of(server, rig, serial);
    /* a rename each */
    kwt_tls_leaf(rig, rig->authority, "server", (struct kwt_leaf){0});
    wait_for_another(server, rig, serial);
    /* written over, with files of the same size and another kind of key */
    kwt_tls_leaf(rig, rig->authority, "next", (struct kwt_leaf){.rsa = 2048});
    copy_over(rig, "next.crt", "server.crt");
    copy_over(rig, "next.key", "server.key");
    wait_for_another(server, rig, serial);
    assert_int_equal(kwt_tls_request(kept, ask), 200);
    (void)close(kept);
    kw_http_server_free(&server);
    /* as the kubelet does */
    server = start_mounted(rig);
    serial_of(server, rig, serial);
    swap_data(rig, 1);
    wait_for_another(server, rig, serial);
    kw_http_server_free(&server);
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_FAILED], 0);
}

static void test_unusable_files_are_told_once(void **state)
{
    struct kwt_tls_rig *rig = *state;
    struct kw_http_server *server = kwt_tls_start(rig, true);
    struct kwt_tls_client client = kwt_tls_known(rig);
    char before[80] = "", serial[80] = "";

    serial_of(server, rig, before);
    write_over(kwt_tls_path(rig, "server.crt"), "nonsense", 8);
    wait_for_report(rig, KW_HTTP_TLS_FAILED, 1);
    assert_non_null(strstr(rig->reports.last[KW_HTTP_TLS_FAILED], "server.crt: holds none"));
    serial_of(server, rig, serial);
    assert_string_equal(serial, before);
    /* another fault is told, and that is the second time that anything was, seconds later */
    assert_int_equal(unlink(kwt_tls_path(rig, "server.key")), 0);
    wait_for_report(rig, KW_HTTP_TLS_FAILED, 2);
    assert_non_null(strstr(rig->reports.last[KW_HTTP_TLS_FAILED], "server.key: No such file"));
    assert_int_equal(kwt_tls_request_once(server, &client, ask), 200);
    kwt_tls_leaf(rig, rig->authority, "server", (struct kwt_leaf){0});
    wait_for_another(server, rig, before);
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_FAILED], 2);
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_LOADED], 2);
    kw_http_server_free(&server);
}

static void test_the_authority_is_renewed(void **state)
{
    struct kwt_tls_rig *rig = *state;
    struct kw_http_server *server = kwt_tls_start(rig, true);
    struct kwt_tls_client client = kwt_tls_known(rig), next = client;
    int kept = kwt_tls_dial(kw_http_server_port(server), &client, NULL);

    assert_int_equal(kwt_tls_request(kept, ask), 200);
    kwt_tls_leaf(rig, rig->other, "next", (struct kwt_leaf){.client = true});
    next.cert = kwt_tls_path(rig, "next.crt");
    next.key = kwt_tls_path(rig, "next.key");
    assert_int_equal(kwt_tls_request_once(server, &next, ask), 403);
    copy_over(rig, "other.crt", "ca.crt");
    client.ca = next.ca = NULL;
    for (unsigned i = 0; i < PATIENCE && kwt_tls_request_once(server, &next, ask) != 200; i++)
        (void)poll(NULL, 0, 20);
    assert_int_equal(kwt_tls_request_once(server, &next, ask), 200);
    assert_int_equal(kwt_tls_request_once(server, &client, ask), 403);
    /* a connection keeps what it was let in by, as those of the API server do */
    assert_int_equal(kwt_tls_request(kept, ask), 200);
    (void)close(kept);
    kw_http_server_free(&server);
}

/* A client that asks without a pause. */
struct asker {
    const struct kw_http_server *server;
    struct kwt_tls_client client;
    bool keeps; /* its connection */
    _Atomic bool *stop;
    unsigned answers, failures;
    pthread_t thread;
};

static void *run_asker(void *user)
{
    struct asker *asker = user;
    int fd = -1;

    while (!atomic_load(asker->stop)) {
        if (fd < 0)
            fd = kwt_tls_dial(kw_http_server_port(asker->server), &asker->client, NULL);
        if (kwt_tls_request(fd, ask) == 200)
            asker->answers++;
        else
            asker->failures++;
        if (!asker->keeps) {
            (void)close(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

static void test_no_request_is_lost_over_renewals(void **state)
{
    struct kwt_tls_rig *rig = *state;
    struct kw_http_server *server = start_mounted(rig);
    struct asker askers[4] = {{0}};
    _Atomic bool stop = false;
    char serial[80] = "";

    serial_of(server, rig, serial);
    for (size_t i = 0; i < KW_ARRAY_SIZE(askers); i++) {
        askers[i] = (struct asker){
            .server = server, .client = kwt_tls_known(rig), .keeps = i % 2 == 0, .stop = &stop};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, run_asker, &askers[i]), 0);
    }
    for (unsigned n = 1; n <= 4; n++) {
        swap_data(rig, n);
        wait_for_another(server, rig, serial);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < KW_ARRAY_SIZE(askers); i++) {
        (void)pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].failures, 0);
        assert_true(askers[i].answers > 0);
    }
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_LOADED], 5);
    assert_int_equal(rig->reports.n[KW_HTTP_TLS_FAILED], 0);
    kw_http_server_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_are_renewed_however_they_change, kwt_tls_setup,
                                        kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_unusable_files_are_told_once, kwt_tls_setup,
                                        kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_the_authority_is_renewed, kwt_tls_setup,
                                        kwt_tls_teardown),
        cmocka_unit_test_setup_teardown(test_no_request_is_lost_over_renewals, kwt_tls_setup,
                                        kwt_tls_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
