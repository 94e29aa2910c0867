/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/cluster/cluster_sim.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"

const char *const sim_fleet_names[SIM_FLEET__MAX] = {
    [SIM_FLEET_NEW] = "new",     [SIM_FLEET_OLD] = "old",   [SIM_FLEET_MIXED] = "mixed",
    [SIM_FLEET_SLEEP] = "sleep", [SIM_FLEET_AGED] = "aged", [SIM_FLEET_UNLIKE] = "unlike",
};
const char *const sim_trace_names[SIM_TRACE__MAX] = {
    [SIM_TRACE_STEADY] = "steady",
    [SIM_TRACE_DAY] = "day",
    [SIM_TRACE_RECORDED] = "recorded",
};

/* ---- machines ---- */

/** A kind of machine: two sockets, watts of all of it at 0, 10 ... 100 % of its throughput. */
struct kind {
    const char *name;
    unsigned threads;
    double speed; /* work of a thread, of the oldest's */
    double watts[KW_CURVE_KNOTS];
};

/* E5-2660 and EPYC 7742 are fits to the SPECpower results of 34 and 12 servers, in
 * kepler-model-db (Apache-2.0) at 3bb4d64, with the work of a core as stated there; EPYC 9654 is
 * one server's result, as Joulie (Apache-2.0) at c38b80d quotes it. Figures of single results are
 * no official ones and compare no vendors. */
static const struct kind old = {
    "e5-2660", 32, 1, {64.9, 76.1, 88.5, 102.5, 118.2, 135.7, 155.4, 177.5, 202.3, 230.1, 261.2}};
static const struct kind middle = {
    "epyc-7742",
    256,
    1.09,
    {128.5, 171.0, 209.4, 244.1, 275.5, 303.8, 329.5, 352.7, 373.6, 392.6, 409.7}};
static const struct kind new = {
    "epyc-9654", 384, 1.41, {128, 257, 300, 340, 378, 410, 442, 498, 577, 697, 817}};
static const struct kind newer = {
    "epyc-9655", 384, 1, {138, 297, 367, 438, 515, 593, 661, 710, 771, 812, 861}};
static const struct kind dense = {
    "epyc-9965", 768, 1, {157, 265, 314, 362, 412, 461, 503, 544, 587, 661, 800}};

/** Fleets: how many of each kind at scale 1. */
#define KINDS_MAX 3
static const struct {
    const struct kind *kind;
    unsigned count;
} fleets[SIM_FLEET__MAX][KINDS_MAX] = {
    [SIM_FLEET_NEW] = {{&new, 24}},
    [SIM_FLEET_OLD] = {{&old, 100}},
    [SIM_FLEET_MIXED] = {{&new, 10}, {&newer, 10}, {&dense, 10}},
    [SIM_FLEET_SLEEP] = {{&new, 10}, {&newer, 10}, {&dense, 10}},
    [SIM_FLEET_AGED] = {{&old, 48}, {&middle, 16}, {&new, 8}},
    [SIM_FLEET_UNLIKE] = {{&old, 48}, {&middle, 16}, {&new, 8}},
};

/** Of a machine for general use. */
#define MIB_PER_THREAD 6144

/** What a server draws in S5 with its management controller up, and how long it takes to boot. */
#define SLEEP_MW 8000
#define BOOT_S   120.0

