/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/kalman_features.h"

#include <math.h>
#include <string.h>

enum { CORE, THREAD, INSTRUCTION, MISS };

/* Prior coefficients: of the order of magnitude of server cores at 3 GHz. Only their proportions
 * matter for long, since COMMON lets the filter find the scale of the machine. */
#define CORE_W         1.5
#define THREAD_W       0.6
#define INSTRUCTION_NJ 0.5
#define MISS_NJ        8.0 /* cache and memory controller */
#define DRAM_MISS_NJ   18.0
#define DRAM_THREAD_W  0.1
#define TIME_ONLY      2.0 /* times CORE_W where time has to stand for instructions too */
#define REFERENCE_GHZ  3.0

void agent_features_joules(const struct agent_window *window, const struct agent_features *features,
                           double ghz, double ret[AGENT_COEFFICIENTS])
{
    bool counters = (window->has & AGENT_HAS_COUNTERS) != 0;
    double thread_s = (double)features->cpu_ns * 1e-9;
    double shared_s = fmin((double)features->shared_ns * 1e-9, thread_s);
    double core_s = (window->has & AGENT_HAS_SMT) != 0 ? thread_s - shared_s / 2 : thread_s;
    /* voltage goes with frequency: power as f V^2, energy of an instruction as V^2; over the range
     * that cores run at, V^2 is about proportional to f */
    double speed = ghz / REFERENCE_GHZ;
    memset(ret, 0, AGENT_COEFFICIENTS * sizeof(double));
    if (window->dram) {
        ret[THREAD] = DRAM_THREAD_W * thread_s;
        ret[MISS] = counters ? DRAM_MISS_NJ * 1e-9 * (double)features->llc_misses : 0;
        return;
    }
    ret[CORE] = CORE_W * (counters ? 1 : TIME_ONLY) * core_s * speed * speed;
    ret[THREAD] = THREAD_W * thread_s * speed * speed;
    if (counters) {
        ret[INSTRUCTION] = INSTRUCTION_NJ * 1e-9 * (double)features->instructions * speed;
        ret[MISS] = MISS_NJ * 1e-9 * (double)features->llc_misses;
    }
}
