/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/kalman_filter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/* No variance falls below this part of what its state came with: rounding never makes one negative,
 * and a state never becomes deaf. */
#define FLOOR 1e-9

struct agent_filter {
    size_t n, max;
    double *mean;
    double *floor;      /* of the variance */
    double *covariance; /* lower triangle by rows: (i, j <= i) at i (i + 1) / 2 + j */
    double *gain;       /* covariance times h, of the update at hand */
};

int agent_filter_new(size_t max, struct agent_filter **ret)
{
    kw_cleanup(agent_filter_free) struct agent_filter *filter = calloc(1, sizeof(*filter));

    if (filter == NULL)
        return -ENOMEM;
    filter->max = max;
    filter->mean = calloc(max, sizeof(double));
    filter->floor = calloc(max, sizeof(double));
    filter->gain = calloc(max, sizeof(double));
    filter->covariance = calloc(max * (max + 1) / 2, sizeof(double));
    if (filter->mean == NULL || filter->floor == NULL || filter->gain == NULL ||
        filter->covariance == NULL)
        return -ENOMEM;
    *ret = KW_TAKE_PTR(filter);
    return 0;
}

void agent_filter_free(struct agent_filter **filter)
{
    struct agent_filter *owned = KW_TAKE_PTR(*filter);

    if (owned == NULL)
        return;
    free(owned->mean);
    free(owned->floor);
    free(owned->gain);
    free(owned->covariance);
    free(owned);
}

static double *row(const struct agent_filter *filter, size_t i)
{
    return filter->covariance + i * (i + 1) / 2;
}

size_t agent_filter_count(const struct agent_filter *filter)
{
    return filter->n;
}

void agent_filter_reset(struct agent_filter *filter)
{
    filter->n = 0;
}

long agent_filter_add(struct agent_filter *filter, double mean, double variance)
{
    size_t i = filter->n;

    if (i == filter->max)
        return -ENOSPC;
    filter->mean[i] = mean;
    filter->floor[i] = variance * FLOOR;
    memset(row(filter, i), 0, i * sizeof(double));
    row(filter, i)[i] = variance;
    filter->n++;
    return (long)i;
}

long agent_filter_add_like(struct agent_filter *filter, const struct agent_filter_like *like)
{
    double part = like->weight / (double)like->n, shared = 0;
    double mean = (1 - like->weight) * like->mean;
    size_t added = filter->n;

    if (added == filter->max)
        return -ENOSPC;
    double *line = row(filter, added);
    memset(line, 0, added * sizeof(double));
    for (size_t k = 0; k < like->n; k++) {
        mean += part * filter->mean[like->states[k]];
        for (size_t j = 0; j < added; j++)
            line[j] += part * agent_filter_covariance(filter, like->states[k], j);
    }
    for (size_t k = 0; k < like->n; k++)
        shared += part * line[like->states[k]];
    filter->mean[added] = mean;
    filter->floor[added] = (shared + like->variance) * FLOOR;
    line[added] = shared + like->variance;
    filter->n++;
    return (long)added;
}

void agent_filter_remove(struct agent_filter *filter, size_t i)
{
    size_t last = filter->n - 1;

    if (i != last) {
        double variance = row(filter, last)[last];
        memcpy(row(filter, i), row(filter, last), i * sizeof(double));
        for (size_t j = i + 1; j < last; j++)
            row(filter, j)[i] = row(filter, last)[j];
        row(filter, i)[i] = variance;
        filter->mean[i] = filter->mean[last];
        filter->floor[i] = filter->floor[last];
    }
    filter->n--;
}

double agent_filter_mean(const struct agent_filter *filter, size_t i)
{
    return filter->mean[i];
}

double agent_filter_variance(const struct agent_filter *filter, size_t i)
{
    return row(filter, i)[i];
}

double agent_filter_covariance(const struct agent_filter *filter, size_t i, size_t j)
{
    return i >= j ? row(filter, i)[j] : row(filter, j)[i];
}

void agent_filter_clamp(struct agent_filter *filter, size_t i, double low, double high)
{
    filter->mean[i] = fmin(fmax(filter->mean[i], low), high);
}

void agent_filter_tie(struct agent_filter *filter, size_t i, size_t j, double covariance)
{
    if (i >= j)
        row(filter, i)[j] += covariance;
    else
        row(filter, j)[i] += covariance;
}

double agent_filter_drift(struct agent_filter *filter, size_t i, double variance, double limit)
{
    double *own = &row(filter, i)[i], before = *own;

    if (before >= limit)
        return 0;
    *own = fmin(before + variance, limit);
    return *own - before;
}

void agent_filter_times(const struct agent_filter *filter, const double *h, double *ret)
{
    memset(ret, 0, filter->n * sizeof(double));
    for (size_t i = 0; i < filter->n; i++) {
        const double *line = row(filter, i);
        double slope = h[i], sum = 0;
        for (size_t j = 0; j < i; j++) {
            sum += line[j] * h[j];
            ret[j] += line[j] * slope;
        }
        ret[i] += sum + line[i] * slope;
    }
}

double agent_filter_update(struct agent_filter *filter, const double *h, double innovation,
                           double noise)
{
    double *gain = filter->gain;
    double expected = noise;

    agent_filter_times(filter, h, gain);
    for (size_t i = 0; i < filter->n; i++)
        expected += h[i] * gain[i];
    if (!isfinite(expected) || !isfinite(innovation) || expected < noise * 0.5 || noise <= 0)
        return -1;
    for (size_t i = 0; i < filter->n; i++) {
        double *line = row(filter, i), part = gain[i] / expected;
        filter->mean[i] += part * innovation;
        if (part == 0)
            continue;
        for (size_t j = 0; j <= i; j++)
            line[j] -= part * gain[j];
        line[i] = fmax(line[i], filter->floor[i]);
    }
    return expected;
}
