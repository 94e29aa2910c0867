/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time goes from event to event: a pod comes, runs (as the API server tells the extender), ends; an
 * empty node falls asleep. What all nodes draw is known between two events, so that energy is exact
 * but for rounding, and an event costs what one node changes. Pods that find no room wait, and try
 * again whenever one ends; they end when they were to end, wherever they are, so that each policy
 * has the same work to do.
 */
#include "extender/sim.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "extender/sim_impl.h"

/** From binding to running: image and sandbox are there. */
#define START_S 2.0

/** Load that is too high for comfort. */
#define HIGH 0.85

/** Waiting pods that are tried when one ends. */
#define RETRIES 64

const char *const ext_sim_policy_names[EXT_SIM_POLICY__MAX] = {
    [EXT_SIM_SPREAD] = "spread", [EXT_SIM_PACK] = "pack",   [EXT_SIM_MARGINAL] = "marginal",
    [EXT_SIM_PEAKS] = "peaks",   [EXT_SIM_KWATT] = "kwatt", [EXT_SIM_TIERS] = "tiers",
};
_Static_assert(sizeof(ext_sim_policy_names) / sizeof(*ext_sim_policy_names) == EXT_SIM_POLICY__MAX,
               "every policy has a name");

enum kind { RUNS, ENDS, SLEEPS };

struct event {
    double at_s;
    enum kind kind;
    uint32_t of;    /* pod or node */
    uint32_t times; /* SLEEPS: times_empty of the node when this was intended */
};

struct run {
    struct ext_sim sim;
    struct event *events; /* a heap, the first on top */
    size_t n_events;
    uint32_t *waiting;
    size_t n_waiting;
    double total_mw, priced_mw; /* all nodes; each by the price of its energy */
    double done_mcpu;           /* work, of all nodes */
    size_t n_high;
    double high_s;
    struct ext_sim_result result;
};

/* ---- numbers ---- */

uint64_t ext_sim_next(uint64_t *state)
{
    /* xorshift64* (Vigna 2016) */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

double ext_sim_normal(uint64_t number)
{
    /* two halves of the number, by Box and Muller */
    double u = ((double)(number >> 32) + 1) / 4294967297.0;
    double v = (double)(number & UINT32_MAX) / 4294967296.0;

    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979 * v);
}

double ext_sim_mw_at(const struct ext_sim_node *node, const struct kw_curve *curve,
                     double work_mcpu)
{
    double load = 1000 * work_mcpu / node->work_per_mcpu / (double)curve->capacity_mcpu;
    uint32_t i = 1;

    if (load >= 1000)
        return curve->knots[curve->n - 1].mw;
    while (i + 1 < curve->n && load > curve->knots[i].load_permille)
        i++;
    const struct kw_curve_knot *from = &curve->knots[i - 1], *to = &curve->knots[i];
    double part = (load - from->load_permille) / (to->load_permille - from->load_permille);
    return from->mw + part * ((double)to->mw - from->mw);
}

/* ---- events ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    if (a->at_s != b->at_s)
        return a->at_s < b->at_s;
    return a->kind != b->kind ? a->kind < b->kind : a->of < b->of;
}

static void push(struct run *run, struct event event)
{
    size_t at = run->n_events++;

    while (at > 0 && is_before(&event, &run->events[(at - 1) / 2])) {
        run->events[at] = run->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    run->events[at] = event;
}

static struct event pop(struct run *run)
{
    struct event first = run->events[0], last = run->events[--run->n_events];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < run->n_events && is_before(&run->events[child + 1], &run->events[child]))
            child++;
        if (child >= run->n_events || !is_before(&run->events[child], &last))
            break;
        run->events[at] = run->events[child];
        at = child;
    }
    run->events[at] = last;
    return first;
}

/* ---- what nodes draw ---- */

