/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_load.h"

#include <errno.h>
#include <time.h>

#include "common/clock.h"

/* Bodies of all connections together, in bodies of the largest size: a few schedulers need no more,
 * and a crowd of clients must not take the memory of the machine. */
#define BODIES_AT_ONCE 8

/* What one buffer of a waiting connection may hold on to: names of 15 000 nodes fit (0.7 MB). */
#define KEEP_BYTES ((size_t)4 << 20)

/* The same for all that wait: two buffers of eight clients that all ask for the most. */
#define KEEP_BYTES_IN_ALL (16 * KEEP_BYTES)

int kw_http_limits_check(const struct kw_http_server_conf *conf, struct kw_err *err)
{
    if (conf->threads < 1 || conf->threads > 64)
        return kw_err_set(err, -EINVAL, "HTTP server: 1 to 64 threads, not %u", conf->threads);
    if (conf->max_header_bytes < 1024 || conf->max_header_bytes > 65536)
        return kw_err_set(err, -EINVAL, "HTTP server: heads of 1 KiB to 64 KiB, not %zu bytes",
                          conf->max_header_bytes);
    if (conf->timeout_s == 0 || conf->max_connections == 0)
        return kw_err_set(err, -EINVAL, "HTTP server: time-out and connection limit must not be 0");
    return 0;
}

void kw_http_load_init(struct kw_http_load *load, size_t max_body_bytes)
{
    pthread_condattr_t monotonic;

    load->max_body_bytes = max_body_bytes;
    (void)pthread_mutex_init(&load->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&load->idle, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

void kw_http_load_destroy(struct kw_http_load *load)
{
    (void)pthread_mutex_destroy(&load->lock);
    (void)pthread_cond_destroy(&load->idle);
}

void kw_http_load_begin(struct kw_http_load *load)
{
    (void)atomic_fetch_add(&load->requests, 1);
}

void kw_http_load_end(struct kw_http_load *load)
{
    if (atomic_fetch_sub(&load->requests, 1) > 1 || !atomic_load(&load->stopping))
        return;
    (void)pthread_mutex_lock(&load->lock);
    (void)pthread_cond_broadcast(&load->idle);
    (void)pthread_mutex_unlock(&load->lock);
}

size_t kw_http_limit_of_bodies(size_t max_body_bytes)
{
    return max_body_bytes > SIZE_MAX / BODIES_AT_ONCE ? SIZE_MAX : max_body_bytes * BODIES_AT_ONCE;
}

bool kw_http_load_keep(struct kw_http_load *load, size_t len)
{
    if (len > KEEP_BYTES)
        return false;
    if (atomic_fetch_add(&load->kept_bytes, len) <= KEEP_BYTES_IN_ALL - len)
        return true;
    (void)atomic_fetch_sub(&load->kept_bytes, len);
    return false;
}

void kw_http_load_unkeep(struct kw_http_load *load, size_t len)
{
    (void)atomic_fetch_sub(&load->kept_bytes, len);
}

bool kw_http_load_charge(struct kw_http_load *load, size_t len)
{
    return atomic_fetch_add(&load->body_bytes, len) < load->max_body_bytes;
}

bool kw_http_load_give_up(struct kw_http_load *load, size_t len, size_t charged)
{
    (void)pthread_mutex_lock(&load->lock);
    bool given_up = atomic_load(&load->body_bytes) - len >= load->max_body_bytes;
    if (given_up)
        kw_http_load_refund(load, charged);
    (void)pthread_mutex_unlock(&load->lock);
    return given_up;
}

void kw_http_load_refund(struct kw_http_load *load, size_t len)
{
    (void)atomic_fetch_sub(&load->body_bytes, len);
}

void kw_http_load_stop(struct kw_http_load *load)
{
    atomic_store(&load->stopping, true);
}

void kw_http_load_wait_idle(struct kw_http_load *load, uint64_t timeout_ns)
{
    uint64_t until_ns = kw_now_ns() + timeout_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / KW_NS_PER_S),
                             .tv_nsec = (long)(until_ns % KW_NS_PER_S)};

    (void)pthread_mutex_lock(&load->lock);
    kw_http_load_stop(load);
    while (atomic_load(&load->requests) > 0) {
        if (pthread_cond_timedwait(&load->idle, &load->lock, &until) != 0)
            break;
    }
    (void)pthread_mutex_unlock(&load->lock);
}
