/* SPDX-License-Identifier: Apache-2.0 */
/* Any text of an event and of its scale gives a fraction that can be counted with, or an error. The
 * input is "EVENT\nSCALE". */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/perf_pmu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size > 0 ? memchr(text, '\n', size) : NULL;
    size_t len = end != NULL ? (size_t)(end - text) : size;
    uint64_t config = 1, num = 0, den = 0;

    if (agent_perf_config_parse(text, len, &config) < 0 && config != 1)
        abort();
    if (end == NULL)
        return 0;
    int rc = agent_perf_scale_parse(end + 1, size - len - 1, &num, &den);
    if (rc == 0 ? num == 0 || den == 0 || num > INT64_MAX : num != 0 || den != 0)
        abort();
    return 0;
}
