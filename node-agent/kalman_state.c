/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State comes out of a Redis that others may write to: it is checked as a whole before anything is
 * attributed by it. Means stay where the filter itself keeps them, variances are positive, and the
 * covariance is positive definite, which its Cholesky factor shows.
 *
 * Size: the whole covariance grows with the square of the workloads. Beyond DENSE_MAX only the
 * machine's states keep theirs (its block and the diagonal are positive definite without the rest):
 * means and variances are what matters, and the rest is learnt again in seconds. Workloads of one
 * owner are tied as at their beginning.
 */
#include "node-agent/kalman_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"

#define DENSE_MAX    (AGENT_STATE_FIRST + 128)
#define MEAN_MAX     1e9
#define VARIANCE_MAX 1e18
#define VALUE_MAX    1e18
#define SIZE_MAX_J   1e12
#define LOG_MAX      1e3
#define NUMBER_MAX   ((UINT64_C(1) << 53) - 1)
#define OWED_MAX_PJ  UINT64_C(20000000000000000) /* two seconds of 10 MW */

/* In the order of the enum; a state that means something else gets another name. */
static const char *const state_names[] = {"idle", "core", "thread", "instruction",
                                          "miss", "wake", "bend",   "rest"};
_Static_assert(KW_ARRAY_SIZE(state_names) == AGENT_STATE_FIRST, "a state has no name");

/** Whether the covariance of states i and j is kept. */
static bool is_kept(size_t n, size_t i, size_t j)
{
    return n <= DENSE_MAX || i == j || (i < AGENT_STATE_FIRST && j < AGENT_STATE_FIRST);
}

/** Whether the covariance has a Cholesky factor. */
static bool is_sound(const struct agent_filter *filter)
{
    size_t n =
        agent_filter_count(filter) <= DENSE_MAX ? agent_filter_count(filter) : AGENT_STATE_FIRST;
    kw_cleanup_free double *factor = calloc(n * n + 1, sizeof(*factor));

    if (factor == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            double rest = agent_filter_covariance(filter, i, j);
            for (size_t k = 0; k < j; k++)
                rest -= factor[i * n + k] * factor[j * n + k];
            if (i == j && !(rest > 0))
                return false;
            factor[i * n + j] = i == j ? sqrt(rest) : rest / factor[j * n + j];
        }
    }
    return true;
}

static void archive_mean(struct agent_filter *filter, size_t i, struct agent_archive *archive)
{
    double mean = archive->loading ? 0 : agent_filter_mean(filter, i);
    double variance = archive->loading ? 0 : agent_filter_variance(filter, i);

    agent_archive_real(archive, &mean, -MEAN_MAX, MEAN_MAX, "a state is out of its range");
    agent_archive_real(archive, &variance, 1e-30, VARIANCE_MAX, "a variance is out of its range");
    if (archive->loading && archive->why == NULL && agent_filter_add(filter, mean, variance) < 0)
        agent_archive_fail(archive, "more states than there may be");
}

static void archive_filter(struct agent_filter *filter, struct agent_archive *archive)
{
    uint64_t n = archive->loading ? 0 : agent_filter_count(filter);

    agent_archive_u64(archive, &n, AGENT_STATE_FIRST + AGENT_PARTIES_MAX, "too many states");
    if (n < AGENT_STATE_FIRST)
        agent_archive_fail(archive, "states are missing");
    for (size_t i = 0; i < n && archive->why == NULL; i++)
        archive_mean(filter, i, archive);
    for (size_t i = 0; i < n && archive->why == NULL; i++) {
        for (size_t j = 0; j < i && archive->why == NULL; j++) {
            double covariance = archive->loading ? 0 : agent_filter_covariance(filter, i, j);
            if (!is_kept(n, i, j))
                continue;
            agent_archive_real(archive, &covariance, -VARIANCE_MAX, VARIANCE_MAX,
                               "a covariance is out of its range");
            if (archive->loading && archive->why == NULL)
                agent_filter_tie(filter, i, j, covariance);
        }
    }
    if (archive->loading && archive->why == NULL && !is_sound(filter))
        agent_archive_fail(archive, "the covariance is none");
}

