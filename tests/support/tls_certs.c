/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tls_certs.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/file.h"
#include "tests/support/cmocka.h"

#define HOUR_S 3600

struct kwt_authority {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
};

static void must(int code)
{
    if (code < 0)
        fail_msg("GnuTLS: %s", gnutls_strerror(code));
}

static gnutls_x509_privkey_t new_key(unsigned rsa)
{
    gnutls_x509_privkey_t key;

    must(gnutls_x509_privkey_init(&key));
    must(rsa > 0 ? gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, rsa, 0)
                 : gnutls_x509_privkey_generate(
                       key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    return key;
}

static gnutls_x509_crt_t new_crt(const char *name, gnutls_x509_privkey_t key, long from_s,
                                 long until_s)
{
    gnutls_x509_crt_t crt;
    unsigned char serial[8];
    const char *wrong;
    char dn[128];

    must(gnutls_x509_crt_init(&crt));
    must(gnutls_x509_crt_set_version(crt, 3));
    (void)snprintf(dn, sizeof(dn), "CN=%s", name);
    must(gnutls_x509_crt_set_dn(crt, dn, &wrong));
    must(gnutls_x509_crt_set_key(crt, key));
    must(gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial)));
    serial[0] &= 0x7f; /* a positive number */
    must(gnutls_x509_crt_set_serial(crt, serial, sizeof(serial)));
    must(gnutls_x509_crt_set_activation_time(crt, time(NULL) + (from_s != 0 ? from_s : -HOUR_S)));
    must(gnutls_x509_crt_set_expiration_time(crt, time(NULL) + (until_s != 0 ? until_s : HOUR_S)));
    return crt;
}

struct kwt_authority *kwt_authority_new(const char *name)
{
    struct kwt_authority *authority = calloc(1, sizeof(*authority));

    assert_non_null(authority);
    authority->key = new_key(0);
    authority->crt = new_crt(name, authority->key, 0, 0);
    must(gnutls_x509_crt_set_basic_constraints(authority->crt, 1, -1));
    must(gnutls_x509_crt_set_key_usage(authority->crt, GNUTLS_KEY_KEY_CERT_SIGN));
    must(gnutls_x509_crt_sign2(authority->crt, authority->crt, authority->key, GNUTLS_DIG_SHA256,
                               0));
    return authority;
}

void kwt_authority_free(struct kwt_authority **authority)
{
    if (*authority == NULL)
        return;
    gnutls_x509_crt_deinit((*authority)->crt);
    gnutls_x509_privkey_deinit((*authority)->key);
    free(*authority);
    *authority = NULL;
}

static void write_pem(const char *path, gnutls_datum_t *pem)
{
    assert_int_equal(kw_file_write_atomic(path, pem->data, pem->size, 0600), 0);
    gnutls_free(pem->data);
}

void kwt_authority_write(const struct kwt_authority *authority, const char *path)
{
    gnutls_datum_t pem;

    must(gnutls_x509_crt_export2(authority->crt, GNUTLS_X509_FMT_PEM, &pem));
    write_pem(path, &pem);
}

void kwt_leaf_write(const struct kwt_authority *authority, const struct kwt_leaf *leaf,
                    const char *cert_path, const char *key_path)
{
    static const unsigned char loopback[4] = {127, 0, 0, 1};
    const char *name = leaf->name != NULL ? leaf->name : "leaf";
    gnutls_x509_privkey_t key = new_key(leaf->rsa);
    gnutls_x509_crt_t crt = new_crt(name, key, leaf->from_s, leaf->until_s);
    gnutls_datum_t pem;

    must(gnutls_x509_crt_set_basic_constraints(crt, 0, -1));
    must(gnutls_x509_crt_set_key_purpose_oid(
        crt, leaf->client ? GNUTLS_KP_TLS_WWW_CLIENT : GNUTLS_KP_TLS_WWW_SERVER, 0));
    if (!leaf->client) {
        must(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, "kwatt.test", 10,
                                                  GNUTLS_FSAN_SET));
        must(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, loopback,
                                                  sizeof(loopback), GNUTLS_FSAN_APPEND));
    }
    must(gnutls_x509_crt_sign2(crt, authority->crt, authority->key, GNUTLS_DIG_SHA256, 0));
    must(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem));
    write_pem(cert_path, &pem);
    must(leaf->password ? gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, "secret",
                                                            GNUTLS_PKCS_PBES2_AES_256, &pem)
                        : gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem));
    write_pem(key_path, &pem);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}
