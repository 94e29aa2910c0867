/* SPDX-License-Identifier: Apache-2.0 */
/* Any directory and zone name gives a verdict within its ranges. The input is "DIR\nNAME". */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/powercap_zones.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kw_cleanup_free char *text = calloc(1, size + 1);
    struct agent_zone_name name;
    bool mmio = false;
    unsigned depth = 0;

    if (text == NULL)
        abort();
    memcpy(text, data, size);
    char *second = text + strcspn(text, "\n");
    if (*second == '\n')
        *second++ = '\0';
    if (agent_zone_dir_parse(text, &mmio, &depth) && depth == 0)
        abort();
    agent_zone_name_parse(second, &name);
    if (name.kind > AGENT_DOMAIN__MAX || name.die < -1 || name.die > 1023)
        abort();
    return 0;
}
