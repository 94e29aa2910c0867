/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS over OpenSSL, behind which its socket code is replaced: its own BIO writes with write(), so
 * that a peer which went away would raise SIGPIPE in a program that uses this library.
 *
 * Files are read through common/file.h (bounded, never waiting for a pipe) and taken apart here, so
 * that an error names the file and what is wrong with it; OpenSSL would name neither. A key with a
 * pass phrase is refused: OpenSSL's default is to ask for one on the terminal.
 *
 * A context is made for each connection, so that renewed certificates are used by the next one.
 * That costs the reading of three files, beside a handshake that costs a hundred times more.
 * Renegotiation (TLS 1.2) is refused and needed by nobody; tickets and key updates (TLS 1.3) are
 * handled by OpenSSL inside of reads, which may then want to write.
 */
#include "common/tls_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/file.h"

/* A bundle with all public authorities has 230 kB. */
#define CA_BYTES   (4u << 20)
#define CERT_BYTES (256u << 10)

struct kw_tls_client {
    BIO_METHOD *method;
    SSL_CTX *context;
    SSL *ssl;
    int fd;
    int io_code;   /* -errno of the last failed socket call */
    bool ended;    /* the peer closed */
    bool verified; /* the handshake is done */
    bool spent;    /* OpenSSL takes no further call after a fatal failure */
    short events;
    char name[256];
    char ca[256]; /* "CA file X", for messages */
};

/* ---- the socket below ---- */

static int bio_failed(struct kw_tls_client *tls, BIO *bio, int code, int retry)
{
    if (code == EAGAIN) {
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    } else {
        tls->io_code = -code;
    }
    return -1;
}

static int bio_read(BIO *bio, char *bytes, int size)
{
    struct kw_tls_client *tls = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    do
        n = recv(tls->fd, bytes, (size_t)size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    tls->ended = tls->ended || n == 0;
    return n < 0 ? bio_failed(tls, bio, errno, BIO_FLAGS_READ) : (int)n;
}

static int bio_write(BIO *bio, const char *bytes, int len)
{
    struct kw_tls_client *tls = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    do
        n = send(tls->fd, bytes, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? bio_failed(tls, bio, errno, BIO_FLAGS_WRITE) : (int)n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int attach_socket(struct kw_tls_client *tls)
{
    BIO *bio;

    tls->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "kwatt socket");
    if (tls->method == NULL || BIO_meth_set_read(tls->method, bio_read) != 1 ||
        BIO_meth_set_write(tls->method, bio_write) != 1 ||
        BIO_meth_set_ctrl(tls->method, bio_ctrl) != 1)
        return -ENOMEM;
    bio = BIO_new(tls->method);
    if (bio == NULL)
        return -ENOMEM;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    return 0;
}

/* ---- files ---- */

/* @param ret caller frees with BIO_free, the bytes with free */
static int open_file(const char *what, const char *path, size_t limit, char **ret_bytes,
                     size_t *ret_len, BIO **ret, struct kw_err *err)
{
    int r = kw_file_slurp(path, limit, ret_bytes, ret_len);

    if (r < 0)
        return kw_err_set(err, r, "%s %.200s: %s", what, path, kw_errno_text(r));
    *ret = BIO_new_mem_buf(*ret_bytes, (int)*ret_len);
    return *ret != NULL ? 0 : -ENOMEM;
}

static void free_bio(BIO **bio)
{
    (void)BIO_free(*bio);
    *bio = NULL;
}

static int load_ca(struct kw_tls_client *tls, const char *path, struct kw_err *err)
{
    X509_STORE *store = SSL_CTX_get_cert_store(tls->context);
    kw_cleanup_free char *bytes = NULL;
    kw_cleanup(free_bio) BIO *bio = NULL;
    size_t len = 0, n = 0;
    X509 *cert;

    if (path == NULL) {
        (void)snprintf(tls->ca, sizeof(tls->ca), "the system's authorities");
        return SSL_CTX_set_default_verify_paths(tls->context) == 1 ? 0 : -ENOMEM;
    }
    (void)snprintf(tls->ca, sizeof(tls->ca), "CA file %.200s", path);
    int r = open_file("CA file", path, CA_BYTES, &bytes, &len, &bio, err);
    while (r == 0 && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (X509_STORE_add_cert(store, cert) != 1)
            r = -ENOMEM;
        X509_free(cert);
        n++;
    }
    if (r == 0 && n == 0)
        r = kw_err_set(err, -EINVAL, "CA file %.200s: holds no certificate (PEM)", path);
    ERR_clear_error(); /* the end of the file is an error to OpenSSL */
    return r;
}

static int load_chain(SSL_CTX *context, const char *path, struct kw_err *err)
{
    kw_cleanup_free char *bytes = NULL;
    kw_cleanup(free_bio) BIO *bio = NULL;
    size_t len = 0, n = 0;
    X509 *cert;

    int r = open_file("certificate file", path, CERT_BYTES, &bytes, &len, &bio, err);
    while (r == 0 && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        int taken = n++ == 0 ? SSL_CTX_use_certificate(context, cert)
                             : (int)SSL_CTX_add1_chain_cert(context, cert);
        X509_free(cert);
        if (taken != 1)
            r = kw_err_set(err, -EINVAL, "certificate file %.200s: certificate %zu is refused",
                           path, n);
    }
    if (r == 0 && n == 0)
        r = kw_err_set(err, -EINVAL, "certificate file %.200s: holds no certificate (PEM)", path);
    ERR_clear_error();
    return r;
}

static int no_pass_phrase(char *buffer, int size, int writing, void *user)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)user;
    return -1;
}

