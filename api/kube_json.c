/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kube_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static bool digits(const char *text, size_t n, int *ret)
{
    int value = 0;

    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
    }
    *ret = value;
    return true;
}

int64_t kw_time_from_json(const json_t *value)
{
    const char *text = json_string_value(value);
    struct tm tm = {0};

    /* the API server prints UTC always; a fraction is of no use here */
    if (text == NULL || strlen(text) < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' ||
        text[13] != ':' || text[16] != ':' || text[strlen(text) - 1] != 'Z')
        return 0;
    if (!digits(text, 4, &tm.tm_year) || !digits(text + 5, 2, &tm.tm_mon) ||
        !digits(text + 8, 2, &tm.tm_mday) || !digits(text + 11, 2, &tm.tm_hour) ||
        !digits(text + 14, 2, &tm.tm_min) || !digits(text + 17, 2, &tm.tm_sec))
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    time_t seconds = timegm(&tm);
    return seconds > 0 ? (int64_t)seconds * 1000 : 0;
}
