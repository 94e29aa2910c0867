/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a pod whose texts are all there, or a named error. */
#include <stdint.h>
#include <stdlib.h>

#include "api/pod.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_pod pod;
    const char *why = NULL;

    if (kw_pod_decode((const char *)data, size, &pod, &why) < 0) {
        if (why == NULL)
            abort();
        return 0;
    }
    if (pod.uid == NULL || pod.static_uid == NULL || pod.node == NULL ||
        (pod.has_owner && pod.owner.uid == NULL))
        abort();
    for (size_t i = 0; i < pod.n_containers + pod.n_ephemeral; i++) {
        if (pod.containers[i].name == NULL || pod.containers[i].id == NULL ||
            pod.containers[i].former_id == NULL)
            abort();
    }
    kw_pod_clear(&pod);
    return 0;
}
