/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses what the rest is read as. Any bytes give a value or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "api/owner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data + 1;
    const char *why = NULL;

    if (size == 0)
        return 0;
    unsigned what = (unsigned)data[0] - (unsigned)'0';
    if (what == 8) {
        struct kw_selector selector;
        if (kw_scale_decode(json, size - 1, &selector, &why) == 0)
            kw_selector_clear(&selector);
    } else if (what == 9) {
        char *plural = NULL;
        bool scale;
        if (kw_discovery_find(json, size - 1, "Widget", &plural, &scale, &why) == 0)
            free(plural);
    } else {
        struct kw_owner owner;
        if (kw_owner_decode((enum kw_owner_kind)(what % KW_OWNER__MAX), json, size - 1, &owner,
                            &why) == 0)
            kw_owner_clear(&owner);
    }
    return 0;
}
