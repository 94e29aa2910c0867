/* SPDX-License-Identifier: Apache-2.0 */
/* Any chip, label and file name gives a verdict within its ranges, and any powers an energy that
 * only goes up. The input is "CHIP\nLABEL\nFILE\n" and then powers and times, 16 bytes each. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/hwmon.h"
#include "node-agent/integrator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *cut(char *text)
{
    char *end = text + strcspn(text, "\n");

    if (*end == '\n')
        *end++ = '\0';
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kw_cleanup_free char *chip = calloc(1, size + 1);
    struct agent_integrator integrator = {0};
    bool energy = false, average = false;
    unsigned number = 0;

    if (chip == NULL)
        abort();
    memcpy(chip, data, size);
    char *label = cut(chip), *file = cut(label), *rest = cut(file);
    for (unsigned i = 0; i < 2; i++) {
        struct agent_hwmon_what what = agent_hwmon_classify(chip, label, i == 1);
        if (what.kind > AGENT_DOMAIN__MAX || what.socket >= AGENT_PACKAGES_MAX)
            abort();
    }
    if (agent_hwmon_value_file(file, &energy, &number, &average) &&
        (number == 0 || (energy && average)))
        abort();
    for (size_t at = (size_t)(rest - chip); at + 16 <= size; at += 16) {
        uint64_t power_uw, t_ns, before_uj = integrator.counter_uj;
        memcpy(&power_uw, data + at, sizeof(power_uw));
        memcpy(&t_ns, data + at + 8, sizeof(t_ns));
        (void)agent_integrator_take(&integrator, power_uw, t_ns);
        /* 100 kW over the longest gap that is bridged */
        if (integrator.counter_uj < before_uj ||
            integrator.counter_uj - before_uj > UINT64_C(100000) * 1000000 * 30)
            abort();
    }
    return 0;
}
