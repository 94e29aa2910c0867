/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How far a method is from the truth, over seconds: the sum of what each workload was given too
 * much or too little, of all active energy (docs/accuracy.md). Pure.
 */

/** The first seconds, in which a method learns, count apart. */
#define AGENT_SCORE_WARM_UP_S 30

struct agent_score_sums {
    double error_uj, due_uj, square_error; /**< the last in square joules */
    uint64_t inside, count; /**< workload-seconds, and those whose truth is within 2 sigma */
    bool sure;              /**< the method states a sigma */
};

/** Zero-initialised: nothing seen. */
struct agent_replay_score {
    struct agent_score_sums all, warm; /**< warm: after the warm-up */
    bool open;                         /**< a second is being summed up */
    uint64_t second;
    size_t n, cap, cap_at;
    struct agent_scored *scored; /**< owned; of the second at hand */
    uint32_t *at;                /**< owned; place + 1 in it, by workload; 0: not there */
};

/** A window that ends at t_ns begins. */
void agent_replay_score_window(struct agent_replay_score *score, uint64_t t_ns);

/** What a workload got of the window, and what it was due. @param place dense number of the
 * workload. @return 0 or -ENOMEM. */
int agent_replay_score_add(struct agent_replay_score *score, size_t place, uint64_t got_uj,
                           uint64_t due_uj, uint64_t sigma_uj);

/** Ends the last second. */
void agent_replay_score_end(struct agent_replay_score *score);

/** After the warm-up; of a recording that is not longer, all. */
const struct agent_score_sums *agent_replay_score_sums(const struct agent_replay_score *score);

/** Part of the active energy that went to the wrong workload; 0 where there was none. */
double agent_score_misattributed(const struct agent_score_sums *sums);

/** Frees the memory, not the struct; leaves it zeroed. */
void agent_replay_score_free(struct agent_replay_score *score);
