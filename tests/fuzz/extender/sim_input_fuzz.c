/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give machines and pods that can be simulated, or a reason. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "extender/sim_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** A fleet and its pods are told apart by an empty line with a dot. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *dot = size > 0 ? memmem(text, size, "\n.\n", 3) : NULL;
    size_t fleet_len = dot != NULL ? (size_t)(dot - text) : size;
    struct ext_sim_input input = {0};
    struct ext_sim_result result;
    struct kw_err err = {0};
    int rc = ext_sim_read_fleet(text, fleet_len, &input, &err);

    if (rc == 0 && dot != NULL)
        rc = ext_sim_read_pods(dot + 3, size - fleet_len - 3, &input, &err);
    if (rc < 0 && err.text[0] == '\0')
        abort();
    if (rc == 0 && input.n_nodes < 50 && input.n_pods < 50) {
        struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_KWATT, 1000);
        if (ext_sim_run(&input, &conf, &result, NULL) < 0 || !isfinite(result.energy_uj) ||
            result.energy_uj < 0)
            abort();
    }
    ext_sim_input_free(&input);
    return 0;
}