static void add_nodes(struct ext_sim_input *input, const struct kind *kind, size_t count,
                      enum sim_fleet fleet)
{
    for (size_t i = 0; i < count; i++) {
        struct ext_sim_node *node = &input->nodes[input->n_nodes++];
        *node = (struct ext_sim_node){
            .curve = {.capacity_mcpu = UINT64_C(1000) * kind->threads, .n = KW_CURVE_KNOTS},
            .work_per_mcpu = fleet == SIM_FLEET_UNLIKE ? kind->speed : 1,
            .memory_mib = (double)MIB_PER_THREAD * kind->threads,
            .pods_max = kind->threads > 128 ? 500 : 110,
            .sleepable = fleet == SIM_FLEET_SLEEP,
            .sleep_mw = SLEEP_MW,
            .wake_uj = kind->watts[5] * 1e6 * BOOT_S,
        };
        (void)snprintf(node->name, sizeof(node->name), "%s-%zu", kind->name, i);
        for (uint32_t k = 0; k < KW_CURVE_KNOTS; k++)
            node->curve.knots[k] = (struct kw_curve_knot){.load_permille = 100 * k,
                                                          .mw = (uint32_t)(kind->watts[k] * 1000)};
    }
}

static int make_fleet(enum sim_fleet fleet, double scale, struct ext_sim_input *input)
{
    size_t n = 0;

    for (size_t k = 0; k < KINDS_MAX; k++)
        n += (size_t)(scale * fleets[fleet][k].count);
    input->nodes = calloc(n + 1, sizeof(*input->nodes));
    if (input->nodes == NULL)
        return -ENOMEM;
    for (size_t k = 0; k < KINDS_MAX; k++) {
        if (fleets[fleet][k].kind != NULL)
            add_nodes(input, fleets[fleet][k].kind, (size_t)(scale * fleets[fleet][k].count),
                      fleet);
    }
    return 0;
}

/* ---- pods ---- */

static double uniform(uint64_t *seed)
{
    *seed ^= *seed >> 12; /* xorshift64* */
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return (double)(*seed * UINT64_C(2685821657736338717) >> 11) * 0x1p-53;
}

/** A pod of the recording. */
struct recorded {
    double mcpu, mib, life_s;
};

#define RECORDED_MAX   4096
#define RECORDED_BYTES 262144

/** Longer lives outlast any run of ours. */
#define LIFE_MAX_S 20000.0

static size_t read_recording(struct recorded ret[RECORDED_MAX])
{
    char path[4096];
    kw_cleanup_free char *text = NULL;
    const char *root = getenv("KWATT_SOURCE_DIR");
    char *line, *rest = NULL;
    size_t n = 0;

    (void)snprintf(path, sizeof(path), "%s/tests/sim/cluster/pods.csv", root == NULL ? "." : root);
    if (kw_file_slurp(path, RECORDED_BYTES, &text, NULL) < 0)
        return 0;
    rest = text;
    while ((line = strsep(&rest, "\n")) != NULL && n < RECORDED_MAX) {
        const char *mcpu = strsep(&line, ","), *mib = strsep(&line, ",");
        struct recorded *pod = &ret[n];
        if (line != NULL && kw_parse_double(mcpu, 1, 1e6, &pod->mcpu) == 0 &&
            kw_parse_double(mib, 0, 1e7, &pod->mib) == 0 &&
            kw_parse_double(line, 1, 1e9, &pod->life_s) == 0)
            n++;
    }
    return n;
}

/** Pods of a workload: most are replicas of one of so many. */
#define WORKLOADS      60
#define REPLICAS_PART  0.7
/** Of the pods that come, half are jobs. */
#define JOBS_PART      0.5
#define JOB_LIFE_S     300
#define SERVICE_LIFE_S 7200.0

struct source {
    const struct sim_setting *setting;
    uint64_t seed;
    size_t n_recorded, next;
    struct recorded recorded[RECORDED_MAX];
    double mean_life_s, mean_work_mcpu;
};

static void size_pod(struct ext_sim_pod *pod, uint64_t *seed)
{
    static const double cores[11] = {0.5, 1, 1, 1, 2, 2, 2, 4, 4, 8, 8};

    pod->request_mcpu = 1000 * cores[(size_t)(uniform(seed) * 11)];
    pod->request_mib = pod->request_mcpu * (1 + 4 * uniform(seed));
    pod->work_mcpu = pod->request_mcpu * (0.9 + 0.25 * uniform(seed));
}

