/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/kalman_domain.h"

#include <math.h>

#include "common/cleanup.h"

/* Coefficients that a workload's intensity scales. */
#define SCALED AGENT_COEFFICIENTS

/* What leaving the package's C-states costs, as a part of idle power. */
#define WAKE_PART 0.4

/* Prior standard deviations, as parts of the mean. */
#define KIN    0.25 /* of one whose owner is known */
#define COEF   0.3  /* of a coefficient alone */
#define COMMON 0.6  /* of all coefficients together */
#define AWAKE  0.5
#define IDLING 0.2
#define BLIND  0.6 /* of idle power that no table gives */

/* What workloads of one owner that are there at the same time differ by, of an intensity: a leader
 * and its followers do unlike work (tried: with 0.05 they are found to differ too slowly). */
#define APART    0.2
#define LIKE_MAX 8 /* of them that another one is taken to be like */

#define KIN_LEAST 0.5 /* of an intensity, for what its successor may differ by */
#define LEVEL_MIN 0.3 /* of a machine's coefficients, of the prior's */

/* Idle that no table gives: this part of the first window's power. */
#define IDLE_GUESS 0.3

/* Bend and its standard deviation. Of power with frequency: f V^2 is assumed to go with f^2; with a
 * voltage that hardly moves it goes with f. Of power with load, without counters: the last core
 * costs so much less than the first, since all of them slow down. */
#define BEND_SPEED       0.0
#define BEND_SPEED_SIGMA 0.3
#define BEND_LOAD        0.45
#define BEND_LOAD_SIGMA  0.2

/* Noise of a window, of its energy, unless errors turn out larger. A meter errs by a fifth of that:
 * the rest is what the model lacks, and that is not independent from window to window. With less
 * (tried: 3 %, 1.5 %) the filter grows sure of slopes that come from small errors in the features,
 * and moves energy of busy machines into idle. */
#define NOISE_PART 0.05

/* Surprises that the strain begins with, so that the first ones do not decide alone. */
#define BLOCKS_PRIOR 4.0

/* A workload without a state takes that of the smallest if it is so much larger. */
#define EVICT_FACTOR 2.0
#define SIZE_KEEP    0.9

/* Of a workload whose intensity's variance fell to this part something was learnt. */
#define LEARNT 0.5

static double square(double x)
{
    return x * x;
}

/** States that every view has, at their priors. */
static void add_common(struct agent_kalman_view *view, unsigned number,
                       const struct agent_window *window)
{
    struct agent_filter *filter = view->filter;
    double idle_w = (double)window->idle_prior_mw / 1000;
    double idle_sigma = IDLING * idle_w;
    double bend = BEND_SPEED, bend_sigma = BEND_SPEED_SIGMA;

    if (window->idle_prior_mw == 0) {
        idle_w = IDLE_GUESS * (double)window->measured_uj * 1e3 / (double)window->interval_ns;
        idle_sigma = BLIND * idle_w;
    }
    if (number == AGENT_VIEW_TIME) {
        bend = BEND_LOAD;
        bend_sigma = BEND_LOAD_SIGMA;
    }
    (void)agent_filter_add(filter, idle_w, square(idle_sigma) + 0.01);
    for (size_t j = AGENT_STATE_CORE; j < AGENT_STATE_CORE + SCALED; j++) {
        (void)agent_filter_add(filter, 0, square(COEF) + square(COMMON));
        for (size_t i = AGENT_STATE_CORE; i < j; i++)
            agent_filter_tie(filter, j, i, square(COMMON));
    }
    (void)agent_filter_add(filter, window->dram ? 0 : WAKE_PART * idle_w,
                           window->dram ? 1e-12 : square(AWAKE * WAKE_PART * idle_w) + 0.01);
    (void)agent_filter_add(filter, bend, square(bend_sigma));
    (void)agent_filter_add(filter, 1, square(AGENT_INTENSITY_SIGMA));
    *view = (struct agent_kalman_view){.filter = filter,
                                       .noise = square(NOISE_PART),
                                       .noise_min = square(NOISE_PART),
                                       .strain = 1,
                                       .usual = 1,
                                       .blocks = BLOCKS_PRIOR,
                                       .belief = 1,
                                       .like = 1};
}

/** Makes room for a view at the first window that has its features: until then it costs nothing.
 * Workloads that have a state in other views get one. */
