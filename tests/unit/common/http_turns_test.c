/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/http_server.h"
#include "common/http_turns.h"
#include "tests/support/cmocka.h"
#include "tests/support/tls_rig.h"

/** One goes on in each round, and those who came first go first. */
static void test_one_a_round(void **state)
{
    struct kw_http_turns turns = {0};
    uint64_t seen[5] = {0};
    bool done[5] = {false};
    char who[5];
    unsigned n = 0;

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        unsigned now = 0;
        for (unsigned i = 0; i < KW_ARRAY_SIZE(who); i++) {
            if (done[i] || !kw_http_turns_take(&turns, &who[i], &seen[i]))
                continue;
            assert_true(kw_http_turns_take(&turns, &who[i], &seen[i])); /* it is still its turn */
            assert_int_equal(i, n);
            kw_http_turns_end(&turns);
            done[i] = true;
            n++;
            now++;
        }
        assert_true(now <= 1);
    }
    assert_int_equal(n, KW_ARRAY_SIZE(who));
}

/** A turn that nobody ended is over when somebody else asks. */
static void test_turns_that_were_not_ended(void **state)
{
    struct kw_http_turns turns = {0};
    uint64_t seen[2] = {0};

    (void)state;
    assert_true(kw_http_turns_take(&turns, &seen[0], &seen[0]));
    assert_false(kw_http_turns_take(&turns, &seen[1], &seen[1]));
    assert_true(kw_http_turns_take(&turns, &seen[1], &seen[1]));
    assert_false(kw_http_turns_take(&turns, &seen[0], &seen[0]));
    /* alone: every second round */
    assert_true(kw_http_turns_take(&turns, &seen[0], &seen[0]));
    kw_http_turns_end(&turns);
    assert_false(kw_http_turns_take(&turns, &seen[0], &seen[0]));
    assert_true(kw_http_turns_take(&turns, &seen[0], &seen[0]));
}

#define HELLOS 64

/* A handler on the server's only thread, which sees how far the others have come. */
struct scene {
    atomic_bool held, go;
    int hellos[HELLOS];
    unsigned answered;
};

static void hold(void *user, const struct kw_http_request *request,
                 struct kw_http_response *response)
{
    struct scene *scene = user;

    (void)request;
    (void)response;
    atomic_store(&scene->held, true);
    while (!atomic_load(&scene->go))
        (void)poll(NULL, 0, 5);
}

static void count(void *user, const struct kw_http_request *request,
                  struct kw_http_response *response)
{
    struct scene *scene = user;
    char byte;

    (void)request;
    (void)response;
    for (unsigned i = 0; i < HELLOS; i++)
        scene->answered += recv(scene->hellos[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

static int dial(const struct kw_http_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(kw_http_server_port(server))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static gnutls_session_t begin(int fd, gnutls_certificate_credentials_t credentials)
{
    gnutls_session_t session = NULL;

    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
    assert_int_equal(gnutls_set_default_priority(session), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials), 0);
    gnutls_transport_set_int(session, fd);
    return session;
}

static ssize_t hear_nothing(gnutls_transport_ptr_t fd, void *bytes, size_t size)
{
    (void)fd;
    (void)bytes;
    (void)size;
    errno = EAGAIN;
    return -1;
}

static void say_hello(int fd, gnutls_certificate_credentials_t credentials)
{
    gnutls_session_t session = begin(fd, credentials);

    gnutls_transport_set_pull_function(session, hear_nothing);
    assert_int_equal(gnutls_handshake(session), GNUTLS_E_AGAIN);
    gnutls_deinit(session);
}

static void request(gnutls_session_t session, const char *path)
{
    char bytes[128];
    int n = snprintf(bytes, sizeof(bytes), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);

    assert_int_equal(gnutls_record_send(session, bytes, (size_t)n), n);
}

static void expect_answer(gnutls_session_t session)
{
    char bytes[512];
    ssize_t n;

    do {
        n = gnutls_record_recv(session, bytes, sizeof(bytes));
    } while (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED);
    assert_true(n > 12);
    assert_memory_equal(bytes, "HTTP/1.1 200", 12);
}

/**
 * While the thread that serves is held, many begin a handshake, and a client that has long had its
 * own asks. It is answered before them, although they were there first.
 */
static void test_handshakes_leave_room(void **state)
{
    struct scene scene = {.held = false};
    const struct kw_http_route routes[] = {{"GET", "/hold", hold, &scene},
                                           {"GET", "/count", count, &scene}};
    const struct kw_http_server_conf conf = {
        .listen = "127.0.0.1:0",
        .threads = 1,
        .max_header_bytes = 4096,
        .timeout_s = 60,
        .max_connections = HELLOS + 2,
        .routes = routes,
        .n_routes = KW_ARRAY_SIZE(routes),
        .tls = {.files = {.cert = kwt_tls_path(*state, "server.crt"),
                          .key = kwt_tls_path(*state, "server.key")}}};
    struct kw_http_server *server = NULL;
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t clients[2];
    int fds[2];

    assert_int_equal(gnutls_certificate_allocate_credentials(&credentials), 0);
    assert_int_equal(kw_http_server_start(&conf, &server, NULL), 0);
    for (unsigned i = 0; i < HELLOS; i++)
        scene.hellos[i] = dial(server);
    for (unsigned i = 0; i < KW_ARRAY_SIZE(clients); i++) {
        int code = GNUTLS_E_AGAIN;

        fds[i] = dial(server);
        clients[i] = begin(fds[i], credentials);
        while (code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED)
            code = gnutls_handshake(clients[i]);
        assert_int_equal(code, 0);
    }
    /* an end of a handshake that only the client has seen would wait for its turn like the others
     */
    request(clients[1], "/count");
    expect_answer(clients[1]);
    request(clients[0], "/hold");
    while (!atomic_load(&scene.held))
        (void)poll(NULL, 0, 5);
    for (unsigned i = 0; i < HELLOS; i++)
        say_hello(scene.hellos[i], credentials);
    request(clients[1], "/count");
    atomic_store(&scene.go, true);
    expect_answer(clients[0]);
    expect_answer(clients[1]);
    /* one may have been under way, one comes in the same round */
    assert_in_range(scene.answered, 0, 3);
    /* and those who said hello are heard, too */
    for (unsigned i = 0; i < HELLOS; i++) {
        char byte;

        assert_int_equal(recv(scene.hellos[i], &byte, 1, 0), 1);
        (void)close(scene.hellos[i]);
    }
    for (unsigned i = 0; i < KW_ARRAY_SIZE(clients); i++) {
        gnutls_deinit(clients[i]);
        (void)close(fds[i]);
    }
    gnutls_certificate_free_credentials(credentials);
    kw_http_server_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_a_round),
        cmocka_unit_test(test_turns_that_were_not_ended),
        cmocka_unit_test_setup_teardown(test_handshakes_leave_room, kwt_tls_setup,
                                        kwt_tls_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
