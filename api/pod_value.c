/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a Pod that kwatt gives a meaning of its own: for the scanner of the hot path and for the
 * tree reader that it is compared with. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "api/extender.h"
#include "api/quantity.h"

const char *const kw_placement_names[KW_PLACEMENT__MAX] = {
    [KW_PLACEMENT_EFFICIENT] = "efficient",
    [KW_PLACEMENT_PERFORMANCE] = "performance",
    [KW_PLACEMENT_OFF] = "off",
};
_Static_assert(sizeof(kw_placement_names) / sizeof(*kw_placement_names) == KW_PLACEMENT__MAX,
               "every placement has a name");

int kw_pod_parse_mcpu(const char *text, size_t len, uint64_t *ret_mcpu)
{
    uint64_t milli;

    if (len > KW_POD_TEXT_MAX || kw_quantity_milli(text, len, &milli) < 0 ||
        milli > KW_POD_MCPU_MAX)
        return -EINVAL;
    *ret_mcpu = milli;
    return 0;
}

int kw_pod_parse_life_ms(const char *text, size_t len, uint64_t *ret_ms)
{
    static const struct {
        const char *suffix;
        uint64_t s;
    } units[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"", 1}};
    size_t digits = 0;
    uint64_t milli;

    while (digits < len && (isdigit((unsigned char)text[digits]) || text[digits] == '.'))
        digits++;
    if (digits > KW_POD_TEXT_MAX || kw_quantity_milli(text, digits, &milli) < 0)
        return -EINVAL;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        size_t unit_len = strlen(units[i].suffix);
        if (unit_len != len - digits || memcmp(text + digits, units[i].suffix, unit_len) != 0)
            continue;
        if (milli == 0 || milli > KW_POD_LIFE_MS_MAX / units[i].s)
            return -EINVAL;
        *ret_ms = milli * units[i].s;
        return 0;
    }
    return -EINVAL;
}

int kw_pod_parse_mw(const char *text, size_t len, uint64_t *ret_mw)
{
    uint64_t milli;

    if (len > KW_POD_TEXT_MAX || kw_quantity_milli(text, len, &milli) < 0 || milli > KW_POD_MW_MAX)
        return -EINVAL;
    *ret_mw = milli;
    return 0;
}
