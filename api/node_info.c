/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node_info.h"

#include "api/codec.h"

json_t *kw_node_info_to_json(const struct kw_node_info *info, int *rc)
{
    json_t *object = kw_put_document(rc);

    kw_put_text(rc, object, "node", info->node, sizeof(info->node) - 1);
    kw_put_text(rc, object, "cpu_model", info->cpu_model, sizeof(info->cpu_model) - 1);
    kw_put_text(rc, object, "kernel", info->kernel, sizeof(info->kernel) - 1);
    kw_put_text(rc, object, "version", info->version, sizeof(info->version) - 1);
    kw_put_u64(rc, object, "packages", info->packages);
    kw_put_u64(rc, object, "cores", info->cores);
    kw_put_u64(rc, object, "threads", info->threads);
    return object;
}

void kw_node_info_from_json(struct kw_reader *reader, const json_t *object,
                            struct kw_node_info *ret)
{
    *ret = (struct kw_node_info){0};
    kw_get_schema(reader, object);
    kw_get_text(reader, object, "node", KW_REQUIRED, ret->node, sizeof(ret->node));
    kw_get_text(reader, object, "cpu_model", KW_OPTIONAL, ret->cpu_model, sizeof(ret->cpu_model));
    kw_get_text(reader, object, "kernel", KW_OPTIONAL, ret->kernel, sizeof(ret->kernel));
    kw_get_text(reader, object, "version", KW_OPTIONAL, ret->version, sizeof(ret->version));
    kw_get_u32(reader, object, "packages", KW_OPTIONAL, &ret->packages);
    kw_get_u32(reader, object, "cores", KW_OPTIONAL, &ret->cores);
    kw_get_u32(reader, object, "threads", KW_OPTIONAL, &ret->threads);
}

int kw_node_info_encode(const struct kw_node_info *info, char **ret, size_t *ret_len)
{
    int rc = 0;
    json_t *object = kw_node_info_to_json(info, &rc);

    return kw_put_end(rc, object, JSON_COMPACT, ret, ret_len);
}

int kw_node_info_decode(const char *json, size_t len, struct kw_node_info *ret,
                        const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_node_info info;
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        kw_node_info_from_json(&reader, root, &info);
    json_decref(root);
    if (reader.rc == 0)
        *ret = info;
    return kw_reader_end(&reader, ret_why);
}
