/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/power_model.h"
#include "common/err.h"
#include "node-agent/accounting.h"
#include "node-agent/topology.h"

/*
 * A power model from a file, for the `model` meter (docs/power-models.md).
 */

/**
 * Reads a model and sees to it that the agent can use it: power of packages, idle included, from
 * features that are counted here.
 * @param counters whether cycles, instructions and cache misses are counted.
 * @return 0; -errno with the reason and, where there is one, the remedy. Caller frees.
 */
int agent_model_read(const char *path, bool counters, struct kw_power_model **ret,
                     struct kw_err *err);

/** Reads the model that is asked for, for what this accounting counts. @param path NULL: none is;
 * *ret stays as it is. @return as agent_model_read. */
int agent_model_choose(const char *path, const struct agent_accounting_ops *accounting,
                       void *accounting_self, struct kw_power_model **ret, struct kw_err *err);

/** What is known of this machine's power; 0: nothing. */
struct agent_model_power {
    uint64_t idle_mw, full_mw; /**< of all packages */
    uint64_t dram_idle_mw;
};

/**
 * Power at no load and at the most: as configured, or what a model says, scaled to this machine's
 * threads. @param model NULL: none. @param idle_w, full_w configured; 0: not.
 */
struct agent_model_power agent_model_power_of(const struct kw_power_model *model,
                                              const struct agent_topology *topology, double idle_w,
                                              double full_w);

/** One in this machine's threads: by how much the model's machine is larger. @param threads of
 * this machine, or of a part of it. */
double agent_model_size(const struct kw_power_model *model, const struct agent_topology *topology,
                        unsigned threads);
