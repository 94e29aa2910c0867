/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "kalman": what differs most between workloads is joules per unit of work, and no fixed weight
 * knows it. The meter does: workloads come and go, and the sum moves with them. A filter per domain
 * follows
 *
 *     E = idle dt + sum_k s_k sum_j c_j f_kj + c_wake f_wake + noise
 *
 * f_kj are a workload's features in joules under prior coefficients (time on cores and on threads
 * at their frequency, instructions, last-level misses), c_j the machine's own scale of each, s_k
 * the workload's intensity. f_wake is what an awake package draws beyond idle: its energy belongs
 * to who keeps it awake, by CPU time. All of idle, c and s are states with a covariance, so what
 * cannot be told apart stays near its prior and says so in its sigma.
 *
 * A window's energy above idle is then shared by what each workload is expected to have drawn:
 * conserved by construction, whatever the filter believes.
 *
 * The noise is taken larger than a meter's own (NOISE_PART): most of it is what the model lacks,
 * and that is not independent from window to window. With a smaller one the filter grows sure of
 * slopes that come from small errors in the features, and moves energy of busy machines into idle
 * (tried: 1.5 % instead of 5 % tripled the error with all threads busy).
 *
 * Cost: K^2 multiplications a window for K workloads; memory as K^2 / 2, of the states in use.
 * Measured on simulated nodes with known truth in docs/accuracy.md.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/attribution.h"
#include "node-agent/kalman_domain.h"
#include "node-agent/topology.h"

#define DOMAINS_MAX (2 * AGENT_PACKAGES_MAX)

/* Coefficients that a workload's intensity scales. */
#define SCALED AGENT_COEFFICIENTS

/* Variance gained in a second. */
#define SELF_DRIFT (3e-3)
#define IDLE_DRIFT (1e-5)
#define COEF_DRIFT (1e-6)

#define NOISE_PART 0.05
#define NOISE_TIME 0.12 /* without counters the model lacks more */
#define NOISE_W    0.2
#define METER_PART 0.015 /* what of the noise is the meter's own */

/* Part of the filter's own sigma that errors on simulated nodes come to, with counters and without:
 * NOISE_PART is larger than the noise there. See the calibration rows of the benchmark. */
#define SIGMA_SCALE_COUNTERS 0.5
#define SIGMA_SCALE          1.0

/* Windows beyond are not learnt from: the agent was stopped, and features say little. */
#define WINDOW_MAX_S 60.0

/** What one workload has in the window at hand. */
struct part {
    size_t state;
    double f[SCALED]; /* joules under prior coefficients */
    double wake;
    double scaled;   /* sum of c f */
    double expected; /* joules */
};

struct kalman {
    size_t max_workloads;
    struct agent_kalman_domain domains[DOMAINS_MAX];
    struct part *parts; /* max_workloads */
    uint64_t *weights, *given, *scratch;
    double slope[AGENT_STATE_FIRST + AGENT_PARTIES_MAX];
    double times[AGENT_STATE_FIRST + AGENT_PARTIES_MAX];
};

static void kalman_close(void **self)
{
    struct kalman *kalman = KW_TAKE_PTR(*(struct kalman **)self);

    if (kalman == NULL)
        return;
    for (size_t i = 0; i < DOMAINS_MAX; i++)
        agent_kalman_domain_free(&kalman->domains[i]);
    free(kalman->parts);
    free(kalman->weights);
    free(kalman->given);
    free(kalman->scratch);
    free(kalman);
}

static int kalman_open(size_t max_workloads, void **ret)
{
    struct kalman *kalman = calloc(1, sizeof(*kalman));
    void *owned = kalman;

    if (kalman == NULL)
        return -ENOMEM;
    kalman->max_workloads = max_workloads;
    kalman->parts = calloc(max_workloads, sizeof(*kalman->parts));
    kalman->weights = calloc(max_workloads, sizeof(uint64_t));
    kalman->given = calloc(max_workloads, sizeof(uint64_t));
    kalman->scratch = calloc(max_workloads, sizeof(uint64_t));
    if (kalman->parts == NULL || kalman->weights == NULL || kalman->given == NULL ||
        kalman->scratch == NULL) {
        kalman_close(&owned);
        return -ENOMEM;
    }
    *ret = kalman;
    return 0;
}

