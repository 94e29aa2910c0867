/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are refused with a reason, or answered with JSON that holds the map and nothing else.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "extender/preempt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_buf out = {0};
    const char *why = NULL;
    int rc = ext_preempt_answer((const char *)data, size, NULL, &out, &why);

    if (rc < 0) {
        if (why == NULL)
            abort();
    } else {
        json_t *answer = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(json_object_get(answer, "NodeNameToMetaVictims")) ||
            json_object_size(answer) != 1)
            abort();
        json_decref(answer);
    }
    kw_buf_free(&out);
    return 0;
}
