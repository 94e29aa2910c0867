/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis URLs. An operator may well write a password into one: it is refused (a URL ends up in
 * process titles, unit files and logs), and the refusal must not repeat it. A password may hold
 * '@', '/' or ':', so everything before the last '@' counts as user information, and errors name
 * the part that is wrong, never its text.
 *
 * Sentinels have no scheme of their own that is registered; redis+sentinel://HOST,HOST/MASTER/DB is
 * what several clients take (redis-sentinel-url for Python among them), with a second s for TLS as
 * in rediss://.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/num.h"
#include "common/redis_impl.h"

#define DEFAULT_PORT  6379
#define SENTINEL_PORT 26379
/* Redis counts its databases with an int; what a server really has, SELECT tells. */
#define MAX_DB        INT32_MAX

static const struct scheme {
    const char *prefix;
    bool tls, sentinel;
} schemes[] = {
    {"redis://", false, false},
    {"rediss://", true, false},
    {"redis+sentinel://", false, true},
    {"rediss+sentinel://", true, true},
};

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
static int parse_host(const char *text, size_t len, uint16_t default_port, struct kw_redis_url *url,
                      struct kw_err *err)
{
    const char *end = text + len;
    const char *host = text;
    const char *host_end;
    const char *port = NULL;
    uint64_t number = default_port;

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
    if (host_end - host > KW_REDIS_MAX_NAME_BYTES)
        return bad(err, "host", "longer than 255 bytes");
    if (port != NULL && kw_parse_u64_span(port, (size_t)(end - port), 1, UINT16_MAX, &number) < 0)
        return bad(err, "port", "not a number from 1 to 65535");
    struct kw_redis_host *added = &url->hosts[url->n_hosts];
    added->name = strndup(host, (size_t)(host_end - host));
    if (added->name == NULL)
        return -ENOMEM;
    added->port = (uint16_t)number;
    url->n_hosts++;
    return 0;
}

/* "host" or, for sentinels, "host,host:port" in exactly `len` bytes. */
static int parse_hosts(const char *text, size_t len, const struct scheme *scheme,
                       struct kw_redis_url *url, struct kw_err *err)
{
    const char *end = text + len;
    size_t n = 1;
    int r = 0;

    for (const char *c = text; c < end; c++)
        n += *c == ',';
    if (n > 1 && !scheme->sentinel)
        return bad(err, "host", "several are for redis+sentinel:// only");
    if (n > KW_REDIS_MAX_HOSTS)
        return bad(err, "host", "more than 16 sentinels");
    url->hosts = calloc(n, sizeof(*url->hosts));
    if (url->hosts == NULL)
        return -ENOMEM;
    while (r == 0 && text <= end) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma != NULL ? comma : end;
        r = parse_host(text, (size_t)(stop - text), scheme->sentinel ? SENTINEL_PORT : DEFAULT_PORT,
                       url, err);
        text = stop + 1;
    }
    return r;
}

/* What follows the first slash: "DB", or "MASTER" and "MASTER/DB". */
static int parse_path(const char *path, const struct scheme *scheme, struct kw_redis_url *url,
                      struct kw_err *err)
{
    if (scheme->sentinel) {
        size_t len = strcspn(path, "/");
        if (len == 0)
            return bad(err, "master", "the name that the sentinels know it by is missing");
        if (len > KW_REDIS_MAX_NAME_BYTES)
            return bad(err, "master", "longer than 255 bytes");
        url->master = strndup(path, len);
        if (url->master == NULL)
            return -ENOMEM;
        path += len + (path[len] == '/');
    }
    return path[0] != '\0' ? parse_db(path, url, err) : 0;
}

static int parse_tcp(const char *rest, const struct scheme *scheme, struct kw_redis_url *url,
                     struct kw_err *err)
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
        return bad(err, "query", "none is known for this scheme");
    slash = strchrnul(rest, '/');
    url->tls = scheme->tls;
    int r = parse_hosts(rest, (size_t)(slash - rest), scheme, url, err);
    return r == 0 ? parse_path(slash[0] == '/' ? slash + 1 : slash, scheme, url, err) : r;
}

int kw_redis_url_parse(const char *text, struct kw_redis_url *ret, struct kw_err *err)
{
    static const char unix_prefix[] = "unix://";
    struct kw_redis_url url = {0};
    int r;

    if (text == NULL)
        return bad(err, "scheme", "no URL given");
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return bad(err, "text", "has a blank or a control character");
    const struct scheme *scheme = NULL;
    for (size_t i = 0; i < KW_ARRAY_SIZE(schemes) && scheme == NULL; i++) {
        if (strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            scheme = &schemes[i];
    }
    if (scheme != NULL)
        r = parse_tcp(text + strlen(scheme->prefix), scheme, &url, err);
    else if (strncmp(text, unix_prefix, strlen(unix_prefix)) == 0)
        r = parse_unix(text + strlen(unix_prefix), &url, err);
    else
        r = bad(err, "scheme",
                "none of redis://, rediss://, redis+sentinel://, rediss+sentinel:// and unix://");
    if (r < 0)
        kw_redis_url_free(&url);
    else
        *ret = url;
    return r;
}

int kw_redis_check_url(const char *text, struct kw_err *err)
{
    struct kw_redis_url url = {0};
    int rc = kw_redis_url_parse(text, &url, err);

    kw_redis_url_free(&url);
    return rc;
}

void kw_redis_url_free(struct kw_redis_url *url)
{
    for (size_t i = 0; i < url->n_hosts; i++)
        free(url->hosts[i].name);
    free(url->hosts);
    free(url->path);
    free(url->user);
    free(url->master);
    *url = (struct kw_redis_url){0};
}

void kw_redis_host_text(const struct kw_redis_host *host, char *out, size_t size)
{
    bool v6 = strchr(host->name, ':') != NULL;

    (void)snprintf(out, size, "%s%s%s:%u", v6 ? "[" : "", host->name, v6 ? "]" : "", host->port);
}

static const char *scheme_of(const struct kw_redis_url *url)
{
    for (size_t i = 0; i < KW_ARRAY_SIZE(schemes); i++) {
        if (schemes[i].tls == url->tls && schemes[i].sentinel == (url->master != NULL))
            return schemes[i].prefix;
    }
    return ""; /* the table has all four */
}

char *kw_redis_url_name(const struct kw_redis_url *url)
{
    kw_cleanup(kw_buf_free) struct kw_buf name = {0};

    if (url->path != NULL) {
        (void)kw_buf_addf(&name, "unix://%s", url->path);
        if (url->db != 0)
            (void)kw_buf_addf(&name, "?db=%u", url->db);
    } else {
        (void)kw_buf_adds(&name, scheme_of(url));
        for (size_t i = 0; i < url->n_hosts; i++) {
            char host[KW_REDIS_MAX_NAME_BYTES + 16];
            kw_redis_host_text(&url->hosts[i], host, sizeof(host));
            (void)kw_buf_addf(&name, "%s%s", i > 0 ? "," : "", host);
        }
        if (url->master != NULL)
            (void)kw_buf_addf(&name, "/%s", url->master);
        if (url->db != 0)
            (void)kw_buf_addf(&name, "/%u", url->db);
    }
    return name.failed ? NULL : KW_TAKE_PTR(name.data);
}
