/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a quantity or an error; what is printed for it reads as the same number. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char out[KW_QUANTITY_MAX];
    uint64_t value, again;

    if (kw_quantity_milli((const char *)data, size, &value) == 0) {
        kw_quantity_format_mcpu(out, value);
        if (kw_quantity_milli(out, strlen(out), &again) < 0 || again != value)
            abort();
    }
    if (kw_quantity_units((const char *)data, size, &value) == 0) {
        kw_quantity_format_bytes(out, value);
        if (kw_quantity_units(out, strlen(out), &again) < 0 || again != value)
            abort();
    }
    return 0;
}
