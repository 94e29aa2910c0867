/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/http_server.h"

/* What the HTTP server has at hand, and its limits; for the HTTP server only. */

struct kw_http_load {
    _Atomic unsigned requests;
    _Atomic size_t body_bytes;
    _Atomic size_t kept_bytes;
    size_t max_body_bytes; /**< of all bodies together */
    _Atomic bool stopping;
    pthread_mutex_t lock; /* of bodies that give up, and with `idle` of waiting for `requests` to
                             fall to 0 */
    pthread_cond_t idle;
};

/** Checks the limits that a server is to keep. @return 0 or -EINVAL with the one that is wrong. */
int kw_http_limits_check(const struct kw_http_server_conf *conf, struct kw_err *err);

/** Bound on the bodies of all connections together, from that of one. */
size_t kw_http_limit_of_bodies(size_t max_body_bytes);

/** Starts with nothing at hand, in zeroed memory. @param max_body_bytes of all bodies together. */
void kw_http_load_init(struct kw_http_load *load, size_t max_body_bytes);
/** No request may be at hand. */
void kw_http_load_destroy(struct kw_http_load *load);

/** A request has come, or is done with. */
void kw_http_load_begin(struct kw_http_load *load);
void kw_http_load_end(struct kw_http_load *load);

/** Counts bytes of a body in, whatever is returned. @return whether all bodies stay below the
 * limit. */
bool kw_http_load_charge(struct kw_http_load *load, size_t len);
void kw_http_load_refund(struct kw_http_load *load, size_t len);
/** The last charge, of `len` bytes, was one too many. One body after the other gives up, so that of
 * two at once only one does where that is enough. @param charged for this body in all, refunded.
 * @return false where there is room by now: nothing is refunded. */
bool kw_http_load_give_up(struct kw_http_load *load, size_t len, size_t charged);

/** Counts memory that a waiting connection would keep for its next request. @return false, and
 * nothing is counted, where it is too much for one or for all: then it is to be freed. */
bool kw_http_load_keep(struct kw_http_load *load, size_t len);
/** The memory is in use again, or was freed. */
void kw_http_load_unkeep(struct kw_http_load *load, size_t len);

/** Sets `stopping`. */
void kw_http_load_stop(struct kw_http_load *load);
/** Stops, and waits until no request is at hand, at most so long. */
void kw_http_load_wait_idle(struct kw_http_load *load, uint64_t timeout_ns);
