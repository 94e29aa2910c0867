/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_client_conf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/num.h"

#define CONNECT_TIMEOUT_MS 5000u
#define TIMEOUT_MS         30000u
#define MAX_BODY_BYTES     ((size_t)64 << 20)

/** Parts of a URL; spans point into the text. */
struct url {
    const char *scheme, *host, *prefix;
    int scheme_len, host_len, prefix_len; /* int: they are printed with "%.*s" */
    uint64_t port;
};

/* Length up to the first of these bytes, or to the end. */
static int span_to(const char *text, const char *stop)
{
    return (int)strcspn(text, stop);
}

/* Reads "scheme://host[:port][/prefix]". @return 0 or -EINVAL. */
static int parse_url(const char *text, struct url *ret)
{
    struct url url = {.scheme = text, .scheme_len = span_to(text, ":")};
    const char *p = text + url.scheme_len;
    bool https = url.scheme_len == 5 && strncasecmp(text, "https", 5) == 0;

    if (strlen(text) > 2048 || strncmp(p, "://", 3) != 0)
        return -EINVAL;
    if (!https && (url.scheme_len != 4 || strncasecmp(text, "http", 4) != 0))
        return -EINVAL;
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7F || strchr("@?#\\\"", *c) != NULL)
            return -EINVAL;
    }
    url.host = p + 3;
    url.host_len = *url.host == '[' ? span_to(url.host, "]") + 1 : span_to(url.host, ":/");
    if (url.host_len < 1 || url.host_len > (int)strlen(url.host))
        return -EINVAL;
    p = url.host + url.host_len;
    url.port = https ? 443 : 80;
    if (*p == ':') {
        size_t digits = strcspn(p + 1, "/");

        if (kw_parse_u64_span(p + 1, digits, 1, UINT16_MAX, &url.port) < 0)
            return -EINVAL;
        p += 1 + digits;
    }
    if (*p != '\0' && *p != '/')
        return -EINVAL;
    url.prefix = p;
    url.prefix_len = (int)strlen(p);
    while (url.prefix_len > 0 && p[url.prefix_len - 1] == '/')
        url.prefix_len--;
    *ret = url;
    return 0;
}

static int read_url(const char *text, struct url *ret, struct kw_err *err)
{
    /* a bad text is not repeated: it may hold credentials */
    if (text != NULL && parse_url(text, ret) == 0)
        return 0;
    (void)kw_err_set(err, -EINVAL,
                     "bad server URL: expected http://HOST[:PORT][/PATH] or https://..., "
                     "without user name, password or query");
    return -EINVAL;
}

int kw_http_client_check_url(const char *text, struct kw_err *err)
{
    struct url url;

    return read_url(text, &url, err);
}

static bool is_loopback(const struct url *url)
{
    static const char *const names[] = {"localhost", "[::1]"};

    for (size_t i = 0; i < KW_ARRAY_SIZE(names); i++) {
        if ((size_t)url->host_len == strlen(names[i]) &&
            strncasecmp(url->host, names[i], strlen(names[i])) == 0)
            return true;
    }
    return strncmp(url->host, "127.", 4) == 0;
}

/* A name that can stand in a URL as its host. */
static bool is_host(const char *name)
{
    return *name != '\0' && strpbrk(name, "/:@?#\\[] \t\r\n") == NULL;
}

/* `out` is NULL afterwards where memory ran out. */
__attribute__((format(printf, 2, 3))) static int print_text(char **out, const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vasprintf(out, format, args);
    va_end(args);
    if (len < 0)
        *out = NULL;
    return len < 0 ? -ENOMEM : 0;
}

static int set_url(struct kw_http_client_settings *settings, const struct kw_http_client_conf *conf,
                   struct kw_err *err)
{
    const char *name = conf->server_name;
    struct url url;
    int rc = read_url(conf->base_url, &url, err);

