/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a value or a named error; what was accepted can be written, and reads back. */
#include <stdint.h>
#include <stdlib.h>

#include "api/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_profile value, again;
    const char *why = NULL;
    char *text = NULL;
    size_t len = 0;

    if (kw_profile_decode((const char *)data, size, &value, &why) < 0) {
        if (why == NULL)
            abort();
        return 0;
    }
    if (kw_profile_encode(&value, &text, &len) < 0)
        abort();
    if (kw_profile_decode(text, len, &again, &why) < 0)
        abort();
    free(text);
    return 0;
}
