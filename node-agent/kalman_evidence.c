/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/kalman_evidence.h"

#include <math.h>

/* A minute, or what makes WINDOWS_MIN windows: workloads that came to differ are told apart soon,
 * and long windows get some that speak. */
#define MEMORY_S    60.0
#define WINDOWS_MIN 30.0

/* Fewer windows tell nothing; and the likelihood has to be e^DOUBT times as large, since errors are
 * not independent from window to window (tried: with 3, two recorded mg.D come out 3.4 % apart;
 * by CPU time they are 2.8 %, with 5, 2.7 %). */
#define WINDOWS_FIRST 8.0
#define DOUBT         5.0

#define LASTING_MAX 0.99 /* correlation of the errors of two windows in a row */

#define ERROR_MAX 10.0 /* times a window's energy: no more is made of an absurd one */

static double square(double x)
{
    return x * x;
}

void agent_evidence_take(struct agent_evidence *evidence, double apart, double alike,
                         double seconds)
{
    double keep = 1 - fmin(1 - exp(-seconds / MEMORY_S), 1 / WINDOWS_MIN);

    if (!isfinite(apart) || !isfinite(alike))
        return;
    apart = fmin(fmax(apart, -ERROR_MAX), ERROR_MAX);
    alike = fmin(fmax(alike, -ERROR_MAX), ERROR_MAX);
    evidence->apart = keep * evidence->apart + square(apart);
    evidence->alike = keep * evidence->alike + square(alike);
    evidence->lasting = keep * evidence->lasting + alike * evidence->last;
    evidence->last = alike;
    evidence->windows = keep * evidence->windows + 1;
}

double agent_evidence_told(const struct agent_evidence *evidence)
{
    if (evidence->windows < WINDOWS_FIRST || !(evidence->alike > 0))
        return 0;
    /* as many windows tell nothing new as errors last longer than one of them */
    double lasting = fmin(fmax(evidence->lasting / evidence->alike, 0), LASTING_MAX);
    double windows = evidence->windows * (1 - lasting) / (1 + lasting);
    /* of two normal distributions whose variances are what was seen */
    double log_likelihood = windows / 2 * log(evidence->alike / fmax(evidence->apart, 1e-300));
    return 1 / (1 + exp(DOUBT - log_likelihood));
}