/** Lets time pass up to an event. */
static void pass(struct run *run, double to_s)
{
    struct ext_sim *sim = &run->sim;
    double from_s = fmax(sim->now_s, sim->conf.from_s);
    double end_s = fmin(to_s, sim->conf.to_s);

    if (end_s > from_s) {
        double span_s = end_s - from_s;
        run->result.energy_uj += run->total_mw * span_s * 1e3;
        run->result.priced_uj += run->priced_mw * span_s * 1e3;
        run->high_s += (double)run->n_high * span_s;
        run->result.peak_mw = fmax(run->result.peak_mw, run->total_mw);
        run->result.work_mcpu_s += run->done_mcpu * span_s;
    }
    sim->now_s = to_s;
}

static bool is_high(const struct ext_sim_node *node, double work_mcpu)
{
    return work_mcpu / node->work_per_mcpu > HIGH * (double)node->curve.capacity_mcpu;
}

/** What a node does of the work that it is asked for. */
static double done(const struct ext_sim_node *node, double work_mcpu)
{
    return fmin(work_mcpu, (double)node->curve.capacity_mcpu * node->work_per_mcpu);
}

static double price_of(const struct ext_sim_node *node)
{
    return node->energy_price > 0 ? node->energy_price : 1;
}

/** A node's load or state has changed. */
static void update(struct run *run, uint32_t index, double work_mcpu)
{
    const struct ext_sim_node *node = &run->sim.input->nodes[index];
    struct ext_sim_machine *machine = &run->sim.machines[index];
    double mw = machine->asleep ? node->sleep_mw : ext_sim_mw_at(node, &node->curve, work_mcpu);

    run->n_high += (size_t)is_high(node, work_mcpu) - (size_t)is_high(node, machine->work_mcpu);
    run->done_mcpu += done(node, work_mcpu) - done(node, machine->work_mcpu);
    run->total_mw += mw - machine->mw;
    run->priced_mw += (mw - machine->mw) * price_of(node);
    machine->mw = mw;
    machine->work_mcpu = work_mcpu;
    const struct ext_sim_change *last =
        &machine->past[(machine->n_past + EXT_SIM_PAST - 1) % EXT_SIM_PAST];
    double sum = machine->n_past == 0
                     ? 0
                     : last->sum_mcpu_s + last->work_mcpu * (run->sim.now_s - last->at_s);
    machine->past[machine->n_past++ % EXT_SIM_PAST] =
        (struct ext_sim_change){run->sim.now_s, work_mcpu, sum};
}

static void intend_sleep(struct run *run, uint32_t node)
{
    struct ext_sim_machine *machine = &run->sim.machines[node];

    if (run->sim.input->nodes[node].sleepable && machine->n_pods == 0)
        push(run,
             (struct event){run->sim.now_s + EXT_SIM_TAIL_S, SLEEPS, node, ++machine->times_empty});
}

/* ---- pods ---- */

static void occupy(struct run *run, uint32_t pod, uint32_t node)
{
    const struct ext_sim_pod *wanted = &run->sim.input->pods[pod];
    struct ext_sim_machine *machine = &run->sim.machines[node];

    if (machine->asleep) {
        machine->asleep = false;
        if (run->sim.now_s >= run->sim.conf.from_s && run->sim.now_s < run->sim.conf.to_s) {
            const struct ext_sim_node *woken = &run->sim.input->nodes[node];
            run->result.energy_uj += woken->wake_uj;
            run->result.priced_uj += woken->wake_uj * price_of(woken);
            run->result.wakes++;
        }
    }
    machine->n_pods++;
    machine->requested_mcpu += wanted->request_mcpu;
    machine->requested_mib += wanted->request_mib;
    run->sim.replicas[wanted->workload * run->sim.input->n_nodes + node]++;
    run->sim.node_of[pod] = node;
    ext_sim_lives_begin(&run->sim, pod);
    update(run, node, machine->work_mcpu + wanted->work_mcpu);
    push(run, (struct event){fmin(run->sim.now_s + START_S, wanted->end_s), RUNS, pod, 0});
    push(run, (struct event){wanted->end_s, ENDS, pod, 0});
}

