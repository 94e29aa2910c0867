/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether workloads can be told apart by what the meter shows. Two filters foretell each window,
 * one with an intensity for each workload and one with the same for all; only where the first one
 * errs clearly less is what it holds of single workloads more than noise. Programs whose power
 * changes by phases, at a CPU time that hardly does, let any filter find differences; those
 * foretell nothing. Pure. Starts as zeros.
 */
struct agent_evidence {
    double apart, alike; /**< sums of squared errors, of a window's energy, that fade */
    double windows;      /**< that they are sums of, faded as well */
    double last;         /**< error of the latter in the last window */
    double lasting;      /**< sum of its products with that of the window before */
};

/** Takes the errors of a window in, each of the window's energy. @param seconds its length. */
void agent_evidence_take(struct agent_evidence *evidence, double apart, double alike,
                         double seconds);

/** How much of what sets workloads apart is to be believed, 0..1. */
double agent_evidence_told(const struct agent_evidence *evidence);
