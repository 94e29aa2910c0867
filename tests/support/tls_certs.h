/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Authorities and certificates made for a test (P-256), and files of them. Each fails the test
 * where it cannot be made. */

struct kwt_authority;

struct kwt_authority *kwt_authority_new(const char *name);
void kwt_authority_free(struct kwt_authority **authority);

/** Writes its certificate, PEM. */
void kwt_authority_write(const struct kwt_authority *authority, const char *path);

/** What a leaf says; zeroed: "leaf", of a server at kwatt.test and 127.0.0.1, valid now. */
struct kwt_leaf {
    const char *name;
    bool client;   /**< may be used by a client, and not by a server */
    long from_s;   /**< begin of its time, in seconds from now; 0: an hour ago */
    long until_s;  /**< end of its time, in seconds from now; 0: in an hour */
    unsigned rsa;  /**< bits of an RSA key instead */
    bool password; /**< the key is written with a passphrase */
};

/** Makes key and certificate and writes both, PEM; each file is replaced by a rename. */
void kwt_leaf_write(const struct kwt_authority *authority, const struct kwt_leaf *leaf,
                    const char *cert_path, const char *key_path);