static void vacate(struct run *run, uint32_t pod)
{
    const struct ext_sim_pod *ended = &run->sim.input->pods[pod];
    uint32_t node = run->sim.node_of[pod];
    struct ext_sim_machine *machine = &run->sim.machines[node];

    machine->n_pods--;
    machine->requested_mcpu -= ended->request_mcpu;
    machine->requested_mib -= ended->request_mib;
    run->sim.replicas[ended->workload * run->sim.input->n_nodes + node]--;
    if (machine->n_pods == 0) /* what rounding left */
        machine->requested_mcpu = machine->requested_mib = 0;
    update(run, node, machine->n_pods == 0 ? 0 : machine->work_mcpu - ended->work_mcpu);
    intend_sleep(run, node);
}

/** @return 1: placed; 0: no room; -ENOMEM. */
static int place(struct run *run, uint32_t pod)
{
    uint32_t node;
    int rc = ext_sim_choose(&run->sim, pod, &node);

    if (rc < 0 || node == EXT_SIM_NOWHERE)
        return rc;
    rc = ext_sim_view_bound(&run->sim, pod, node);
    if (rc < 0)
        return rc;
    occupy(run, pod, node);
    return 1;
}

static int retry(struct run *run)
{
    size_t kept = 0;

    for (size_t i = 0; i < run->n_waiting; i++) {
        uint32_t pod = run->waiting[i];
        if (run->sim.input->pods[pod].end_s <= run->sim.now_s) {
            run->result.unplaced++;
            continue;
        }
        int rc = i < RETRIES ? place(run, pod) : 0;
        if (rc < 0)
            return rc;
        if (rc == 0)
            run->waiting[kept++] = pod;
    }
    run->n_waiting = kept;
    return 0;
}

static int handle(struct run *run, const struct event *event)
{
    struct ext_sim_machine *machine;

    switch (event->kind) {
    case RUNS: ext_sim_view_runs(&run->sim, event->of); return 0;
    case ENDS:
        ext_sim_view_gone(&run->sim, event->of);
        ext_sim_lives_end(&run->sim, event->of);
        vacate(run, event->of);
        return retry(run);
    case SLEEPS:
        machine = &run->sim.machines[event->of];
        if (machine->n_pods == 0 && machine->times_empty == event->times) {
            machine->asleep = true;
            update(run, event->of, 0);
        }
        return 0;
    }
    return 0;
}

static int live(struct run *run)
{
    const struct ext_sim_input *input = run->sim.input;
    double to_s = run->sim.conf.to_s;
    size_t next = 0;
    int rc = 0;

    for (uint32_t i = 0; i < input->n_nodes; i++) {
        update(run, i, 0);
        intend_sleep(run, i);
    }
    while (rc == 0) {
        double arrival_s = next < input->n_pods ? input->pods[next].arrival_s : (double)INFINITY;
        double event_s = run->n_events > 0 ? run->events[0].at_s : (double)INFINITY;
        if (fmin(arrival_s, event_s) >= to_s)
            break;
        if (event_s <= arrival_s) {
            struct event event = pop(run);
            pass(run, event.at_s);
            rc = handle(run, &event);
            continue;
        }
        pass(run, arrival_s);
        rc = place(run, (uint32_t)next);
        if (rc == 0) {
            run->waiting[run->n_waiting++] = (uint32_t)next;
            run->result.waited++;
        }
        rc = rc < 0 ? rc : 0;
        next++;
    }
    if (rc == 0)
        pass(run, to_s);
    run->result.unplaced += run->n_waiting;
    return rc;
}

/* ---- begin and end ---- */

static int check(const struct ext_sim_input *input, const struct ext_sim_conf *conf)
{
    if (input->n_nodes == 0 || input->n_nodes >= UINT32_MAX || input->n_pods >= UINT32_MAX / 4 ||
        conf->policy >= EXT_SIM_POLICY__MAX || !(conf->interval_s > 0) || !(conf->late_s >= 0) ||
        !(conf->noise >= 0) || !(conf->tier_age_s >= 0) || !(conf->from_s >= 0) ||
        !(conf->to_s > conf->from_s) || conf->seed == 0)
        return -EINVAL;
    for (size_t i = 0; i < input->n_nodes; i++) {
        if (kw_curve_check(&input->nodes[i].curve) != NULL || !(input->nodes[i].work_per_mcpu > 0))
            return -EINVAL;
    }
    for (size_t i = 0; i < input->n_pods; i++) {
        const struct ext_sim_pod *pod = &input->pods[i];
        if (!(pod->end_s > pod->arrival_s) || pod->workload > input->n_workloads ||
            pod->owner > input->n_owners ||
            pod->arrival_s < (i > 0 ? input->pods[i - 1].arrival_s : 0))
            return -EINVAL;
    }
    return 0;
}