/** A pod that lives from `at_s` on. @param grown one of those that are there at the start. */
static struct ext_sim_pod make_pod(struct source *source, double at_s, bool grown)
{
    uint64_t *seed = &source->seed;
    struct ext_sim_pod pod = {.arrival_s = at_s};
    double life_s;

    if (source->setting->trace == SIM_TRACE_RECORDED) {
        const struct recorded *it = &source->recorded[source->next++ % source->n_recorded];
        while (grown && uniform(seed) * LIFE_MAX_S > it->life_s) /* the long ones are there */
            it = &source->recorded[source->next++ % source->n_recorded];
        pod.request_mcpu = it->mcpu;
        pod.request_mib = it->mib;
        pod.work_mcpu = it->mcpu * (0.3 + 0.6 * uniform(seed));
        life_s = it->life_s * (grown ? uniform(seed) : 1);
    } else {
        double jobs = grown ? JOBS_PART * JOB_LIFE_S /
                                  (JOBS_PART * JOB_LIFE_S + (1 - JOBS_PART) * SERVICE_LIFE_S)
                            : JOBS_PART;
        size_pod(&pod, seed);
        /* lives without memory: what is left of one is as long as a whole one */
        life_s = -log(1 - uniform(seed)) * (uniform(seed) < jobs ? JOB_LIFE_S : SERVICE_LIFE_S);
    }
    pod.end_s = at_s + fmax(life_s, 1);
    if (uniform(seed) < REPLICAS_PART)
        pod.workload = 1 + (uint32_t)(uniform(seed) * WORKLOADS);
    return pod;
}

static void measure(struct source *source)
{
    source->mean_life_s = JOBS_PART * JOB_LIFE_S + (1 - JOBS_PART) * SERVICE_LIFE_S;
    source->mean_work_mcpu = 33.5 / 11.0 * 1025;
    if (source->setting->trace != SIM_TRACE_RECORDED)
        return;
    double lives = 0, work = 0;
    for (size_t i = 0; i < source->n_recorded; i++) {
        struct recorded *it = &source->recorded[i];
        it->life_s = fmin(it->life_s, LIFE_MAX_S);
        lives += it->life_s;
        work += it->life_s * it->mcpu * 0.6;
    }
    source->mean_life_s = lives / (double)source->n_recorded;
    source->mean_work_mcpu = work / lives; /* of those that are there */
}

static int compare(const void *a, const void *b)
{
    double x = ((const struct ext_sim_pod *)a)->arrival_s;
    double y = ((const struct ext_sim_pod *)b)->arrival_s;

    return (x > y) - (x < y);
}

static int make_pods(struct source *source, double capacity_mcpu, struct ext_sim_input *input)
{
    const struct sim_setting *setting = source->setting;
    double there = setting->load * capacity_mcpu / source->mean_work_mcpu;
    double per_s = there / source->mean_life_s;
    size_t cap = (size_t)(2 * there + 2.2 * per_s * SIM_TO_S) + 64;
    double at_s = 0;

    input->pods = calloc(cap, sizeof(*input->pods));
    if (input->pods == NULL)
        return -ENOMEM;
    input->n_workloads = WORKLOADS;
    for (; input->n_pods < (size_t)there; input->n_pods++)
        input->pods[input->n_pods] = make_pod(source, 600 * uniform(&source->seed), true);
    while (input->n_pods < cap) {
        double swing = setting->trace == SIM_TRACE_DAY
                           ? 1 + 0.5 * sin(8 * 3.14159265358979 * at_s / SIM_TO_S)
                           : 1;
        at_s -= log(1 - uniform(&source->seed)) / (per_s * swing);
        if (at_s >= SIM_TO_S)
            break;
        input->pods[input->n_pods++] = make_pod(source, at_s, false);
    }
    qsort(input->pods, input->n_pods, sizeof(*input->pods), compare);
    return 0;
}

/** Jobs of a burst come within this. */
#define BURST_S 30.0

