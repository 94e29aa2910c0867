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

/* Idle that no table gives: this part of the first window's power. */
#define IDLE_GUESS 0.3

/* A workload without a state takes that of the smallest if it is so much larger. */
#define EVICT_FACTOR 2.0
#define SIZE_KEEP    0.9

/* Of a workload whose intensity's variance fell to this part something was learnt. */
#define LEARNT 0.5

static double square(double x)
{
    return x * x;
}

/** States that every domain has, at their priors. */
static void add_common(struct agent_filter *filter, const struct agent_window *window)
{
    double idle_w = (double)window->idle_prior_mw / 1000;
    double idle_sigma = IDLING * idle_w;

    if (window->idle_prior_mw == 0) {
        idle_w = IDLE_GUESS * (double)window->measured_uj * 1e3 / (double)window->interval_ns;
        idle_sigma = BLIND * idle_w;
    }
    (void)agent_filter_add(filter, idle_w, square(idle_sigma) + 0.01);
    for (size_t j = AGENT_STATE_CORE; j < AGENT_STATE_CORE + SCALED; j++) {
        (void)agent_filter_add(filter, 1, square(COEF) + square(COMMON));
        for (size_t i = AGENT_STATE_CORE; i < j; i++)
            agent_filter_tie(filter, j, i, square(COMMON));
    }
    (void)agent_filter_add(filter, window->dram ? 0 : WAKE_PART * idle_w,
                           window->dram ? 1e-12 : square(AWAKE * WAKE_PART * idle_w) + 0.01);
    (void)agent_filter_add(filter, 1, square(AGENT_INTENSITY_SIGMA));
}

int agent_kalman_domain_begin(struct agent_kalman_domain *domain, const struct agent_window *window)
{
    if (domain->filter == NULL) {
        kw_cleanup(agent_filter_free) struct agent_filter *filter = NULL;
        int rc = agent_filter_new(AGENT_STATE_FIRST + AGENT_PARTIES_MAX, &filter);
        if (rc == 0)
            rc = agent_parties_new(&domain->parties);
        if (rc < 0)
            return rc;
        domain->filter = KW_TAKE_PTR(filter);
    }
    if (agent_filter_count(domain->filter) == 0)
        add_common(domain->filter, window);
    return 0;
}

/** Lets go of a workload's state; the last state takes its place. */
static void drop(struct agent_kalman_domain *domain, const struct agent_party *party)
{
    uint32_t state = party->state;
    uint32_t last = (uint32_t)agent_filter_count(domain->filter) - 1;

    agent_parties_note(domain->parties, party->kin, agent_filter_mean(domain->filter, state));
    agent_parties_remove(domain->parties, party->workload - 1);
    agent_filter_remove(domain->filter, state);
    struct agent_party *moved = agent_parties_of_state(domain->parties, last);
    if (moved != NULL)
        agent_parties_move(domain->parties, moved, state);
}

void agent_kalman_domain_free(struct agent_kalman_domain *domain)
{
    agent_filter_free(&domain->filter);
    agent_parties_free(&domain->parties);
}

void agent_kalman_domain_reset(struct agent_kalman_domain *domain,
                               const struct agent_window *window)
{
    agent_filter_reset(domain->filter);
    agent_parties_clear(domain->parties);
    add_common(domain->filter, window);
}

void agent_kalman_domain_forget(struct agent_kalman_domain *domain, uint64_t workload)
{
    struct agent_party *party =
        domain->filter != NULL ? agent_parties_find(domain->parties, workload) : NULL;

    if (party != NULL)
        drop(domain, party);
}

/** Gives a workload that has no state one: from its owner's last, else from the prior. Where there
 * is no room, only one that is much larger than the smallest takes that one's place. */
static void settle(struct agent_kalman_domain *domain, const struct agent_features *features,
                   double size)
{
    double mean = 1, sigma = AGENT_INTENSITY_SIGMA;
    uint32_t state = (uint32_t)agent_filter_count(domain->filter);

    if (agent_parties_count(domain->parties) == AGENT_PARTIES_MAX) {
        struct agent_party *smallest = agent_parties_smallest(domain->parties);
        if (size < EVICT_FACTOR * smallest->size)
            return;
        drop(domain, smallest);
        state--;
    }
    struct agent_party *party =
        agent_parties_add(domain->parties, features->workload, features->kin, state);
    if (party == NULL)
        return; /* a number that no workload has */
    party->size = size;
    if (agent_parties_recall(domain->parties, features->kin, &mean))
        sigma = KIN * mean;
    /* there is room: the filter holds as many as there may be parties */
    (void)agent_filter_add(domain->filter, mean, square(sigma));
}

/** A workload's owner becomes known after its first windows: takes what is known of the owner over
 * where that is more than was learnt of the workload yet. @return its party. */
static struct agent_party *adopt(struct agent_kalman_domain *domain, struct agent_party *party,
                                 const struct agent_features *features)
{
    double mean = 0, size = party->size;

    party->kin = features->kin;
    if (!agent_parties_recall(domain->parties, features->kin, &mean) ||
        agent_filter_variance(domain->filter, party->state) <= square(KIN * mean))
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
    if (size > 0 && agent_filter_variance(domain->filter, party->state) <
                        LEARNT * square(AGENT_INTENSITY_SIGMA))
        agent_parties_note(domain->parties, party->kin,
                           agent_filter_mean(domain->filter, party->state));
}

void agent_kalman_domain_meet(struct agent_kalman_domain *domain,
                              const struct agent_features *features, double expected_j)
{
    struct agent_party *party = agent_parties_find(domain->parties, features->workload);

    if (party != NULL && party->kin != features->kin)
        party = adopt(domain, party, features);
    if (party != NULL)
        follow(domain, party, expected_j);
    else if (features->cpu_ns > 0)
        settle(domain, features, expected_j);
}
