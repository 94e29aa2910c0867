/* SPDX-License-Identifier: Apache-2.0 */
#include "api/quality.h"

#include <errno.h>
#include <string.h>

#include "api/codec.h"

const char *const kw_quality_names[] = {
    [KW_QUALITY_WRAPPED] = "wrapped",
    [KW_QUALITY_RESET] = "reset",
    [KW_QUALITY_GAP] = "gap",
    [KW_QUALITY_MULTIPLEXED] = "multiplexed",
    [KW_QUALITY_ESTIMATED] = "estimated",
    [KW_QUALITY_STALE] = "stale",
    [KW_QUALITY_FROZEN] = "frozen",
    [KW_QUALITY_IMPLAUSIBLE] = "implausible-dropped",
    [KW_QUALITY_NO_COUNTERS] = "no-counters",
    [KW_QUALITY_OVERFLOW] = "overflow-key-used",
    [KW_QUALITY_INTEGRATED] = "integrated",
    [KW_QUALITY_INCOMPLETE] = "incomplete",
    [KW_QUALITY_DOUBTFUL] = "doubtful",
};
_Static_assert(sizeof(kw_quality_names) / sizeof(kw_quality_names[0]) == KW_QUALITY__MAX,
               "a quality has no name");

json_t *kw_quality_to_json(uint32_t quality, int *rc)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < KW_QUALITY__MAX; i++) {
        if (quality & KW_QUALITY_BIT(i))
            kw_put_element(rc, array, json_string(kw_quality_names[i]));
    }
    return array;
}

void kw_quality_from_json(struct kw_reader *reader, const json_t *array, uint32_t *ret)
{
    uint32_t quality = 0;

    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *name = json_string_value(json_array_get(array, i));
        if (name == NULL) {
            kw_reader_fail(reader, -EBADMSG, "quality");
            return;
        }
        for (unsigned bit = 0; bit < KW_QUALITY__MAX; bit++) {
            if (strcmp(name, kw_quality_names[bit]) == 0)
                quality |= KW_QUALITY_BIT(bit);
        }
    }
    *ret = quality;
}
