/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_route.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"

int kw_http_routes_copy(const struct kw_http_route *routes, size_t n, struct kw_http_route **ret)
{
    struct kw_http_route *copy = calloc(n + 1, sizeof(*copy));

    if (copy == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        copy[i] = routes[i];
        copy[i].method = strdup(routes[i].method);
        copy[i].path = strdup(routes[i].path);
        if (copy[i].method == NULL || copy[i].path == NULL) {
            kw_http_routes_free(&copy, i + 1);
            return -ENOMEM;
        }
    }
    *ret = copy;
    return 0;
}

void kw_http_routes_free(struct kw_http_route **routes, size_t n)
{
    for (size_t i = 0; *routes != NULL && i < n; i++) {
        free((void *)(*routes)[i].method);
        free((void *)(*routes)[i].path);
    }
    free(*routes);
    *routes = NULL;
}

static bool path_matches(const struct kw_http_route *route, const char *path)
{
    size_t len = strlen(route->path);

    if (len > 0 && route->path[len - 1] == '*')
        return strncmp(route->path, path, len - 1) == 0;
    return strcmp(route->path, path) == 0;
}

static bool method_matches(const struct kw_http_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

static void add_method(struct kw_http_allow *allow, const char *method)
{
    size_t len = strlen(allow->text);

    if (strstr(allow->text, method) == NULL)
        (void)snprintf(allow->text + len, sizeof(allow->text) - len, "%s%s", len > 0 ? ", " : "",
                       method);
}

unsigned kw_http_routes_find(const struct kw_http_route *routes, size_t n, const char *method,
                             const char *path, const struct kw_http_route **ret_route,
                             struct kw_http_allow *ret_allow)
{
    unsigned status = 404;

    *ret_route = NULL;
    ret_allow->text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (!path_matches(&routes[i], path))
            continue;
        if (method_matches(&routes[i], method)) {
            *ret_route = &routes[i];
            return 200;
        }
        status = 405;
        add_method(ret_allow, routes[i].method);
        if (strcmp(routes[i].method, "GET") == 0)
            add_method(ret_allow, "HEAD");
    }
    return status;
}

bool kw_http_is_probe(const char *path)
{
    return strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0;
}

const char *kw_http_path_of(const char *target)
{
    const char *slash;

    if (strncasecmp(target, "http://", 7) != 0)
        return target;
    slash = strchr(target + 7, '/');
    return slash == NULL ? "/" : slash;
}

const char *kw_http_refusal_text(unsigned status)
{
    switch (status) {
    case 400: return "400 malformed request\n";
    case 403: return "403 a client certificate is needed here\n";
    case 404: return "404 no such path\n";
    case 405: return "405 method not allowed here\n";
    case 411: return "411 a body needs a Content-Length\n";
    case 413: return "413 the body is too large\n";
    case 415: return "415 the body must not be compressed\n";
    case 431: return "431 the request head is too large\n";
    case 503: return "503 too many bodies at once\n";
    case 501: return "501 transfer encoding not supported\n";
    default: return "500 out of memory\n";
    }
}
