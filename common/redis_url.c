/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis URLs. An operator may well write a password into one: it is refused (a URL ends up in
 * process titles, unit files and logs), and the refusal must not repeat it. A password may hold
 * '@', '/' or ':', so everything before the last '@' counts as user information, and errors name
 * the part that is wrong, never its text.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/num.h"
#include "common/redis_impl.h"

#define DEFAULT_PORT 6379
/* Redis counts its databases with an int; what a server really has, SELECT tells. */
#define MAX_DB       INT32_MAX

static int bad(struct kw_err *err, const char *part, const char *cause)
{
    return kw_err_set(err, -EINVAL, "redis URL: %s: %s", part, cause);
}

static int parse_db(const char *text, struct kw_redis_url *url, struct kw_err *err)
{
    uint64_t db;

    if (kw_parse_u64(text, 0, MAX_DB, &db) < 0)
        return bad(err, "database", "not a number from 0");
    url->db = (uint32_t)db;
    return 0;
}

static int parse_unix(const char *rest, struct kw_redis_url *url, struct kw_err *err)
{
    static const char db_key[] = "?db=";
    const char *query = strchr(rest, '?');
    size_t len = query != NULL ? (size_t)(query - rest) : strlen(rest);

    if (len < 2 || rest[0] != '/')
        return bad(err, "path", "a unix socket is written unix:///path/redis.sock");
    if (len >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return bad(err, "path", "longer than a socket's name can be (107 bytes)");
    url->path = strndup(rest, len);
    if (url->path == NULL)
        return -ENOMEM;
    if (query == NULL)
        return 0;
    if (strncmp(query, db_key, sizeof(db_key) - 1) != 0)
        return bad(err, "query", "only ?db=N is known");
    return parse_db(query + sizeof(db_key) - 1, url, err);
}

/* "host", "host:port", "[v6]", "[v6]:port" in exactly `len` bytes. */
static int parse_host(const char *text, size_t len, struct kw_redis_url *url, struct kw_err *err)
{
    const char *end = text + len;
    const char *host = text;
    const char *host_end;
    const char *port = NULL;
    uint64_t number;

    if (len > 0 && text[0] == '[') {
        host++;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (host_end == NULL)
            return bad(err, "host", "no ']' after the IPv6 address");
        if (host_end + 1 < end) {
            if (host_end[1] != ':')
                return bad(err, "host", "only a port may follow the ']'");
            port = host_end + 2;
        }
    } else {
        const char *colon = memchr(text, ':', len);
        host_end = colon != NULL ? colon : end;
        if (colon != NULL) {
            port = colon + 1;
            if (memchr(port, ':', (size_t)(end - port)) != NULL)
                return bad(err, "host", "an IPv6 address is written in brackets");
        }
    }
    if (host_end == host)
        return bad(err, "host", "empty");
    if (port != NULL) {
        if (kw_parse_u64_span(port, (size_t)(end - port), 1, UINT16_MAX, &number) < 0)
            return bad(err, "port", "not a number from 1 to 65535");
        url->port = (uint16_t)number;
    }
    url->host = strndup(host, (size_t)(host_end - host));
    return url->host != NULL ? 0 : -ENOMEM;
}

static int parse_tcp(const char *rest, struct kw_redis_url *url, struct kw_err *err)
{
    const char *at = strrchr(rest, '@');
    const char *slash;

    if (at != NULL) {
        size_t len = (size_t)(at - rest);
        if (memchr(rest, ':', len) != NULL)
            return bad(err, "password",
                       "not allowed in a URL; put it into a file and name that as password file");
        if (len == 0 || memchr(rest, '/', len) != NULL || memchr(rest, '%', len) != NULL)
            return bad(err, "user", "empty, or has a '/' or '%'");
        url->user = strndup(rest, len);
        if (url->user == NULL)
            return -ENOMEM;
        rest = at + 1;
    }
    if (strchr(rest, '?') != NULL || strchr(rest, '#') != NULL)
        return bad(err, "query", "none is known for redis://");
    slash = strchrnul(rest, '/');
    url->port = DEFAULT_PORT;
    int r = parse_host(rest, (size_t)(slash - rest), url, err);
    if (r == 0 && slash[0] == '/' && slash[1] != '\0')
        r = parse_db(slash + 1, url, err);
    return r;
}

int kw_redis_url_parse(const char *text, struct kw_redis_url *ret, struct kw_err *err)
{
    struct kw_redis_url url = {0};
    int r;

    if (text == NULL)
        return bad(err, "scheme", "no URL given");
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return bad(err, "text", "has a blank or a control character");
    if (strncmp(text, "redis://", 8) == 0)
        r = parse_tcp(text + 8, &url, err);
    else if (strncmp(text, "unix://", 7) == 0)
        r = parse_unix(text + 7, &url, err);
    else if (strncmp(text, "rediss://", 9) == 0)
        r = bad(err, "scheme", "this version has no TLS to Redis; use redis:// or unix://");
    else
        r = bad(err, "scheme", "neither redis:// nor unix://");
    if (r < 0)
        kw_redis_url_free(&url);
    else
        *ret = url;
    return r;
}

void kw_redis_url_free(struct kw_redis_url *url)
{
    free(url->host);
    free(url->path);
    free(url->user);
    *url = (struct kw_redis_url){0};
}

char *kw_redis_url_name(const struct kw_redis_url *url)
{
    char db[16] = "";
    char *name;
    int n;

    if (url->path != NULL) {
        if (url->db != 0)
            (void)snprintf(db, sizeof(db), "?db=%u", url->db);
        n = asprintf(&name, "unix://%s%s", url->path, db);
    } else {
        bool v6 = strchr(url->host, ':') != NULL;
        if (url->db != 0)
            (void)snprintf(db, sizeof(db), "/%u", url->db);
        n = asprintf(&name, "redis://%s%s%s:%u%s", v6 ? "[" : "", url->host, v6 ? "]" : "",
                     url->port, db);
    }
    return n < 0 ? NULL : name;
}