static int open_view(struct agent_kalman_domain *domain, unsigned number,
                     const struct agent_window *window)
{
    kw_cleanup(agent_filter_free) struct agent_filter *filter = NULL;
    struct agent_kalman_view *view = &domain->views[number];
    kw_cleanup(agent_filter_free) struct agent_filter *alike = NULL;
    size_t n =
        number == AGENT_VIEW_TIME ? 0 : agent_filter_count(domain->views[AGENT_VIEW_TIME].filter);
    int rc = agent_filter_new(AGENT_STATE_FIRST + AGENT_PARTIES_MAX, &filter);

    if (rc == 0)
        rc = agent_filter_new(AGENT_STATE_FIRST, &alike);
    if (rc < 0)
        return rc;
    domain->alike[number].filter = KW_TAKE_PTR(alike);
    add_common(&domain->alike[number], number, window);
    view->filter = KW_TAKE_PTR(filter);
    add_common(view, number, window);
    while (agent_filter_count(view->filter) < n)
        (void)agent_filter_add(view->filter, 1, square(AGENT_INTENSITY_SIGMA));
    return 0;
}

int agent_kalman_domain_begin(struct agent_kalman_domain *domain, const struct agent_window *window)
{
    bool counters = (window->has & AGENT_HAS_COUNTERS) != 0;

    for (unsigned v = 0; v < AGENT_VIEWS; v++) {
        if (domain->views[v].filter != NULL || (v == AGENT_VIEW_COUNTERS && !counters))
            continue;
        int rc = open_view(domain, v, window);
        if (rc < 0)
            return rc;
    }
    return domain->parties == NULL ? agent_parties_new(&domain->parties) : 0;
}

static size_t count(const struct agent_kalman_domain *domain)
{
    return agent_filter_count(domain->views[AGENT_VIEW_TIME].filter);
}

static bool is_open(const struct agent_kalman_domain *domain, unsigned view)
{
    return domain->views[view].filter != NULL;
}

/** What a workload has come to in each view. */
static void note(struct agent_kalman_domain *domain, const struct agent_party *party)
{
    double intensity[AGENT_VIEWS];

    for (unsigned v = 0; v < AGENT_VIEWS; v++)
        intensity[v] =
            is_open(domain, v) ? agent_filter_mean(domain->views[v].filter, party->state) : 1;
    agent_parties_note(domain->parties, party->kin, intensity);
}

/** Lets go of a workload's state; the last state takes its place. */
static void drop(struct agent_kalman_domain *domain, const struct agent_party *party)
{
    uint32_t state = party->state;
    uint32_t last = (uint32_t)count(domain) - 1;

    note(domain, party);
    agent_parties_remove(domain->parties, party->workload - 1);
    for (unsigned v = 0; v < AGENT_VIEWS; v++) {
        if (is_open(domain, v))
            agent_filter_remove(domain->views[v].filter, state);
    }
    struct agent_party *moved = agent_parties_of_state(domain->parties, last);
    if (moved != NULL)
        agent_parties_move(domain->parties, moved, state);
}

void agent_kalman_domain_free(struct agent_kalman_domain *domain)
{
    for (unsigned v = 0; v < AGENT_VIEWS; v++) {
        agent_filter_free(&domain->views[v].filter);
        agent_filter_free(&domain->alike[v].filter);
    }
    agent_parties_free(&domain->parties);
}

void agent_kalman_domain_reset(struct agent_kalman_domain *domain,
                               const struct agent_window *window)
{
    agent_parties_clear(domain->parties);
    for (unsigned v = 0; v < AGENT_VIEWS && is_open(domain, v); v++) {
        agent_filter_reset(domain->views[v].filter);
        add_common(&domain->views[v], v, window);
        agent_filter_reset(domain->alike[v].filter);
        add_common(&domain->alike[v], v, window);
        domain->evidence[v] = (struct agent_evidence){0};
    }
}

void agent_kalman_domain_forget(struct agent_kalman_domain *domain, uint64_t workload)
{
    struct agent_party *party =
        domain->parties != NULL ? agent_parties_find(domain->parties, workload) : NULL;

    if (party != NULL)
        drop(domain, party);
}

/** How much more than under prior coefficients a workload draws here: what is not known of one goes
 * with it. */
static double machine_level(const struct agent_filter *filter)
{
    double sum = 0;

    for (size_t j = AGENT_STATE_CORE; j < AGENT_STATE_CORE + SCALED; j++)
        sum += agent_filter_mean(filter, j);
    return fmax(1 + sum / SCALED, LEVEL_MIN);
}

/** A state like those of others of its owner: the same prior for all of them, one part in common
 * and one of each's own, whoever came first. */
static void begin_like(struct agent_filter *filter, const uint32_t *others, size_t n)
{
    double scale = machine_level(filter);
    double own = square(APART * scale);
    double common = square(AGENT_INTENSITY_SIGMA * scale) - own;
    double weight = common / (common + own / (double)n);

    (void)agent_filter_add_like(
        filter, &(struct agent_filter_like){.states = others,
                                            .n = n,
                                            .weight = weight,
                                            .mean = 1,
                                            .variance = own + weight * own / (double)n});
}