static void kalman_forget(void *self, uint64_t workload)
{
    struct kalman *kalman = self;

    for (size_t i = 0; i < DOMAINS_MAX; i++)
        agent_kalman_domain_forget(&kalman->domains[i], workload);
}

static double square(double x)
{
    return x * x;
}

/** Features and states of all workloads of the window. */
static void take_in(struct kalman *kalman, struct agent_kalman_domain *domain,
                    const struct agent_window *window, size_t n)
{
    double seconds = (double)window->interval_ns * 1e-9, threads_s = 0;

    for (size_t i = 0; i < n; i++)
        threads_s += (double)window->features[i].cpu_ns * 1e-9;
    /* that none of independent threads runs has a probability of exp(-their mean number) */
    double awake_s = seconds * (1 - exp(-threads_s / seconds));
    for (size_t i = 0; i < n; i++) {
        const struct agent_features *features = &window->features[i];
        struct part *part = &kalman->parts[i];
        agent_features_joules(window, features, part->f);
        part->wake = threads_s > 0 ? awake_s * (double)features->cpu_ns * 1e-9 / threads_s : 0;
        part->scaled = 0;
        for (size_t j = 0; j < SCALED; j++)
            part->scaled += agent_filter_mean(domain->filter, AGENT_STATE_CORE + j) * part->f[j];
        agent_kalman_domain_meet(domain, features, part->scaled);
    }
    /* only now: settling one may move another's */
    for (size_t i = 0; i < n; i++) {
        const struct agent_party *party =
            agent_parties_find(domain->parties, window->features[i].workload);
        kalman->parts[i].state = party != NULL ? party->state : AGENT_STATE_REST;
    }
}

/** What is expected of each workload at the present means. @return of all, joules. */
static double expect(struct kalman *kalman, const struct agent_filter *filter, size_t n)
{
    double all = 0;

    for (size_t i = 0; i < n; i++) {
        struct part *part = &kalman->parts[i];
        part->scaled = 0;
        for (size_t j = 0; j < SCALED; j++)
            part->scaled += agent_filter_mean(filter, AGENT_STATE_CORE + j) * part->f[j];
        part->expected = agent_filter_mean(filter, part->state) * part->scaled +
                         agent_filter_mean(filter, AGENT_STATE_WAKE) * part->wake;
        all += part->expected;
    }
    return all;
}

/** Slopes of the expected active energy of all workloads by each state, added to `slope`. */
static void add_slopes(const struct kalman *kalman, const struct agent_filter *filter, size_t n,
                       double *slope)
{
    for (size_t i = 0; i < n; i++) {
        const struct part *part = &kalman->parts[i];
        double intensity = agent_filter_mean(filter, part->state);
        for (size_t j = 0; j < SCALED; j++)
            slope[AGENT_STATE_CORE + j] += intensity * part->f[j];
        slope[AGENT_STATE_WAKE] += part->wake;
        slope[part->state] += part->scaled;
    }
}

/** Brings the states nearer to what was measured. @return false where the filter lost its footing
 * to rounding. */
