/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/archive.h"
#include "node-agent/kalman_domain.h"

/** Whoever changes what a domain's filter knows, its states, or what they mean, counts this up:
 * what an older agent has learnt is then not used. */
#define AGENT_KALMAN_STATE_VERSION 3

/**
 * Saves or loads all that is known of all domains. Loading is into domains that were not used yet;
 * after an error they can only be freed. Workloads that are not there any more are let go of, as if
 * they had ended.
 */
void agent_kalman_domains_archive(struct agent_kalman_domain *domains, size_t n,
                                  struct agent_archive *archive);

/** What is believed of a workload's intensity. @return false: it has no state of its own. */
bool agent_kalman_domain_tell(struct agent_kalman_domain *domain, uint64_t workload, double *ret,
                              double *ret_sigma);
