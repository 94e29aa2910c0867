/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "node-agent/metering.h"
#include "node-agent/recording.h"
#include "node-agent/replay_rows.h"
#include "node-agent/replay_score.h"

/*
 * Runs methods over a recording, as the agent would have: the same questions in the same order give
 * the same energies, to the microjoule, on every machine and every time.
 */

#define AGENT_REPLAY_METHODS_MAX 8

/** Sums of a domain by one method. */
struct agent_replay_domain {
    uint64_t measured_uj, idle_uj, system_uj, pods_uj, unattributed_uj;
    uint64_t unbalanced_uj;          /**< by which the method's answers did not add up: 0 */
    uint64_t idle_mw, idle_sigma_mw; /**< the method's idea of idle power, at the end */
};

/** Sums of a workload by one method. */
struct agent_replay_workload {
    uint64_t uj[2]; /**< CPU, DRAM */
    uint64_t sigma_uj;
};

struct agent_replay_method {
    const struct agent_attribution_ops *ops;
    void *state;
    struct agent_replay_domain domains[AGENT_SLOTS_MAX];
    struct agent_replay_workload *workloads; /**< by place in the recording */
    struct agent_replay_score scores[2];     /**< CPU, DRAM */
};

/** What was odd about a recording. Nothing of it changes a figure. */
struct agent_replay_flags {
    uint64_t lost;           /**< windows that the recording says it lacks */
    uint64_t usage_unknown;  /**< windows of packages without workloads */
    uint64_t implausible;    /**< domains that drew more than twice what any draws */
    uint64_t too_much_time;  /**< packages with more CPU time than their CPUs have */
    uint64_t without_domain; /**< windows in which a domain is missing that was there before */
    bool cut;                /**< the last line has no end: the agent was killed, or still writes */
};

struct agent_replay {
    struct agent_recording *recording;
    const char *file; /**< for messages */
    uint64_t line;
    bool begun; /**< the header was read */
    size_t n_methods;
    struct agent_replay_method methods[AGENT_REPLAY_METHODS_MAX];
    size_t cap;                 /**< workloads that there is room for */
    uint64_t *cpu_ns;           /**< of each, of all packages */
    uint64_t (*truth_uj)[2];    /**< of each */
    bool seen[AGENT_SLOTS_MAX]; /**< the domain was there */
    bool has_truth;
    uint64_t windows, measured_uj;
    struct agent_replay_flags flags;
    struct agent_share *shares;     /**< of a split */
    struct agent_replay_rows *rows; /**< where windows go instead of methods; NULL: methods */
};

/**
 * Reads a recording to its end. @param file "-": standard input. @param methods "all", a name, or
 * NULL: the one that the recording was made with.
 * @return 0; -errno with file, line and cause. To be freed in any case.
 */
int agent_replay_run(struct agent_replay *replay, const char *file, const char *methods,
                     struct kw_err *err);

/** Prints what the machine did and drew, second by second, instead of splitting it; as
 * agent_replay_run. */
int agent_replay_run_rows(struct agent_replay *replay, const char *file, FILE *out,
                          struct kw_err *err);
void agent_replay_free(struct agent_replay *replay);

/** For people, and as one JSON document. @return 0 or -EIO. */
int agent_replay_print(const struct agent_replay *replay, FILE *out);
int agent_replay_print_json(const struct agent_replay *replay, FILE *out);
