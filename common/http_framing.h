/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Check of a request head for framing that two HTTP implementations could read differently. Pure;
 * for http_server.c only, which feeds it what libmicrohttpd made of the head.
 */

struct kw_http_framing {
    bool in_place;        /**< pointers tell where each line stood: see kw_http_layout_is_known */
    const char *next;     /**< where the next header line must begin, were it CR LF before */
    const char *head_end; /**< behind the empty line */
    const char *length;   /**< value of the first Content-Length or NULL */
    size_t length_len;
    unsigned hosts; /**< Host headers */
    bool chunked;
    bool foreign_encoding; /**< a Transfer-Encoding other than "chunked", or two */
    bool encoded;          /**< a Content-Encoding: the body would have to be unpacked */
    bool malformed;
};

/** Whether a raw request target can be passed on: no blank, control byte, or encoded NUL. NULL: no.
 */
bool kw_http_target_ok(const char *target);

/**
 * Whether a version of libmicrohttpd ("0.9.75") leaves the head where it received it, cut by NULs,
 * so that its layout can be checked. Only what was tried counts: with any other, honest requests
 * could be refused.
 */
bool kw_http_layout_is_known(const char *version);

/**
 * @param in_place check the layout too. False: names, values and lengths alone; the rest is left to
 * the library's strict mode.
 * @param head first byte of the request line; @param head_size bytes up to and including the empty
 * line.
 * @param target the raw request target and its length as it was before decoding.
 * @param version the protocol version, all three inside the head.
 */
void kw_http_framing_begin(struct kw_http_framing *framing, bool in_place, const char *head,
                           size_t head_size, const char *target, size_t target_len,
                           const char *version);

/** Next header in order of arrival. Key and value point into the head. */
void kw_http_framing_header(struct kw_http_framing *framing, const char *key, size_t key_len,
                            const char *value, size_t value_len);

/** @param needs_length the method carries a body (POST). @return 0, or the status to refuse with:
 * 400, 411, 415, 501. */
unsigned kw_http_framing_verdict(const struct kw_http_framing *framing, bool needs_length,
                                 bool http_1_0);
