/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a Service whose address can stand in a URL, or a named error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_service service = {0};
    const char *why = NULL;

    if (kw_service_decode((const char *)data, size, &service, &why) < 0) {
        if (why == NULL || service.name[0] != '\0')
            abort();
        return 0;
    }
    if (strpbrk(service.cluster_ip, "/@?# \r\n\"") != NULL)
        abort();
    return 0;
}
