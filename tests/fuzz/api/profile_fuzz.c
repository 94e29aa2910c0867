/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a value or a named error; what was accepted can be written, reads back, and gives
 * a life between a tenth of a second and what no pod reaches. */
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
    double life_s = kw_profile_life_s(value.lived_ms, value.ended_permille);
    if (!(life_s > 0.1 && life_s < 1.1e9) || again.lived_ms != value.lived_ms ||
        again.ended_permille != value.ended_permille)
        abort();
    return 0;
}
