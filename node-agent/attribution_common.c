/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "node-agent/attribution.h"

/* Longer than the coarsest counter (1 J) stands still at any idle power above half a watt. */
#define OWED_MAX_NS (2 * KW_NS_PER_S)

/* Idle of a longer window is not claimed: the domain was out of sight for most of it. */
#define WINDOW_MAX_NS (300 * KW_NS_PER_S)

#define IDLE_MAX_MW UINT64_C(10000000)
#define PJ_PER_UJ   UINT64_C(1000000)

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t agent_pay_idle(struct agent_owed *owed, uint64_t idle_mw,
                        const struct agent_window *window)
{
    /* mW x ns = pJ; the products are bounded so that they fit: 10 kW, 5 minutes */
    uint64_t mw = min_u64(idle_mw, IDLE_MAX_MW);
    uint64_t ns = min_u64(window->interval_ns, WINDOW_MAX_NS);
    uint64_t pj = owed->pj + mw * ns;
    uint64_t idle_uj = min_u64(pj / PJ_PER_UJ, window->measured_uj);

    owed->pj = min_u64(pj - idle_uj * PJ_PER_UJ, mw * OWED_MAX_NS);
    return idle_uj;
}

void agent_split_active(const struct agent_window *window, uint64_t idle_uj, size_t n,
                        const uint64_t *weights, uint64_t *given, uint64_t *scratch,
                        struct agent_split *ret)
{
    uint64_t active_uj = window->measured_uj - idle_uj;
    uint64_t placed_uj = agent_apportion(active_uj, weights, n, given, scratch);

    for (size_t i = 0; i < n; i++)
        ret->shares[i] = (struct agent_share){.active_uj = given[i]};
    for (size_t i = n; i < window->n; i++)
        ret->shares[i] = (struct agent_share){0};
    ret->idle_uj = idle_uj;
    ret->unattributed_uj = 0;
    if (placed_uj == active_uj)
        return;
    if (window->n == 0)
        ret->unattributed_uj = active_uj;
    else
        ret->idle_uj += active_uj; /* nobody ran */
}
