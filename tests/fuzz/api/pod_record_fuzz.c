/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a value or a named error; what was accepted can be written, and reads back. */
#include <stdint.h>
#include <stdlib.h>

#include "api/pod_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_pod_record value, again;
    const char *why = NULL;
    char *text = NULL;
    size_t len = 0;

    if (kw_pod_record_decode((const char *)data, size, &value, &why) < 0) {
        if (why == NULL)
            abort();
        return 0;
    }
    if (kw_pod_record_encode(&value, &text, &len) < 0)
        abort();
    if (kw_pod_record_decode(text, len, &again, &why) < 0)
        abort();
    kw_pod_record_clear(&again);
    kw_pod_record_clear(&value);
    free(text);
    return 0;
}