    if (rc < 0)
        return rc;
    if (name != NULL && !is_host(name))
        return kw_err_set(err, -EINVAL, "bad server name '%s'", name);
    settings->loopback = is_loopback(&url);
    rc = print_text(&settings->base_url, "%.*s://%.*s:%u%.*s", url.scheme_len, url.scheme,
                    name == NULL ? url.host_len : (int)strlen(name), name == NULL ? url.host : name,
                    (unsigned)url.port, url.prefix_len, url.prefix);
    if (rc == 0 && name != NULL)
        rc = print_text(&settings->connect_to, "%s:%u:%.*s:%u", name, (unsigned)url.port,
                        url.host_len, url.host, (unsigned)url.port);
    if (rc == 0 && name != NULL)
        rc = print_text(&settings->host_header, "%.*s:%u", url.host_len, url.host,
                        (unsigned)url.port);
    return rc < 0 ? kw_err_set(err, rc, "out of memory") : 0;
}

static int copy_text(char **out, const char *text)
{
    if (text == NULL)
        return 0;
    *out = strdup(text);
    return *out == NULL ? -ENOMEM : 0;
}

static int copy_texts(struct kw_http_client_settings *settings,
                      const struct kw_http_client_conf *conf)
{
    int rc = copy_text(&settings->unix_socket, conf->unix_socket);

    rc |= copy_text(&settings->ca_pem, conf->ca_pem);
    rc |= copy_text(&settings->ca_file, conf->ca_pem == NULL ? conf->ca_file : NULL);
    rc |= copy_text(&settings->cert_pem, conf->cert_pem);
    rc |= copy_text(&settings->cert_file, conf->cert_pem == NULL ? conf->cert_file : NULL);
    rc |= copy_text(&settings->key_pem, conf->key_pem);
    rc |= copy_text(&settings->key_file, conf->key_pem == NULL ? conf->key_file : NULL);
    rc |= copy_text(&settings->username, conf->username);
    return rc == 0 ? 0 : -ENOMEM;
}

static int check_file(const char *path, const char *what, struct kw_err *err)
{
    int rc;

    if (path == NULL || access(path, R_OK) == 0)
        return 0;
    rc = -errno;
    return kw_err_set(err, rc, "%s %s: %s", what, path, kw_errno_text(rc));
}

static int fill(struct kw_http_client_settings *settings, const struct kw_http_client_conf *conf,
                struct kw_err *err)
{
    int rc;

    settings->connect_timeout_ms =
        conf->connect_timeout_ms == 0 ? CONNECT_TIMEOUT_MS : conf->connect_timeout_ms;
    settings->timeout_ms = conf->timeout_ms == 0 ? TIMEOUT_MS : conf->timeout_ms;
    settings->cancel_fd = conf->cancel_fd;
    settings->max_body_bytes = conf->max_body_bytes == 0 ? MAX_BODY_BYTES : conf->max_body_bytes;
    if (copy_texts(settings, conf) < 0)
        return kw_err_set(err, -ENOMEM, "out of memory");
    rc = set_url(settings, conf, err);
    if (rc == 0)
        rc = check_file(settings->ca_file, "CA file", err);
    if (rc == 0)
        rc = check_file(settings->cert_file, "client certificate", err);
    if (rc == 0)
        rc = check_file(settings->key_file, "client key", err);
    if (rc == 0)
        rc = kw_http_secret_open(&settings->token, "token", conf->token, conf->token_file, err);
    if (rc == 0)
        rc = kw_http_secret_open(&settings->password, "password", NULL, conf->password_file, err);
    return rc;
}

int kw_http_client_settings_open(struct kw_http_client_settings *settings,
                                 const struct kw_http_client_conf *conf, struct kw_err *err)
{
    int rc;

    *settings = (struct kw_http_client_settings){0};
    rc = fill(settings, conf, err);
    if (rc < 0)
        kw_http_client_settings_close(settings);
    return rc;
}

void kw_http_client_settings_close(struct kw_http_client_settings *settings)
{
    free(settings->base_url);
    free(settings->host_header);
    free(settings->connect_to);
    free(settings->unix_socket);
    free(settings->ca_file);
    free(settings->ca_pem);
    free(settings->cert_file);
    free(settings->key_file);
    free(settings->cert_pem);
    kw_http_wipe(&settings->key_pem);
    free(settings->username);
    kw_http_secret_close(&settings->token);
    kw_http_secret_close(&settings->password);
    *settings = (struct kw_http_client_settings){0};
}
