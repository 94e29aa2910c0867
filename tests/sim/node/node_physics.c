/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physics, per step of 10 ms; figures in brackets are those of sim_server:
 *   package   idle_w (28), and wake_w (12) more while any core of it is awake
 *   core      awake_w (0.35) awake; base_w (1.15) while it runs, shared by its siblings, and own_w
 *             (0.25) for each thread, both times f/3 GHz x (V/V0)^2
 *   voltage   low_v (0.72) at 1.2 GHz rising to high_v (1.08) at 3.6 GHz; V0 = 0.99 V
 *   frequency max_ghz (3.6) with two cores awake, ghz_of_core (0.055) less with each further one of
 *             the package, wide_ghz (0.45) less on a core that runs wide vector code; all cores
 * slow down by 2 % a step while the package draws more than cap_w work      instructions x energy
 * of the mix x work (1) x (V/V0)^2; 2 nJ for a reference to the last-level cache, 6 nJ in the
 * memory controller and 18 nJ in memory for a line memory    7 W background efficient cores run at
 * 0.7 of the frequency with 0.65 of the instructions per cycle, at 0.3 of a core's own power and
 * 0.5 of the energy of an instruction Values of the order of magnitude that the sources of
 * ../../../docs/accuracy.md give.
 */
#include <math.h>

#include "tests/sim/node/node_sim_impl.h"

#define LLC_NJ    2.0
#define MC_NJ     6.0
#define DRAM_NJ   18.0
#define V0        0.99
#define SLOW_GHZ  0.7 /* of an efficient core, beside others */
#define SLOW_IPC  0.65
#define SLOW_BASE 0.3
#define SLOW_WORK 0.5
#define THROTTLE  0.02

const struct sim_machine sim_server = {.idle_w = 28,
                                       .wake_w = 12,
                                       .awake_w = 0.35,
                                       .base_w = 1.15,
                                       .own_w = 0.25,
                                       .max_ghz = 3.6,
                                       .min_ghz = 0.8,
                                       .ghz_of_core = 0.055,
                                       .wide_ghz = 0.45,
                                       .low_v = 0.72,
                                       .high_v = 1.08,
                                       .work = 1,
                                       .packages = 1};

bool sim_core_is_efficient(const struct sim_node *node, unsigned core)
{
    return core + node->conf.machine.efficient >= node->conf.cores;
}

/** How a core runs in a step. */
struct pace {
    double ghz, v2; /* voltage's square, of V0's */
    bool efficient;
};

static struct pace pace_of(const struct sim_node *node, unsigned core, unsigned awake, bool wide)
{
    const struct sim_machine *machine = &node->conf.machine;
    unsigned package = core % machine->packages;
    struct pace ret = {.efficient = sim_core_is_efficient(node, core)};
    double ghz = machine->max_ghz - machine->ghz_of_core * (awake > 2 ? awake - 2 : 0) -
                 (wide ? machine->wide_ghz : 0);

    ghz *= (1 - node->slowed[package]) * (ret.efficient ? SLOW_GHZ : 1);
    ret.ghz = fmax(ghz, machine->min_ghz);
    double volt = machine->low_v + (machine->high_v - machine->low_v) * (ret.ghz - 1.2) / 2.4;
    ret.v2 = volt * volt / (V0 * V0);
    return ret;
}

