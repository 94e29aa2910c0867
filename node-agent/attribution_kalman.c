/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "kalman": what differs most between workloads is joules per unit of work, and no fixed weight
 * knows it. The meter does: workloads come and go, and the sum moves with them. A filter per domain
 * follows
 *
 *     E = idle dt + sum_k (s_k sum_j f_kj + sum_j c_j f_kj + b g_k) + wake f_wake + noise
 *
 * f_kj are a workload's features in joules under prior coefficients (time on cores and on threads
 * at their frequency, instructions, last-level misses), s_k the workload's intensity, c_j how far
 * the machine's own coefficients are off, b how its power bends with frequency (or with load, where
 * the frequency is unknown) beyond what is assumed. f_wake is what an awake package draws beyond
 * idle: its energy belongs to who keeps it awake, by CPU time. All of idle, c, b, wake and s are
 * states with a covariance, so what cannot be told apart stays near its prior and says so in its
 * sigma. The sum is linear in the states on purpose: with s_k scaling c_j the filter has to guess
 * where to take its slopes, and grows sure of what it guessed.
 *
 * A window's energy above idle is then shared by what each workload is expected to have drawn:
 * conserved by construction, whatever the filter believes.
 *
 * Two filters, where there are counters: one goes by all features, one without counters. Counters
 * that belong to another workload (a monitor that multiplexes them, a hypervisor that shifts them)
 * leave the sum right, so that no error of the sum betrays them; but instructions a second of a
 * core then jump by factors, which programs do not do all at once. Where they do, the other filter
 * is believed, and the first does not learn.
 *
 * Cost: K^2 multiplications a window and filter for K workloads; memory as K^2 / 2, of the states
 * in use. Measured on simulated nodes with known truth in docs/accuracy.md.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/attribution.h"
#include "node-agent/kalman_domain.h"
#include "node-agent/kalman_model.h"
#include "node-agent/kalman_state.h"
#include "node-agent/topology.h"

#define DOMAINS_MAX (2 * AGENT_PACKAGES_MAX)

/* Windows beyond are not learnt from: the agent was stopped, and features say little. */
#define WINDOW_MAX_S 60.0

/* How far instructions a second of a core are off their mean of RATE_S: the mean square of the
 * logarithm at which counters are believed by half. Programs vary by some 0.1 from window to window
 * and by a factor of two at times; those of other pods are off by 1 and more. A mean of DOUBT_S
 * keeps the doubt up over windows that happen to fit. */
#define DOUBT_HALF 0.2
#define DOUBT_S    10.0
#define RATE_S     2.0
#define RATE_STEP  0.5 /* the mean follows no single window further */
#define OFF_MAX    2.0
#define FULL_TIME  0.25 /* of a window on a CPU: enough for the mean to follow at full pace */
#define SMT_SPEED  0.62 /* of a thread that shares its core: of SPEC CPU and the like */

struct kalman {
    size_t max_workloads;
    struct agent_kalman_domain domains[DOMAINS_MAX];
    struct agent_part *parts[AGENT_VIEWS], *alike[AGENT_VIEWS]; /* max_workloads each */
    uint64_t *weights, *given, *scratch;
    double slope[AGENT_STATE_FIRST + AGENT_PARTIES_MAX];
    double times[AGENT_STATE_FIRST + AGENT_PARTIES_MAX];
    uint64_t kin[AGENT_STATE_FIRST + AGENT_PARTIES_MAX]; /* of each state's workload */
};

static void kalman_close(void **self)
{
    struct kalman *kalman = KW_TAKE_PTR(*(struct kalman **)self);

    if (kalman == NULL)
        return;
    for (size_t i = 0; i < DOMAINS_MAX; i++)
        agent_kalman_domain_free(&kalman->domains[i]);
    for (unsigned v = 0; v < AGENT_VIEWS; v++) {
        free(kalman->parts[v]);
        free(kalman->alike[v]);
    }
    free(kalman->weights);
    free(kalman->given);
    free(kalman->scratch);
    free(kalman);
}

