/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/replay_score.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

struct agent_scored {
    size_t place;
    double got, due, sigma;
};

static void take(struct agent_score_sums *sums, const struct agent_scored *scored)
{
    double off = fabs(scored->got - scored->due);

    sums->square_error += off * off * 1e-12;
    sums->inside += off <= 2 * scored->sigma;
    sums->sure = sums->sure || scored->sigma > 0;
    sums->count++;
}

void agent_replay_score_end(struct agent_replay_score *score)
{
    double error = 0, due = 0;
    bool warm = score->second >= AGENT_SCORE_WARM_UP_S;

    for (size_t i = 0; i < score->n; i++) {
        const struct agent_scored *scored = &score->scored[i];
        score->at[scored->place] = 0;
        error += fabs(scored->got - scored->due);
        due += scored->due;
        take(&score->all, scored);
        if (warm)
            take(&score->warm, scored);
    }
    score->n = 0;
    score->all.error_uj += error;
    score->all.due_uj += due;
    if (warm) {
        score->warm.error_uj += error;
        score->warm.due_uj += due;
    }
}

void agent_replay_score_window(struct agent_replay_score *score, uint64_t t_ns)
{
    uint64_t second = t_ns > 0 ? (t_ns - 1) / KW_NS_PER_S : 0;

    if (score->open && second != score->second)
        agent_replay_score_end(score);
    score->open = true;
    score->second = second;
}

static int reserve(struct agent_replay_score *score, size_t place)
{
    if (place >= score->cap_at) {
        size_t cap = place < 128 ? 256 : 2 * place;
        uint32_t *at = reallocarray(score->at, cap, sizeof(*at));
        if (at == NULL)
            return -ENOMEM;
        memset(at + score->cap_at, 0, (cap - score->cap_at) * sizeof(*at));
        score->at = at;
        score->cap_at = cap;
    }
    if (score->n == score->cap) {
        size_t cap = score->cap == 0 ? 64 : 2 * score->cap;
        struct agent_scored *scored = reallocarray(score->scored, cap, sizeof(*scored));
        if (scored == NULL)
            return -ENOMEM;
        score->scored = scored;
        score->cap = cap;
    }
    return 0;
}

int agent_replay_score_add(struct agent_replay_score *score, size_t place, uint64_t got_uj,
                           uint64_t due_uj, uint64_t sigma_uj)
{
    int rc = reserve(score, place);

    if (rc < 0)
        return rc;
    if (score->at[place] == 0) {
        score->scored[score->n++] = (struct agent_scored){.place = place};
        score->at[place] = (uint32_t)score->n;
    }
    struct agent_scored *scored = &score->scored[score->at[place] - 1];
    scored->got += (double)got_uj;
    scored->due += (double)due_uj;
    scored->sigma += (double)sigma_uj;
    return 0;
}

const struct agent_score_sums *agent_replay_score_sums(const struct agent_replay_score *score)
{
    return score->warm.count > 0 ? &score->warm : &score->all;
}

double agent_score_misattributed(const struct agent_score_sums *sums)
{
    return sums->due_uj > 0 ? sums->error_uj / sums->due_uj : 0;
}

void agent_replay_score_free(struct agent_replay_score *score)
{
    free(score->scored);
    free(score->at);
    *score = (struct agent_replay_score){0};
}