static bool learn(struct kalman *kalman, struct agent_kalman_domain *domain,
                  const struct agent_window *window, size_t n)
{
    struct agent_filter *filter = domain->filter;
    double seconds = (double)window->interval_ns * 1e-9;
    double measured = (double)window->measured_uj * 1e-6;
    double idle_w = agent_filter_mean(filter, AGENT_STATE_IDLE);
    double active = expect(kalman, filter, n);

    agent_filter_drift(filter, AGENT_STATE_IDLE, IDLE_DRIFT * square(idle_w) * seconds,
                       square(idle_w) + 0.01);
    for (size_t j = AGENT_STATE_CORE; j < AGENT_STATE_CORE + SCALED; j++)
        agent_filter_drift(filter, j, COEF_DRIFT * seconds, 1);
    for (size_t i = 0; i < n; i++) {
        if (kalman->parts[i].scaled > 0)
            agent_filter_drift(filter, kalman->parts[i].state, SELF_DRIFT * seconds,
                               2 * square(AGENT_INTENSITY_SIGMA));
    }
    memset(kalman->slope, 0, agent_filter_count(filter) * sizeof(double));
    kalman->slope[AGENT_STATE_IDLE] = seconds;
    add_slopes(kalman, filter, n, kalman->slope);
    double part = (window->has & AGENT_HAS_COUNTERS) != 0 ? NOISE_PART : NOISE_TIME;
    double noise = square(part * measured) + square(NOISE_W * seconds);
    if (agent_filter_update(filter, kalman->slope, measured - idle_w * seconds - active, noise) < 0)
        return false;
    agent_filter_clamp(filter, AGENT_STATE_IDLE, 0, 1e9);
    agent_filter_clamp(filter, AGENT_STATE_WAKE, 0, 1e9);
    for (size_t j = AGENT_STATE_CORE; j < AGENT_STATE_CORE + SCALED; j++)
        agent_filter_clamp(filter, j, AGENT_COEF_MIN, AGENT_COEF_MAX);
    for (size_t i = AGENT_STATE_REST; i < agent_filter_count(filter); i++)
        agent_filter_clamp(filter, i, AGENT_INTENSITY_MIN, AGENT_INTENSITY_MAX);
    return true;
}

/** Variance of the expected energy of one workload, and its covariance with a vector of which the
 * product with the covariance matrix is known. */
static void own_variance(const struct kalman *kalman, const struct agent_filter *filter, size_t i,
                         const double *times, double *ret_variance, double *ret_with)
{
    const struct part *part = &kalman->parts[i];
    double intensity = agent_filter_mean(filter, part->state);
    size_t at[SCALED + 2];
    double slope[SCALED + 2];

    for (size_t j = 0; j < SCALED; j++) {
        at[j] = AGENT_STATE_CORE + j;
        slope[j] = intensity * part->f[j];
    }
    at[SCALED] = AGENT_STATE_WAKE;
    slope[SCALED] = part->wake;
    at[SCALED + 1] = part->state;
    slope[SCALED + 1] = part->scaled;
    *ret_variance = 0;
    *ret_with = 0;
    for (size_t a = 0; a < SCALED + 2; a++) {
        *ret_with += slope[a] * times[at[a]];
        for (size_t b = 0; b < SCALED + 2; b++)
            *ret_variance += slope[a] * slope[b] * agent_filter_covariance(filter, at[a], at[b]);
    }
}

/**
 * Sigma of each share: of a_k = A w_k / W with A = E - idle dt, to first order
 *   da_k = A/W (dw_k - share_k dW) - share_k dt didle + share_k dE
 */
static void state_sigma(struct kalman *kalman, const struct agent_filter *filter,
                        const struct agent_window *window, size_t n, double all,
                        struct agent_split *ret)
{
    double seconds = (double)window->interval_ns * 1e-9;
    double measured = (double)window->measured_uj * 1e-6;
    double active = fmax(measured - agent_filter_mean(filter, AGENT_STATE_IDLE) * seconds, 0);
    double scale = (window->has & AGENT_HAS_COUNTERS) != 0 ? SIGMA_SCALE_COUNTERS : SIGMA_SCALE;
    double variance_all = 0, idle_with_all = 0;

