/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/http_turns.h"

/*
 * libmicrohttpd drives GnuTLS, but knows one certificate for its life and leaves the client's
 * unchecked. So each session that it makes is set up anew here before its first byte: with the
 * certificates read last (a generation, counted by the sessions that use it), with our own list of
 * versions and ciphers, a check of the client's certificate inside the handshake, and a transport
 * that can tell plain HTTP and answer it in words.
 *
 * Files are compared by content, once a second: three small reads cost tens of microseconds, and no
 * combination of rename, rewrite, symbolic links swapped (as the kubelet does) and coarse file
 * times can be missed. Certificate and key are two files, so one may be ahead of the other for a
 * moment: unusable files are a failure only once they were seen twice.
 *
 * A handshake costs its thread a millisecond with a key of 2048 bits and 20 with one of 4096, and
 * many may begin at once: one goes on in each turn of the thread's loop (http_turns.c).
 *
 * A session keeps what it was begun with; that is how no connection is lost over a renewal.
 */

/* A bundle of all public authorities has 220 KB. */
#define FILE_MAX ((size_t)1 << 20)

/* What Go's and curl's defaults have in common with every client since 2014: forward secrecy and
 * authenticated encryption alone. */
#define PRIORITIES                                                                               \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:" \
    "+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305"

#define TEXT_MAX 512

enum file { FILE_CERT, FILE_KEY, FILE_CLIENT_CA, FILE__MAX };

static const char *const file_names[] = {"certificate", "private key", "client CA"};
_Static_assert(KW_ARRAY_SIZE(file_names) == FILE__MAX, "a file has no name");

struct digest {
    unsigned char bytes[FILE__MAX * 32]; /* SHA-256 of each */
};

struct kw_http_tls_generation {
    _Atomic unsigned users; /* sessions, and one for being the latest */
    gnutls_certificate_credentials_t credentials;
};

struct kw_http_tls {
    char *paths[FILE__MAX]; /* NULL: no such file */
    kw_http_tls_report report;
    void *user;
    gnutls_priority_t priorities;
    struct digest in_use, failed; /* of the renewing thread, once it runs */
    unsigned failures;            /* how often `failed` was seen in a row */
    pthread_mutex_t lock;         /* guards what follows */
    struct kw_http_tls_generation *latest;
};

/* What the files hold. */
struct texts {
    char *bytes[FILE__MAX];
    size_t lens[FILE__MAX];
};

static void texts_free(struct texts *texts)
{
    for (size_t i = 0; i < FILE__MAX; i++) {
        if (texts->bytes[i] != NULL)
            explicit_bzero(texts->bytes[i], texts->lens[i]);
        free(texts->bytes[i]);
    }
}

static void tell(const struct kw_http_tls *tls, enum kw_http_tls_event event, const char *text)
{
    if (tls->report != NULL)
        tls->report(tls->user, event, text);
}

/* ---- reading ---- */

static int read_files(const struct kw_http_tls *tls, struct texts *ret, struct kw_err *err)
{
    for (size_t i = 0; i < FILE__MAX; i++) {
        if (tls->paths[i] == NULL)
            continue;
        int rc = kw_file_slurp(tls->paths[i], FILE_MAX, &ret->bytes[i], &ret->lens[i]);
        if (rc < 0)
            return kw_err_set(err, rc, "%s %s: %s", file_names[i], tls->paths[i],
                              kw_errno_text(rc));
    }
    return 0;
}

static struct digest digest_of(const struct texts *texts)
{
    struct digest digest = {{0}};

    for (size_t i = 0; i < FILE__MAX; i++)
        (void)gnutls_hash_fast(GNUTLS_DIG_SHA256, texts->lens[i] == 0 ? "" : texts->bytes[i],
                               texts->lens[i], digest.bytes + i * 32);
    return digest;
}

