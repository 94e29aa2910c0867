/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a VPA or a named error; its status can be copied and written. */
#include <stdint.h>
#include <stdlib.h>

#include "api/vpa.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_vpa vpa;
    struct kw_vpa_status copy;
    const char *why = NULL;
    char *text = NULL;
    size_t len;

    if (kw_vpa_decode((const char *)data, size, &vpa, &why) < 0) {
        if (why == NULL)
            abort();
        return 0;
    }
    (void)kw_vpa_policy_for(&vpa, "web");
    (void)kw_vpa_names(&vpa, "kwatt");
    if (kw_vpa_status_copy(&vpa.status, &copy) < 0 || !kw_vpa_status_equal(&copy, &vpa.status) ||
        kw_vpa_status_patch(&copy, vpa.version, &text, &len) < 0)
        abort();
    free(text);
    kw_vpa_status_clear(&copy);
    kw_vpa_clear(&vpa);
    return 0;
}
