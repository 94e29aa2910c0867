/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>

#include "common/http_tls.h"
#include "common/log.h"

const struct kw_http_tls_saying kw_http_tls_sayings[] = {
    [KW_HTTP_TLS_LOADED] = {KW_LOG_INFO, "certificates in use"},
    [KW_HTTP_TLS_WARNING] = {KW_LOG_WARN, "certificates are not as they should be"},
    [KW_HTTP_TLS_FAILED] = {KW_LOG_ERROR, "new certificates are unusable; the old ones stay"},
    [KW_HTTP_TLS_REFUSED] = {KW_LOG_WARN, "client certificate refused"},
};

static bool is_set(const char *path)
{
    return path != NULL && *path != '\0';
}

int kw_http_tls_wanted(const struct kw_http_tls_conf *conf, struct kw_err *err)
{
    const struct kw_http_tls_files *files = &conf->files;

    if (is_set(files->cert) != is_set(files->key))
        return kw_err_set(err, -EINVAL, "--%s is given without --%s",
                          is_set(files->cert) ? "tls-cert-file" : "tls-private-key-file",
                          is_set(files->cert) ? "tls-private-key-file" : "tls-cert-file");
    if (is_set(files->client_ca) && !is_set(files->cert))
        return kw_err_set(err, -EINVAL, "--client-ca-file is given without --tls-cert-file");
    return is_set(files->cert);
}
