/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "node-agent/archive.h"
#include "node-agent/attribution.h"
#include "node-agent/curve_feed.h"

/*
 * What a method and the node's curve have learnt, as bytes that outlive the agent. It holds for the
 * machine that it was learnt on, with the same features and the same meter, and for a while.
 */

/** Oldest that is used: idle power moves with the weather of a data centre, in hours. */
#define AGENT_LEARNT_MAX_S 3600

/** Longest that is saved or read. */
#define AGENT_LEARNT_MAX_BYTES (8u << 20)

/** What it depends on. */
struct agent_learnt_machine {
    const char *cpu_model, *meter;
    unsigned n_packages, n_cores, n_online;
    unsigned has;     /**< enum agent_has */
    uint64_t idle_mw; /**< idle power as configured or by class: its prior */
};

/** @param out appended to. @return 0; -ENOTSUP the method learns nothing that lasts; -E2BIG;
 * -ENOMEM. */
int agent_learnt_save(const struct agent_attribution_ops *method, void *state,
                      struct agent_curve_feed *curve, const struct agent_learnt_machine *machine,
                      int64_t now_unix_ms, struct kw_buf *out);

/**
 * Reads it into a new state of the method, and into a curve, which ages by the time passed.
 * @param is_there whether a workload still exists. @param ret closed by the caller.
 * @param ret_age_ms how old it is.
 * @return 0; -EBADMSG with the reason in `err`; -ENOTSUP; -ENOMEM.
 */
int agent_learnt_load(const struct agent_attribution_ops *method, size_t max_workloads,
                      const struct agent_learnt_machine *machine, int64_t now_unix_ms,
                      const void *bytes, size_t len,
                      bool (*is_there)(void *user, uint64_t workload), void *user, void **ret,
                      struct agent_curve_feed *curve, int64_t *ret_age_ms, struct kw_err *err);
