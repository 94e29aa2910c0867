/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/attribution.h"

const struct agent_attribution_ops *const agent_attributions[] = {
    &agent_attribution_ratio_cpu,          &agent_attribution_kalman,
    &agent_attribution_ratio_instructions, &agent_attribution_kepler,
    &agent_attribution_regression,         &agent_attribution_polynomial,
    &agent_attribution_regression_raw,     NULL,
};

const struct agent_attribution_ops *agent_attribution_choose(unsigned choice, bool measured)
{
    if (choice > 0)
        return agent_attributions[choice - 1];
    return measured ? &agent_attribution_kalman : &agent_attribution_ratio_cpu;
}
