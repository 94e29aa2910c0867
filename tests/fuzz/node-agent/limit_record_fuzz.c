/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are no record, or give limits that are written as the same record. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/limit_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct agent_former_limits limits, again;
    kw_cleanup(kw_buf_free) struct kw_buf text = {0};

    if (agent_former_limits_decode((const char *)data, size, "boot", &limits) < 0)
        return 0;
    if (agent_former_limits_encode(&limits, "boot", &text) < 0 ||
        agent_former_limits_decode(text.data, text.len, "boot", &again) < 0 || again.n != limits.n)
        abort();
    for (size_t i = 0; i < limits.n; i++) {
        if (strcmp(again.items[i].name, limits.items[i].name) != 0 ||
            again.items[i].uw != limits.items[i].uw)
            abort();
    }
    return 0;
}
