/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

/*
 * Deadlines and orderly closing of connections, for the HTTP server only.
 */

struct kw_http_watch;

enum kw_http_phase {
    KW_HTTP_GREETING, /**< a TLS handshake, which has a shorter time */
    KW_HTTP_WAITING,  /**< for a request line */
    KW_HTTP_AT_WORK,  /**< receiving the rest, or sending */
};

/** One connection; part of its owner's structure. */
struct kw_http_peer {
    int fd;
    _Atomic uint64_t phase_ns; /**< kw_now_ns when its phase began */
    _Atomic unsigned phase;    /**< enum kw_http_phase */
    /* the watch's own */
    uint64_t id;
    uint64_t nudge_ns;    /* next time to wake the server for a half-closed connection; 0: whole */
    uint64_t interval_ns; /* to the nudge after that */
    struct kw_http_peer *prev, *next;
};

/** A phase begins now; on the thread that serves the connection. */
static inline void kw_http_peer_phase(struct kw_http_peer *peer, enum kw_http_phase phase)
{
    atomic_store_explicit(&peer->phase_ns, kw_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&peer->phase, phase, memory_order_release);
}

/** Whether a connection is in a phase. */
static inline bool kw_http_peer_is(const struct kw_http_peer *peer, enum kw_http_phase phase)
{
    return atomic_load_explicit(&peer->phase, memory_order_acquire) == phase;
}

/**
 * Starts the watching thread.
 * @param timeout_s longest any phase may last.
 * @param tick called once a second on the thread, connections or not; NULL: nothing.
 * @return 0 or -errno.
 */
int kw_http_watch_start(unsigned timeout_s, void (*tick)(void *user), void *user,
                        struct kw_http_watch **ret);

/** Ends the thread; no peer may be left. */
void kw_http_watch_free(struct kw_http_watch **watch);

/** Begins to watch a connection. `peer->fd` stays open until it is removed. @return 0 or -errno. */
int kw_http_watch_add(struct kw_http_watch *watch, struct kw_http_peer *peer);
void kw_http_watch_remove(struct kw_http_watch *watch, struct kw_http_peer *peer);

/**
 * Keeps a socket that was shut down for writing open for a moment and swallows what the client
 * still sends: closing with unread bytes makes the kernel reset the connection, and the client
 * loses the answer that says why. `fd` is duplicated.
 */
void kw_http_watch_linger(struct kw_http_watch *watch, int fd);

/** From now on connections that have waited for a request for half a second are closed: by then
 * whoever is at it has asked, and a request that arrives with the end of a connection is lost. */
void kw_http_watch_drain(struct kw_http_watch *watch);

/** Shuts down every connection, and goes on waking the server until it has closed them. */
void kw_http_watch_shut(struct kw_http_watch *watch);
