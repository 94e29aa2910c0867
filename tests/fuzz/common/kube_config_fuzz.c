/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a kubeconfig. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/kube_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char path[] = "/nonexistent/config";
    struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    struct kw_err err = {0};
    int r = kw_kube_target_parse(path, (const char *)data, size, NULL, &target, &err);

    if (r == 0 && target.server == NULL)
        abort();
    if (r < 0 && (err.text[0] == '\0' || target.server != NULL))
        abort();
    kw_kube_target_free(&target);
    return 0;
}
