/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/attribution.h"

/* Time on cores, time on threads, instructions, last-level misses. */
#define AGENT_COEFFICIENTS 4

/**
 * What a workload's features come to under prior coefficients, in joules each: time at the
 * frequency `ghz` that it ran at (power as f V^2, energy of an instruction as V^2), siblings
 * sharing their core. What the machine does not have counts 0, and time stands for it. Of memory,
 * for a domain that is memory. Coefficients are of the order of magnitude of server cores (research
 * of Schoene 2021, CCF).
 */
void agent_features_joules(const struct agent_window *window, const struct agent_features *features,
                           double ghz, double ret[AGENT_COEFFICIENTS]);