static int kalman_open(size_t max_workloads, void **ret)
{
    struct kalman *kalman = calloc(1, sizeof(*kalman));
    void *owned = kalman;
    bool enough = true;

    if (kalman == NULL)
        return -ENOMEM;
    kalman->max_workloads = max_workloads;
    for (unsigned v = 0; v < AGENT_VIEWS; v++) {
        kalman->parts[v] = calloc(max_workloads, sizeof(*kalman->parts[v]));
        kalman->alike[v] = calloc(max_workloads, sizeof(*kalman->alike[v]));
        enough = enough && kalman->parts[v] != NULL && kalman->alike[v] != NULL;
    }
    kalman->weights = calloc(max_workloads, sizeof(uint64_t));
    kalman->given = calloc(max_workloads, sizeof(uint64_t));
    kalman->scratch = calloc(max_workloads, sizeof(uint64_t));
    if (!enough || kalman->weights == NULL || kalman->given == NULL || kalman->scratch == NULL) {
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

/** A window as each view sees it. */
struct sight {
    struct agent_window windows[AGENT_VIEWS];
    struct agent_model models[AGENT_VIEWS];
    struct agent_model alike[AGENT_VIEWS]; /* as if all workloads had one intensity */
    unsigned n_views;                      /* that the machine has features for */
};

static void look(struct kalman *kalman, struct agent_kalman_domain *domain,
                 const struct agent_window *window, size_t n, struct sight *ret)
{
    double seconds = (double)window->interval_ns * 1e-9, threads_s = 0, shared_s = 0;

    for (size_t i = 0; i < n; i++) {
        const struct agent_features *features = &window->features[i];
        threads_s += (double)features->cpu_ns * 1e-9;
        shared_s += fmin((double)features->shared_ns, (double)features->cpu_ns) * 1e-9;
    }
    domain->siblings = domain->siblings || ((window->has & AGENT_HAS_SMT) != 0 && shared_s > 0);
    /* a core that runs one of its two threads is as awake as one that runs both */
    double busy_s = domain->siblings ? 2 * threads_s - shared_s : threads_s;
    /* that none of independent threads runs has a probability of exp(-their mean number) */
    double awake_s = seconds * (1 - exp(-threads_s / seconds));
    ret->n_views = (window->has & AGENT_HAS_COUNTERS) != 0 ? AGENT_VIEWS : AGENT_VIEW_TIME + 1;
    for (unsigned v = 0; v < AGENT_VIEWS; v++) {
        ret->windows[v] = *window;
        if (v == AGENT_VIEW_TIME)
            ret->windows[v].has &= ~(unsigned)AGENT_HAS_COUNTERS;
        ret->models[v] = (struct agent_model){.view = &domain->views[v],
                                              .window = &ret->windows[v],
                                              .parts = kalman->parts[v],
                                              .n = n,
                                              .seconds = seconds,
                                              .measured = (double)window->measured_uj * 1e-6,
                                              .awake_s = awake_s,
                                              .threads_s = threads_s,
                                              .busy_s = busy_s,
                                              .kin = kalman->kin,
                                              .slope = kalman->slope,
                                              .times = kalman->times};
        ret->alike[v] = ret->models[v];
        ret->alike[v].view = &domain->alike[v];
        ret->alike[v].parts = kalman->alike[v];
        ret->alike[v].alike = true;
    }
}

/** Follows a workload's instructions a second of a core. @return how far it is off, the square of
 * the logarithm. */
static double follow_rate(struct agent_party *party, const struct agent_features *features,
                          double seconds)
{
    double thread_s = (double)features->cpu_ns * 1e-9;
    double shared_s = fmin((double)features->shared_ns * 1e-9, thread_s);
    double alone_s = thread_s - (1 - SMT_SPEED) * shared_s;
    double log_rate = log(fmax((double)features->instructions, 1) / alone_s);

    if (!party->paced) {
        party->paced = true;
        party->log_rate = log_rate;
    }
    double off = log_rate - party->log_rate;
    double pace = (1 - exp(-seconds / RATE_S)) * fmin(thread_s / (FULL_TIME * seconds), 1);
    party->log_rate += pace * fmin(fmax(off, -RATE_STEP), RATE_STEP);
    return square(fmin(fabs(off), OFF_MAX));
}

/** Which view is to be believed in this window. */
static void weigh_views(struct agent_kalman_domain *domain, struct sight *sight,
                        const struct agent_window *window, size_t n)
{
    double seconds = sight->models[AGENT_VIEW_TIME].seconds, off = 0, all = 0;

    if (sight->n_views < AGENT_VIEWS) {
        domain->views[AGENT_VIEW_TIME].belief = 1;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct agent_features *features = &window->features[i];
        struct agent_party *party = agent_parties_find(domain->parties, features->workload);
        if (party == NULL || features->cpu_ns == 0)
            continue;
        off += (double)features->cpu_ns * follow_rate(party, features, seconds);
        all += (double)features->cpu_ns;
    }
    double now = all > 0 ? off / all : 0;
    domain->doubt += (1 - exp(-seconds / DOUBT_S)) * (now - domain->doubt);
    double belief = 1 / (1 + square(square(fmax(now, domain->doubt) / DOUBT_HALF)));
    domain->views[AGENT_VIEW_COUNTERS].belief = belief;
    domain->views[AGENT_VIEW_TIME].belief = 1 - belief;
}

static void take_features(struct agent_model *model)
{
    for (size_t i = 0; i < model->n; i++) {
        agent_model_take(model, i);
        model->parts[i].state = AGENT_STATE_REST;
    }
    if (model->view->unit <= 0)
        agent_model_find_unit(model);
}

/** Features and states of all workloads of the window, and what is expected of them. */
static void take_in(struct agent_kalman_domain *domain, struct sight *sight,
                    const struct agent_window *window, size_t n)
{
    for (unsigned v = 0; v < sight->n_views; v++) {
        take_features(&sight->models[v]);
        take_features(&sight->alike[v]);
    }
    for (size_t i = 0; i < n; i++)
        agent_kalman_domain_meet(domain, &window->features[i],
                                 sight->models[sight->n_views - 1].parts[i].scaled);
    /* only now: settling one may move another's */
    for (size_t i = 0; i < n; i++) {
        const struct agent_party *party =
            agent_parties_find(domain->parties, window->features[i].workload);
        for (unsigned v = 0; v < sight->n_views; v++)
            if (party != NULL)
                sight->models[v].parts[i].state = party->state;
    }
    weigh_views(domain, sight, window, n);
    for (unsigned v = 0; v < sight->n_views; v++) {
        domain->views[v].told = agent_evidence_told(&domain->evidence[v]);
        agent_model_expect(&sight->models[v]);
        agent_model_expect(&sight->alike[v]);
    }
}

/** Which states are of workloads of one owner. */
static void see_kin(struct kalman *kalman, const struct agent_kalman_domain *domain)
{
    size_t n = agent_filter_count(domain->views[AGENT_VIEW_TIME].filter);

    for (uint32_t i = 0; i < n; i++) {
        const struct agent_party *party = agent_parties_of_state(domain->parties, i);
        kalman->kin[i] = party != NULL ? party->kin : 0;
    }
}

static bool learn(struct agent_kalman_domain *domain, struct sight *sight)
{
    for (unsigned v = 0; v < sight->n_views; v++) {
        struct agent_model *model = &sight->models[v], *alike = &sight->alike[v];
        /* time on CPUs is what it is; only counters can be another's */
        double belief = v == AGENT_VIEW_COUNTERS ? model->view->belief : 1;
        if (!agent_model_learn(model, belief) || !agent_model_learn(alike, belief))
            return false;
        agent_evidence_take(&domain->evidence[v], model->error / model->measured,
                            alike->error / model->measured, model->seconds);
        agent_model_expect(model);
    }
    return true;
}

/** Without a filter (no memory for it): by CPU time. */
static void weigh_by_time(struct kalman *kalman, const struct agent_window *window, size_t n)
{
    for (size_t i = 0; i < n; i++)
        kalman->weights[i] = window->features[i].cpu_ns;
}

/** What a workload gets of the energy above idle, of 1. */
static double share_of(const struct sight *sight, size_t i)
{
    double share = 0;

    for (unsigned v = 0; v < sight->n_views; v++) {
        const struct agent_model *model = &sight->models[v];
        if (model->expected > 0)
            share += model->view->belief * model->parts[i].expected / model->expected;
    }
    return share;
}

static void weigh(struct kalman *kalman, const struct sight *sight, size_t n)
{
    /* 2^40 units: far finer than a microjoule of a window, and they add up far below 2^64 */
    for (size_t i = 0; i < n; i++)
        kalman->weights[i] = (uint64_t)(share_of(sight, i) * 0x1p40);
}

static double idle_w(const struct agent_model *model)
{
    return agent_filter_mean(model->view->filter, AGENT_STATE_IDLE);
}

/** Mean and variance of idle power, W. */
static double mix_idle(const struct sight *sight, double *ret_variance)
{
    double mean = 0;

    for (unsigned v = 0; v < sight->n_views; v++)
        mean += sight->models[v].view->belief * idle_w(&sight->models[v]);
    *ret_variance = 0;
    for (unsigned v = 0; v < sight->n_views; v++) {
        const struct agent_model *model = &sight->models[v];
        *ret_variance +=
            model->view->belief * (agent_filter_variance(model->view->filter, AGENT_STATE_IDLE) +
                                   square(idle_w(model) - mean));
    }
    return mean;
}

/** Sigma of each share: what each view is unsure of, and how far they are apart. */
static void state_sigma(struct sight *sight, const struct agent_window *window, size_t n,
                        struct agent_split *ret)
{
    for (unsigned v = 0; v < sight->n_views; v++)
        agent_model_variances(&sight->models[v]);
    for (size_t i = 0; i < n; i++) {
        double active_j[AGENT_VIEWS] = {0}, mean = 0, variance = 0;
        for (unsigned v = 0; v < sight->n_views; v++) {
            const struct agent_model *model = &sight->models[v];
            double active = fmax(model->measured - model->seconds * idle_w(model), 0);
            if (model->expected > 0)
                active_j[v] = active * model->parts[i].expected / model->expected;
            mean += model->view->belief * active_j[v];
        }
        for (unsigned v = 0; v < sight->n_views; v++) {
            const struct agent_model *model = &sight->models[v];
            variance +=
                model->view->belief * (model->parts[i].variance + square(active_j[v] - mean));
        }
        double sigma_uj = 1e6 * sqrt(fmax(variance, 0));
        /* no less than the resolution, no more than all there is */
        uint64_t whole_uj = (uint64_t)llround(fmin(fmax(sigma_uj, 1), 0x1p62));
        ret->shares[i].sigma_uj = whole_uj < window->measured_uj ? whole_uj : window->measured_uj;
        if (share_of(sight, i) <= 0)
            ret->shares[i].sigma_uj = 0;
    }
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
    struct sight sight;
    size_t n = window->n < kalman->max_workloads ? window->n : kalman->max_workloads;
    struct agent_kalman_domain *domain =
        window->domain < DOMAINS_MAX ? &kalman->domains[window->domain] : NULL;
    bool known =
        domain != NULL && window->interval_ns > 0 && agent_kalman_domain_begin(domain, window) == 0;
    double idle_variance = 0;
    uint64_t idle_mw = window->idle_prior_mw;

    if (!known) {
        weigh_by_time(kalman, window, n);
    } else {
        look(kalman, domain, window, n, &sight);
        take_in(domain, &sight, window, n);
        see_kin(kalman, domain);
        if (can_learn(window, n) && !learn(domain, &sight)) {
            agent_kalman_domain_reset(domain, window);
            take_in(domain, &sight, window, n);
        }
        weigh(kalman, &sight, n);
        idle_mw = (uint64_t)llround(1000 * mix_idle(&sight, &idle_variance));
    }
    uint64_t idle_uj = agent_pay_idle(domain != NULL ? &domain->owed : &elsewhere, idle_mw, window);
    agent_split_active(window, idle_uj, n, kalman->weights, kalman->given, kalman->scratch, ret);
    ret->idle_mw = idle_mw;
    ret->idle_sigma_mw = 0;
    if (known) {
        state_sigma(&sight, window, n, ret);
        ret->idle_sigma_mw = (uint64_t)llround(1000 * sqrt(idle_variance));
    }
}

static void kalman_archive(void *self, struct agent_archive *archive)
{
    struct kalman *kalman = self;

    agent_kalman_domains_archive(kalman->domains, DOMAINS_MAX, archive);
}

static bool kalman_tell(void *self, unsigned domain, uint64_t workload, double *ret,
                        double *ret_sigma)
{
    struct kalman *kalman = self;

    return domain < DOMAINS_MAX &&
           agent_kalman_domain_tell(&kalman->domains[domain], workload, ret, ret_sigma);
}

const struct agent_attribution_ops agent_attribution_kalman = {
    .name = "kalman",
    .open = kalman_open,
    .split = kalman_split,
    .forget = kalman_forget,
    .archive = kalman_archive,
    .tell = kalman_tell,
    .close = kalman_close,
};
