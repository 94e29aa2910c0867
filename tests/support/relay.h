/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Stands between a client and a server of the loopback, and passes one connection after the other
 * on. What the server sends comes in pieces. */
struct kwt_relay {
    int listener;
    uint16_t port, to;
    size_t piece_bytes; /**< 0: nothing is passed on to the client */
    size_t stop_after;  /**< bytes to the client, after which the connection is cut; 0: never */
    int pause_ms;       /**< between two pieces */
    pthread_t thread;
    atomic_bool stop;
};

/** Listens on relay->port from now on. @param to port of the server. */
void kwt_relay_start(struct kwt_relay *relay, uint16_t to);

/** Cuts the connection and stops. */
void kwt_relay_end(struct kwt_relay *relay);