/** Adds a workload's state to all views: like those of its owner that are there, else from what its
 * owner's last came to, else from the prior. */
static void begin_state(struct agent_kalman_domain *domain, uint64_t kin, const uint32_t *others,
                        size_t n)
{
    double mean[AGENT_VIEWS];
    bool known = agent_parties_recall(domain->parties, kin, mean);

    /* there is room: the filter holds as many as there may be parties */
    for (unsigned v = 0; v < AGENT_VIEWS && is_open(domain, v); v++) {
        struct agent_filter *filter = domain->views[v].filter;
        double sigma = known ? KIN * fmax(mean[v], KIN_LEAST) : AGENT_INTENSITY_SIGMA;
        if (n > 0)
            begin_like(filter, others, n);
        else
            (void)agent_filter_add(filter, known ? mean[v] : 1,
                                   square(sigma * machine_level(filter)));
    }
}

void agent_kalman_domain_tie(struct agent_kalman_domain *domain)
{
    for (uint32_t i = AGENT_STATE_FIRST; i < count(domain); i++) {
        const struct agent_party *one = agent_parties_of_state(domain->parties, i);
        for (uint32_t j = AGENT_STATE_FIRST; one != NULL && one->kin != 0 && j < i; j++) {
            const struct agent_party *other = agent_parties_of_state(domain->parties, j);
            if (other == NULL || other->kin != one->kin)
                continue;
            for (unsigned v = 0; v < AGENT_VIEWS && is_open(domain, v); v++) {
                struct agent_filter *filter = domain->views[v].filter;
                double both = agent_filter_variance(filter, i) * agent_filter_variance(filter, j);
                agent_filter_tie(filter, i, j, (1 - square(APART)) * sqrt(both));
            }
        }
    }
}

/** Gives a workload that has no state one. Where there is no room, only one that is much larger
 * than the smallest takes that one's place. */
static void settle(struct agent_kalman_domain *domain, const struct agent_features *features,
                   double size)
{
    uint32_t state = (uint32_t)count(domain), others[LIKE_MAX];

    if (agent_parties_count(domain->parties) == AGENT_PARTIES_MAX) {
        struct agent_party *smallest = agent_parties_smallest(domain->parties);
        if (size < EVICT_FACTOR * smallest->size)
            return;
        drop(domain, smallest);
        state--;
    }
    size_t n = agent_parties_of_kin(domain->parties, features->kin, LIKE_MAX, others);
    struct agent_party *party =
        agent_parties_add(domain->parties, features->workload, features->kin, state);
    if (party == NULL)
        return; /* a number that no workload has */
    party->size = size;
    begin_state(domain, features->kin, others, n);
}

/** A workload's owner becomes known after its first windows: takes what is known of the owner over
 * where others of it are there, or where that is more than was learnt of the workload yet. @return
 * its party. */
static struct agent_party *adopt(struct agent_kalman_domain *domain, struct agent_party *party,
                                 const struct agent_features *features)
{
    double mean[AGENT_VIEWS], size = party->size;
    const struct agent_filter *filter = domain->views[AGENT_VIEW_TIME].filter;
    uint32_t other;
    bool others = agent_parties_of_kin(domain->parties, features->kin, 1, &other) > 0;

    party->kin = features->kin;
    if (!others &&
        (!agent_parties_recall(domain->parties, features->kin, mean) ||
         agent_filter_variance(filter, party->state) <= square(KIN * mean[AGENT_VIEW_TIME])))
        return party;
    party->kin = 0; /* what it has come to is not worth noting */
    drop(domain, party);
    settle(domain, features, size);
    return agent_parties_find(domain->parties, features->workload);
}

/** Follows what a workload is expected to draw, and notes what it came to for the next one of its
 * owner: that one may start long before this one is forgotten. */
static void follow(struct agent_kalman_domain *domain, struct agent_party *party, double size)
{
    party->size = SIZE_KEEP * party->size + (1 - SIZE_KEEP) * size;
    if (size > 0 && agent_filter_variance(domain->views[AGENT_VIEW_TIME].filter, party->state) <
                        LEARNT * square(AGENT_INTENSITY_SIGMA))
        note(domain, party);
}

void agent_kalman_domain_meet(struct agent_kalman_domain *domain,
                              const struct agent_features *features, double expected_j)
{
    struct agent_party *party = agent_parties_find(domain->parties, features->workload);

    /* an owner that is not known for now is no other one */
    if (party != NULL && features->kin != 0 && party->kin != features->kin)
        party = adopt(domain, party, features);
    if (party != NULL)
        follow(domain, party, expected_j);
    else if (features->cpu_ns > 0)
        settle(domain, features, expected_j);
}
