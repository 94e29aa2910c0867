/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node_view.h"

#include <errno.h>
#include <stdlib.h>

#include "api/codec.h"

void kw_node_view_clear(struct kw_node_view *view)
{
    for (size_t i = 0; i < view->n_pods; i++)
        kw_pod_record_clear(&view->pods[i]);
    free(view->pods);
    *view = (struct kw_node_view){0};
}

/** The view without its records. */
static int encode_head(const struct kw_node_view *view, char **ret, size_t *ret_len)
{
    int rc = 0;
    json_t *object = kw_put_document(&rc);

    kw_put(&rc, object, "info", kw_node_info_to_json(&view->info, &rc));
    kw_put(&rc, object, "sample", kw_sample_to_json(&view->sample, &rc));
    kw_put(&rc, object, "curve", kw_curve_to_json(&view->curve, &rc));
    kw_put_u64(&rc, object, "departed_uj", view->departed_uj);
    kw_put_u64(&rc, object, "departed_idle_uj", view->departed_idle_uj);
    return kw_put_end(rc, object, JSON_COMPACT, ret, ret_len);
}

int kw_node_view_encode(const struct kw_node_view *view, char **ret, size_t *ret_len)
{
    struct kw_out out = {0};
    char *head = NULL;
    size_t head_len = 0;

    out.rc = encode_head(view, &head, &head_len);
    if (out.rc == 0)
        kw_out_json(&out, NULL, head, head_len - 1); /* its brace is closed below */
    free(head);
    kw_out_begin(&out, "pods", '[');
    for (size_t i = 0; out.rc == 0 && i < view->n_pods; i++)
        kw_pod_record_write(&view->pods[i], &out);
    kw_out_end(&out, ']');
    kw_out_end(&out, '}');
    return kw_out_take(&out, ret, ret_len);
}

static void pods_from_json(struct kw_reader *reader, const json_t *object, struct kw_node_view *ret)
{
    const json_t *array = kw_get(reader, object, "pods", JSON_ARRAY, KW_REQUIRED);
    size_t n = json_array_size(array);

    if (n == 0)
        return;
    ret->pods = calloc(n, sizeof(*ret->pods));
    if (ret->pods == NULL) {
        kw_reader_fail(reader, -ENOMEM, "out of memory");
        return;
    }
    for (size_t i = 0; i < n && reader->rc == 0; i++) {
        const json_t *element = json_array_get(array, i);

        if (!json_is_object(element))
            kw_reader_fail(reader, -EBADMSG, "pods");
        kw_pod_record_from_json(reader, element, &ret->pods[i]);
        ret->n_pods++;
    }
}

static void view_from_json(struct kw_reader *reader, const json_t *object, struct kw_node_view *ret)
{
    const json_t *part;

    *ret = (struct kw_node_view){0};
    kw_get_schema(reader, object);
    part = kw_get(reader, object, "info", JSON_OBJECT, KW_REQUIRED);
    kw_node_info_from_json(reader, part, &ret->info);
    part = kw_get(reader, object, "sample", JSON_OBJECT, KW_REQUIRED);
    kw_sample_from_json(reader, part, &ret->sample);
    part = kw_get(reader, object, "curve", JSON_OBJECT, KW_REQUIRED);
    kw_curve_from_json(reader, part, &ret->curve);
    kw_get_u64(reader, object, "departed_uj", KW_OPTIONAL, &ret->departed_uj);
    kw_get_u64(reader, object, "departed_idle_uj", KW_OPTIONAL, &ret->departed_idle_uj);
    pods_from_json(reader, object, ret);
    if (reader->rc != 0)
        kw_node_view_clear(ret);
}

int kw_node_view_decode(const char *json, size_t len, struct kw_node_view *ret,
                        const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_node_view view;
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        view_from_json(&reader, root, &view);
    json_decref(root);
    if (reader.rc == 0)
        *ret = view;
    return kw_reader_end(&reader, ret_why);
}