static int load_key(SSL_CTX *context, const char *path, struct kw_err *err)
{
    char *bytes = NULL;
    kw_cleanup(free_bio) BIO *bio = NULL;
    size_t len = 0;
    EVP_PKEY *key = NULL;

    int r = open_file("key file", path, CERT_BYTES, &bytes, &len, &bio, err);
    if (r == 0) {
        key = PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL);
        if (key == NULL)
            r = kw_err_set(err, -EINVAL,
                           "key file %.200s: holds no private key (PEM, without a pass phrase)",
                           path);
        else if (SSL_CTX_use_PrivateKey(context, key) != 1)
            r = kw_err_set(err, -EINVAL, "key file %.200s: does not belong to the certificate",
                           path);
    }
    EVP_PKEY_free(key);
    if (bytes != NULL)
        explicit_bzero(bytes, len);
    free(bytes);
    ERR_clear_error();
    return r;
}

/* ---- a connection ---- */

static int make_context(struct kw_tls_client *tls, const struct kw_tls_client_conf *conf,
                        struct kw_err *err)
{
    tls->context = SSL_CTX_new(TLS_client_method());
    if (tls->context == NULL || SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1)
        return -ENOMEM;
    (void)SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                             SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                             SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    int r = load_ca(tls, conf->ca_file, err);
    if (r == 0 && conf->cert_file != NULL)
        r = load_chain(tls->context, conf->cert_file, err);
    if (r == 0 && conf->cert_file != NULL)
        r = load_key(tls->context, conf->key_file != NULL ? conf->key_file : conf->cert_file, err);
    return r;
}

/* What the certificate must be for. A name may end in the dot of an absolute one, which no
 * certificate has. */
