/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A turn of kube-scheduler: nodes that fit, from where the last turn ended and until there are
 * enough; points of its own plugins; points of the extender or plugin that the policy stands for;
 * the highest wins, ties by chance.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "extender/sim_impl.h"

/** Best score of an extender, and what the scheduler makes of one. */
#define LEVEL_MAX    10
#define LEVEL_POINTS 10

#define NS_PER_S 1e9

static bool has_room(const struct ext_sim *sim, uint32_t node, const struct ext_sim_pod *pod)
{
    const struct ext_sim_node *truth = &sim->input->nodes[node];
    const struct ext_sim_machine *machine = &sim->machines[node];

    return machine->n_pods < truth->pods_max &&
           machine->requested_mcpu + pod->request_mcpu <= (double)truth->curve.capacity_mcpu &&
           (truth->memory_mib <= 0 ||
            machine->requested_mib + pod->request_mib <= truth->memory_mib);
}

/** Nodes that fit. @return how many. */
static size_t find_nodes(struct ext_sim *sim, const struct ext_sim_pod *pod)
{
    uint32_t n = (uint32_t)sim->input->n_nodes, seen = 0;
    size_t wanted = ext_sim_sample_size(n), found = 0;

    if (n == 0)
        return 0;
    for (; seen < n && found < wanted; seen++) {
        uint32_t node = (sim->start + seen) % n;
        if (has_room(sim, node, pod))
            sim->found[found++] = node;
    }
    sim->start = (sim->start + seen) % n;
    return found;
}

static void ask_plugins(struct ext_sim *sim, const struct ext_sim_pod *pod, size_t n)
{
    enum ext_sim_policy policy = sim->conf.policy;
    bool beside = policy != EXT_SIM_SPREAD && policy != EXT_SIM_PACK && policy != EXT_SIM_TIERS;
    bool resources = !beside || sim->conf.profile == EXT_SIM_PROFILE_DEFAULT;
    const struct ext_sim_question question = {
        .request_mcpu = pod->request_mcpu,
        .request_mib = pod->request_mib,
        .has_workload = pod->workload > 0,
        .fit = resources,
        .balanced = resources && policy != EXT_SIM_TIERS,
        .most_allocated = policy == EXT_SIM_PACK,
    };

    for (size_t i = 0; i < n; i++) {
        uint32_t node = sim->found[i];
        const struct ext_sim_node *truth = &sim->input->nodes[node];
        const struct ext_sim_machine *machine = &sim->machines[node];
        sim->candidates[i] = (struct ext_sim_candidate){
            .capacity_mcpu = (double)truth->curve.capacity_mcpu,
            .capacity_mib = truth->memory_mib,
            .requested_mcpu = machine->requested_mcpu,
            .requested_mib = machine->requested_mib,
            .replicas = sim->replicas[pod->workload * sim->input->n_nodes + node],
        };
    }
    ext_sim_plugins(&question, sim->candidates, n, sim->values, sim->points);
}

static const struct ext_place *place_of(const struct ext_sim *sim, uint32_t node)
{
    return ext_place_good(sim->view.snapshot, node, (int64_t)(sim->now_s * NS_PER_S));
}

static void ask_kwatt(struct ext_sim *sim, uint32_t pod, size_t n)
{
    double request_mcpu = sim->input->pods[pod].request_mcpu;
    const struct ext_score_pod wanted = {.mcpu = request_mcpu > 0 ? request_mcpu : 100,
                                         .life_s = ext_sim_wake_s(sim, pod)};
    struct ext_score score;

    for (size_t i = 0; i < n; i++)
        sim->places[i] = place_of(sim, sim->found[i]);
    ext_score_begin(&score, &wanted, sim->scores);
    ext_score_take(&score, sim->places, n);
    (void)ext_score_end(&score, sim->levels);
}

/** What the pod adds by the node's learnt curve. */
static double marginal_mw(const struct ext_sim *sim, uint32_t node, double work_mcpu)
{
    const struct ext_sim_node *truth = &sim->input->nodes[node];
    const struct kw_curve *curve = &sim->view.learnt[node];
    const struct ext_node *seen = &sim->view.snapshot->nodes[node];
    double used = (seen->used_mcpu + seen->in_flight_mcpu) * truth->work_per_mcpu;

    return ext_sim_mw_at(truth, curve, used + work_mcpu) - ext_sim_mw_at(truth, curve, used);
}

