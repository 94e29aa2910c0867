/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the API server is and who we are there: from a kubeconfig or from a pod's service account.
 *
 * A kubeconfig is written by many tools and edited by hand, so every fault is reported as
 * FILE:LINE: KEY: cause. What would change who we are or how far we trust the server (exec and
 * auth-provider plug-ins, impersonation, a proxy, insecure-skip-tls-verify) and is not supported is
 * refused by name: passing over it would connect as somebody else than the operator wrote. Keys
 * that change nothing (preferences, extensions) are passed over.
 *
 * As kubectl does: inline data win over files; relative paths are relative to the kubeconfig's
 * folder; credentials are used over TLS only, so that a plain http server ("kubectl proxy") gets
 * none.
 *
 * The HTTP client takes a Basic password from a file only; an inline one is put into an anonymous
 * file, which it reads through /proc/self/fd. No value of a secret key is ever part of an error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/kube_impl.h"
#include "common/num.h"
#include "common/yaml.h"

/* kubectl accepts more; a configuration with hundreds of clusters and inline certificates has some
 * 1 MiB. */
#define KUBECONFIG_MAX_BYTES (8u << 20)
#define SECRETS_DIR          "/var/run/secrets/kubernetes.io/serviceaccount"

/* What the helpers below need to report a fault. */
struct reader {
    const char *path;
    struct kw_err *err;
};

static int fault(const struct reader *reader, unsigned line, const char *key, const char *cause)
{
    (void)kw_err_set(reader->err, -EINVAL, "%s:%u: %s: %s", reader->path, line, key, cause);
    return -EINVAL;
}