static void archive_party(struct agent_kalman_domain *domain, uint32_t state,
                          struct agent_archive *archive)
{
    const struct agent_party *party =
        archive->loading ? NULL : agent_parties_of_state(domain->parties, state);
    uint64_t number = party != NULL ? party->workload - 1 : 0;
    uint64_t kin = party != NULL ? party->kin : 0;
    double size = party != NULL ? party->size : 0;
    double log_rate = party != NULL ? party->log_rate : 0;
    uint64_t paced = party != NULL && party->paced;

    agent_archive_u64(archive, &number, NUMBER_MAX, "a workload's number is out of its range");
    agent_archive_u64(archive, &kin, UINT64_MAX, "");
    agent_archive_real(archive, &size, -SIZE_MAX_J, SIZE_MAX_J, "an energy is out of its range");
    agent_archive_real(archive, &log_rate, -LOG_MAX, LOG_MAX, "a rate is out of its range");
    agent_archive_u64(archive, &paced, 1, "it is no state");
    if (!archive->loading || archive->why != NULL)
        return;
    if (agent_parties_find(domain->parties, number) != NULL) {
        agent_archive_fail(archive, "a workload is there twice");
        return;
    }
    struct agent_party *added = agent_parties_add(domain->parties, number, kin, state);
    if (added == NULL) {
        agent_archive_fail(archive, "more workloads than there may be");
        return;
    }
    added->size = size;
    added->log_rate = log_rate;
    added->paced = paced != 0;
}

/** States of a domain's filters: the same in each. */
static size_t count(const struct agent_kalman_domain *domain)
{
    return domain->views[0].filter != NULL ? agent_filter_count(domain->views[0].filter) : 0;
}

/** Lets go of workloads that ended while nobody looked. */
static void forget_ended(struct agent_kalman_domain *domain, const struct agent_archive *archive)
{
    if (archive->is_there == NULL)
        return;
    for (size_t i = count(domain); i-- > AGENT_STATE_FIRST;) {
        const struct agent_party *party = agent_parties_of_state(domain->parties, (uint32_t)i);
        if (party != NULL && party->workload != 1 && /* the system is always there */
            !archive->is_there(archive->user, party->workload - 1))
            agent_kalman_domain_forget(domain, party->workload - 1);
    }
}

/** A view; one whose features the machine does not have was never opened. */
static void archive_view(struct agent_kalman_view *view, size_t max, struct agent_archive *archive)
{
    uint64_t is_open = view->filter != NULL;

    agent_archive_u64(archive, &is_open, 1, "it is no state");
    if (is_open == 0 || archive->why != NULL)
        return;
    if (archive->loading && agent_filter_new(max, &view->filter) < 0) {
        agent_archive_fail(archive, "out of memory");
        return;
    }
    double *const values[] = {
        &view->unit,    &view->noise,  &view->noise_min, &view->belief, &view->block_expected,
        &view->block_s, &view->strain, &view->usual,     &view->blocks, &view->told};

    archive_filter(view->filter, archive);
    for (size_t i = 0; i < KW_ARRAY_SIZE(values); i++)
        agent_archive_real(archive, values[i], 0, VALUE_MAX,
                           "a number of a view is out of its range");
    agent_archive_real(archive, &view->block_error, -VALUE_MAX, VALUE_MAX,
                       "a number of a view is out of its range");
    agent_archive_real(archive, &view->like, -VALUE_MAX, VALUE_MAX,
                       "a number of a view is out of its range");
    if (view->belief > 1 || view->told > 1 || !(view->noise > 0))
        agent_archive_fail(archive, "a number of a view is out of its range");
}

/** What workloads are believed to differ by, and why. */
static void archive_evidence(struct agent_kalman_domain *domain, unsigned v,
                             struct agent_archive *archive)
{
    struct agent_evidence *evidence = &domain->evidence[v];
    double *const sums[] = {&evidence->apart, &evidence->alike, &evidence->windows};
    double *const errors[] = {&evidence->last, &evidence->lasting};
    const struct agent_kalman_view *alike = &domain->alike[v];