/** The same by Peaks: measured use alone, and a pod beyond the node's capacity costs nothing. */
static double peaks_mw(const struct ext_sim *sim, uint32_t node, double mcpu)
{
    const struct ext_sim_peaks *peaks = &sim->peaks[node];
    const struct ext_node *seen = &sim->view.snapshot->nodes[node];
    double before = 100 * seen->used_mcpu / seen->capacity_mcpu;
    double after = 100 * (seen->used_mcpu + mcpu) / seen->capacity_mcpu;

    if (after > 100)
        return 0;
    return peaks->k1 * (exp(peaks->k2 * after) - exp(peaks->k2 * before));
}

/** Levels of the rivals: the range of the candidates, stretched. */
static void ask_rival(struct ext_sim *sim, const struct ext_sim_pod *pod, size_t n)
{
    double min = (double)INFINITY, max = -(double)INFINITY;

    for (size_t i = 0; i < n; i++) {
        sim->values[i] = sim->conf.policy == EXT_SIM_PEAKS
                             ? peaks_mw(sim, sim->found[i], pod->request_mcpu)
                             : marginal_mw(sim, sim->found[i], pod->request_mcpu);
        min = fmin(min, sim->values[i]);
        max = fmax(max, sim->values[i]);
    }
    for (size_t i = 0; i < n; i++)
        sim->levels[i] =
            max > min ? (uint8_t)lround(LEVEL_MAX * (max - sim->values[i]) / (max - min)) : 0;
}

int ext_sim_choose(struct ext_sim *sim, uint32_t pod, uint32_t *ret_node)
{
    const struct ext_sim_pod *wanted = &sim->input->pods[pod];
    enum ext_sim_policy policy = sim->conf.policy;
    int rc = ext_sim_view_renew(sim);
    if (rc == 0 && policy == EXT_SIM_TIERS)
        rc = ext_sim_tiers_renew(sim);
    size_t n = rc < 0 ? 0 : find_nodes(sim, wanted);
    uint64_t ties = 0;

    *ret_node = n > 0 ? sim->found[0] : EXT_SIM_NOWHERE;
    if (n < 2)
        return rc; /* the scheduler asks nobody, either */
    ask_plugins(sim, wanted, n);
    if (policy == EXT_SIM_KWATT)
        ask_kwatt(sim, pod, n);
    else if (policy == EXT_SIM_TIERS)
        ext_sim_tiers_score(sim, n);
    else if (policy == EXT_SIM_MARGINAL || policy == EXT_SIM_PEAKS)
        ask_rival(sim, wanted, n);
    int64_t best = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        int64_t points = sim->points[i];
        if (policy != EXT_SIM_SPREAD && policy != EXT_SIM_PACK && policy != EXT_SIM_TIERS)
            points += (int64_t)sim->levels[i] * LEVEL_POINTS * sim->conf.weight;
        ties = points > best ? 1 : ties + (points == best);
        if (points > best || (points == best && ext_sim_next(&sim->random) % ties == 0))
            *ret_node = sim->found[i];
        best = points > best ? points : best;
    }
    return 0;
}

/** Watts that an exponent leaves unexplained, and its factors (least squares of two). */
static double misfit(const struct kw_curve *curve, double k2, double *ret_k1)
{
    double n = curve->n, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;

    for (uint32_t i = 0; i < curve->n; i++) {
        double x = exp(k2 * curve->knots[i].load_permille / 10), y = curve->knots[i].mw;
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
        syy += y * y;
    }
    double spread = sxx - sx * sx / n;
    *ret_k1 = (sxy - sx * sy / n) / spread;
    return syy - sy * sy / n - *ret_k1 * (sxy - sx * sy / n);
}

int ext_sim_fit_peaks(struct ext_sim *sim)
{
    sim->peaks = calloc(sim->input->n_nodes + 1, sizeof(*sim->peaks));
    if (sim->peaks == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < sim->input->n_nodes; i++) {
        double least = (double)INFINITY;
        for (int step = -100; step <= 100; step++) {
            double k2 = step * 1e-3 + 5e-4, k1; /* never 0 */
            double rest = misfit(&sim->view.learnt[i], k2, &k1);
            if (rest < least)
                sim->peaks[i] = (struct ext_sim_peaks){k1, k2};
            least = fmin(least, rest);
        }
    }
    return 0;
}
