/* SPDX-License-Identifier: Apache-2.0 */
#include "api/service.h"

#include <errno.h>
#include <string.h>

#include "api/codec.h"

static void read_port(struct kw_reader *reader, const json_t *spec, struct kw_service *ret)
{
    const json_t *ports = kw_get(reader, spec, "ports", JSON_ARRAY, KW_OPTIONAL);
    size_t n = json_array_size(ports);
    bool named = false;

    for (size_t i = 0; i < n && reader->rc == 0 && !named; i++) {
        const json_t *port = json_array_get(ports, i);
        char name[64] = "";
        uint64_t number = 0;

        if (!json_is_object(port)) {
            kw_reader_fail(reader, -EBADMSG, "ports");
            return;
        }
        kw_get_text(reader, port, "name", KW_OPTIONAL, name, sizeof(name));
        kw_get_u64(reader, port, "port", KW_REQUIRED, &number);
        if (reader->rc == 0 && (number == 0 || number > UINT16_MAX))
            kw_reader_fail(reader, -EBADMSG, "port");
        named = strcmp(name, "http") == 0 || strcmp(name, "https") == 0;
        if (reader->rc == 0 && (i == 0 || named)) {
            ret->port = (uint16_t)number;
            ret->https = strcmp(name, "https") == 0;
        }
    }
}

/** Whether a text can stand in a URL as a numeric address. */
static bool is_numeric(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789abcdefABCDEF:.")] == '\0';
}

int kw_service_decode(const char *json, size_t len, struct kw_service *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_service service = {0};
    json_t *root = kw_reader_parse(&reader, json, len);
    const json_t *metadata = kw_get(&reader, root, "metadata", JSON_OBJECT, KW_REQUIRED);
    const json_t *spec = kw_get(&reader, root, "spec", JSON_OBJECT, KW_REQUIRED);

    if (reader.rc == 0) {
        kw_get_text(&reader, metadata, "name", KW_REQUIRED, service.name, sizeof(service.name));
        kw_get_text(&reader, metadata, "namespace", KW_REQUIRED, service.namespace_,
                    sizeof(service.namespace_));
        kw_get_text(&reader, spec, "clusterIP", KW_OPTIONAL, service.cluster_ip,
                    sizeof(service.cluster_ip));
        read_port(&reader, spec, &service);
    }
    json_decref(root);
    if (!is_numeric(service.cluster_ip)) /* "None" of a headless Service */
        service.cluster_ip[0] = '\0';
    if (reader.rc == 0)
        *ret = service;
    return kw_reader_end(&reader, ret_why);
}