/** What one thread does in a step on its own; returns its instructions. */
static double run_thread(struct sim_node *node, struct pod *pod, const struct pace *pace,
                         bool shared)
{
    struct sim_window *window = &node->window;
    double speed = (shared ? pod->mix.smt : 1) * (pace->efficient ? SLOW_IPC : 1);
    double cycles = pace->ghz * 1e9 * STEP_S;
    double instructions = cycles * pod->mix.ipc * exp(pod->ipc_walk) * speed;
    double misses = instructions * pod->mix.miss;
    double nj =
        pod->mix.nj * pod->swing * node->conf.machine.work * (pace->efficient ? SLOW_WORK : 1);
    double own_w = node->conf.machine.own_w * (pace->efficient ? SLOW_BASE : 1);
    double cpu_uj = 1e-3 * (instructions * nj * pace->v2 + instructions * pod->mix.llc * LLC_NJ +
                            misses * MC_NJ) +
                    1e6 * STEP_S * own_w * pace->ghz / 3 * pace->v2;
    double dram_uj = 1e-3 * misses * DRAM_NJ;

    pod->sum.cpu_ns += STEP_NS;
    pod->sum.shared_ns += shared ? STEP_NS : 0;
    pod->sum.cycles += (uint64_t)cycles;
    pod->sum.instructions += (uint64_t)instructions;
    pod->sum.llc_misses += (uint64_t)misses;
    pod->truth.cpu_uj += cpu_uj;
    pod->truth.dram_uj += dram_uj;
    window->active_cpu_uj += cpu_uj;
    window->active_dram_uj += dram_uj;
    return instructions;
}

/** Energy of a core beyond its threads' own, to its threads. */
static void share_core(const struct sim_node *node, struct pod *const *on, const double *work,
                       unsigned n_on, double core_uj, double awake_uj)
{
    double all = work[0] + work[1];

    for (unsigned k = 0; k < n_on; k++) {
        double part = node->conf.truth == SIM_TRUTH_WORK && all > 0 ? work[k] / all : 1.0 / n_on;
        on[k]->truth.cpu_uj += core_uj * part + awake_uj / n_on;
    }
}

/** Threads that run on a core. @return how many, of `ret`. */
static unsigned threads_on(struct sim_node *node, unsigned core, struct pod *ret[2], bool *ret_wide)
{
    unsigned n = 0;

    *ret_wide = false;
    for (unsigned s = 0; s < 2; s++) {
        int at = node->cpu_pod[2 * core + s];
        if (at == NOBODY)
            continue;
        ret[n++] = &node->pods[at];
        *ret_wide = *ret_wide || node->pods[at].mix.wide;
    }
    return n;
}

void sim_package_step(struct sim_node *node, unsigned package)
{
    const struct sim_machine *machine = &node->conf.machine;
    struct sim_window *window = &node->window;
    double before_uj = window->active_cpu_uj;
    unsigned awake = 0, running = 0;
    struct pod *on[2];
    bool wide = false;

    window->idle_cpu_uj += 1e6 * STEP_S * machine->idle_w;
    for (unsigned c = package; c < node->conf.cores; c += machine->packages) {
        unsigned n_on = threads_on(node, c, on, &wide);
        awake += n_on > 0;
        running += n_on;
    }
    if (awake > 0)
        window->active_cpu_uj += 1e6 * STEP_S * machine->wake_w;
    for (unsigned c = package; c < node->conf.cores; c += machine->packages) {
        double work[2] = {0, 0};
        unsigned n_on = threads_on(node, c, on, &wide);
        if (n_on == 0)
            continue;
        struct pace pace = pace_of(node, c, awake, wide);
        for (unsigned k = 0; k < n_on; k++)
            work[k] = run_thread(node, on[k], &pace, n_on == 2);
        double core_uj = 1e6 * STEP_S * (pace.efficient ? SLOW_BASE : 1) *
                         (machine->awake_w + machine->base_w * pace.ghz / 3 * pace.v2);
        double wake_uj =
            1e6 * STEP_S * machine->wake_w *
            (node->conf.truth == SIM_TRUTH_WORK ? 1.0 / awake : (double)n_on / running);
        window->active_cpu_uj += core_uj;
        share_core(node, on, work, n_on, core_uj, wake_uj);
    }
    double drawn_w = machine->idle_w + (window->active_cpu_uj - before_uj) / (1e6 * STEP_S);
    if (machine->cap_w > 0)
        node->slowed[package] = fmin(
            fmax(node->slowed[package] + (drawn_w > machine->cap_w ? THROTTLE : -THROTTLE), 0), 1);
}
