/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Largest remainder (Hamilton): each entry first gets the whole part of its share; the units that
 * are left, fewer than entries, go to the largest remainders, ties to the lower index. The sum is
 * exact by construction. Finding the threshold that hands out exactly the units left is a
 * selection, not a sort: a binary search on the remainder's value needs 64 passes at most over n
 * numbers, no memory but the caller's scratch, and does not depend on the order of the input (a
 * quickselect would).
 */
#include "node-agent/attribution.h"

/** How many of the remainders are above `limit`. */
static size_t count_above(const uint64_t *remainders, size_t n, uint64_t limit)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += remainders[i] > limit;
    return count;
}

/** Smallest value with at most `units` remainders above it. */
static uint64_t threshold(const uint64_t *remainders, size_t n, size_t units, uint64_t highest)
{
    uint64_t low = 0, high = highest;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (count_above(remainders, n, middle) <= units)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t agent_apportion(uint64_t total, const uint64_t *weights, size_t n, uint64_t *ret,
                         uint64_t *scratch)
{
    unsigned __int128 sum = 0;
    unsigned shift = 0;
    uint64_t given = 0, highest = 0;

    for (size_t i = 0; i < n; i++)
        sum += weights[i];
    for (size_t i = 0; i < n; i++)
        ret[i] = 0;
    if (sum == 0)
        return 0;
    /* a remainder must fit 64 bits: weights that add up to more are all shortened alike */
    while (sum >> shift > UINT64_MAX - n)
        shift++;
    sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += weights[i] >> shift;

    for (size_t i = 0; i < n; i++) {
        unsigned __int128 product = (unsigned __int128)total * (weights[i] >> shift);
        ret[i] = (uint64_t)(product / sum);
        scratch[i] = (uint64_t)(product % sum);
        given += ret[i];
        if (scratch[i] > highest)
            highest = scratch[i];
    }
    size_t units = (size_t)(total - given);
    if (units == 0)
        return total;
    uint64_t limit = threshold(scratch, n, units, highest);
    for (size_t i = 0; i < n; i++) {
        if (scratch[i] > limit) {
            ret[i]++;
            units--;
        }
    }
    for (size_t i = 0; i < n && units > 0; i++) {
        if (scratch[i] == limit && limit > 0) {
            ret[i]++;
            units--;
        }
    }
    return total;
}