/** A service, or a job, of one of so many owners. */
static struct ext_sim_pod make_owned(struct source *source, double at_s, bool is_job)
{
    uint64_t *seed = &source->seed;
    struct ext_sim_pod pod = {.arrival_s = at_s};

    size_pod(&pod, seed);
    double life_s = -log(1 - uniform(seed)) *
                    (is_job ? source->setting->jobs.life_s : source->setting->jobs.service_s);
    pod.end_s = at_s + fmax(life_s, 1);
    pod.owner = 1 + 2 * (uint32_t)(uniform(seed) * WORKLOADS) + is_job;
    if (!is_job && uniform(seed) < REPLICAS_PART) /* default constraints are not for jobs */
        pod.workload = (pod.owner + 1) / 2;
    return pod;
}

/** When the next one comes. @param n how many have come before. */
static double next_s(struct source *source, bool is_job, size_t n, double at_s, double per_s)
{
    const struct sim_jobs *jobs = &source->setting->jobs;
    double swing = is_job ? 1 + jobs->swing * sin(8 * 3.14159265358979 * at_s / SIM_TO_S) : 1;
    double in_burst = per_s * jobs->period_s;

    if (!is_job || jobs->period_s <= 0)
        return at_s - log(1 - uniform(&source->seed)) / (per_s * swing);
    return (0.5 + floor((double)n / in_burst)) * jobs->period_s + BURST_S * uniform(&source->seed);
}

/** Services and jobs whose lives can be learnt. */
static int make_owned_pods(struct source *source, double capacity_mcpu, struct ext_sim_input *input)
{
    const struct sim_jobs *jobs = &source->setting->jobs;
    double there = source->setting->load * capacity_mcpu / source->mean_work_mcpu;
    size_t cap =
        (size_t)(2 * there + 2.2 * SIM_TO_S * there *
                                 (jobs->part / jobs->life_s + (1 - jobs->part) / jobs->service_s)) +
        64;

    input->pods = calloc(cap, sizeof(*input->pods));
    if (input->pods == NULL)
        return -ENOMEM;
    input->n_workloads = WORKLOADS;
    input->n_owners = 2 * WORKLOADS;
    for (unsigned is_job = 0; is_job < 2; is_job++) {
        double part = is_job ? jobs->part : 1 - jobs->part;
        double per_s = there * part / (is_job ? jobs->life_s : jobs->service_s);
        bool bursts = is_job && jobs->period_s > 0;
        double at_s = 0;
        for (size_t n = 0; n < (size_t)(there * part) && !bursts; n++)
            input->pods[input->n_pods++] =
                make_owned(source, 600 * uniform(&source->seed), is_job == 1);
        for (size_t n = 0; input->n_pods < cap; n++) {
            at_s = next_s(source, is_job == 1, n, at_s, per_s);
            if (at_s >= SIM_TO_S)
                break;
            input->pods[input->n_pods++] = make_owned(source, at_s, is_job == 1);
        }
    }
    qsort(input->pods, input->n_pods, sizeof(*input->pods), compare);
    return 0;
}

int sim_cluster_fill(const struct sim_setting *setting, struct ext_sim_input *input)
{
    kw_cleanup_free struct source *source = calloc(1, sizeof(*source));
    double capacity_mcpu = 0;

    if (source == NULL)
        return -ENOMEM;
    source->setting = setting;
    source->seed = setting->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    if (setting->trace == SIM_TRACE_RECORDED) {
        source->n_recorded = read_recording(source->recorded);
        if (source->n_recorded == 0)
            return -ENOENT;
    }
    measure(source);
    for (size_t i = 0; i < input->n_nodes; i++)
        capacity_mcpu +=
            (double)input->nodes[i].curve.capacity_mcpu * input->nodes[i].work_per_mcpu;
    return setting->jobs.part > 0 ? make_owned_pods(source, capacity_mcpu, input)
                                  : make_pods(source, capacity_mcpu, input);
}