    archive_view(&domain->alike[v], AGENT_STATE_FIRST, archive);
    for (size_t i = 0; i < KW_ARRAY_SIZE(sums); i++)
        agent_archive_real(archive, sums[i], 0, VALUE_MAX, "evidence is out of its range");
    for (size_t i = 0; i < KW_ARRAY_SIZE(errors); i++)
        agent_archive_real(archive, errors[i], -VALUE_MAX, VALUE_MAX,
                           "evidence is out of its range");
    if (archive->why == NULL &&
        ((alike->filter != NULL) != (domain->views[v].filter != NULL) ||
         (alike->filter != NULL && agent_filter_count(alike->filter) != AGENT_STATE_FIRST)))
        agent_archive_fail(archive, "its views have other workloads");
}

static void archive_domain(struct agent_kalman_domain *domain, struct agent_archive *archive)
{
    uint64_t owed_pj = domain->owed.pj, siblings = domain->siblings, used = count(domain) > 0;

    agent_archive_u64(archive, &used, 1, "it is no state");
    if (used == 0 || archive->why != NULL)
        return;
    if (archive->loading && agent_parties_new(&domain->parties) < 0) {
        agent_archive_fail(archive, "out of memory");
        return;
    }
    for (unsigned v = 0; v < AGENT_VIEWS; v++) {
        const struct agent_kalman_view *view = &domain->views[v];
        archive_view(&domain->views[v], AGENT_STATE_FIRST + AGENT_PARTIES_MAX, archive);
        archive_evidence(domain, v, archive);
        if (archive->why == NULL && view->filter != NULL &&
            agent_filter_count(view->filter) != count(domain))
            agent_archive_fail(archive, "its views have other workloads");
    }
    if (count(domain) == 0)
        agent_archive_fail(archive, "states are missing");
    agent_archive_u64(archive, &owed_pj, OWED_MAX_PJ, "what is owed is out of its range");
    domain->owed.pj = owed_pj;
    agent_archive_u64(archive, &siblings, 1, "it is no state");
    domain->siblings = siblings != 0;
    agent_archive_real(archive, &domain->doubt, 0, VALUE_MAX, "a doubt is out of its range");
    for (size_t i = AGENT_STATE_FIRST; archive->why == NULL && i < count(domain); i++)
        archive_party(domain, (uint32_t)i, archive);
    if (!archive->loading || archive->why != NULL)
        return;
    if (count(domain) > DENSE_MAX)
        agent_kalman_domain_tie(domain);
    forget_ended(domain, archive);
}

void agent_kalman_domains_archive(struct agent_kalman_domain *domains, size_t n,
                                  struct agent_archive *archive)
{
    uint64_t version = AGENT_KALMAN_STATE_VERSION;

    agent_archive_u64(archive, &version, UINT64_MAX, "");
    if (version != AGENT_KALMAN_STATE_VERSION)
        agent_archive_fail(archive, "it is of another version");
    for (size_t i = 0; i < AGENT_STATE_FIRST; i++)
        agent_archive_same(archive, state_names[i], "it has other states");
    for (size_t i = 0; i < n; i++)
        archive_domain(&domains[i], archive);
}

bool agent_kalman_domain_tell(struct agent_kalman_domain *domain, uint64_t workload, double *ret,
                              double *ret_sigma)
{
    const struct agent_party *party =
        domain->parties != NULL ? agent_parties_find(domain->parties, workload) : NULL;
    double mean = 0, square = 0, belief = 0;

    if (party == NULL)
        return false;
    for (unsigned v = 0; v < AGENT_VIEWS; v++) {
        const struct agent_kalman_view *view = &domain->views[v];
        if (view->filter == NULL)
            continue;
        double learnt = agent_filter_mean(view->filter, party->state), weight = view->belief;
        double own = view->like + view->told * (learnt - view->like);
        mean += weight * own;
        square += weight * (agent_filter_variance(view->filter, party->state) + own * own);
        belief += weight;
    }
    if (!(belief > 0))
        return false;
    mean /= belief;
    *ret = mean;
    *ret_sigma = sqrt(fmax(square / belief - mean * mean, 0));
    return true;
}