static bool same(const struct digest *a, const struct digest *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static int refuse(const struct kw_http_tls *tls, enum file file, int code, struct kw_err *err)
{
    if (code == GNUTLS_E_MEMORY_ERROR)
        return kw_err_set(err, -ENOMEM, "out of memory");
    return kw_err_set(err, -EINVAL, "%s %s: %s", file_names[file], tls->paths[file],
                      code == GNUTLS_E_BASE64_UNEXPECTED_HEADER_ERROR ||
                              code == GNUTLS_E_BASE64_DECODING_ERROR ||
                              code == GNUTLS_E_NO_CERTIFICATE_FOUND
                          ? "holds none in PEM"
                          : gnutls_strerror(code));
}

static void day_of(time_t when, char text[32])
{
    struct tm tm = {0};

    (void)gmtime_r(&when, &tm);
    (void)strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void name_of(gnutls_x509_crt_t crt, char name[128])
{
    if (gnutls_x509_crt_get_dn(crt, name, &(size_t){128}) < 0)
        name[0] = '\0';
}

/* Says what was taken into use, and what is wrong with it all the same. */
static void describe(const struct kw_http_tls *tls, gnutls_x509_crt_t own)
{
    char text[TEXT_MAX], name[128], until[32], since[32];
    time_t now = time(NULL);
    struct stat info;

    name_of(own, name);
    day_of(gnutls_x509_crt_get_expiration_time(own), until);
    day_of(gnutls_x509_crt_get_activation_time(own), since);
    (void)snprintf(text, sizeof(text), "certificate %s: \"%s\", valid until %s",
                   tls->paths[FILE_CERT], name, until);
    tell(tls, KW_HTTP_TLS_LOADED, text);
    if (gnutls_x509_crt_get_expiration_time(own) < now ||
        gnutls_x509_crt_get_activation_time(own) > now) {
        (void)snprintf(text, sizeof(text), "certificate %s is valid from %s to %s, and not now",
                       tls->paths[FILE_CERT], since, until);
        tell(tls, KW_HTTP_TLS_WARNING, text);
    }
    if (stat(tls->paths[FILE_KEY], &info) == 0 && (info.st_mode & S_IROTH) != 0) {
        (void)snprintf(text, sizeof(text),
                       "private key %s can be read by everybody (mode %04o); take that right away",
                       tls->paths[FILE_KEY], (unsigned)info.st_mode & 07777);
        tell(tls, KW_HTTP_TLS_WARNING, text);
    }
}

static gnutls_datum_t datum_of(const struct texts *texts, enum file file)
{
    return (gnutls_datum_t){(unsigned char *)texts->bytes[file], (unsigned)texts->lens[file]};
}

/* Certificate and key, of which `credentials` takes copies. */
static int take_own(const struct kw_http_tls *tls, const struct texts *texts,
                    gnutls_certificate_credentials_t credentials, struct kw_err *err)
{
    const gnutls_datum_t cert = datum_of(texts, FILE_CERT), key = datum_of(texts, FILE_KEY);
    gnutls_x509_crt_t *chain = NULL;
    gnutls_x509_privkey_t private = NULL;
    unsigned n = 0;
    enum file at = FILE_CERT;
    int rc = 0;
    int code = gnutls_x509_crt_list_import2(&chain, &n, &cert, GNUTLS_X509_FMT_PEM,
                                            GNUTLS_X509_CRT_LIST_SORT);

    if (code >= 0) {
        at = FILE_KEY;
        code = gnutls_x509_privkey_init(&private);
    }
    if (code >= 0)
        code = gnutls_x509_privkey_import2(private, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code >= 0)
        code = gnutls_certificate_set_x509_key(credentials, chain, (int)n, private);
    if (code == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        rc = kw_err_set(err, -EINVAL, "private key %s does not belong to certificate %s",
                        tls->paths[FILE_KEY], tls->paths[FILE_CERT]);
    else if (code == GNUTLS_E_DECRYPTION_FAILED)
        rc = kw_err_set(err, -EINVAL, "private key %s has a passphrase, and must not",
                        tls->paths[FILE_KEY]);
    else if (code < 0)
        rc = refuse(tls, at, code, err);
    else
        describe(tls, chain[0]);
    for (unsigned i = 0; chain != NULL && i < n; i++)
        gnutls_x509_crt_deinit(chain[i]);
    gnutls_free(chain);
    gnutls_x509_privkey_deinit(private);
    return rc;
}

static int take_authority(const struct kw_http_tls *tls, const struct texts *texts,
                          gnutls_certificate_credentials_t credentials, struct kw_err *err)
{
    const gnutls_datum_t authority = datum_of(texts, FILE_CLIENT_CA);
    int n = gnutls_certificate_set_x509_trust_mem(credentials, &authority, GNUTLS_X509_FMT_PEM);

    return n > 0 ? 0 : refuse(tls, FILE_CLIENT_CA, n == 0 ? GNUTLS_E_NO_CERTIFICATE_FOUND : n, err);
}

/* ---- one connection ---- */

/* Inside the handshake: looks at the certificate that the client showed, if any. */
static int check_client(gnutls_session_t session)
{
    struct kw_http_tls_peer *peer = gnutls_transport_get_ptr(session);
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned n = 0, status = 0;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(session, &n);
    gnutls_datum_t why = {0};
    gnutls_x509_crt_t crt = NULL;
    char text[TEXT_MAX], name[128] = "";

    if (shown == NULL || n == 0)
        return 0;
    int code = gnutls_certificate_verify_peers(session, &purpose, 1, &status);
    if (code == 0 && status == 0) {
        peer->known = true;
        return 0;
    }
    if (gnutls_x509_crt_init(&crt) == 0) {
        if (gnutls_x509_crt_import(crt, &shown[0], GNUTLS_X509_FMT_DER) >= 0)
            name_of(crt, name);
        gnutls_x509_crt_deinit(crt);
    }
    (void)gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &why, 0);
    (void)snprintf(text, sizeof(text), "\"%s\": %s", name,
                   code < 0           ? gnutls_strerror(code)
                   : why.data == NULL ? "not accepted"
                                      : (const char *)why.data);
    gnutls_free(why.data);
    tell(peer->tls, KW_HTTP_TLS_REFUSED, text);
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL,
                            (status & GNUTLS_CERT_EXPIRED) != 0 ? GNUTLS_A_CERTIFICATE_EXPIRED
                            : (status & GNUTLS_CERT_SIGNER_NOT_FOUND) != 0
                                ? GNUTLS_A_UNKNOWN_CA
                                : GNUTLS_A_BAD_CERTIFICATE);
    return GNUTLS_E_CERTIFICATE_ERROR;
}

static int on_finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                       const gnutls_datum_t *message)
{
    struct kw_http_tls_peer *peer = gnutls_transport_get_ptr(session);

    (void)type;
    (void)when;
    (void)message;
    if (incoming != 0)
        kw_http_peer_phase(peer->watched, KW_HTTP_WAITING);
    return 0;
}