static void clear(struct run *run)
{
    struct ext_sim *sim = &run->sim;

    ext_sim_view_clear(sim);
    free(run->events);
    free(run->waiting);
    free(sim->machines);
    free(sim->replicas);
    free(sim->node_of);
    free(sim->lives);
    free(sim->peaks);
    ext_sim_tiers_clear(sim);
    free(sim->found);
    free(sim->candidates);
    free(sim->places);
    free(sim->scores);
    free(sim->values);
    free(sim->points);
    free(sim->levels);
}

static int prepare(struct run *run)
{
    struct ext_sim *sim = &run->sim;
    size_t n = sim->input->n_nodes, pods = sim->input->n_pods;

    run->events = calloc(3 * pods + n + 1, sizeof(*run->events));
    run->waiting = calloc(pods + 1, sizeof(*run->waiting));
    sim->machines = calloc(n, sizeof(*sim->machines));
    sim->replicas = calloc((size_t)sim->input->n_workloads + 1, n * sizeof(*sim->replicas));
    sim->node_of = calloc(pods + 1, sizeof(*sim->node_of));
    sim->found = calloc(n, sizeof(*sim->found));
    sim->candidates = calloc(n, sizeof(*sim->candidates));
    sim->places = calloc(n, sizeof(void *));
    sim->scores = calloc(n, sizeof(*sim->scores));
    sim->values = calloc(n, sizeof(*sim->values));
    sim->points = calloc(n, sizeof(*sim->points));
    sim->levels = calloc(n, sizeof(*sim->levels));
    if (run->events == NULL || run->waiting == NULL || sim->machines == NULL ||
        sim->replicas == NULL || sim->node_of == NULL || sim->found == NULL ||
        sim->candidates == NULL || sim->places == NULL || sim->scores == NULL ||
        sim->values == NULL || sim->points == NULL || sim->levels == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < pods; i++)
        sim->node_of[i] = EXT_SIM_NOWHERE;
    int rc = ext_sim_view_init(sim);
    if (rc == 0)
        rc = ext_sim_lives_init(sim);
    if (rc == 0 && sim->conf.policy == EXT_SIM_PEAKS)
        rc = ext_sim_fit_peaks(sim);
    if (rc == 0 && sim->conf.policy == EXT_SIM_TIERS)
        rc = ext_sim_tiers_init(sim);
    return rc;
}

int ext_sim_run(const struct ext_sim_input *input, const struct ext_sim_conf *conf,
                struct ext_sim_result *ret, uint32_t *ret_nodes)
{
    struct run run = {.sim = {.input = input, .conf = *conf, .random = conf->seed}};
    int rc = check(input, conf);

    if (rc == 0)
        rc = prepare(&run);
    if (rc == 0)
        rc = live(&run);
    if (rc == 0) {
        double span_s = conf->to_s - conf->from_s;
        run.result.mean_mw = run.result.energy_uj / span_s * 1e-3;
        run.result.over_permille = 1000 * run.high_s / span_s / (double)input->n_nodes;
        *ret = run.result;
        for (size_t i = 0; ret_nodes != NULL && i < input->n_pods; i++)
            ret_nodes[i] = run.sim.node_of[i];
    }
    clear(&run);
    return rc;
}

struct ext_sim_conf ext_sim_defaults(enum ext_sim_policy policy, double to_s)
{
    return (struct ext_sim_conf){
        .policy = policy, .weight = 3, .interval_s = 5, .tier_age_s = 60, .to_s = to_s, .seed = 1};
}

void ext_sim_input_free(struct ext_sim_input *input)
{
    free(input->nodes);
    free(input->pods);
    *input = (struct ext_sim_input){0};
}