static int set_name(struct kw_tls_client *tls, const char *name, struct kw_err *err)
{
    size_t len = strlen(name);
    unsigned char address[sizeof(struct in6_addr)];

    if (len > 1 && name[len - 1] == '.')
        len--;
    if (len == 0 || len >= sizeof(tls->name))
        return kw_err_set(err, -EINVAL, "TLS: a server's name has 1 to 255 characters");
    memcpy(tls->name, name, len);
    if (inet_pton(AF_INET, tls->name, address) == 1 || inet_pton(AF_INET6, tls->name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), tls->name) == 1 ? 0
                                                                                       : -ENOMEM;
    SSL_set_hostflags(tls->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(tls->ssl, tls->name) == 1 &&
                   SSL_set_tlsext_host_name(tls->ssl, tls->name) == 1
               ? 0
               : -ENOMEM;
}

int kw_tls_client_new(const struct kw_tls_client_conf *conf, int fd, struct kw_tls_client **ret,
                      struct kw_err *err)
{
    kw_cleanup(kw_tls_client_free) struct kw_tls_client *tls = calloc(1, sizeof(*tls));

    if (tls == NULL)
        return kw_err_set(err, -ENOMEM, "TLS: out of memory");
    tls->fd = fd;
    tls->events = POLLOUT;
    int r = make_context(tls, conf, err);
    if (r == 0) {
        tls->ssl = SSL_new(tls->context);
        r = tls->ssl != NULL ? set_name(tls, conf->name, err) : -ENOMEM;
    }
    if (r == 0)
        r = attach_socket(tls);
    if (r == -ENOMEM)
        (void)kw_err_set(err, r, "TLS: out of memory");
    if (r < 0)
        return r;
    SSL_set_connect_state(tls->ssl);
    *ret = KW_TAKE_PTR(tls);
    return 0;
}

void kw_tls_client_free(struct kw_tls_client **tls)
{
    struct kw_tls_client *old = *tls;

    *tls = NULL;
    if (old == NULL)
        return;
    if (old->ssl != NULL && old->verified && !old->spent && !old->ended)
        (void)SSL_shutdown(old->ssl);
    SSL_free(old->ssl);
    SSL_CTX_free(old->context);
    BIO_meth_free(old->method);
    ERR_clear_error(); /* the queue is the thread's */
    free(old);
}

/* ---- failures in words ---- */

/* Errors by which OpenSSL says that the first bytes were no TLS record. */
static bool is_no_tls(unsigned long code)
{
    int reason = ERR_GET_REASON(code);

    return ERR_GET_LIB(code) == ERR_LIB_SSL &&
           (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
            reason == SSL_R_ENCRYPTED_LENGTH_TOO_LONG || reason == SSL_R_BAD_RECORD_TYPE);
}

/* An OpenSSL failure that is neither a wait nor an end. */
static int protocol_failure(const struct kw_tls_client *tls, struct kw_err *err)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);

    if (ERR_GET_LIB(code) == ERR_LIB_SSL &&
        ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        const char *cause = X509_verify_cert_error_string(verdict);
        if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
            return kw_err_set(
                err, -EPROTO,
                "TLS: the server's certificate is not accepted: it is not for %s (%s)", tls->name,
                cause);
        return kw_err_set(err, -EPROTO, "TLS: the server's certificate is not accepted: %s (%s)",
                          cause, tls->ca);
    }
    if (!tls->verified && is_no_tls(code))
        return kw_err_set(err, -EPROTO, "TLS: the server does not speak TLS on this port (%s)",
                          reason != NULL ? reason : "no reason given");
    /* the reasons from 1000 on are what the other side sent as an alert */
    if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET)
        return kw_err_set(err, -EPROTO, "TLS: the server refuses: %s",
                          reason != NULL ? reason : "no reason given");
    return kw_err_set(err, -EPROTO, "TLS: %s", reason != NULL ? reason : "failed");
}

/* Before each call: what went wrong is asked for after it, and the queue of errors is the thread's.
 */
static void begin(struct kw_tls_client *tls)
{
    ERR_clear_error();
    tls->io_code = 0;
}

/* What a call that did not succeed came to. @param result of it. @return 0 end of file; -errno */
static int outcome(struct kw_tls_client *tls, int result, struct kw_err *err)
{
    int kind = SSL_get_error(tls->ssl, result);

    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        tls->events = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return -EAGAIN;
    }
    tls->spent = kind == SSL_ERROR_SSL;
    if (kind == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (kind == SSL_ERROR_SSL && !tls->ended)
        return protocol_failure(tls, err);
    if (tls->io_code != 0)
        return kw_err_set(err, tls->io_code, "TLS: %s", kw_errno_text(tls->io_code));
    return 0;
}

int kw_tls_client_handshake(struct kw_tls_client *tls, struct kw_err *err)
{
    begin(tls);
    int r = SSL_do_handshake(tls->ssl);
    if (r == 1) {
        tls->verified = true;
        return 0;
    }
    r = outcome(tls, r, err);
    if (r != 0)
        return r;
    return kw_err_set(err, -EPIPE, "TLS: the server ended the connection during the handshake");
}

ssize_t kw_tls_client_read(struct kw_tls_client *tls, void *bytes, size_t size, struct kw_err *err)
{
    size_t n = 0;

    if (tls->spent)
        return 0;
    begin(tls);
    int r = SSL_read_ex(tls->ssl, bytes, size, &n);
    return r == 1 ? (ssize_t)n : outcome(tls, r, err);
}

ssize_t kw_tls_client_write(struct kw_tls_client *tls, const void *bytes, size_t len,
                            struct kw_err *err)
{
    size_t n = 0;

    if (tls->spent)
        return kw_err_set(err, -EPIPE, "TLS: the connection has ended");
    begin(tls);
    int r = SSL_write_ex(tls->ssl, bytes, len, &n);
    if (r == 1)
        return (ssize_t)n;
    r = outcome(tls, r, err);
    return r == 0 ? kw_err_set(err, -EPIPE, "TLS: the server ended the connection") : r;
}

short kw_tls_client_events(const struct kw_tls_client *tls)
{
    return tls->events;
}
