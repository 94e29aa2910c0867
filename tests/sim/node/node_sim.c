/* SPDX-License-Identifier: Apache-2.0 */
/* Who runs where and for how long; node_physics.c says what it draws. */
#include "tests/sim/node/node_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/sim/node/node_sim_impl.h"

#define CORES_MAX 128
#define PODS_MAX  1200
#define SWING     0.4 /* standard deviation of the logarithm */
#define QUIET_NS  (5 * KW_NS_PER_S)

static const struct mix mixes[] = {
    {2.60, 0.42, 5e-4, 2e-5, 0.58, false},    /* integer */
    {3.20, 0.38, 3e-4, 1e-5, 0.55, false},    /* cryptography */
    {1.90, 1.10, 2e-3, 3e-4, 0.52, true},     /* wide vectors */
    {0.55, 0.60, 0.045, 0.022, 0.60, false},  /* streams through memory */
    {0.18, 0.55, 0.05, 0.028, 0.85, false},   /* chases pointers */
    {0.95, 0.50, 0.006, 0.0012, 0.66, false}, /* web server */
    {1.20, 0.48, 0.004, 0.0008, 0.62, false}, /* managed runtime */
    {0.80, 0.52, 0.012, 0.003, 0.68, false},  /* database */
    {1.00, 0.22, 1e-5, 1e-6, 0.60, false},    /* spins */
    {1.50, 0.46, 0.003, 0.0006, 0.60, false}, /* compression */
};

#define N_MIXES    KW_ARRAY_SIZE(mixes)
#define SYSTEM_MIX 5

