/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kube_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/kube_time.h"
#include "api/quantity.h"

void kw_owner_ref_clear(struct kw_owner_ref *ref)
{
    free(ref->api_version);
    free(ref->kind);
    free(ref->name);
    free(ref->uid);
    memset(ref, 0, sizeof(*ref));
}

bool kw_owner_ref_from_json(struct kw_reader *reader, const json_t *metadata,
                            struct kw_owner_ref *ret)
{
    struct kw_owner_ref ref = {0};
    size_t i;
    json_t *entry;

    if (metadata == NULL)
        return false;
    json_array_foreach (
        (json_t *)kw_get(reader, metadata, "ownerReferences", JSON_ARRAY, KW_OPTIONAL), i, entry) {
        if (!json_is_true(json_object_get(entry, "controller")))
            continue;
        kw_get_copy(reader, entry, "apiVersion", KW_OPTIONAL, &ref.api_version);
        kw_get_copy(reader, entry, "kind", KW_REQUIRED, &ref.kind);
        kw_get_copy(reader, entry, "name", KW_REQUIRED, &ref.name);
        kw_get_copy(reader, entry, "uid", KW_OPTIONAL, &ref.uid);
        if (reader->rc < 0) {
            kw_owner_ref_clear(&ref);
            return false;
        }
        *ret = ref;
        return true;
    }
    return false;
}

/** Text of a quantity; numbers are printed as JSON prints them. @return NULL where it is neither.
 */
static const char *quantity_text(const json_t *value, char buffer[64])
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value)) {
        (void)snprintf(buffer, 64, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return buffer;
    }
    return NULL;
}

bool kw_mcpu_from_json(const json_t *value, uint64_t *ret_mcpu)
{
    char buffer[64];
    const char *text = quantity_text(value, buffer);

    return text != NULL && kw_quantity_milli(text, strlen(text), ret_mcpu) == 0;
}

bool kw_bytes_from_json(const json_t *value, uint64_t *ret_bytes)
{
    char buffer[64];
    const char *text = quantity_text(value, buffer);

    return text != NULL && kw_quantity_units(text, strlen(text), ret_bytes) == 0;
}

int64_t kw_time_from_json(const json_t *value)
{
    const char *text = json_string_value(value);

    return text == NULL ? 0 : kw_time_parse_ms(text);
}