    memset(kalman->slope, 0, agent_filter_count(filter) * sizeof(double));
    add_slopes(kalman, filter, n, kalman->slope);
    agent_filter_times(filter, kalman->slope, kalman->times);
    for (size_t i = 0; i < agent_filter_count(filter); i++)
        variance_all += kalman->slope[i] * kalman->times[i];
    idle_with_all = kalman->times[AGENT_STATE_IDLE];
    for (size_t i = 0; i < n && all > 0; i++) {
        const struct part *part = &kalman->parts[i];
        double share = part->expected / all, factor = active / all;
        double own, with, idle_with = 0;
        own_variance(kalman, filter, i, kalman->times, &own, &with);
        for (size_t j = 0; j < SCALED; j++)
            idle_with += agent_filter_mean(filter, part->state) * part->f[j] *
                         agent_filter_covariance(filter, AGENT_STATE_IDLE, AGENT_STATE_CORE + j);
        idle_with +=
            part->wake * agent_filter_covariance(filter, AGENT_STATE_IDLE, AGENT_STATE_WAKE) +
            part->scaled * agent_filter_covariance(filter, AGENT_STATE_IDLE, part->state);
        double variance =
            square(factor) * (own - 2 * share * with + square(share) * variance_all) -
            2 * factor * share * seconds * (idle_with - share * idle_with_all) +
            square(share) * (square(seconds) * agent_filter_variance(filter, AGENT_STATE_IDLE) +
                             square(METER_PART * measured));
        double sigma_uj = scale * 1e6 * sqrt(fmax(variance, 0));
        /* no less than the resolution, no more than all there is */
        uint64_t whole_uj = (uint64_t)llround(fmin(fmax(sigma_uj, 1), 0x1p62));
        ret->shares[i].sigma_uj = whole_uj < window->measured_uj ? whole_uj : window->measured_uj;
        if (part->expected <= 0)
            ret->shares[i].sigma_uj = 0;
    }
}

/** Without a filter (no memory for it): by CPU time. */
static void weigh_by_time(struct kalman *kalman, const struct agent_window *window, size_t n)
{
    for (size_t i = 0; i < n; i++)
        kalman->weights[i] = window->features[i].cpu_ns;
}

static void weigh(struct kalman *kalman, size_t n, double all)
{
    /* 2^40 units: far finer than a microjoule of a window, and they add up far below 2^64 */
    for (size_t i = 0; i < n; i++)
        kalman->weights[i] = all > 0 ? (uint64_t)(kalman->parts[i].expected / all * 0x1p40) : 0;
}

static bool can_learn(const struct agent_window *window, size_t n)
{
    return n > 0 && n == window->n && window->measured_uj > 0 && window->interval_ns > 0 &&
           (double)window->interval_ns * 1e-9 <= WINDOW_MAX_S;
}

static void kalman_split(void *self, const struct agent_window *window, struct agent_split *ret)
{
    struct kalman *kalman = self;
    struct agent_owed elsewhere = {0};
    size_t n = window->n < kalman->max_workloads ? window->n : kalman->max_workloads;
    struct agent_kalman_domain *domain =
        window->domain < DOMAINS_MAX ? &kalman->domains[window->domain] : NULL;
    bool known =
        domain != NULL && window->interval_ns > 0 && agent_kalman_domain_begin(domain, window) == 0;
    uint64_t idle_mw = window->idle_prior_mw;
    double all = 0;

    if (!known) {
        weigh_by_time(kalman, window, n);
    } else {
        take_in(kalman, domain, window, n);
        if (can_learn(window, n) && !learn(kalman, domain, window, n)) {
            agent_kalman_domain_reset(domain, window);
            take_in(kalman, domain, window, n);
        }
        all = expect(kalman, domain->filter, n);
        weigh(kalman, n, all);
        idle_mw = (uint64_t)llround(1000 * agent_filter_mean(domain->filter, AGENT_STATE_IDLE));
    }
    uint64_t idle_uj = agent_pay_idle(domain != NULL ? &domain->owed : &elsewhere, idle_mw, window);
    agent_split_active(window, idle_uj, n, kalman->weights, kalman->given, kalman->scratch, ret);
    ret->idle_mw = idle_mw;
    ret->idle_sigma_mw = 0;
    if (known) {
        state_sigma(kalman, domain->filter, window, n, all, ret);
        ret->idle_sigma_mw =
            (uint64_t)llround(1000 * sqrt(agent_filter_variance(domain->filter, AGENT_STATE_IDLE)));
    }
}

const struct agent_attribution_ops agent_attribution_kalman = {
    .name = "kalman",
    .open = kalman_open,
    .split = kalman_split,
    .forget = kalman_forget,
    .close = kalman_close,
};