static ssize_t pull(gnutls_transport_ptr_t ptr, void *bytes, size_t size)
{
    static const char answer[] = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n"
                                 "Content-Length: 37\r\nConnection: close\r\n\r\n"
                                 "400 plain HTTP sent to an HTTPS port\n";
    static _Thread_local struct kw_http_turns handshakes;
    struct kw_http_tls_peer *peer = ptr;
    bool greeting = kw_http_peer_is(peer->watched, KW_HTTP_GREETING);

    /* what follows the last bytes of a message takes milliseconds, and the thread serves others;
     * poll offers the bytes again */
    if (greeting && !kw_http_turns_take(&handshakes, peer, &peer->turn)) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t n = recv(peer->watched->fd, bytes, size, 0);
    if (greeting && n <= 0)
        kw_http_turns_end(&handshakes);
    if (n > 0 && !peer->heard) {
        peer->heard = true;
        /* a record of TLS begins with a number below 32, a request line with a letter */
        if (*(unsigned char *)bytes >= 'A' && *(unsigned char *)bytes <= 'Z') {
            (void)!send(peer->watched->fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            errno = EPROTO;
            return -1;
        }
    }
    return n;
}

static ssize_t push(gnutls_transport_ptr_t ptr, const giovec_t *pieces, int n)
{
    struct kw_http_tls_peer *peer = ptr;
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)n};

    return sendmsg(peer->watched->fd, &message, MSG_NOSIGNAL);
}

static void release(struct kw_http_tls_generation *generation)
{
    if (generation == NULL || atomic_fetch_sub(&generation->users, 1) > 1)
        return;
    gnutls_certificate_free_credentials(generation->credentials);
    free(generation);
}

int kw_http_tls_begin(struct kw_http_tls *tls, void *session, struct kw_http_peer *watched,
                      struct kw_http_tls_peer *peer)
{
    gnutls_session_t s = session;

    (void)pthread_mutex_lock(&tls->lock);
    peer->generation = tls->latest;
    (void)atomic_fetch_add(&peer->generation->users, 1);
    (void)pthread_mutex_unlock(&tls->lock);
    peer->tls = tls;
    peer->watched = watched;
    if (gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, peer->generation->credentials) < 0 ||
        gnutls_priority_set(s, tls->priorities) < 0) {
        kw_http_tls_end(peer);
        return -ENOMEM;
    }
    gnutls_certificate_server_set_request(
        s, tls->paths[FILE_CLIENT_CA] != NULL ? GNUTLS_CERT_REQUEST : GNUTLS_CERT_IGNORE);
    gnutls_handshake_set_hook_function(s, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, on_finished);
    gnutls_transport_set_ptr(s, peer);
    gnutls_transport_set_pull_function(s, pull);
    gnutls_transport_set_vec_push_function(s, push);
    return 0;
}

void kw_http_tls_end(struct kw_http_tls_peer *peer)
{
    release(peer->generation);
    peer->generation = NULL;
}