/* splitmix64 */
static uint64_t next_u64(struct sim_node *node)
{
    uint64_t z = (node->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/** In [0, 1). */
static double uniform(struct sim_node *node)
{
    return (double)(next_u64(node) >> 11) * 0x1p-53;
}

/** Standard normal (Box and Muller). */
static double normal(struct sim_node *node)
{
    double u = uniform(node), v = uniform(node);

    return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

static double exponential(struct sim_node *node, double mean)
{
    return -mean * log(1 - uniform(node));
}

struct sim_node_conf sim_node_defaults(uint64_t seed, size_t pods, double threads)
{
    return (struct sim_node_conf){.seed = seed,
                                  .machine = sim_server,
                                  .cores = 16,
                                  .pods = pods,
                                  .threads = threads,
                                  .meter_noise = 0.01,
                                  .counter_noise = 0.01};
}

static void choose_program(struct sim_node *node, struct pod *pod)
{
    pod->mix = mixes[next_u64(node) % N_MIXES];
    pod->mix.ipc *= exp(0.1 * normal(node));
    pod->mix.nj *= exp(0.1 * normal(node));
    pod->mix.miss *= exp(0.2 * normal(node));
    pod->mix.llc = fmax(pod->mix.llc, pod->mix.miss);
}

/** The program of its own, or of its owner with small differences. */
static void choose_mix(struct sim_node *node, struct pod *pod)
{
    uint64_t random = node->random;

    if (pod->kin != 0)
        node->random = node->conf.seed + (pod->kin << 32) + node->phase_done;
    choose_program(node, pod);
    if (pod->kin == 0)
        return;
    node->random = random;
    pod->mix.ipc *= exp(node->conf.unlike * normal(node));
    pod->mix.nj *= exp(node->conf.unlike * normal(node));
}

static void make_pod(struct sim_node *node, struct pod *pod, bool short_lived)
{
    double mean = node->conf.threads / (double)node->conf.pods;

    *pod = (struct pod){.number = ++node->next_number, .life_left_s = HUGE_VAL, .swing = 1};
    if (node->conf.owners > 0)
        pod->kin = 1 + pod->number % node->conf.owners;
    choose_mix(node, pod);
    for (unsigned t = 0; t < THREADS_MAX; t++)
        pod->cpu[t] = (int)(next_u64(node) % (2 * node->conf.cores));
    if (short_lived) {
        pod->life_left_s = 0.05 + 0.25 * uniform(node);
        pod->threads = 1;
        pod->duty = 1;
        pod->on = true;
        pod->phase_left_s = HUGE_VAL;
        return;
    }
    /* on for half of the time, so twice the mean while on; spread by a factor of three */
    double want = mean * exp(0.5 * normal(node) - 0.125);
    if (node->conf.load == SIM_LOAD_BURSTS)
        want *= 2;
    want = fmin(want, (double)THREADS_MAX);
    pod->threads = (unsigned)fmin(THREADS_MAX, ceil(want / 0.9));
    pod->duty = fmin(1.0, want / pod->threads);
    pod->on_s = 1 + 9 * uniform(node);
    pod->off_s = pod->on_s;
    pod->on = node->conf.load == SIM_LOAD_STEADY || uniform(node) < 0.5;
    pod->phase_left_s =
        node->conf.load == SIM_LOAD_STEADY ? HUGE_VAL : exponential(node, pod->on_s);
}

static int reserve(struct sim_node *node, size_t n)
{
    if (n <= node->cap)
        return 0;
    size_t cap = 2 * n;
    struct pod *pods = reallocarray(node->pods, cap, sizeof(*pods));
    if (pods == NULL)
        return -1;
    node->pods = pods;
    struct agent_features *features = reallocarray(node->window.features, cap, sizeof(*features));
    if (features == NULL)
        return -1;
    node->window.features = features;
    struct sim_truth_share *truth = reallocarray(node->window.truth, cap, sizeof(*truth));
    if (truth == NULL)
        return -1;
    node->window.truth = truth;
    node->cap = cap;
    return 0;
}

struct sim_node *sim_node_new(const struct sim_node_conf *conf)
{
    kw_cleanup(sim_node_free) struct sim_node *node = calloc(1, sizeof(*node));

    if (node == NULL || conf->cores < 1 || conf->cores > CORES_MAX || conf->pods < 1 ||
        conf->pods > PODS_MAX || conf->machine.packages < 1 ||
        conf->machine.packages > PACKAGES_MAX)
        return NULL;
    node->conf = *conf;
    node->random = conf->seed;
    node->cpu_pod = calloc(2 * conf->cores, sizeof(int));
    if (node->cpu_pod == NULL || reserve(node, conf->pods + 1) < 0)
        return NULL;
    for (node->n = 0; node->n <= conf->pods; node->n++)
        make_pod(node, &node->pods[node->n], false);
    struct pod *system = &node->pods[0];
    system->mix = mixes[SYSTEM_MIX];
    system->number = 0;
    system->threads = 2;
    system->duty = 0.1;
    system->on = true;
    system->phase_left_s = HUGE_VAL;
    return KW_TAKE_PTR(node);
}

void sim_node_free(struct sim_node **node)
{
    struct sim_node *owned = KW_TAKE_PTR(*node);

    if (owned == NULL)
        return;
    free(owned->pods);
    free(owned->cpu_pod);
    free(owned->window.features);
    free(owned->window.truth);
    free(owned->departed);
    free(owned);
}

uint64_t sim_node_idle_mw(const struct sim_node *node, bool dram)
{
    const struct sim_machine *machine = &node->conf.machine;

    return (uint64_t)(1000 * (dram ? DRAM_IDLE_W : machine->idle_w * machine->packages));
}

unsigned sim_node_cpus(const struct sim_node *node)
{
    const struct sim_machine *machine = &node->conf.machine;

    return machine->single ? node->conf.cores : 2 * node->conf.cores - machine->efficient;
}

/** Whether each pod is on, and which of its threads want to run in this step. */
static void decide(struct sim_node *node)
{
    bool quiet = node->conf.quiet_start && node->now_ns < QUIET_NS;

    for (size_t i = 0; i < node->n; i++) {
        struct pod *pod = &node->pods[i];
        pod->phase_left_s -= STEP_S;
        if (pod->phase_left_s <= 0) {
            pod->on = !pod->on;
            pod->phase_left_s = exponential(node, pod->on ? pod->on_s : pod->off_s);
        }
        if (node->conf.swing_s > 0 && uniform(node) < STEP_S / node->conf.swing_s)
            pod->swing = exp(SWING * normal(node));
        pod->ipc_walk = pod->ipc_walk * (1 - 0.05 * STEP_S) + 0.05 * sqrt(STEP_S) * normal(node);
        for (unsigned t = 0; t < pod->threads; t++)
            pod->runs[t] = pod->on && !(quiet && i > 0) && uniform(node) < pod->duty;
    }
}

/** Siblings are 2c and 2c + 1; a core of one thread has no second one. */
static bool is_there(const struct sim_node *node, int cpu)
{
    return cpu % 2 == 0 ||
           (!node->conf.machine.single && !sim_core_is_efficient(node, (unsigned)cpu / 2));
}

/** A free CPU: where the thread ran last, else a core of its own, else any. */
static int free_cpu(const struct sim_node *node, int last)
{
    int any = NOBODY;

    if (!is_there(node, last))
        last ^= 1;
    if (node->cpu_pod[last] == NOBODY && node->cpu_pod[last ^ 1] == NOBODY)
        return last;
    for (int cpu = 0; cpu < (int)(2 * node->conf.cores); cpu++) {
        if (node->cpu_pod[cpu] != NOBODY || !is_there(node, cpu))
            continue;
        if (node->cpu_pod[cpu ^ 1] == NOBODY)
            return cpu;
        any = cpu;
    }
    return node->cpu_pod[last] == NOBODY ? last : any;
}

/** Puts threads on CPUs; who finds none waits for the next step. */
static void place(struct sim_node *node)
{
    size_t first = next_u64(node) % (node->n > 0 ? node->n : 1);

    for (unsigned cpu = 0; cpu < 2 * node->conf.cores; cpu++)
        node->cpu_pod[cpu] = NOBODY;
    for (size_t i = 0; i < node->n; i++) {
        size_t at = (first + i) % node->n;
        struct pod *pod = &node->pods[at];
        for (unsigned t = 0; t < pod->threads; t++) {
            if (!pod->runs[t])
                continue;
            int cpu = free_cpu(node, pod->cpu[t]);
            if (cpu == NOBODY)
                return;
            node->cpu_pod[cpu] = (int)at;
            pod->cpu[t] = cpu;
        }
    }
}

static void step(struct sim_node *node)
{
    decide(node);
    place(node);
    node->window.idle_dram_uj += 1e6 * STEP_S * DRAM_IDLE_W;
    for (unsigned package = 0; package < node->conf.machine.packages; package++)
        sim_package_step(node, package);
}

static int depart(struct sim_node *node, size_t i)
{
    struct sim_window *window = &node->window;

    if (window->n_departed == node->cap_departed) {
        size_t cap = node->cap_departed == 0 ? 64 : 2 * node->cap_departed;
        uint64_t *departed = reallocarray(node->departed, cap, sizeof(uint64_t));
        if (departed == NULL)
            return -1;
        node->departed = departed;
        node->cap_departed = cap;
    }
    node->departed[window->n_departed++] = node->pods[i].number;
    window->departed = node->departed;
    return 0;
}

/** Ends and births, at the beginning of a window. */
static int turn_over(struct sim_node *node, double seconds)
{
    for (size_t i = node->n; i-- > 1;) {
        if (node->pods[i].life_left_s > 0)
            continue;
        if (depart(node, i) < 0)
            return -1;
        node->pods[i] = node->pods[--node->n];
    }
    for (node->churn_due += node->conf.churn_per_s * seconds; node->churn_due >= 1 && node->n > 1;
         node->churn_due--) {
        size_t i = 1 + next_u64(node) % (node->n - 1);
        if (node->pods[i].life_left_s < HUGE_VAL)
            continue;
        if (depart(node, i) < 0)
            return -1;
        make_pod(node, &node->pods[i], false);
    }
    for (node->storm_due += node->conf.storm * seconds; node->storm_due >= 1; node->storm_due--) {
        if (reserve(node, node->n + 1) < 0)
            return -1;
        make_pod(node, &node->pods[node->n++], true);
    }
    return 0;
}

static uint64_t noisy(struct sim_node *node, double value, double noise)
{
    double seen = value * (1 + noise * normal(node));

    return seen > 0 ? (uint64_t)llround(seen) : 0;
}

static void fill(struct sim_node *node)
{
    struct sim_window *window = &node->window;

    window->cpu_uj =
        noisy(node, window->idle_cpu_uj + window->active_cpu_uj, node->conf.meter_noise);
    window->dram_uj =
        noisy(node, window->idle_dram_uj + window->active_dram_uj, node->conf.meter_noise);
    window->n = 0;
    double cycles = 0, ns = 0;
    for (size_t i = 0; i < node->n; i++) {
        struct pod *pod = &node->pods[i];
        if (i > 0 && pod->sum.cpu_ns == 0)
            continue;
        struct agent_features *seen = &window->features[window->n];
        *seen = pod->sum;
        cycles += (double)pod->sum.cycles;
        ns += (double)pod->sum.cpu_ns;
        seen->workload = pod->number;
        seen->kin = pod->kin;
        seen->cycles = noisy(node, (double)seen->cycles, node->conf.counter_noise);
        seen->instructions = noisy(node, (double)seen->instructions, node->conf.counter_noise);
        seen->llc_misses = noisy(node, (double)seen->llc_misses, node->conf.counter_noise);
        window->truth[window->n++] = pod->truth;
    }
    window->mhz = ns > 0 ? (unsigned)noisy(node, 1000 * cycles / ns, node->conf.counter_noise) : 0;
}

const struct sim_window *sim_node_run(struct sim_node *node, uint64_t interval_ns)
{
    struct sim_window *window = &node->window;
    double seconds = (double)interval_ns * 1e-9;

    window->interval_ns = interval_ns;
    window->idle_cpu_uj = window->idle_dram_uj = 0;
    window->active_cpu_uj = window->active_dram_uj = 0;
    window->n_departed = 0;
    if (turn_over(node, seconds) < 0)
        return NULL;
    for (size_t i = 0; i < node->n; i++) {
        node->pods[i].sum = (struct agent_features){0};
        node->pods[i].truth = (struct sim_truth_share){0};
    }
    if (node->conf.phase_s > 0 && !node->phase_done &&
        (double)node->now_ns * 1e-9 >= node->conf.phase_s) {
        node->phase_done = true;
        for (size_t i = 1; i < node->n; i++)
            choose_mix(node, &node->pods[i]);
    }
    for (uint64_t passed = 0; passed < interval_ns; passed += STEP_NS) {
        step(node);
        node->now_ns += STEP_NS;
    }
    for (size_t i = 0; i < node->n; i++)
        node->pods[i].life_left_s -= seconds;
    fill(node);
    return window;
}
