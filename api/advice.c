/* SPDX-License-Identifier: Apache-2.0 */
#include "api/advice.h"

#include <errno.h>
#include <stdlib.h>

#include "api/codec.h"

void kw_advice_clear(struct kw_advice *advice)
{
    free(advice->containers);
    *advice = (struct kw_advice){0};
}

json_t *kw_advice_to_json(const struct kw_advice *advice, int *rc)
{
    json_t *object = kw_put_document(rc);
    json_t *containers = json_array();

    if (advice->workload[0] == '\0' || advice->n_containers > KW_CONTAINERS_MAX)
        *rc = *rc != 0 ? *rc : -EINVAL;
    kw_put_text(rc, object, "workload", advice->workload, sizeof(advice->workload) - 1);
    kw_put_time_ms(rc, object, "t_unix_ms", advice->t_unix_ms);
    kw_put_u64(rc, object, "samples", advice->samples);
    kw_put_u64(rc, object, "history_s", advice->history_s);
    for (size_t i = 0; *rc == 0 && i < advice->n_containers; i++) {
        const struct kw_container_advice *from = &advice->containers[i];
        json_t *container = json_object();

        kw_put_text(rc, container, "name", from->name, sizeof(from->name) - 1);
        kw_put_u64(rc, container, "target_mcpu", from->target_mcpu);
        kw_put_u64(rc, container, "lower_mcpu", from->lower_mcpu);
        kw_put_u64(rc, container, "upper_mcpu", from->upper_mcpu);
        kw_put_u64(rc, container, "target_bytes", from->target_bytes);
        kw_put_u64(rc, container, "lower_bytes", from->lower_bytes);
        kw_put_u64(rc, container, "upper_bytes", from->upper_bytes);
        kw_put_element(rc, containers, container);
    }
    kw_put(rc, object, "containers", containers);
    return object;
}

static void containers_from_json(struct kw_reader *reader, const json_t *object,
                                 struct kw_advice *ret)
{
    const json_t *array = kw_get(reader, object, "containers", JSON_ARRAY, KW_REQUIRED);
    size_t n = json_array_size(array);

    if (n > KW_CONTAINERS_MAX) {
        kw_reader_fail(reader, -EBADMSG, "containers");
        return;
    }
    if (n == 0)
        return;
    ret->containers = calloc(n, sizeof(*ret->containers));
    if (ret->containers == NULL) {
        kw_reader_fail(reader, -ENOMEM, "out of memory");
        return;
    }
    ret->n_containers = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *element = json_array_get(array, i);
        struct kw_container_advice *container = &ret->containers[i];

        if (!json_is_object(element))
            kw_reader_fail(reader, -EBADMSG, "containers");
        kw_get_text(reader, element, "name", KW_REQUIRED, container->name, sizeof(container->name));
        kw_get_u64(reader, element, "target_mcpu", KW_REQUIRED, &container->target_mcpu);
        kw_get_u64(reader, element, "lower_mcpu", KW_OPTIONAL, &container->lower_mcpu);
        kw_get_u64(reader, element, "upper_mcpu", KW_OPTIONAL, &container->upper_mcpu);
        kw_get_u64(reader, element, "target_bytes", KW_REQUIRED, &container->target_bytes);
        kw_get_u64(reader, element, "lower_bytes", KW_OPTIONAL, &container->lower_bytes);
        kw_get_u64(reader, element, "upper_bytes", KW_OPTIONAL, &container->upper_bytes);
    }
}

static void advice_from_json(struct kw_reader *reader, const json_t *object, struct kw_advice *ret)
{
    *ret = (struct kw_advice){0};
    kw_get_schema(reader, object);
    kw_get_text(reader, object, "workload", KW_REQUIRED, ret->workload, sizeof(ret->workload));
    if (ret->workload[0] == '\0')
        kw_reader_fail(reader, -EBADMSG, "workload");
    kw_get_time_ms(reader, object, "t_unix_ms", KW_REQUIRED, &ret->t_unix_ms);
    kw_get_u64(reader, object, "samples", KW_OPTIONAL, &ret->samples);
    kw_get_u64(reader, object, "history_s", KW_OPTIONAL, &ret->history_s);
    containers_from_json(reader, object, ret);
    if (reader->rc != 0)
        kw_advice_clear(ret);
}

int kw_advice_encode(const struct kw_advice *advice, char **ret, size_t *ret_len)
{
    int rc = 0;
    json_t *object = kw_advice_to_json(advice, &rc);

    return kw_put_end(rc, object, JSON_COMPACT, ret, ret_len);
}

int kw_advice_decode(const char *json, size_t len, struct kw_advice *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_advice advice;
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        advice_from_json(&reader, root, &advice);
    json_decref(root);
    if (reader.rc == 0)
        *ret = advice;
    return kw_reader_end(&reader, ret_why);
}