static void free_secret(char **text)
{
    if (*text != NULL)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

void kw_kube_target_free(struct kw_kube_target *target)
{
    free(target->server);
    free(target->server_name);
    free(target->ca_file);
    free(target->ca_pem);
    free(target->cert_file);
    free(target->cert_pem);
    free(target->key_file);
    free_secret(&target->key_pem);
    free_secret(&target->token);
    free(target->token_file);
    free(target->username);
    if (target->password_fd >= 0)
        (void)close(target->password_fd);
    *target = KW_KUBE_TARGET_EMPTY;
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* @param out room for three bytes for each four of `text`. @return 0 or -EINVAL */
static int base64_decode(const char *text, char *out, size_t *ret_len)
{
    uint32_t bits = 0;
    unsigned digits = 0, padding = 0;
    size_t len = 0;

    for (const char *c = text; *c != '\0'; c++) {
        int digit = *c == '=' ? 0 : base64_digit(*c);
        if (*c == '\r' || *c == '\n')
            continue;
        padding += *c == '=';
        /* nothing follows padding, and the first two of four are never padding */
        if (digit < 0 || padding > 2 || (padding > 0 && (*c != '=' || digits < 2)))
            return -EINVAL;
        bits = bits << 6 | (uint32_t)digit;
        digits = (digits + 1) % 4;
        if (digits == 0) {
            out[len++] = (char)(bits >> 16 & 0xff);
            out[len++] = (char)(bits >> 8 & 0xff);
            out[len++] = (char)(bits & 0xff);
        }
    }
    /* bits that padding leaves over are zero, or two texts would mean the same bytes */
    if (digits != 0 || (padding > 0 && (bits & (padding == 1 ? 0xffu : 0xffffu)) != 0))
        return -EINVAL;
    *ret_len = len - padding;
    return 0;
}

int kw_kube_base64(const char *text, char **ret, size_t *ret_len)
{
    size_t size = strlen(text) / 4 * 3 + 4;
    char *out = calloc(1, size);
    size_t len = 0;

    if (out == NULL)
        return -ENOMEM;
    int r = base64_decode(text, out, &len);
    if (r < 0) {
        explicit_bzero(out, size); /* what was decoded may be of a key */
        free(out);
        return r;
    }
    out[len] = '\0';
    *ret = out;
    *ret_len = len;
    return 0;
}

/* Line of a key, or of the map where the key is absent. */
static unsigned line_of(const struct kw_yaml *map, const char *key)
{
    for (size_t i = 0; map->type == KW_YAML_MAP && i < map->n; i++)
        if (strcmp(map->keys[i], key) == 0)
            return map->key_lines[i];
    return map->line;
}

/* Text of a key. @param ret NULL where absent, null or empty. @return 0; -EINVAL no scalar. */
static int text_of(const struct reader *reader, const struct kw_yaml *map, const char *key,
                   const char **ret)
{
    const struct kw_yaml *value = kw_yaml_get(map, key);

    *ret = NULL;
    if (value == NULL)
        return 0;
    if (value->type != KW_YAML_SCALAR)
        return fault(reader, line_of(map, key), key, "must be a text");
    if (!value->null && value->text[0] != '\0')
        *ret = value->text;
    return 0;
}

static int copy_of(const struct reader *reader, const struct kw_yaml *map, const char *key,
                   char **ret)
{
    const char *text;
    int r = text_of(reader, map, key, &text);

    if (r < 0 || text == NULL)
        return r;
    *ret = strdup(text);
    return *ret != NULL ? 0 : -ENOMEM;
}

/* A path, made absolute or relative to where we are; it must be readable now. */
static int path_of(const struct reader *reader, const struct kw_yaml *map, const char *key,
                   char **ret)
{
    const char *slash = strrchr(reader->path, '/');
    kw_cleanup_free char *full = NULL;
    const char *text;
    int r = text_of(reader, map, key, &text);

    if (r < 0 || text == NULL)
        return r;
    int dir_len = text[0] == '/' || slash == NULL ? 0 : (int)(slash - reader->path + 1);
    if (asprintf(&full, "%.*s%s", dir_len, reader->path, text) < 0) {
        full = NULL;
        return -ENOMEM;
    }
    if (access(full, R_OK) < 0) {
        int code = errno;
        return kw_err_set(reader->err, -EINVAL, "%s:%u: %s: %s: %s", reader->path,
                          line_of(map, key), key, full, kw_errno_text(code));
    }
    *ret = KW_TAKE_PTR(full);
    return 0;
}

/* KEY-data in base64, else the file named by KEY. */
static int pem_of(const struct reader *reader, const struct kw_yaml *map, const char *key,
                  char **ret_pem, char **ret_file)
{
    char data_key[40];
    const char *text;
    size_t len;

    (void)snprintf(data_key, sizeof(data_key), "%s-data", key);
    int r = text_of(reader, map, data_key, &text);
    if (r < 0)
        return r;
    if (text == NULL)
        return path_of(reader, map, key, ret_file);
    r = kw_kube_base64(text, ret_pem, &len);
    if (r == -EINVAL)
        return fault(reader, line_of(map, data_key), data_key, "not base64");
    if (r < 0)
        return r;
    if (strlen(*ret_pem) != len || strstr(*ret_pem, "-----BEGIN ") == NULL)
        return fault(reader, line_of(map, data_key), data_key, "not PEM");
    return 0;
}

/* Refuses keys that must not be passed over. */
static int refuse(const struct reader *reader, const struct kw_yaml *map,
                  const char *const keys[][2], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct kw_yaml *value = kw_yaml_get(map, keys[i][0]);
        bool empty =
            value == NULL ||
            (value->type == KW_YAML_SCALAR ? value->null || value->text[0] == '\0' : value->n == 0);
        if (!empty)
            return fault(reader, line_of(map, keys[i][0]), keys[i][0], keys[i][1]);
    }
    return 0;
}

/* The map `inner` of the entry called `name` in the list `outer`. */
static int entry_of(const struct reader *reader, const struct kw_yaml *doc, const char *outer,
                    const char *inner, const char *name, const struct kw_yaml **ret)
{
    const struct kw_yaml *list = kw_yaml_get(doc, outer);

    if (list != NULL && list->type != KW_YAML_LIST && !(list->type == KW_YAML_SCALAR && list->null))
        return fault(reader, line_of(doc, outer), outer, "must be a list");
    for (size_t i = 0; list != NULL && i < list->n; i++) {
        const struct kw_yaml *entry = &list->children[i];
        const char *entry_name = kw_yaml_text(entry, "name");
        if (entry_name == NULL || strcmp(entry_name, name) != 0)
            continue;
        const struct kw_yaml *map = kw_yaml_get(entry, inner);
        if (map == NULL || (map->type == KW_YAML_SCALAR && map->null))
            return fault(reader, entry->line, inner, "missing");
        if (map->type != KW_YAML_MAP)
            return fault(reader, map->line, inner, "must be a map");
        *ret = map;
        return 0;
    }
    (void)kw_err_set(reader->err, -EINVAL, "%s:%u: %s: no entry is called '%s'", reader->path,
                     line_of(doc, outer), outer, name);
    return -EINVAL;
}

static int read_server(const struct reader *reader, const struct kw_yaml *cluster,
                       struct kw_kube_target *target)
{
    int r = copy_of(reader, cluster, "server", &target->server);
    unsigned line = line_of(cluster, "server");

    if (r < 0)
        return r;
    if (target->server == NULL)
        return fault(reader, line, "server", "missing");
    target->tls = strncmp(target->server, "https://", 8) == 0;
    const char *rest = target->tls                                  ? target->server + 8
                       : strncmp(target->server, "http://", 7) == 0 ? target->server + 7
                                                                    : NULL;
    if (rest == NULL)
        return fault(reader, line, "server", "must begin with https:// or http://");
    if (strchr(rest, '@') != NULL)
        return fault(reader, line, "server", "credentials in a URL are refused");
    if (rest[0] == '\0' || rest[0] == '/' || rest[0] == ':')
        return fault(reader, line, "server", "has no host");
    for (const char *c = rest; *c != '\0'; c++)
        if (*c == '?' || *c == '#' || (unsigned char)*c <= ' ' || *c == 0x7f)
            return fault(reader, line, "server", "must be scheme, host, port and path only");
    for (size_t len = strlen(target->server); target->server[len - 1] == '/'; len--)
        target->server[len - 1] = '\0';
    return 0;
}

static int read_cluster(const struct reader *reader, const struct kw_yaml *cluster,
                        struct kw_kube_target *target)
{
    static const char *const refused[][2] = {
        {"proxy-url", "a proxy to the API server is not supported"},
    };
    const char *insecure = NULL;
    bool skip = false;
    int r = read_server(reader, cluster, target);

    if (r == 0)
        r = refuse(reader, cluster, refused, KW_ARRAY_SIZE(refused));
    if (r == 0)
        r = text_of(reader, cluster, "insecure-skip-tls-verify", &insecure);
    if (r < 0)
        return r;
    if (insecure != NULL && (kw_parse_bool(insecure, &skip) < 0 || skip))
        return fault(reader, line_of(cluster, "insecure-skip-tls-verify"),
                     "insecure-skip-tls-verify",
                     "refused: the server's certificate is always verified; give its CA as "
                     "certificate-authority, and its name as tls-server-name where it differs");
    r = pem_of(reader, cluster, "certificate-authority", &target->ca_pem, &target->ca_file);
    return r < 0 ? r : copy_of(reader, cluster, "tls-server-name", &target->server_name);
}

/* @param password NULL: "" */
static int hide_password(const char *password, int *ret_fd)
{
    kw_cleanup_close int fd = memfd_create("kubeconfig-password", MFD_CLOEXEC);
    size_t len = password != NULL ? strlen(password) : 0;

    if (fd < 0)
        return -errno;
    if (len > 0 && write(fd, password, len) != (ssize_t)len)
        return -EIO;
    *ret_fd = KW_TAKE_FD(fd);
    return 0;
}

static int read_user(const struct reader *reader, const struct kw_yaml *user,
                     struct kw_kube_target *target)
{
    static const char *const refused[][2] = {
        {"exec", "credential plug-ins are not supported; use a token, tokenFile or a client "
                 "certificate"},
        {"auth-provider", "auth providers are not supported; use a token, tokenFile or a client "
                          "certificate"},
        {"as", "impersonation is not supported"},
        {"as-uid", "impersonation is not supported"},
        {"as-groups", "impersonation is not supported"},
        {"as-user-extra", "impersonation is not supported"},
    };
    const char *password = NULL;
    int r = refuse(reader, user, refused, KW_ARRAY_SIZE(refused));

    if (r == 0)
        r = pem_of(reader, user, "client-certificate", &target->cert_pem, &target->cert_file);
    if (r == 0)
        r = pem_of(reader, user, "client-key", &target->key_pem, &target->key_file);
    if (r == 0)
        r = copy_of(reader, user, "token", &target->token);
    if (r == 0)
        r = path_of(reader, user, "tokenFile", &target->token_file);
    if (r == 0)
        r = copy_of(reader, user, "username", &target->username);
    if (r == 0)
        r = text_of(reader, user, "password", &password);
    if (r < 0)
        return r;
    bool cert = target->cert_pem != NULL || target->cert_file != NULL;
    bool key = target->key_pem != NULL || target->key_file != NULL;
    if (cert != key)
        return fault(reader, user->line, cert ? "client-key" : "client-certificate",
                     "missing; certificate and key go together");
    if (target->username == NULL)
        return 0;
    if (target->token != NULL || target->token_file != NULL)
        return fault(reader, line_of(user, "username"), "username",
                     "not beside a token: give one of the two");
    r = hide_password(password, &target->password_fd);
    return r < 0 ? kw_err_set(reader->err, r, "%s: password: %s", reader->path, kw_errno_text(r))
                 : 0;
}

/* Follows context, cluster and user from the document into `target`. */
static int follow(const struct reader *reader, const struct kw_yaml *doc, const char *context,
                  struct kw_kube_target *target)
{
    const struct kw_yaml *map = NULL;
    const char *cluster = NULL, *user = NULL;
    int r;

    if (doc->type != KW_YAML_MAP)
        return fault(reader, doc->line, "kubeconfig", "must be a map");
    if (context == NULL) {
        r = text_of(reader, doc, "current-context", &context);
        if (r < 0)
            return r;
        if (context == NULL)
            return fault(reader, line_of(doc, "current-context"), "current-context",
                         "missing; name a context");
    }
    r = entry_of(reader, doc, "contexts", "context", context, &map);
    if (r < 0)
        return r;
    r = text_of(reader, map, "cluster", &cluster);
    if (r == 0)
        r = text_of(reader, map, "user", &user);
    if (r < 0)
        return r;
    if (cluster == NULL)
        return fault(reader, map->line, "cluster", "missing");
    r = entry_of(reader, doc, "clusters", "cluster", cluster, &map);
    if (r == 0)
        r = read_cluster(reader, map, target);
    if (r < 0 || user == NULL || !target->tls)
        return r;
    r = entry_of(reader, doc, "users", "user", user, &map);
    return r < 0 ? r : read_user(reader, map, target);
}

int kw_kube_target_parse(const char *path, const char *bytes, size_t len, const char *context,
                         struct kw_kube_target *ret, struct kw_err *err)
{
    struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    kw_cleanup(kw_yaml_free) struct kw_yaml *doc = NULL;
    const struct reader reader = {.path = path, .err = err};
    int r = kw_yaml_parse(path, bytes, len, &doc, err);

    if (r == 0)
        r = follow(&reader, doc, context, &target);
    if (r < 0) {
        kw_kube_target_free(&target);
        if (r == -ENOMEM)
            (void)kw_err_set(err, r, "%s: out of memory", path);
        return r;
    }
    *ret = target;
    return 0;
}

static int load_kubeconfig(const struct kw_kube_conf *conf, struct kw_kube_target *ret,
                           struct kw_err *err)
{
    kw_cleanup(free_secret) char *bytes = NULL;
    size_t len = 0;
    int r = kw_file_slurp(conf->kubeconfig, KUBECONFIG_MAX_BYTES, &bytes, &len);

    if (r < 0)
        return kw_err_set(err, r, "kubeconfig %s: %s", conf->kubeconfig, kw_errno_text(r));
    return kw_kube_target_parse(conf->kubeconfig, bytes, len, conf->context, ret, err);
}

/* A file of the service account's folder. */
static int secret_file(const char *dir, const char *name, char **ret, struct kw_err *err)
{
    if (asprintf(ret, "%s/%s", dir, name) < 0) {
        *ret = NULL;
        return kw_err_set(err, -ENOMEM, "service account: out of memory");
    }
    if (access(*ret, R_OK) == 0)
        return 0;
    int code = errno;
    return kw_err_set(err, -code, "in a cluster, but %s: %s", *ret, kw_errno_text(code));
}

static int load_service_account(const struct kw_kube_conf *conf, struct kw_kube_target *ret,
                                struct kw_err *err)
{
    struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    const char *host = conf->host != NULL ? conf->host : getenv("KUBERNETES_SERVICE_HOST");
    const char *port = conf->port != NULL ? conf->port : getenv("KUBERNETES_SERVICE_PORT");
    const char *dir = conf->secrets_dir != NULL ? conf->secrets_dir : SECRETS_DIR;
    uint64_t number;

    if (host == NULL || host[0] == '\0' || port == NULL || port[0] == '\0')
        return kw_err_set(err, -ENOENT,
                          "no kubeconfig given, and not in a cluster "
                          "(KUBERNETES_SERVICE_HOST is not set)");
    if (kw_parse_u64(port, 1, UINT16_MAX, &number) < 0)
        return kw_err_set(err, -EINVAL, "KUBERNETES_SERVICE_PORT: not a port");
    if (strpbrk(host, "/@?# \t\r\n") != NULL)
        return kw_err_set(err, -EINVAL, "KUBERNETES_SERVICE_HOST: not a host");
    bool v6 = strchr(host, ':') != NULL;
    if (asprintf(&target.server, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port) <
        0) {
        target.server = NULL;
        return kw_err_set(err, -ENOMEM, "service account: out of memory");
    }
    target.tls = true;
    int r = secret_file(dir, "token", &target.token_file, err);
    if (r == 0)
        r = secret_file(dir, "ca.crt", &target.ca_file, err);
    if (r < 0)
        kw_kube_target_free(&target);
    else
        *ret = target;
    return r;
}

int kw_kube_target_load(const struct kw_kube_conf *conf, struct kw_kube_target *ret,
                        struct kw_err *err)
{
    return conf->kubeconfig != NULL ? load_kubeconfig(conf, ret, err)
                                    : load_service_account(conf, ret, err);
}
