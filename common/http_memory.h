/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/http_load.h"

/*
 * The two buffers of a connection, which keep their memory between requests as far as the load of
 * the server allows; for http_server.c only.
 */

/** Zeroed but for `load`, which outlives it. */
struct kw_http_memory {
    struct kw_http_load *load;
    struct kw_buf body;
    struct kw_buf answer;
    atomic_uint *held; /* counted down at the end of the request: its answer is someone else's */
    size_t charged;    /* bytes of the body that the load counts */
    size_t kept;       /* between requests: memory of the buffers, as the load counts it */
};

/** A request begins: both buffers are empty, and in use. */
void kw_http_memory_begin(struct kw_http_memory *memory);

/** Takes bytes of a body. A lack of memory shows in `body.failed`. @return false where all
 * bodies together are too large: this one is dropped. */
bool kw_http_memory_take(struct kw_http_memory *memory, const char *bytes, size_t len);

/** The body is not needed any more. */
void kw_http_memory_drop(struct kw_http_memory *memory);

/** The request is done with, also one that never began. */
void kw_http_memory_end(struct kw_http_memory *memory);

/** The connection ends, after kw_http_memory_end. */
void kw_http_memory_free(struct kw_http_memory *memory);
