/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/typical.h"

#include <stdlib.h>

void ext_typical_note(struct ext_typical *typical, uint64_t mcpu)
{
    uint64_t n = typical->n;

    typical->mcpu[n % EXT_TYPICAL_PODS] = mcpu < UINT32_MAX ? (uint32_t)mcpu : UINT32_MAX;
    typical->n = n + 1;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

uint64_t ext_typical_mcpu(const struct ext_typical *typical, uint64_t otherwise)
{
    uint32_t sorted[EXT_TYPICAL_PODS];
    uint64_t n = typical->n;

    if (n == 0)
        return otherwise;
    n = n < EXT_TYPICAL_PODS ? n : EXT_TYPICAL_PODS;
    for (size_t i = 0; i < n; i++)
        sorted[i] = typical->mcpu[i];
    qsort(sorted, n, sizeof(*sorted), compare);
    return sorted[n / 2] > 0 ? sorted[n / 2] : 1;
}
