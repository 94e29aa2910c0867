/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/http_server.h"

/* Routes of the HTTP server and what it says where none is taken; for the HTTP server only. */

/** Methods of a path, as the Allow header lists them. */
struct kw_http_allow {
    char text[64]; /**< room for GET, HEAD, POST, PUT, PATCH and DELETE */
};

/** Copies routes with their texts. @return 0 or -ENOMEM (then nothing is left). */
int kw_http_routes_copy(const struct kw_http_route *routes, size_t n, struct kw_http_route **ret);
void kw_http_routes_free(struct kw_http_route **routes, size_t n);

/**
 * The first route of a method and path.
 * @param ret_route NULL unless 200 is returned.
 * @param ret_allow written for 405.
 * @return 200, 404 or 405.
 */
unsigned kw_http_routes_find(const struct kw_http_route *routes, size_t n, const char *method,
                             const char *path, const struct kw_http_route **ret_route,
                             struct kw_http_allow *ret_allow);

/** Whether a route is one of those that the kubelet probes, without a client certificate. */
bool kw_http_is_probe(const char *path);

/** Path of a decoded target: of "http://host/path" (RFC 9112, 3.2.2) what follows the authority. */
const char *kw_http_path_of(const char *target);

/** Body of a refusal, static. */
const char *kw_http_refusal_text(unsigned status);