int sim_cluster_make(const struct sim_setting *setting, struct ext_sim_input *ret)
{
    struct ext_sim_input input = {0};
    int rc = make_fleet(setting->fleet, setting->scale, &input);

    if (rc == 0)
        rc = sim_cluster_fill(setting, &input);
    if (rc < 0)
        ext_sim_input_free(&input);
    else
        *ret = input;
    return rc;
}

/* ---- the least that could be drawn ---- */

/** A stretch of a node's lower hull. */
struct stretch {
    double mw_per_mcpu, mcpu;
};

static int compare_stretches(const void *a, const void *b)
{
    double x = ((const struct stretch *)a)->mw_per_mcpu;
    double y = ((const struct stretch *)b)->mw_per_mcpu;

    return (x > y) - (x < y);
}

/** Adds a node's lower hull. @return how many stretches. */
static size_t add_hull(const struct ext_sim_node *node, struct stretch *ret, double *idle_mw)
{
    const struct kw_curve *curve = &node->curve;
    double mw[KW_CURVE_KNOTS] = {0}, mcpu[KW_CURVE_KNOTS] = {0};
    size_t n = 0;

    for (uint32_t k = 0; k < curve->n; k++) {
        mw[k] = curve->knots[k].mw;
        mcpu[k] = curve->knots[k].load_permille / 1000.0 * (double)curve->capacity_mcpu *
                  node->work_per_mcpu;
    }
    if (node->sleepable)
        mw[0] = node->sleep_mw;
    *idle_mw += mw[0];
    for (uint32_t at = 0, next; at + 1 < curve->n; at = next) {
        double least = (double)INFINITY;
        next = at + 1;
        for (uint32_t k = at + 1; k < curve->n; k++) {
            double price = (mw[k] - mw[at]) / (mcpu[k] - mcpu[at]);
            next = price <= least ? k : next;
            least = fmin(least, price);
        }
        ret[n++] = (struct stretch){least, mcpu[next] - mcpu[at]};
    }
    return n;
}

/** How often the work that is there is looked at. */
#define LOOK_S 10.0
#define LOOKS  ((size_t)((SIM_TO_S - SIM_FROM_S) / LOOK_S))

/** Work of the pods that are there at each look. @param work_mcpu LOOKS elements. */
static void add_work(const struct ext_sim_input *input, double *work_mcpu)
{
    for (size_t p = 0; p < input->n_pods; p++) {
        const struct ext_sim_pod *pod = &input->pods[p];
        double first = ceil((pod->arrival_s - SIM_FROM_S) / LOOK_S);
        for (size_t i = (size_t)fmax(first, 0);
             i < LOOKS && SIM_FROM_S + LOOK_S * (double)i < pod->end_s; i++)
            work_mcpu[i] += pod->work_mcpu;
    }
}

int sim_cluster_least_uj(const struct ext_sim_input *input, double *ret)
{
    kw_cleanup_free struct stretch *hulls =
        calloc(input->n_nodes * KW_CURVE_KNOTS + 1, sizeof(*hulls));
    kw_cleanup_free double *work_mcpu = calloc(LOOKS, sizeof(*work_mcpu));
    double idle_mw = 0, sum_mw = 0;
    size_t n = 0;

    if (hulls == NULL || work_mcpu == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < input->n_nodes; i++)
        n += add_hull(&input->nodes[i], hulls + n, &idle_mw);
    qsort(hulls, n, sizeof(*hulls), compare_stretches);
    add_work(input, work_mcpu);
    for (size_t i = 0; i < LOOKS; i++) {
        double left = work_mcpu[i];
        sum_mw += idle_mw;
        for (size_t k = 0; k < n && left > 0; k++) {
            sum_mw += fmin(left, hulls[k].mcpu) * hulls[k].mw_per_mcpu;
            left -= hulls[k].mcpu;
        }
    }
    *ret = sum_mw * LOOK_S * 1e3;
    return 0;
}
