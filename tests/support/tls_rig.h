/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/http_server.h"
#include "tests/support/tls_certs.h"
#include "tests/support/tls_dial.h"
#include "tests/support/tree.h"

/* A folder of certificates, a server that uses them, and requests to it. */

/** What the server reported, by kind. */
struct kwt_tls_reports {
    _Atomic unsigned n[KW_HTTP_TLS_REFUSED + 1];
    pthread_mutex_t lock;
    char last[KW_HTTP_TLS_REFUSED + 1][512];
};

/** The folder has ca.crt, other.crt, server.crt and .key, client.crt and .key; "other" signed none
 * of them. */
struct kwt_tls_rig {
    struct kwt_tree tree;
    struct kwt_authority *authority, *other;
    struct kwt_tls_reports reports;
    char ca[128], cert[128], key[128]; /* of kwt_tls_known */
};

/** Setup and teardown of a test: its state is the rig. */
int kwt_tls_setup(void **state);
int kwt_tls_teardown(void **state);

/** A path in the folder; valid until the 16th call after it, of one thread. */
const char *kwt_tls_path(const struct kwt_tls_rig *rig, const char *name);

/** Writes NAME.crt and NAME.key. */
void kwt_tls_leaf(const struct kwt_tls_rig *rig, const struct kwt_authority *authority,
                  const char *name, struct kwt_leaf leaf);

/** Starts a server with GET /healthz, /readyz and /both, POST /both, on 2 threads. */
int kwt_tls_try_start(struct kwt_tls_rig *rig, struct kw_http_tls_files files, unsigned timeout_s,
                      struct kw_http_server **ret, struct kw_err *err);

/** The same with server.crt and server.key, and ca.crt where clients are asked. */
struct kw_http_server *kwt_tls_start(struct kwt_tls_rig *rig, bool clients);

/** One request on a connection that stays. @return its status; 0 without an answer. */
unsigned kwt_tls_request(int fd, const char *bytes);

/** One request on a connection of its own. */
unsigned kwt_tls_request_once(const struct kw_http_server *server,
                              const struct kwt_tls_client *client, const char *bytes);

/** The client that shows client.crt; its texts live as long as the rig. */
struct kwt_tls_client kwt_tls_known(const struct kwt_tls_rig *rig);
