/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tls_dial.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/support/cmocka.h"

/* One connection: `local` is the other end of the test's socket. */
struct bridge {
    int local, net;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    struct kwt_tls_outcome *outcome;
};

static void must(int code)
{
    if (code < 0)
        fail_msg("GnuTLS: %s", gnutls_strerror(code));
}

static bool send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* The test's bytes to the server. @return false at their end. */
static bool to_server(struct bridge *b)
{
    char bytes[16384];
    ssize_t n = recv(b->local, bytes, sizeof(bytes), 0);

    if (n <= 0) {
        (void)gnutls_bye(b->session, GNUTLS_SHUT_WR);
        (void)shutdown(b->net, SHUT_WR);
        return false;
    }
    for (ssize_t at = 0; at < n;) {
        ssize_t sent = gnutls_record_send(b->session, bytes + at, (size_t)(n - at));

        if (sent < 0 && gnutls_error_is_fatal((int)sent))
            return false;
        at += sent > 0 ? sent : 0;
    }
    return true;
}

static void note_error(struct bridge *b, int code)
{
    if (b->outcome == NULL)
        return;
    b->outcome->connected = false;
    (void)snprintf(b->outcome->error, sizeof(b->outcome->error), "%s",
                   code == GNUTLS_E_FATAL_ALERT_RECEIVED
                       ? gnutls_alert_get_name(gnutls_alert_get(b->session))
                       : gnutls_strerror(code));
}

/* The server's bytes to the test. @return false at their end. */
static bool to_test(struct bridge *b)
{
    char bytes[16384];
    ssize_t n = gnutls_record_recv(b->session, bytes, sizeof(bytes));

    if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
        return true;
    if (n < 0)
        note_error(b, (int)n);
    return n > 0 && send_all(b->local, bytes, (size_t)n);
}

static void note_handshake(struct bridge *b)
{
    struct kwt_tls_outcome *outcome = b->outcome;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(b->session, &(unsigned){0});
    gnutls_datum_t alpn = {0};
    gnutls_x509_crt_t crt;

    if (outcome == NULL)
        return;
    if (gnutls_alpn_get_selected_protocol(b->session, &alpn) == 0)
        (void)snprintf(outcome->alpn, sizeof(outcome->alpn), "%.*s", (int)alpn.size,
                       (const char *)alpn.data);
    (void)snprintf(outcome->version, sizeof(outcome->version), "%s",
                   gnutls_protocol_get_name(gnutls_protocol_get_version(b->session)));
    outcome->serial_len = sizeof(outcome->serial);
    if (gnutls_x509_crt_init(&crt) == 0) {
        if (gnutls_x509_crt_import(crt, &shown[0], GNUTLS_X509_FMT_DER) < 0 ||
            gnutls_x509_crt_get_serial(crt, outcome->serial, &outcome->serial_len) < 0)
            outcome->serial_len = 0;
        gnutls_x509_crt_deinit(crt);
    }
    outcome->connected = true;
}

/** Ends the test's side as a server would that lingers for a second: closing with bytes that nobody
 * read would reset it, and the test might lose the answer. */
static void end_local(const struct bridge *b)
{
    struct pollfd fd = {.fd = b->local, .events = POLLIN};
    char bytes[16384];
    uint64_t end_ns = kw_now_ns() + KW_NS_PER_S;

    (void)shutdown(b->local, SHUT_WR);
    while (kw_now_ns() < end_ns && poll(&fd, 1, 100) > 0) {
        if (recv(b->local, bytes, sizeof(bytes), 0) <= 0)
            break;
    }
    (void)close(b->local);
}

static void release(struct bridge *b)
{
    gnutls_deinit(b->session);
    gnutls_certificate_free_credentials(b->credentials);
    (void)close(b->net);
    end_local(b);
    free(b);
}

static void *run(void *user)
{
    struct bridge *b = user;
    bool reading = true, writing = true;
    int code;

    do
        code = gnutls_handshake(b->session);
    while (code < 0 && !gnutls_error_is_fatal(code));
    if (code < 0)
        note_error(b, code);
    else
        note_handshake(b);
    while (code == 0 && reading) {
        struct pollfd fds[] = {{.fd = b->net, .events = POLLIN},
                               {.fd = writing ? b->local : -1, .events = POLLIN}};

        if (gnutls_record_check_pending(b->session) == 0)
            (void)poll(fds, 2, -1);
        else
            fds[0].revents = POLLIN;
        if (fds[1].revents != 0)
            writing = to_server(b);
        if (fds[0].revents != 0)
            reading = to_test(b);
    }
    release(b);
    return NULL;
}

static struct bridge *make(unsigned port, const struct kwt_tls_client *client,
                           struct kwt_tls_outcome *outcome)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    struct bridge *b = calloc(1, sizeof(*b));
    gnutls_datum_t protocols[2] = {{(unsigned char *)(uintptr_t) "h2", 2},
                                   {(unsigned char *)(uintptr_t) "http/1.1", 8}};

    assert_non_null(b);
    b->outcome = outcome;
    b->net = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(b->net >= 0);
    assert_int_equal(connect(b->net, (struct sockaddr *)&address, sizeof(address)), 0);
    must(gnutls_init(&b->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL |
                                      (client->insists ? GNUTLS_FORCE_CLIENT_CERT : 0)));
    must(client->priorities == NULL
             ? gnutls_set_default_priority(b->session)
             : gnutls_priority_set_direct(b->session, client->priorities, NULL));
    must(gnutls_certificate_allocate_credentials(&b->credentials));
    if (client->cert != NULL)
        must(gnutls_certificate_set_x509_key_file(b->credentials, client->cert, client->key,
                                                  GNUTLS_X509_FMT_PEM));
    if (client->ca != NULL) {
        must(gnutls_certificate_set_x509_trust_file(b->credentials, client->ca,
                                                    GNUTLS_X509_FMT_PEM));
        gnutls_session_set_verify_cert(b->session, "kwatt.test", 0);
    }
    must(gnutls_credentials_set(b->session, GNUTLS_CRD_CERTIFICATE, b->credentials));
    if (client->offers_h2)
        must(gnutls_alpn_set_protocols(b->session, protocols, 2, 0));
    gnutls_transport_set_int(b->session, b->net);
    return b;
}

int kwt_tls_dial(unsigned port, const struct kwt_tls_client *client,
                 struct kwt_tls_outcome *outcome)
{
    struct timeval patience = {.tv_sec = 50}; /* as kwt_http_dial */
    struct bridge *b = make(port, client, outcome);
    pthread_t thread;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    (void)setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    b->local = ends[1];
    assert_int_equal(pthread_create(&thread, NULL, run, b), 0);
    (void)pthread_detach(thread);
    return ends[0];
}

void kwt_tls_try(unsigned port, const struct kwt_tls_client *client,
                 struct kwt_tls_outcome *outcome)
{
    char byte;
    int fd;

    *outcome = (struct kwt_tls_outcome){0};
    fd = kwt_tls_dial(port, client, outcome);
    /* a client of 1.3 is through before the server has looked at its certificate */
    (void)shutdown(fd, SHUT_WR);
    while (recv(fd, &byte, 1, 0) > 0)
        continue;
    (void)close(fd);
}
