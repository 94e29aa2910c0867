/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * A TLS client that hands out a plain socket: what is written there goes over TLS, its half-close
 * becomes the end of the TLS stream, and the server's end becomes its end. So a test of raw bytes
 * runs over TLS as it is.
 */

/** How to connect. Files NULL: none. */
struct kwt_tls_client {
    const char *ca;         /**< NULL: any certificate will do */
    const char *cert, *key; /**< shown when asked for */
    const char *priorities; /**< versions and ciphers; NULL: the defaults */
    bool offers_h2;         /**< by ALPN, before http/1.1 */
    bool insists;           /**< shows its certificate whatever authorities the server names */
};

/** What the handshake came to; written before the first byte can be read. */
struct kwt_tls_outcome {
    bool connected;
    char alpn[16];
    char version[16];
    unsigned char serial[32]; /**< of the server's certificate */
    size_t serial_len;
    char error[128]; /**< an alert of the server's, or why it was given up */
};

/**
 * Connects to 127.0.0.1.
 * @param outcome may be NULL; stays in place until the socket has ended.
 * @return a socket to close.
 */
int kwt_tls_dial(unsigned port, const struct kwt_tls_client *client,
                 struct kwt_tls_outcome *outcome);

/** Connects and looks at the handshake alone (and, under 1.3, whether the server let it stand). */
void kwt_tls_try(unsigned port, const struct kwt_tls_client *client,
                 struct kwt_tls_outcome *outcome);
