/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/integrator.h"

#include <errno.h>

#define FJ_PER_UJ UINT64_C(1000000000)

int agent_integrator_take(struct agent_integrator *integrator, uint64_t power_uw, uint64_t t_ns)
{
    if (power_uw == 0 || power_uw >= AGENT_POWER_SENTINEL_UW)
        return -ENODATA;
    if (integrator->primed && t_ns <= integrator->prev_t_ns)
        return 0;
    if (integrator->primed && t_ns - integrator->prev_t_ns <= AGENT_INTEGRATOR_GAP_NS) {
        /* uW x ns = fJ; twice the mean, then half of the area: no bit is lost before the division,
         * and what the division by two leaves is carried in the doubled rest */
        unsigned __int128 twice_fj =
            (unsigned __int128)(integrator->prev_uw + power_uw) * (t_ns - integrator->prev_t_ns) +
            integrator->rest_fj;
        integrator->counter_uj += (uint64_t)(twice_fj / (2 * FJ_PER_UJ));
        integrator->rest_fj = (uint64_t)(twice_fj % (2 * FJ_PER_UJ));
    } else if (integrator->primed) {
        integrator->series++;
    }
    integrator->prev_uw = power_uw;
    integrator->prev_t_ns = t_ns;
    integrator->primed = true;
    return 0;
}
