/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/pod_record.h"
#include "common/buf.h"
#include "common/err.h"
#include "node-agent/attribution.h"
#include "node-agent/meter.h"
#include "node-agent/topology.h"

/*
 * Recordings: what attribution was given, window by window, as JSON lines (docs/recording.md is the
 * reference). Encoder and decoder; pure. What a file may hold is bounded here, so that a reader's
 * memory is.
 */

#define AGENT_RECORDING_SCHEMA 1

/** Longest line: room for the most workloads that an agent keeps, with all features. */
#define AGENT_RECORDING_LINE_MAX (16u << 20)

/** Workloads of one package in one window, and of a whole recording. */
#define AGENT_RECORDING_WORKLOADS_MAX 16385
#define AGENT_RECORDING_NUMBERS_MAX   (1u << 18)

/** Energy of one domain in one window: far above any window of any machine, and no sum of them
 * overflows. */
#define AGENT_RECORDING_UJ_MAX UINT64_C(1000000000000000)

/** Features of a row, in the order in which the agent writes them. */
#define AGENT_RECORDING_FEATURES 5
extern const char *const agent_recording_feature_names[AGENT_RECORDING_FEATURES];

/** A feature of a workload. @param i below AGENT_RECORDING_FEATURES. */
uint64_t *agent_recording_feature(struct agent_features *features, size_t i);

/** What machine, and how it was measured. */
struct agent_recording_header {
    char node[254];
    char version[64], cpu_model[128];
    char meter[32], accounting[32], method[32];
    bool estimated;
    unsigned has; /**< enum agent_has of windows that say nothing else */
    int64_t t_unix_ms;
    unsigned n_online;
    uint16_t package_cpus[AGENT_PACKAGES_MAX]; /**< logical CPUs of a package; 0: not known */
};

/** Energy of one domain in one window. */
struct agent_recorded_domain {
    bool present;
    uint64_t uj;
    uint64_t interval_ns; /**< that the energy covers */
    uint64_t idle_prior_mw;
    bool has_truth;
    uint64_t truth_idle_uj;
};

/** What a workload truly drew. */
struct agent_recorded_truth {
    bool present;
    uint64_t uj[2]; /**< CPU, DRAM */
};

/** Of one package in one window. */
struct agent_recorded_package {
    unsigned package;                        /**< dense number */
    unsigned mhz;                            /**< 0: unknown */
    bool usage_known;                        /**< false: the accounting failed, there are no rows */
    struct agent_recorded_domain domains[2]; /**< CPU, DRAM */
    size_t first, n;                         /**< rows */
};

struct agent_recorded_window {
    uint64_t t_ns; /**< its end, since the recording began */
    uint64_t interval_ns;
    uint64_t lost; /**< windows before this one that are missing */
    unsigned has;
    size_t n_packages;
    struct agent_recorded_package packages[AGENT_PACKAGES_MAX];
    size_t n, cap; /**< rows */
    struct agent_features *features;
    struct agent_recorded_truth *truth;
    size_t n_ended, cap_ended;
    uint64_t *ended; /**< workloads to be forgotten before this window is split */
};

/* ---- writing ---- */

/** What a row tells of a workload beyond its features, where it is new. */
struct agent_recording_new {
    bool is_new, kin_is_new;
    enum kw_workload_kind kind;
    const char *id;   /**< NULL: has none (the system) */
    const char *name; /**< NULL: unknown */
};

/** The header's line, with its newline. */
void agent_recording_put_header(struct kw_buf *out, const struct agent_recording_header *header,
                                const struct agent_topology *topology);

/** Begins and ends the line of a window, packages and rows. */
void agent_recording_put_begin(struct kw_buf *out, const struct agent_recorded_window *window,
                               bool has_is_new);
void agent_recording_put_package(struct kw_buf *out, const struct agent_recorded_package *package,
                                 bool first);
void agent_recording_put_row(struct kw_buf *out, const struct agent_features *features,
                             const struct agent_recorded_truth *truth,
                             const struct agent_recording_new *news, bool first);
void agent_recording_put_package_end(struct kw_buf *out,
                                     const struct agent_recorded_package *package);
void agent_recording_put_end(struct kw_buf *out);

/* ---- reading ---- */

/** Which workload a number is. */
struct agent_recording_party {
    uint64_t number;
    uint64_t kin;
    uint64_t seen; /**< stamp of the list in which it was last */
    char *text;    /**< "kind id (name)"; NULL: the number is all there is */
};

struct agent_recording;

/** @return 0 or -ENOMEM. */
int agent_recording_new(struct agent_recording **ret);
void agent_recording_free(struct agent_recording **recording);

/** What a line was. */
enum agent_recording_line { AGENT_RECORDING_BLANK, AGENT_RECORDING_HEADER, AGENT_RECORDING_WINDOW };

/**
 * Takes one line, without its newline. The first one is the header. Nothing is taken of a line that
 * is refused.
 * @return enum agent_recording_line; -EBADMSG with key and value; -E2BIG more than is allowed for;
 * -EPROTONOSUPPORT another version; -ENOMEM.
 */
int agent_recording_take(struct agent_recording *recording, const char *line, size_t len,
                         struct kw_err *err);

/** Zeros before the header. */
const struct agent_recording_header *agent_recording_header(
    const struct agent_recording *recording);

/** The last window. */
const struct agent_recorded_window *agent_recording_window(const struct agent_recording *recording);

/** All workloads there were, the system first. @return their number. */
size_t agent_recording_parties(const struct agent_recording *recording,
                               const struct agent_recording_party **ret);

/** Place of a workload among them. @return SIZE_MAX: there was none of this number. */
size_t agent_recording_place(const struct agent_recording *recording, uint64_t number);

/** What attribution is asked for a domain. @param dram which of the package's. */
struct agent_window agent_recording_question(const struct agent_recording *recording,
                                             const struct agent_recorded_package *package,
                                             bool dram);
