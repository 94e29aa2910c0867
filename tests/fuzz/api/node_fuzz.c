/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a node that keeps the rules of its fields, or a named error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_node node;
    const char *why = NULL;

    if (kw_node_decode((const char *)data, size, &node, &why) < 0) {
        if (why == NULL)
            abort();
        return 0;
    }
    if (node.name[0] == '\0' || strlen(node.name) > KW_NODE_NAME_MAX ||
        node.cap_mw > UINT64_C(1000000000) || node.bad >> KW_NODE_KEY__MAX != 0)
        abort();
    if (node.domain[0] != '\0' && !kw_power_domain_ok(node.domain, strlen(node.domain)))
        abort();
    if ((node.bad >> KW_NODE_POWER_CAP_WATTS & 1) != 0 && node.cap_mw != 0)
        abort();
    return 0;
}
