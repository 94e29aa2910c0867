/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are refused with a cause, or are zones that compare. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "extender/zones.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ext_zones *zones = NULL;
    struct kw_err err = {0};
    int rc = ext_zones_parse("zones", (const char *)data, size, &zones, &err);

    need(rc == 0 || err.text[0] != '\0');
    need((rc == 0) == (zones != NULL && zones->n > 0));
    for (size_t i = 0; zones != NULL && i < zones->n; i++) {
        const struct ext_zone *zone = &zones->items[i];
        need(ext_zones_find(zones, zone->name) == zone);
        need(zone->factor >= 1 / EXT_ZONE_FACTOR_MAX && zone->factor <= EXT_ZONE_FACTOR_MAX);
    }
    ext_zones_free(&zones);
    return 0;
}