bool kw_http_tls_asks(const struct kw_http_tls *tls)
{
    return tls->paths[FILE_CLIENT_CA] != NULL;
}

static int select_none(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                       gnutls_pcert_st **certs, unsigned *n, gnutls_ocsp_data_st **ocsp,
                       unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
    (void)session, (void)info, (void)certs, (void)n, (void)ocsp, (void)n_ocsp, (void)key,
        (void)flags;
    return -1;
}

void *kw_http_tls_selector(void)
{
    return (void *)select_none;
}

/* ---- renewal ---- */

static int make_generation(const struct kw_http_tls *tls, const struct texts *texts,
                           struct kw_http_tls_generation **ret, struct kw_err *err)
{
    struct kw_http_tls_generation *made = calloc(1, sizeof(*made));
    int rc = 0;

    if (made == NULL || gnutls_certificate_allocate_credentials(&made->credentials) < 0) {
        free(made);
        return kw_err_set(err, -ENOMEM, "out of memory");
    }
    atomic_init(&made->users, 1);
    gnutls_certificate_set_verify_function(made->credentials, check_client);
    if (tls->paths[FILE_CLIENT_CA] != NULL)
        rc = take_authority(tls, texts, made->credentials, err);
    if (rc == 0)
        rc = take_own(tls, texts, made->credentials, err);
    if (rc < 0)
        release(made);
    else
        *ret = made;
    return rc;
}

void kw_http_tls_renew(void *user)
{
    struct kw_http_tls *tls = user;
    kw_cleanup(texts_free) struct texts texts = {0};
    struct kw_http_tls_generation *next = NULL, *old;
    struct kw_err err = {0};
    int rc = read_files(tls, &texts, &err);
    struct digest seen = digest_of(&texts);

    if (rc == 0 && same(&seen, &tls->in_use)) {
        tls->failures = 0;
        return;
    }
    if (rc == 0 && !(tls->failures > 1 && same(&seen, &tls->failed)))
        rc = make_generation(tls, &texts, &next, &err);
    else if (rc == 0)
        return; /* as unusable as it was, and told */
    if (rc < 0) {
        tls->failures = tls->failures > 0 && same(&seen, &tls->failed) ? tls->failures + 1 : 1;
        tls->failed = seen;
        if (tls->failures == 2)
            tell(tls, KW_HTTP_TLS_FAILED, err.text);
        return;
    }
    tls->failures = 0;
    tls->in_use = seen;
    (void)pthread_mutex_lock(&tls->lock);
    old = tls->latest;
    tls->latest = next;
    (void)pthread_mutex_unlock(&tls->lock);
    release(old);
}

static int fill(struct kw_http_tls *tls, const struct kw_http_tls_files *files, struct kw_err *err)
{
    const char *const paths[] = {files->cert, files->key, files->client_ca};
    kw_cleanup(texts_free) struct texts texts = {0};

    for (size_t i = 0; i < FILE__MAX; i++) {
        if (paths[i] == NULL || paths[i][0] == '\0')
            continue;
        tls->paths[i] = strdup(paths[i]);
        if (tls->paths[i] == NULL)
            return kw_err_set(err, -ENOMEM, "out of memory");
    }
    int code = gnutls_priority_init(&tls->priorities, PRIORITIES, NULL);
    if (code < 0)
        return kw_err_set(err, code == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -ENOTSUP,
                          "TLS: this GnuTLS has not the ciphers it takes: %s",
                          gnutls_strerror(code));
    int rc = read_files(tls, &texts, err);
    if (rc == 0)
        rc = make_generation(tls, &texts, &tls->latest, err);
    tls->in_use = digest_of(&texts);
    return rc;
}

int kw_http_tls_new(const struct kw_http_tls_conf *conf, struct kw_http_tls **ret,
                    struct kw_err *err)
{
    struct kw_http_tls *tls = calloc(1, sizeof(*tls));

    if (tls == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    (void)pthread_mutex_init(&tls->lock, NULL);
    tls->report = conf->report;
    tls->user = conf->user;
    int rc = fill(tls, &conf->files, err);
    if (rc < 0)
        kw_http_tls_free(&tls);
    else
        *ret = tls;
    return rc;
}

void kw_http_tls_free(struct kw_http_tls **tls)
{
    struct kw_http_tls *old = *tls;

    if (old == NULL)
        return;
    release(old->latest);
    if (old->priorities != NULL)
        gnutls_priority_deinit(old->priorities);
    for (size_t i = 0; i < FILE__MAX; i++)
        free(old->paths[i]);
    (void)pthread_mutex_destroy(&old->lock);
    free(old);
    *tls = NULL;
}
